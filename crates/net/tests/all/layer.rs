//! The layer by itself: what it does while the service inside is not ready, and when it can never be.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::future::Ready;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::plain::get;
use evenkeel::Server;
use evenkeel::body::BoxBody;
use tower::{Layer, Service, ServiceExt};

/// Is never ready.
#[derive(Clone)]
struct Never;

impl Service<http::Request<BoxBody>> for Never {
    type Response = http::Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: http::Request<BoxBody>) -> Self::Future {
        unreachable!("it is never ready")
    }
}

#[tokio::test]
async fn health_and_deadlines_do_not_wait_for_the_service() {
    let (layer, handle) = Server::new().without_signals().layer().unwrap();
    let mut service = layer.layer(Never);

    let health = service.ready().await.unwrap().call(get("/grpc.health.v1.Health/Check")).await.unwrap();
    assert_eq!(health.status(), 200);

    let mut request = get("/");
    request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", http::HeaderValue::from_static("20"));
    assert_eq!(service.ready().await.unwrap().call(request).await.unwrap().status(), 504);
    assert_eq!(handle.snapshot().await.unwrap().in_flight, 0);
}

#[tokio::test]
async fn warming_that_fails_ends_it() {
    let (_layer, handle) = Server::new().without_signals().prewarm(async { panic!("no index") }).layer().unwrap();

    tokio::time::timeout(Duration::from_secs(60), handle.drained()).await.unwrap();

    assert!(handle.snapshot().await.is_none(), "it has stopped");
}
