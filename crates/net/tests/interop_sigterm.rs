//! Python's grpcio watches a server that gets SIGTERM: a file of its own, since the whole process gets it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/echo.rs"]
mod echo;
#[path = "support/python.rs"]
mod python;
mod support;

use std::time::Duration;

use echo::Echo;
use evenkeel::Server;
use support::listener;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::Instant;
use tonic::service::Routes;

#[tokio::test]
async fn grpcio_sees_not_serving_at_once_and_is_served_until_it_is_over() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap().to_string();
    let serving = tokio::spawn(Server::new().serve(listener, Routes::new(Echo)));
    let mut python = python::python("watch.py", &address);
    let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("watching"));
    let began = Instant::now();

    let sent = std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();

    assert!(sent.success());
    let ended = tokio::time::timeout(Duration::from_secs(30), python.wait()).await.expect("it ends").unwrap();
    assert!(ended.success(), "{ended}");
    serving.await.unwrap().unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "one who cannot acknowledge is given a second");
}
