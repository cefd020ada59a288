//! SIGTERM and the layer inside axum's server: a file of its own, since the whole process gets it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/plain.rs"]
mod plain;
mod support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use evenkeel_core::server::Phase;
use support::{listener, until};
use tokio::sync::Notify;

#[tokio::test]
async fn sigterm_drains_a_layer_whose_end_is_awaited_and_then_axums_server() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let release = Arc::new(Notify::new());
    let waits = Arc::clone(&release);
    let held = || async move {
        waits.notified().await;
        "done"
    };
    let (layer, handle) = evenkeel::layer();
    let app = Router::new().route("/", get("at once")).route("/held", get(held)).layer(layer);
    let serving = axum::serve(listener, app).with_graceful_shutdown(handle.drained());
    let serving = tokio::spawn(async move { serving.await });
    let in_flight = tokio::spawn(async move { plain::fetch(address, "/held").await.1 });
    until("a request is in flight", async || handle.snapshot().await.unwrap().in_flight == 1).await;

    let sent = std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();

    assert!(sent.success());
    until("it is leaving", async || handle.snapshot().await.unwrap().phase == Phase::Stopping).await;
    assert_eq!(plain::fetch(address, "/").await.1, "at once", "one who comes late");
    release.notify_one();
    assert_eq!(in_flight.await.unwrap(), "done");
    tokio::time::timeout(Duration::from_secs(60), serving).await.unwrap().unwrap().unwrap();
}
