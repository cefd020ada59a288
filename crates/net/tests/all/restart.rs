//! A channel and servers on real sockets: answers, lame ducks, clean restarts.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{call, channel_to, in_state, request, start, start_on, until};
use bytes::Bytes;
use evenkeel::CallError;
use evenkeel::body::boxed;
use evenkeel_core::{BackendState, Refusal};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::Service;

#[tokio::test]
async fn requests_are_spread_over_the_backends_and_counts_return_to_zero() {
    let servers = [start().await, start().await, start().await];
    let mut channel = channel_to(&servers).await;

    for _ in 0..30 {
        call(&mut channel).await.unwrap();
    }
    let sent = channel.call(request(boxed(Full::new(Bytes::from_static(b"hello"))))).await.unwrap();
    assert!(sent.headers().contains_key("endpoint-load-metrics"), "a report with every answer");
    drop(sent);

    assert!(servers.iter().all(|server| server.served.load(Ordering::Relaxed) >= 9));
    let snapshot = channel.snapshot().await.unwrap().client;
    assert!(snapshot.backends.iter().all(|backend| backend.active == 0));
    assert!(snapshot.backends.iter().all(|backend| backend.report.is_some()));
}

#[tokio::test]
async fn a_lame_duck_gets_nothing_until_it_is_ready_again() {
    let servers = [start().await, start().await];
    let mut channel = channel_to(&servers).await;

    servers[0].handle.lame_duck();
    until("one is lame", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    let before = servers[0].served.load(Ordering::Relaxed);
    for _ in 0..20 {
        call(&mut channel).await.unwrap();
    }
    assert_eq!(servers[0].served.load(Ordering::Relaxed), before);

    servers[1].handle.lame_duck();
    until("both are lame", async || in_state(&channel, BackendState::LameDuck).await == 2).await;
    assert!(matches!(call(&mut channel).await, Err(CallError::Refused(Refusal::NoneUsable))));

    servers[0].handle.ready();
    until("one is back", async || in_state(&channel, BackendState::Healthy).await == 1).await;
    assert!(call(&mut channel).await.unwrap().starts_with(&servers[0].address.to_string()));
}

#[tokio::test]
async fn a_rolling_restart_fails_no_request() {
    let mut servers = vec![start().await, start().await, start().await];
    let channel = channel_to(&servers).await;
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<JoinHandle<u64>> = (0..16)
        .map(|_| {
            let (mut channel, stop) = (channel.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut answered = 0;
                while !stop.load(Ordering::Relaxed) {
                    let answer = call(&mut channel).await;
                    assert!(answer.is_ok(), "{answer:?} after {answered}");
                    answered += 1;
                }
                answered
            })
        })
        .collect();

    for _round in 0..2 {
        for server in &mut servers {
            let address = server.address;
            until("it is used", async || server.served.load(Ordering::Relaxed) > 20).await;
            server.handle.stop();
            (&mut server.serving).await.unwrap();
            *server = start_on(TcpListener::bind(address).await.unwrap());
            until("it is used again", async || server.served.load(Ordering::Relaxed) > 20).await;
        }
    }
    stop.store(true, Ordering::Relaxed);

    for caller in callers {
        assert!(caller.await.unwrap() > 20);
    }
}
