//! tonic's routes on our server, our layer inside tonic's, and tonic's own clients against them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::echo::{Ask, Echo, EchoClient, ask};
use crate::plain;
use crate::support::{listener, until};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::server::Handle;
use evenkeel::{Channel, ChannelConfig, Server};
use evenkeel_core::ServerConfig;
use tokio::task::JoinHandle;
use tonic::codegen::tokio_stream::{StreamExt as _, wrappers::TcpListenerStream};
use tonic::service::Routes;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

fn config() -> ServerConfig {
    ServerConfig { drain_least_silent: Duration::from_millis(100), ..ServerConfig::default() }
}

async fn on_our_server() -> (SocketAddr, Handle, JoinHandle<()>) {
    let server = Server::new().without_signals().with_config(config()).with_health_service("evenkeel.test.v1.Echo");
    let listener = listener().await;
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    let serving = async move { server.serve(listener, Routes::new(Echo)).await.unwrap() };
    (address, handle, tokio::spawn(serving))
}

async fn inside_tonics() -> (SocketAddr, Handle, JoinHandle<()>) {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let server = Server::new().without_signals().with_config(config()).with_health_service("evenkeel.test.v1.Echo");
    let (layer, handle) = server.layer().unwrap();
    let router = tonic::transport::Server::builder().layer(layer).add_service(Echo);
    let serving = router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), handle.drained());
    (address, handle, tokio::spawn(async move { serving.await.unwrap() }))
}

async fn tonics_channel(address: SocketAddr) -> tonic::transport::Channel {
    tonic::transport::Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap()
}

#[tokio::test]
async fn what_goes_wrong_in_the_channel_is_a_status() {
    let closed = listener().await.local_addr().unwrap();
    let nobody = Channel::with(ChannelConfig::default(), Tcp, "echo", Fixed::new([closed])).unwrap();
    let status = EchoClient::new(nobody).once(Request::new(ask("hello"))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.metadata().get("evenkeel-refused").unwrap(), "none_usable;local");

    let (address, _handle, serving) = on_our_server().await;
    let channel = Channel::connect("echo", [address]).await.unwrap();
    let mut slow = Request::new(Ask { sleep_ms: 60_000, ..ask("slow") });
    slow.set_timeout(Duration::from_millis(50));
    let status = EchoClient::new(channel.clone()).once(slow).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);

    let slow = Request::new(Ask { sleep_ms: 60_000, ..ask("slow") });
    let mut client = EchoClient::new(channel.clone());
    let waiting = tokio::spawn(async move { client.once(slow).await });
    until("it is in flight", async || channel.snapshot().await.unwrap().client.backends[0].active == 1).await;
    serving.abort();
    let status = waiting.await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert_eq!(status.metadata().get("evenkeel-local").unwrap(), "broken");
}

#[tokio::test]
async fn routes_are_served_by_us() {
    let (address, handle, _serving) = on_our_server().await;
    answers(address, &handle).await;
}

#[tokio::test]
async fn services_are_served_by_tonic_with_our_layer() {
    let (address, handle, _serving) = inside_tonics().await;
    answers(address, &handle).await;
}

async fn answers(address: SocketAddr, handle: &Handle) {
    let mut theirs = EchoClient::new(tonics_channel(address).await);
    let answer = theirs.once(Request::new(ask("hello"))).await.unwrap();
    assert_eq!(answer.get_ref().text, "hello");
    assert!(answer.metadata().contains_key("endpoint-load-metrics-bin"), "{:?}", answer.metadata());

    let failed = theirs.once(Request::new(Ask { code: 5, ..ask("gone") })).await.unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::NotFound, "gone"));
    assert!(failed.metadata().contains_key("endpoint-load-metrics-bin"), "Trailers-Only carries it too");

    let mut sheddable = Request::new(Ask { times: 3, ..ask("many") });
    sheddable.metadata_mut().insert("evenkeel-criticality", "SHEDDABLE".parse().unwrap());
    let mut stream = theirs.stream(sheddable).await.unwrap().into_inner();
    let mut said = Vec::new();
    while let Some(say) = stream.message().await.unwrap() {
        said.push(say.criticality);
    }
    assert_eq!(said, ["SHEDDABLE"; 3], "the body is polled inside the context");
    assert!(stream.trailers().await.unwrap().unwrap().contains_key("endpoint-load-metrics-bin"));

    let mut late = Request::new(Ask { sleep_ms: 60_000, ..ask("late") });
    late.set_timeout(Duration::from_millis(50));
    let late = theirs.once(late).await.unwrap_err();
    assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");

    let mut ours = EchoClient::new(Channel::connect("echo", [address]).await.unwrap());
    assert_eq!(ours.once(Request::new(ask("ours"))).await.unwrap().into_inner().text, "ours");
    until("all are counted out", async || handle.snapshot().await.unwrap().in_flight == 0).await;
}

fn asking(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn tonics_health_client_checks_and_watches_us() {
    let (address, handle, serving) = on_our_server().await;
    health(address, &handle).await;
    serving.await.unwrap();
}

#[tokio::test]
async fn tonics_health_client_checks_and_watches_our_layer() {
    let (address, handle, serving) = inside_tonics().await;
    health(address, &handle).await;
    serving.await.unwrap();
}

async fn health(address: SocketAddr, handle: &Handle) {
    let mut client = HealthClient::new(tonics_channel(address).await);
    for known in ["", "evenkeel.test.v1.Echo"] {
        let answer = client.check(asking(known)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
    assert_eq!(client.check(asking("other")).await.unwrap_err().code(), Code::NotFound);
    let mut unknown = client.watch(asking("other")).await.unwrap().into_inner();
    assert_eq!(unknown.next().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);

    let mut watch = client.watch(asking("")).await.unwrap().into_inner();
    let mut status = async || watch.next().await.unwrap().map(|answer| answer.status());
    assert_eq!(status().await.unwrap(), ServingStatus::Serving);
    handle.lame_duck();
    assert_eq!(status().await.unwrap(), ServingStatus::NotServing);
    assert_eq!(client.check(asking("")).await.unwrap().into_inner().status(), ServingStatus::NotServing);
    handle.ready();
    assert_eq!(status().await.unwrap(), ServingStatus::Serving);
    handle.stop();
    assert_eq!(status().await.unwrap(), ServingStatus::NotServing);
    assert_eq!(status().await.unwrap_err().code(), Code::Unavailable, "a stream ends with a status");
    assert_eq!(unknown.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn health_answers_plain_http_too() {
    let (address, handle, _serving) = on_our_server().await;
    let check = async || plain::fetch(address, "/grpc.health.v1.Health/Check").await;
    until("it is ready", async || check().await.0.status == 200).await;
    let (head, text) = check().await;
    assert_eq!((&head.headers["evenkeel-state"], text.as_str()), (&"ready".parse().unwrap(), "SERVING\n"));

    handle.lame_duck();

    until("it is lame", async || check().await.0.status == 503).await;
    let (head, text) = check().await;
    assert_eq!((&head.headers["evenkeel-state"], text.as_str()), (&"lame_duck".parse().unwrap(), "NOT_SERVING\n"));
}
