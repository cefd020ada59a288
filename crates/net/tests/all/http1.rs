//! Backends that speak HTTP/1.1 only, not ours: connections are kept, limits hold, deaths are noticed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{in_state, listener, until};
use bytes::Bytes;
use evenkeel::body::{boxed, empty};
use evenkeel::client::{Fixed, Protocol, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::BackendState;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tower::Service;

/// A server that knows nothing of us; it ends with what is returned.
struct Foreign {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    _serving: JoinSet<()>,
}

async fn foreign() -> Foreign {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&connections);
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            counting.fetch_add(1, Ordering::Relaxed);
            let service = service_fn(move |request: http::Request<Incoming>| async move {
                let line = format!("{} {} {:?}", request.method(), request.uri(), request.headers().get("host"));
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let text = format!("{address} got {line} and {} bytes", body.len());
                Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(text))))
            });
            open.spawn(async move {
                // A client that goes away is not of interest.
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    Foreign { address, connections, _serving: serving }
}

async fn channel_to(servers: &[Foreign]) -> Channel {
    let mut config = ChannelConfig::default();
    config.protocol = Protocol::Http1;
    config.connect_timeout = Duration::from_millis(500);
    let backends = Fixed::new(servers.iter().map(|server| server.address));
    let channel = Channel::with(config, Tcp, "search", backends).unwrap();
    until("all are used", async || in_state(&channel, BackendState::Healthy).await == servers.len()).await;
    channel
}

async fn post(channel: &mut Channel) -> String {
    let body = boxed(Full::new(Bytes::from_static(b"hello")));
    let answer = channel.call(http::Request::post("/query?q=keel").body(body).unwrap()).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn requests_are_spread_and_connections_kept() {
    let servers = [foreign().await, foreign().await];
    let mut channel = channel_to(&servers).await;

    for _ in 0..40 {
        let text = post(&mut channel).await;
        assert!(text.ends_with("got POST /query?q=keel Some(\"search\") and 5 bytes"), "{text}");
    }
    for _ in 0..5 {
        drop(channel.call(http::Request::head("/").body(empty()).unwrap()).await.unwrap());
    }

    let backends = channel.snapshot().await.unwrap().client.backends;
    assert!(backends.iter().all(|backend| backend.active == 0 && backend.ended.iter().sum::<u64>() >= 15));
    for server in &servers {
        let connections = server.connections.load(Ordering::Relaxed);
        assert!(connections <= 4, "one at a time, one after the other: {connections} connections");
    }
}

#[tokio::test]
async fn requests_at_once_have_a_connection_each() {
    let servers = [foreign().await];
    let channel = channel_to(&servers).await;

    let calls: JoinSet<String> = (0..20)
        .map(|_| {
            let mut channel = channel.clone();
            async move { post(&mut channel).await }
        })
        .collect();

    assert_eq!(calls.join_all().await.len(), 20);
    assert_eq!(channel.snapshot().await.unwrap().client.backends[0].active, 0);
}

#[tokio::test]
async fn a_backend_that_dies_is_noticed_by_those_who_call() {
    let mut servers = vec![foreign().await, foreign().await];
    let mut channel = channel_to(&servers).await;
    let dead = servers.remove(0).address.to_string();

    // Connects that fail are sent elsewhere; what was on a kept connection may have run, and fails.
    until("one is refusing", async || {
        let body = boxed(Full::new(Bytes::from_static(b"hello")));
        drop(channel.call(http::Request::post("/").body(body).unwrap()).await);
        in_state(&channel, BackendState::Refusing).await == 1
    })
    .await;

    for _ in 0..10 {
        assert!(!post(&mut channel).await.starts_with(&dead));
    }
}
