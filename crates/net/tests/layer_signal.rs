//! SIGTERM and the layer inside axum's server: a file of its own, since the whole process gets it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/plain.rs"]
mod plain;
mod support;

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use support::{listener, until};

#[tokio::test]
async fn sigterm_drains_a_layer_whose_end_is_awaited_and_then_axums_server() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let slow = || async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        "done"
    };
    let (layer, handle) = evenkeel::layer();
    let app = Router::new().route("/", get(slow)).layer(layer);
    let serving = axum::serve(listener, app).with_graceful_shutdown(handle.drained());
    let serving = tokio::spawn(async move { serving.await });
    let in_flight = tokio::spawn(async move { plain::fetch(address, "/").await.1 });
    until("a request is in flight", async || handle.snapshot().await.unwrap().in_flight == 1).await;

    let sent = std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();

    assert!(sent.success());
    assert_eq!(in_flight.await.unwrap(), "done");
    assert_eq!(plain::fetch(address, "/").await.1, "done", "one who comes late");
    tokio::time::timeout(Duration::from_secs(10), serving).await.unwrap().unwrap().unwrap();
}
