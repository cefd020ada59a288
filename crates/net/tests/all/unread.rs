//! Bodies that nobody reads, or that do not end: they cost themselves and nobody else.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::task::Poll;
use std::time::Duration;

use crate::support::{listener, until};
use bytes::Bytes;
use evenkeel::body::{BoxError, boxed, empty};
use evenkeel::client::{Fixed, Protocol, Tcp};
use evenkeel::{Channel, ChannelConfig, Server};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::{Service, service_fn};

/// Answers with a body of as many bytes as its path says.
async fn server() -> (std::net::SocketAddr, tokio::task::JoinSet<()>) {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let service = service_fn(|request: http::Request<Incoming>| async move {
        let length = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(vec![7; length]))))
    });
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { Server::new().without_signals().serve(listener, service).await.unwrap() });
    (address, serving)
}

#[tokio::test]
async fn answers_that_nobody_reads_do_not_cost_the_connection() {
    let (address, _serving) = server().await;
    let mut config = ChannelConfig::default();
    (config.ping_every, config.ping_timeout) = (Duration::from_millis(50), Duration::from_millis(1500));
    let channel = Channel::with(config, Tcp, "service", Fixed::new([address])).unwrap();
    let mut channel = channel.usable().await.unwrap();
    let get = |path: &str| http::Request::get(path).body(empty()).unwrap();

    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(channel.call(get("/3000000")).await.unwrap().into_body());
    }
    // Long enough for many pings: a connection that is held up would have been given up.
    let began = tokio::time::Instant::now();
    until("pings have come and gone", async || {
        let body = channel.call(get("/10")).await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 10);
        began.elapsed() > Duration::from_secs(3)
    })
    .await;

    assert_eq!(channel.snapshot().await.unwrap().last_lost, [None]);
    for body in unread {
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 3_000_000);
    }
}

/// Speaks HTTP/1.1 and answers every head at once, whatever follows it.
async fn hasty() -> std::net::SocketAddr {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut last = [0; 4];
                while let Ok(byte) = stream.read_u8().await {
                    last = [last[1], last[2], last[3], byte];
                    if last == *b"\r\n\r\n"
                        && stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_connection_whose_request_goes_on_after_its_answer_is_not_used_for_another() {
    let address = hasty().await;
    let mut config = ChannelConfig::default();
    config.protocol = Protocol::Http1;
    let channel = Channel::with(config, Tcp, "service", Fixed::new([address])).unwrap();
    let mut channel = channel.usable().await.unwrap();
    let mut first = Some(Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"x"))));
    let endless =
        futures_util::stream::poll_fn(move |_| first.take().map_or(Poll::Pending, |frame| Poll::Ready(Some(frame))));
    let upload = http::Request::post("/").body(boxed(StreamBody::new(endless))).unwrap();

    let answer = channel.call(upload).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    for _ in 0..10 {
        let answer = channel.call(http::Request::get("/").body(empty()).unwrap()).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    }
}
