//! What certainly never ran is sent elsewhere, with its body; what may have run is not, whatever its status says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support;
use crate::support::raw::{self, Raw, Turn};
use crate::support::{Running, in_state, request, start, until};
use bytes::Bytes;
use evenkeel::body::{BoxBody, BoxError, boxed};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{CallError, Channel, ChannelConfig, Context};
use evenkeel_core::{BackendState, Kind, Outcome, PolicyName, Refusal};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tower::Service;

async fn channel_over(raw: &Raw, server: &Running) -> Channel {
    let mut config = ChannelConfig::default();
    config.client.policy = PolicyName::RoundRobin;
    config.replay_most = 100;
    let channel = Channel::with(config, Tcp, "service", Fixed::new([raw.address, server.address])).unwrap();
    until("both are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;
    channel
}

fn hello() -> http::Request<BoxBody> {
    request(boxed(Full::new(Bytes::from_static(b"hello"))))
}

async fn text(response: http::Response<evenkeel::client::CountedBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_turned_away_is_sent_elsewhere_with_its_body() {
    for turn in [Turn::Refused, Turn::GoAway] {
        let (raw, server) = (raw::start(turn).await, start().await);
        let mut channel = channel_over(&raw, &server).await;

        until("some were turned away", async || {
            let answer = channel.call(hello()).await;
            let answer = answer.unwrap_or_else(|error| panic!("{turn:?}: {error}"));
            assert!(text(answer).await.ends_with("got 5 bytes"));
            raw.reached.load(Ordering::Relaxed) >= 3
        })
        .await;

        let backends = channel.snapshot().await.unwrap().client.backends;
        assert!(backends.iter().map(|backend| backend.ended(Outcome::Unsent)).sum::<u64>() >= 3);
        assert!(backends.iter().all(|backend| backend.active == 0 && backend.ended(Outcome::Failed) == 0));
    }
}

#[tokio::test]
async fn a_request_that_may_have_run_is_not_sent_again() {
    for turn in [Turn::Reset, Turn::Closed, Turn::Unavailable] {
        let (raw, server) = (raw::start(turn).await, start().await);
        let mut channel = channel_over(&raw, &server).await;

        let mut failed = 0;
        while failed == 0 {
            match channel.call(hello()).await {
                Ok(answer) if answer.status() == 503 => failed += 1,
                Ok(answer) => drop(text(answer).await),
                Err(CallError::Broken(_)) => failed += 1,
                Err(other) => panic!("{turn:?}: {other}"),
            }
        }
        assert_eq!(raw.reached.load(Ordering::Relaxed), 1, "{turn:?}");
    }
}

#[tokio::test]
async fn a_body_too_long_to_keep_fails_where_it_was_turned_away() {
    let (raw, server) = (raw::start(Turn::Refused).await, start().await);
    let mut channel = channel_over(&raw, &server).await;
    let long = || request(boxed(Full::new(Bytes::from(vec![7; 200]))));

    until("one was turned away", async || match channel.call(long()).await {
        Ok(answer) => text(answer).await.is_empty(),
        // Its body may not have been looked at when it was turned away; then it was sent elsewhere.
        Err(error) => matches!(error, CallError::Unsent(_)),
    })
    .await;
}

#[tokio::test]
async fn a_body_that_fails_is_its_callers_fault() {
    let server = start().await;
    let mut channel = support::channel_to(&[server]).await;
    let mut frames =
        vec![Ok(Frame::data(Bytes::from_static(b"half"))), Err(BoxError::from("out of paper"))].into_iter();
    let failing = StreamBody::new(futures_util::stream::poll_fn(move |_| std::task::Poll::Ready(frames.next())));

    let answer = channel.call(request(boxed(failing))).await;

    assert!(matches!(answer, Err(CallError::Body(_))), "{answer:?}");
    let backend = &channel.snapshot().await.unwrap().client.backends[0];
    assert_eq!((backend.ended(Outcome::Failed), backend.ended(Outcome::Cancelled)), (0, 1));
}

#[tokio::test]
async fn streams_have_places_of_their_own() {
    let server = start().await;
    let mut config = ChannelConfig::default();
    config.client.flow.streams_max = 1;
    config.client.flow.active_max = 1;
    let channel = Channel::with(config, Tcp, "service", Fixed::new([server.address])).unwrap();
    let mut channel = channel.usable().await.unwrap();
    let events = || http::Request::get("/60000").header("accept", "text/event-stream");
    let said = || http::Request::get("/60000").extension(Kind::Stream);

    let first = tokio::spawn(channel.call(events().body(evenkeel::body::empty()).unwrap()));
    until("it is open", async || channel.snapshot().await.unwrap().client.backends[0].streams == 1).await;
    let second = channel.call(said().body(evenkeel::body::empty()).unwrap()).await;
    assert!(matches!(second, Err(CallError::Refused(Refusal::AllFull))), "{second:?}");
    assert_eq!(channel.call(request(evenkeel::body::empty())).await.unwrap().status(), 200);

    first.abort();
    until("it is closed", async || channel.snapshot().await.unwrap().client.backends[0].streams == 0).await;
}

#[tokio::test]
async fn a_request_nobody_takes_ends_by_its_deadline() {
    let raw = raw::start(Turn::GoAway).await;
    let channel = Channel::connect("service", [raw.address]).await.unwrap();
    let mut hello = hello();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    hello.extensions_mut().insert(Context::default().with_deadline(deadline));

    let answer = channel.clone().call(hello).await;

    let unsent = matches!(answer, Err(CallError::Unsent(_) | CallError::Refused(Refusal::NoneUsable)));
    assert!(unsent, "{answer:?}");
    assert!(tokio::time::Instant::now() < deadline);
}
