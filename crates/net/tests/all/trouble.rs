//! Backends that die, hang, lie or are not there: what the caller sees is bounded and named.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::raw::{self, Turn};
use crate::support::{call, channel_to, in_state, listener, start, start_on, until};
use evenkeel::body::empty;
use evenkeel::client::{Backend, Fixed, Resolve, Tcp};
use evenkeel::{CallError, Channel, ChannelConfig, Context};
use evenkeel_core::{BackendState, Outcome, Refusal};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Service;

fn slow(millis: u32) -> http::Request<evenkeel::body::BoxBody> {
    http::Request::post(format!("http://service/{millis}")).body(empty()).unwrap()
}

#[tokio::test]
async fn a_killed_backend_fails_what_it_had_and_is_used_again_when_it_is_back() {
    let mut servers = vec![start().await, start().await];
    let mut channel = channel_to(&servers).await;
    let mut held = Vec::new();
    for _ in 0..10 {
        let mut channel = channel.clone();
        held.push(tokio::spawn(async move { channel.call(slow(60_000)).await.map(drop) }));
    }
    until("ten are in flight", async || {
        channel.snapshot().await.unwrap().client.backends.iter().map(|backend| backend.active).sum::<u32>() == 10
    })
    .await;

    let address = servers[0].address;
    servers[0].serving.abort();
    until("it is gone", async || in_state(&channel, BackendState::Refusing).await == 1).await;
    for _ in 0..20 {
        call(&mut channel).await.unwrap();
    }
    until("its five have failed", async || held.iter().filter(|one| one.is_finished()).count() == 5).await;
    for ended in held.iter_mut().filter(|one| one.is_finished()) {
        assert!(matches!(ended.await.unwrap(), Err(CallError::Broken(_))));
    }

    servers[0] = start_on(TcpListener::bind(address).await.unwrap());
    until("it is back", async || in_state(&channel, BackendState::Healthy).await == 2).await;
    held.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_deadline_bounds_a_backend_that_hangs() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    let mut request = slow(60_000);
    let began = Instant::now();
    request.extensions_mut().insert(Context::default().with_deadline(began + Duration::from_millis(50)));

    let answer = channel.call(request).await;

    assert!(matches!(answer, Err(CallError::Expired)), "{answer:?}");
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(channel.snapshot().await.unwrap().client.backends[0].active, 0);
    let mut late = slow(0);
    late.extensions_mut().insert(Context::default().with_deadline(began));
    assert!(matches!(channel.call(late).await, Err(CallError::Refused(Refusal::TooLate))));
}

#[tokio::test]
async fn garbage_silence_and_closed_ports_are_refusing_and_the_rest_serves() {
    let garbage = listener().await;
    let silence = listener().await;
    let closed = listener().await.local_addr().unwrap();
    let server = start().await;
    let names = [garbage.local_addr().unwrap(), silence.local_addr().unwrap(), closed, server.address];
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = garbage.accept().await {
            // It may have been closed on already, which is as good.
            drop(stream.write_all(b"this is not the protocol you are looking for\r\n\r\n").await);
        }
    });
    let mut config = ChannelConfig::default();
    config.connect_timeout = Duration::from_millis(200);
    let backends = Fixed::new(names);
    let mut channel = Channel::with(config, Tcp, "service", backends).unwrap().usable().await.unwrap();

    for _ in 0..50 {
        assert!(call(&mut channel).await.unwrap().starts_with(&server.address.to_string()));
    }
    assert_eq!(in_state(&channel, BackendState::Refusing).await, 3);
    until("each says why", async || {
        let snapshot = channel.snapshot().await.unwrap();
        let mut each = snapshot.names.iter().zip(&snapshot.last_lost);
        each.all(|(name, lost)| lost.is_some() == (*name != server.address.to_string()))
    })
    .await;
    drop(silence);
}

#[tokio::test]
async fn where_all_are_in_trouble_callers_hear_it_by_name_and_in_time() {
    let (silence, raw) = (listener().await, raw::start(Turn::Closed).await);
    let closed = listener().await.local_addr().unwrap();
    let hangs = start().await;
    let mut config = ChannelConfig::default();
    config.connect_timeout = Duration::from_millis(200);
    let backends = Fixed::new([silence.local_addr().unwrap(), raw.address, closed, hangs.address]);
    let mut channel = Channel::with(config, Tcp, "service", backends).unwrap().usable().await.unwrap();

    let mut seen = std::collections::BTreeSet::new();
    until("hanging and reset connections were both met", async || {
        let deadline = Instant::now() + Duration::from_millis(50);
        let mut request = slow(60_000);
        request.extensions_mut().insert(Context::default().with_deadline(deadline));
        seen.insert(channel.call(request).await.expect_err("nobody answers").as_str());
        seen.contains("expired") && seen.contains("broken")
    })
    .await;

    hangs.serving.abort();
    until("nobody is left", async || {
        matches!(channel.call(slow(0)).await, Err(CallError::Refused(Refusal::NoneUsable)))
    })
    .await;
    let known = ["expired", "broken", "unsent", "refused"];
    assert!(seen.iter().all(|name| known.contains(name)), "{seen:?}");
    until("each says why", async || channel.snapshot().await.unwrap().last_lost.iter().all(Option::is_some)).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_gives_its_place_back() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    let call = tokio::spawn(channel.call(slow(60_000)));
    until("it is in flight", async || channel.snapshot().await.unwrap().client.backends[0].active == 1).await;
    call.abort();
    until("it is given back", async || channel.snapshot().await.unwrap().client.backends[0].active == 0).await;
    until("the server noticed", async || servers[0].handle.snapshot().await.unwrap().in_flight == 0).await;
}

