//! Connections that nobody uses are let go, and requests find their way all the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use crate::support;
use crate::support::{Running, call, in_state, listener, start, start_as, start_on, until};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{CallError, Channel, ChannelConfig, Context, Server};
use evenkeel_core::{BackendState, CheckedBy, LinkState, Refusal};
use tokio::net::TcpListener;
use tower::Service;

/// A channel that lets go of what was not used for 300 ms, and asks twice a second.
fn config() -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.client.idle.after = Some(Duration::from_millis(300));
    config.client.checks.every = Duration::from_millis(500);
    config.client.checks.timeout = Duration::from_millis(500);
    config.client.checks.visit_every = Duration::from_millis(200);
    config
}

async fn channel(config: ChannelConfig, server: &Running) -> Channel {
    let backends = Fixed::new([server.address]);
    Channel::with(config, Tcp, "service", backends).unwrap().usable().await.unwrap()
}

async fn link(channel: &Channel) -> LinkState {
    channel.snapshot().await.unwrap().client.backends[0].link
}

async fn checked_by(channel: &Channel) -> CheckedBy {
    channel.snapshot().await.unwrap().client.backends[0].checked_by
}

/// How many connections the system holds open to this port on the server's side.
fn connections_to(port: u16) -> usize {
    const ESTABLISHED: &str = "01";
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[1].ends_with(&local) && row[3] == ESTABLISHED).count()
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_call_makes_a_new_one() {
    let server = start().await;
    let mut channel = channel(config(), &server).await;
    call(&mut channel).await.unwrap();
    assert_eq!(connections_to(server.address.port()), 1);

    until("it is let go", async || link(&channel).await == LinkState::Inactive).await;
    until("it is closed", async || connections_to(server.address.port()) == 0).await;
    assert_eq!(in_state(&channel, BackendState::Healthy).await, 1, "inactive is not sick");
    assert_eq!(checked_by(&channel).await, CheckedBy::Datagrams);

    assert!(call(&mut channel).await.unwrap().starts_with(&server.address.to_string()));
    assert_eq!(link(&channel).await, LinkState::Connected);
    assert_eq!(channel.snapshot().await.unwrap().client.woken, 1);
}

