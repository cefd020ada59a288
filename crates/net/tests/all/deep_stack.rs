//! Three services, each calling the next over real sockets: what a request carries is the same at every layer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::plain;
use crate::plain::get;
use crate::support::{listener, scripted};
use evenkeel::server::Trusted;
use evenkeel::wire::headers;
use evenkeel::{Channel, Context, Server};
use evenkeel_core::{Criticality, Lot};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower::{Service, service_fn};

/// What the handler was told, and after it what all those behind it were told.
async fn told(request: http::Request<Incoming>, next: Option<Channel>) -> Result<http::Response<String>, Infallible> {
    let context = Context::current().unwrap();
    let header = |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
    let remaining = context.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let in_time = remaining.is_some_and(|left| (Duration::from_secs(45)..=Duration::from_secs(90)).contains(&left));
    let mut text = format!(
        "{}/{} {} {}/{} {in_time}",
        context.criticality.unwrap(),
        header("evenkeel-criticality"),
        context.lot.unwrap().0,
        context.customer.as_deref().unwrap_or("-"),
        header("evenkeel-customer"),
    );
    if let Some(mut next) = next {
        let answer = next.call(get("/")).await.unwrap().into_body().collect().await.unwrap().to_bytes();
        text = format!("{text}\n{}", std::str::from_utf8(&answer).unwrap());
    }
    Ok(http::Response::new(text))
}

/// A server that asks the next one, if there is one.
async fn layer(server: Server, next: Option<SocketAddr>) -> (SocketAddr, evenkeel::server::Handle) {
    let next = match next {
        Some(address) => Some(Channel::connect("next", [address]).await.unwrap()),
        None => None,
    };
    let listener = listener().await;
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    let service = service_fn(move |request| told(request, next.clone()));
    tokio::spawn(server.without_signals().serve(listener, service));
    (address, handle)
}

fn asked() -> http::Request<evenkeel::body::BoxBody> {
    let mut request = get("/");
    let headers = [
        ("evenkeel-criticality", "SHEDDABLE_PLUS"),
        ("evenkeel-customer", "mail"),
        ("x-envoy-expected-rq-timeout-ms", "90000"),
        ("evenkeel-lot", "4711"),
    ];
    for (name, value) in headers {
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    request
}

async fn ask(address: SocketAddr, request: http::Request<evenkeel::body::BoxBody>) -> Vec<String> {
    let answer = plain::http1(address).await.send_request(request).await.unwrap();
    plain::read(answer).await.1.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn criticality_deadline_lot_and_customer_are_the_same_at_every_layer() {
    let (last, _) = layer(Server::new(), None).await;
    let (middle, _) = layer(Server::new(), Some(last)).await;
    let (first, handle) = layer(Server::new(), Some(middle)).await;

    assert_eq!(ask(first, asked()).await, ["SHEDDABLE_PLUS/SHEDDABLE_PLUS 4711 mail/mail true"; 3]);
    assert_eq!(handle.identities().customers_dropped, 0);
}

#[tokio::test]
async fn a_root_draws_one_lot_for_all_layers_and_another_one_next_time() {
    let (last, _) = layer(Server::new(), None).await;
    let (middle, _) = layer(Server::new(), Some(last)).await;
    let (first, _) = layer(Server::new(), Some(middle)).await;
    let mut lots = std::collections::BTreeSet::new();

    for _ in 0..8 {
        let lines = ask(first, get("/")).await;
        let drawn: std::collections::BTreeSet<_> =
            lines.iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
        assert_eq!((lines.len(), drawn.len()), (3, 1), "{lines:?}");
        lots.extend(drawn);
    }

    // Eight draws of 65,536 are the same number once in 10^33.
    assert!(lots.len() > 1);
}

#[tokio::test]
async fn a_customer_nobody_vouches_for_reaches_no_layer_and_is_counted() {
    let (last, _) = layer(Server::new(), None).await;
    let (middle, inner) = layer(Server::new(), Some(last)).await;
    let (first, outer) = layer(Server::new().trust_customers_of(Trusted::Nobody), Some(middle)).await;

    assert_eq!(
        ask(first, asked()).await,
        [
            "SHEDDABLE_PLUS/SHEDDABLE_PLUS 4711 -/- true",
            "SHEDDABLE_PLUS/SHEDDABLE_PLUS 4711 -/- true",
            "SHEDDABLE_PLUS/SHEDDABLE_PLUS 4711 -/- true",
        ]
    );

    assert_eq!(outer.identities().customers_dropped, 1);
    assert_eq!(inner.identities().customers_dropped, 0, "nothing was left to drop");
}

#[tokio::test]
async fn what_matters_more_than_a_listener_allows_is_lowered_for_all_layers() {
    let (last, _) = layer(Server::new(), None).await;
    let (first, handle) = layer(Server::new().with_criticality_ceiling(Criticality::Sheddable), Some(last)).await;

    assert_eq!(ask(first, asked()).await, ["SHEDDABLE/SHEDDABLE 4711 mail/mail true"; 2]);
    assert_eq!(handle.identities().criticalities_lowered, 1);

    let mut odd = get("/");
    odd.headers_mut().insert("evenkeel-criticality", http::HeaderValue::from_static("URGENT"));
    ask(first, odd).await;
    assert_eq!(handle.identities().criticalities_unknown, 1);
}

#[tokio::test]
async fn a_call_may_bring_its_own_lot() {
    let (address, _) = layer(Server::new(), None).await;
    let mut channel = Channel::connect("service", [address]).await.unwrap();
    let mut request = get("/");
    request.extensions_mut().insert(Context::default().with_lot(Lot(9)));

    let answer = channel.call(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();

    assert!(answer.starts_with(b"CRITICAL/CRITICAL 9 "), "{answer:?}");
}

#[tokio::test]
async fn a_request_that_is_sent_again_keeps_its_lot() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let times = Arc::new(AtomicU32::new(0));
    let mut channel = scripted::channel(move |request, mut respond| {
        let lot = headers::read_lot(request.headers()).unwrap();
        tell.send(lot).unwrap();
        let is_first = times.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                respond.send_reset(h2::Reason::REFUSED_STREAM);
            } else {
                respond.send_response(scripted::head(200), true).unwrap();
            }
        }
    })
    .await;

    assert_eq!(channel.call(get("/")).await.unwrap().status(), 200);

    let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
    assert_eq!(first, second);
}