#[tokio::test]
async fn an_answer_without_a_body_is_served_not_cancelled() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    let head = http::Request::head("http://service/0").body(empty()).unwrap();
    let without_body = http::Request::get("http://service/empty").body(empty()).unwrap();

    drop(channel.call(head).await.unwrap());
    drop(channel.call(without_body).await.unwrap());

    let backend = &channel.snapshot().await.unwrap().client.backends[0];
    assert_eq!((backend.ended(Outcome::Served), backend.ended(Outcome::Cancelled), backend.active), (2, 0, 0));
}

#[tokio::test]
async fn a_request_without_an_authority_goes_to_the_service() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    let relative = http::Request::get("/0").body(empty()).unwrap();

    assert_eq!(channel.call(relative).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_list_that_cannot_be_used_is_refused_by_name() {
    let twice = Channel::connect("service", ["127.0.0.1:1", "127.0.0.1:1"]).await.unwrap_err();
    assert_eq!(twice.to_string(), "the backend 127.0.0.1:1 is listed twice: name each once");
    let wrong = Channel::connect("service", ["127.0.0.1"]).await.unwrap_err();
    let told = "the backend \"127.0.0.1\" cannot be connected to: write host:port, as in \"10.0.0.1:8080\"";
    assert_eq!(wrong.to_string(), told);
    let none = Channel::connect("service", Vec::<String>::new()).await.unwrap_err();
    assert_eq!(none.to_string(), "no backend could be used: the list of backends is empty");
    let unnamed = Channel::connect("not a name", ["127.0.0.1:1"]).await.unwrap_err();
    assert!(unnamed.to_string().starts_with("the service name \"not a name\" cannot stand in a URI"), "{unnamed}");
}

#[tokio::test]
async fn a_channel_follows_a_list_that_changes() {
    let servers = [start().await, start().await];
    let backend = |place: usize| Backend::from(servers[place].address);
    let (lists, followed) = watch::channel(vec![backend(0)]);
    let channel = Channel::with(ChannelConfig::default(), Tcp, "service", Followed(followed, true)).unwrap();
    let mut channel = channel.usable().await.unwrap();
    assert!(call(&mut channel).await.unwrap().starts_with(&servers[0].address.to_string()));

    lists.send(vec![backend(1)]).unwrap();
    until("the second is used", async || {
        call(&mut channel).await.unwrap().starts_with(&servers[1].address.to_string())
    })
    .await;
    lists.send(vec![backend(0), backend(0)]).unwrap();
    until("the bad list is told of", async || channel.snapshot().await.unwrap().list_refused.is_some()).await;
    assert!(call(&mut channel).await.unwrap().starts_with(&servers[1].address.to_string()));
}

/// A list that the test changes.
struct Followed(watch::Receiver<Vec<Backend>>, bool);

impl Resolve for Followed {
    async fn next(&mut self) -> Option<Vec<Backend>> {
        if !std::mem::take(&mut self.1) {
            self.0.changed().await.ok()?;
        }
        Some(self.0.borrow_and_update().clone())
    }
}

#[tokio::test]
async fn errors_nobody_reads_count_on_both_sides() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    for _ in 0..10 {
        // Not one that is tried again.
        let failing = http::Request::post("http://service/fail").body(empty()).unwrap();
        assert_eq!(channel.call(failing).await.unwrap().status(), 500);
    }

    let backend = &channel.snapshot().await.unwrap().client.backends[0];
    assert_eq!((backend.ended(Outcome::Failed), backend.ended(Outcome::Cancelled)), (10, 0));
    assert!(backend.recent_errors > 0 && backend.report.is_some());
    until("the server reports its errors", async || {
        servers[0].handle.snapshot().await.unwrap().report.eps.is_some_and(|eps| eps > 0.0)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_aborted_leaves_nobody_to_ask() {
    let servers = [start().await];
    servers[0].serving.abort();
    until("its driver has ended", async || servers[0].handle.snapshot().await.is_none()).await;
}
