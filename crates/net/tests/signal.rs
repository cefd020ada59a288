//! SIGTERM, sent for real: a file of its own, since the whole process gets it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use evenkeel::{Channel, Server};
use evenkeel_core::ServerConfig;
use support::{call, listener, until};
use tower::service_fn;

#[tokio::test]
async fn sigterm_drains_what_is_in_flight_and_ends_the_server() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let config = ServerConfig { drain_least: Duration::from_millis(20), ..ServerConfig::default() };
    let starting = Server::new().with_config(config);
    let handle = starting.handle();
    let slow = service_fn(|_request| async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok::<_, Infallible>(http::Response::new(String::from("done")))
    });
    let serving = tokio::spawn(starting.serve(listener, slow));
    let mut channel = Channel::connect("service", [address.to_string()]).await.unwrap();
    let in_flight = tokio::spawn(async move { call(&mut channel).await });
    until("a request is in flight", async || handle.snapshot().await.unwrap().in_flight == 1).await;

    let sent = std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();

    assert!(sent.success());
    assert_eq!(in_flight.await.unwrap().unwrap(), "done");
    tokio::time::timeout(Duration::from_secs(60), serving).await.unwrap().unwrap().unwrap();
}