#[tokio::test]
async fn a_lame_duck_tells_those_without_a_connection() {
    let server = start().await;
    // Nobody asks for a long time: only a push can tell.
    let mut config = config();
    config.client.checks.every = Duration::from_secs(600);
    let mut channel = channel(config, &server).await;
    until("it is let go", async || link(&channel).await == LinkState::Inactive).await;

    server.handle.lame_duck();
    until("it is heard", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    assert!(matches!(call(&mut channel).await, Err(CallError::Refused(Refusal::NoneUsable))));
    assert!(channel.snapshot().await.unwrap().client.checks.pushes >= 1);

    server.handle.ready();
    until("it is heard", async || in_state(&channel, BackendState::Healthy).await == 1).await;
    assert_eq!(link(&channel).await, LinkState::Inactive);
    assert!(call(&mut channel).await.is_ok());
}

#[tokio::test]
async fn without_datagrams_rare_connections_check() {
    let server = start().await;
    let mut config = config();
    config.datagrams = false;
    let mut channel = channel(config, &server).await;

    until("it is let go", async || link(&channel).await == LinkState::Inactive).await;
    let visits = async || channel.snapshot().await.unwrap().client.checks.visits;
    until("it is visited", async || visits().await >= 2).await;
    let snapshot = channel.snapshot().await.unwrap();
    assert_eq!((snapshot.client.checks.sent, snapshot.endpoints.len()), (0, 0));

    server.handle.lame_duck();
    until("a visit tells", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    server.handle.ready();
    until("a visit tells", async || in_state(&channel, BackendState::Healthy).await == 1).await;
    assert!(call(&mut channel).await.is_ok());
}

#[tokio::test]
async fn a_server_without_datagrams_is_visited() {
    let server = start_as(Server::new().without_datagrams(), listener().await);
    let mut channel = channel(config(), &server).await;

    until("it is let go", async || {
        link(&channel).await == LinkState::Inactive && checked_by(&channel).await == CheckedBy::Visits
    })
    .await;
    server.handle.lame_duck();
    until("a visit tells", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    server.handle.ready();
    until("a visit tells", async || in_state(&channel, BackendState::Healthy).await == 1).await;
    assert!(call(&mut channel).await.is_ok());
}

#[tokio::test]
async fn a_process_that_takes_over_hands_out_a_new_key() {
    let server = start().await;
    let mut channel = channel(config(), &server).await;
    until("it is let go", async || link(&channel).await == LinkState::Inactive).await;

    server.handle.stop();
    server.serving.await.unwrap();
    let _again = start_on(TcpListener::bind(server.address).await.unwrap());

    until("it is back, and asked by datagrams again", async || {
        let healthy = in_state(&channel, BackendState::Healthy).await == 1;
        healthy && link(&channel).await == LinkState::Inactive && checked_by(&channel).await == CheckedBy::Datagrams
    })
    .await;
    assert!(call(&mut channel).await.is_ok());
}

#[tokio::test]
async fn channels_of_a_runtime_share_a_socket() {
    let server = start().await;
    let channels = [channel(config(), &server).await, channel(config(), &server).await];
    for channel in &channels {
        until("it is let go", async || link(channel).await == LinkState::Inactive).await;
    }

    let [one, two] = channels;
    let endpoint = one.snapshot().await.unwrap().endpoints;
    assert_eq!((endpoint.len(), endpoint[0].correspondents), (1, 2));
    assert_eq!(two.snapshot().await.unwrap().endpoints[0].address, endpoint[0].address);

    drop(two);
    until("it has left", async || one.snapshot().await.unwrap().endpoints[0].correspondents == 1).await;
}

#[tokio::test]
async fn many_calls_at_once_wake_a_backend_with_one_connection() {
    let server = start().await;
    let channel = channel(config(), &server).await;
    until("it is let go", async || connections_to(server.address.port()) == 0).await;

    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut channel = channel.clone();
        calls.spawn(async move { call(&mut channel).await.is_ok() });
    }

    assert!(calls.join_all().await.into_iter().all(|is_ok| is_ok));
    assert_eq!(connections_to(server.address.port()), 1);
    assert_eq!(channel.snapshot().await.unwrap().client.woken, 1);
}

/// A channel whose inactive backend is replaced by one that takes connections and says nothing on them.
async fn inactive_and_deaf(connect_timeout: Duration) -> (Channel, std::net::TcpListener) {
    let server = start().await;
    let mut config = config();
    config.connect_timeout = connect_timeout;
    config.client.checks.every = Duration::from_secs(600);
    config.client.checks.visit_every = Duration::from_secs(600);
    let channel = channel(config, &server).await;
    until("it is let go", async || link(&channel).await == LinkState::Inactive).await;
    server.serving.abort();
    assert!(server.serving.await.unwrap_err().is_cancelled());
    (channel, std::net::TcpListener::bind(server.address).unwrap())
}

#[tokio::test]
async fn a_call_waits_for_a_connection_no_longer_than_one_may_take() {
    let (mut channel, _deaf) = inactive_and_deaf(Duration::from_millis(200)).await;

    let began = Instant::now();
    let refused = call(&mut channel).await.unwrap_err();

    // At about the same time the connection is given up, and nobody is usable any more.
    assert!(matches!(refused, CallError::Refused(Refusal::Waking | Refusal::NoneUsable)), "{refused}");
    assert!(began.elapsed() >= Duration::from_millis(190) && began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_call_waits_for_a_connection_no_longer_than_its_deadline() {
    let (mut channel, _deaf) = inactive_and_deaf(Duration::from_secs(60)).await;

    let mut request = support::request(evenkeel::body::empty());
    let deadline = tokio::time::Instant::now() + Duration::from_millis(100);
    request.extensions_mut().insert(Context::default().with_deadline(deadline));
    let refused = channel.call(request).await.unwrap_err();

    assert!(matches!(refused, CallError::Refused(Refusal::TooLate)), "{refused}");
    assert!(deadline.elapsed() < Duration::from_secs(20));
    let client = channel.snapshot().await.unwrap().client;
    assert_eq!((client.refused.of(Refusal::TooLate), client.backends[0].link), (1, LinkState::Waking));
}
