//! What those see who do not watch us: curl over HTTP/1.1 and HTTP/2.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::support::{call, in_state, start, until};
use evenkeel::client::{Fixed, Protocol, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::BackendState;
use evenkeel_core::server::Phase;
use tokio::process::Command;

/// The head of each answer, by lower-case name; the status under its own.
async fn curl(version: &str, address: SocketAddr, paths: &[&str]) -> Vec<BTreeMap<String, String>> {
    let mut command = Command::new("curl");
    command.args([version, "--silent", "--show-error", "--max-time", "20", "--verbose"]);
    for path in paths {
        command.args(["--dump-header", "-", "--output", "/dev/null"]).arg(format!("http://{address}{path}"));
    }
    let output = command.output().await.expect("curl is installed: run ./test unit");
    let (heads, log) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{log}");
    let blocks = heads.split("\r\n\r\n").filter(|head| !head.trim().is_empty());
    let mut answers: Vec<BTreeMap<String, String>> = blocks
        .map(|head| {
            let pairs = head.lines().map(|line| line.split_once(": ").unwrap_or(("status", line)));
            pairs.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect()
        })
        .collect();
    let connections = log.matches("Connected to").count();
    for head in &mut answers {
        head.insert("connections".to_owned(), connections.to_string());
    }
    answers
}

fn value<'a>(head: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    head.get(name).map(String::as_str)
}

#[tokio::test]
async fn curl_reads_a_report_and_keeps_its_connection() {
    let server = start().await;
    until("it is ready", async || server.handle.snapshot().await.unwrap().phase == Phase::Serving).await;

    // Debian's curl 7.88 breaks off when it uses a connection of HTTP/2 again; hyper's and gRPC's clients do not.
    let twice = ["/0", "/0"];
    let table = [("--http1.1", "HTTP/1.1 200 OK", &twice[..]), ("--http2-prior-knowledge", "HTTP/2 200", &twice[..1])];
    for (version, status, paths) in table {
        let heads = curl(version, server.address, paths).await;
        assert_eq!(heads.len(), paths.len());
        for head in heads {
            assert_eq!(value(&head, "status").map(str::trim), Some(status));
            assert!(value(&head, "endpoint-load-metrics").unwrap().starts_with("TEXT "));
            assert_eq!((value(&head, "evenkeel-state"), value(&head, "connection")), (None, None));
            assert_eq!(value(&head, "connections"), Some("1"));
        }
    }
}

#[tokio::test]
async fn curl_reads_that_a_task_is_leaving_and_comes_with_a_new_connection() {
    let server = start().await;
    until("it is ready", async || server.handle.snapshot().await.unwrap().phase == Phase::Serving).await;
    server.handle.lame_duck();
    until("it is lame", async || server.handle.snapshot().await.unwrap().phase == Phase::LameDuck).await;

    let twice = ["/0", "/0"];
    let table = [("--http1.1", Some("close"), "2", &twice[..]), ("--http2-prior-knowledge", None, "1", &twice[..1])];
    for (version, close, connections, paths) in table {
        for head in curl(version, server.address, paths).await {
            assert!(value(&head, "status").unwrap().contains("200"), "what arrives is served");
            assert_eq!(value(&head, "evenkeel-state"), Some("lame_duck"));
            assert_eq!(value(&head, "x-envoy-immediate-health-check-fail"), Some("true"));
            assert_eq!((value(&head, "connection"), value(&head, "connections")), (close, Some(connections)));
        }
    }
}

#[tokio::test]
async fn a_channel_over_http1_sends_a_lame_duck_nothing_until_it_is_ready_again() {
    let servers = [start().await, start().await];
    let mut config = ChannelConfig::default();
    config.protocol = Protocol::Http1;
    let backends = Fixed::new(servers.iter().map(|server| server.address));
    let mut channel = Channel::with(config, Tcp, "service", backends).unwrap();
    until("both are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;

    servers[0].handle.lame_duck();
    until("one is lame", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    for _ in 0..10 {
        assert!(call(&mut channel).await.unwrap().starts_with(&servers[1].address.to_string()));
    }
    servers[0].handle.ready();

    until("both are used again", async || in_state(&channel, BackendState::Healthy).await == 2).await;
}
