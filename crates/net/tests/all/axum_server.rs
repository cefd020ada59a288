//! An axum router on our server, and our layer inside axum's.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use crate::plain;
use crate::plain::{fetch, get};
use crate::support::{listener, until};
use axum::Router;
use axum::extract::Query;
use axum::routing::{get as on_get, post};
use evenkeel::body::{BoxError, boxed};
use evenkeel::server::Handle;
use evenkeel::{Channel, Context, Server};
use evenkeel_core::ServerConfig;
use evenkeel_core::server::{Phase, Usage};
use http_body_util::BodyExt;
use tokio::task::JoinHandle;
use tower::Service;

fn app() -> Router {
    let level = || async { Context::current().unwrap().criticality.unwrap().to_string() };
    let slow = |Query(asked): Query<std::collections::BTreeMap<String, u64>>| async move {
        tokio::time::sleep(Duration::from_millis(asked["ms"])).await;
        "late"
    };
    Router::new()
        .route("/level", on_get(level))
        .route("/slow", on_get(slow))
        .route("/echo", post(|text: String| async { text }))
}

async fn on_our_server() -> (SocketAddr, Handle, JoinHandle<()>) {
    let (listener, server) = (listener().await, Server::new().without_signals());
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    (address, handle, tokio::spawn(async move { server.serve(listener, app()).await.unwrap() }))
}

async fn inside_axums(drain_most: Duration) -> (SocketAddr, Handle, JoinHandle<()>) {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let config = ServerConfig { drain_least_silent: Duration::from_millis(50), drain_most, ..ServerConfig::default() };
    let (layer, handle) = Server::new().without_signals().with_config(config).layer().unwrap();
    let serving = axum::serve(listener, app().layer(layer)).with_graceful_shutdown(handle.drained());
    (address, handle, tokio::spawn(async move { serving.await.unwrap() }))
}

/// Over HTTP/1.1 and HTTP/2: context, body, report.
async fn answers(address: SocketAddr, handle: &Handle) {
    let request = || {
        let mut request = get("/level");
        request.headers_mut().insert("evenkeel-criticality", http::HeaderValue::from_static("SHEDDABLE"));
        request
    };
    let (head, text) = plain::read(plain::http1(address).await.send_request(request()).await.unwrap()).await;
    assert_eq!((head.version, text.as_str()), (http::Version::HTTP_11, "SHEDDABLE"));
    assert!(head.headers["endpoint-load-metrics"].to_str().unwrap().starts_with("TEXT "));
    assert!(!head.headers.contains_key("evenkeel-state") && !head.headers.contains_key("connection"));

    let (head, text) = plain::read(plain::http2(address).await.send_request(request()).await.unwrap()).await;
    assert_eq!((head.version, text.as_str()), (http::Version::HTTP_2, "SHEDDABLE"));
    assert!(head.headers.contains_key("endpoint-load-metrics"));

    let mut channel = Channel::connect("service", [address]).await.unwrap();
    let echoed =
        channel.call(http::Request::post("http://service/echo").body("hello".to_owned()).unwrap()).await.unwrap();
    assert_eq!(echoed.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(fetch(address, "/nowhere").await.0.status, 404);
    until("all are counted out", async || handle.snapshot().await.unwrap().in_flight == 0).await;
    assert_eq!(handle.snapshot().await.unwrap().admitted, 4);
}

/// What is in flight is answered, the channel is told, and the server ends.
async fn leaves(address: SocketAddr, handle: &Handle, serving: JoinHandle<()>) {
    let channel = Channel::connect("service", [address]).await.unwrap();
    let slow = tokio::spawn(async move { fetch(address, "/slow?ms=300").await });
    until("it is in flight", async || handle.snapshot().await.unwrap().in_flight == 1).await;

    handle.stop();
    until("it is leaving", async || handle.snapshot().await.unwrap().phase == Phase::Stopping).await;
    let (late, text) = fetch(address, "/slow?ms=0").await;
    assert_eq!((late.status.as_u16(), text.as_str()), (200, "late"));
    assert_eq!(
        (&late.headers["evenkeel-state"], &late.headers["connection"]),
        (&"lame_duck".parse().unwrap(), &"close".parse().unwrap())
    );
    until("the client knows", async || {
        let client = channel.snapshot().await.unwrap().client;
        client.backends[0].state == evenkeel_core::BackendState::LameDuck
    })
    .await;

    assert_eq!(slow.await.unwrap().1, "late");
    serving.await.unwrap();
}

#[tokio::test]
async fn a_router_is_served_by_us() {
    let (address, handle, serving) = on_our_server().await;
    answers(address, &handle).await;
    leaves(address, &handle, serving).await;
}

#[tokio::test]
async fn a_router_is_served_by_axum_with_our_layer() {
    let (address, handle, serving) = inside_axums(Duration::from_secs(30)).await;
    answers(address, &handle).await;
    leaves(address, &handle, serving).await;
}

#[test]
fn a_layer_may_be_made_before_there_is_a_runtime() {
    let (layer, handle) = Server::new().without_signals().layer().unwrap();
    let app = app().layer(layer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    runtime.block_on(async {
        let listener = listener().await;
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        until("it is ready", async || !fetch(address, "/level").await.0.headers.contains_key("evenkeel-state")).await;
        assert_eq!(handle.snapshot().await.unwrap().phase, Phase::Serving);
    });
}

#[tokio::test]
async fn what_drives_a_layer_ends_with_it() {
    let held = std::sync::Arc::new(());
    let watched = std::sync::Arc::downgrade(&held);
    let usage = move || {
        let _: &() = &held;
        Usage::default()
    };
    let (layer, handle) = Server::new().with_usage(usage).layer().unwrap();
    drop(layer);
    assert!(handle.snapshot().await.is_some(), "a handle keeps it");

    drop(handle);

    until("it is gone", async || watched.upgrade().is_none()).await;
}

#[tokio::test]
async fn a_watcher_that_never_ends_its_side_does_not_hold_axums_shutdown() {
    let (address, handle, serving) = inside_axums(Duration::from_millis(300)).await;
    let never_ending = futures_util::stream::pending::<Result<http_body::Frame<bytes::Bytes>, BoxError>>();
    let watch =
        http::Request::post("http://service/evenkeel.v1.Watch/Watch").header("content-type", "application/grpc");
    let watch = watch.body(boxed(http_body_util::StreamBody::new(never_ending))).unwrap();
    let answer = plain::http2(address).await.send_request(watch).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/grpc");

    handle.stop();

    tokio::time::timeout(Duration::from_secs(60), serving).await.expect("it ends").unwrap();
}
