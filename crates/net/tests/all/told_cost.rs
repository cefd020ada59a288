//! What a request cost, told in its answer's load report to whoever wants to know (A15, A18).
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use crate::echo::{Ask, Echo, EchoClient, ask};
use crate::plain;
use crate::support::listener;
use evenkeel::Server;
use evenkeel::wire::grpc;
use evenkeel::wire::orca::OrcaLoadReport;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

async fn serve(server: Server) -> (SocketAddr, EchoClient<Channel>) {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.without_signals().serve(listener, Routes::new(Echo)).await.unwrap() });
    (address, EchoClient::new(Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap()))
}

/// In CPU seconds.
fn cost_in(answer: MetadataMap) -> Option<f64> {
    let headers = answer.into_headers();
    let bytes = grpc::decode_bin(headers["endpoint-load-metrics-bin"].as_bytes()).unwrap();
    let report = OrcaLoadReport::decode(&*bytes).unwrap();
    assert!(report.named_metrics.contains_key("evenkeel.in_flight"), "{report:?}");
    report.request_cost.get("cpu").copied()
}

fn asking(ask: Ask) -> Request<Ask> {
    let mut request = Request::new(ask);
    request.metadata_mut().insert("evenkeel-cost", "1".parse().unwrap());
    request
}

#[tokio::test]
async fn tonics_client_reads_in_the_trailers_what_its_request_cost_if_it_asks() {
    let (_, mut client) = serve(Server::new()).await;

    let silent = client.once(Request::new(ask("hello"))).await.unwrap();
    let told = client.once(asking(ask("hello"))).await.unwrap();
    let failed = client.once(asking(Ask { code: 5, ..ask("gone") })).await.unwrap_err();

    assert_eq!(cost_in(silent.metadata().clone()), None, "answers of a moment share one report");
    let cost = cost_in(told.metadata().clone()).unwrap();
    assert!(cost > 0.0 && cost < 1.0, "{cost}");
    assert_eq!(failed.code(), Code::NotFound);
    assert!(cost_in(failed.metadata().clone()).unwrap() > 0.0, "Trailers-Only says it too");
}

#[tokio::test]
async fn a_server_may_tell_everybody_and_in_its_own_measure() {
    let (_, mut client) = serve(Server::new().with_request_costs()).await;
    let (_, mut of_fast) = serve(Server::new().with_request_costs().with_cpu_factor(100.0)).await;

    let (mut least, mut least_of_fast) = (f64::MAX, f64::MAX);
    for _ in 0..20 {
        let answer = client.once(Request::new(ask("hello"))).await.unwrap();
        least = least.min(cost_in(answer.metadata().clone()).unwrap());
        let answer = of_fast.once(Request::new(ask("hello"))).await.unwrap();
        least_of_fast = least_of_fast.min(cost_in(answer.metadata().clone()).unwrap());
    }

    // Of twenty, the one that nothing interrupted; a hundred times as much, within a factor of ten.
    assert!(least_of_fast > 10.0 * least, "{least_of_fast} and {least}");
}

#[tokio::test]
async fn plain_http_reads_it_in_the_head() {
    let (address, _) = serve(Server::new()).await;
    let mut request = plain::get("/evenkeel.test.v1.Echo/Nothing");
    request.headers_mut().insert("evenkeel-cost", http::HeaderValue::from_static("1"));

    let (head, _) = plain::read(plain::http1(address).await.send_request(request).await.unwrap()).await;
    let (silent, _) = plain::fetch(address, "/evenkeel.test.v1.Echo/Nothing").await;

    let text = |head: &http::response::Parts| head.headers["endpoint-load-metrics"].to_str().unwrap().to_owned();
    let told = text(&head);
    let (_, cost) = told.split_once("named_metrics.evenkeel.cost_cpu_s=").unwrap();
    assert!(cost.parse::<f64>().unwrap() > 0.0, "{told}");
    assert!(!text(&silent).contains("cost_cpu_s"));
}
