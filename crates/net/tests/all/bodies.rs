//! Bodies both ways over HTTP/2: empty frames, early ends, slow readers, callers that leave, peers that limit.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use crate::support::scripted::{self, Respond, head, read};
use crate::support::{channel_to, request, start, until};
use bytes::Bytes;
use evenkeel::body::{BoxBody, BoxError, boxed, empty};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{CallError, Channel, ChannelConfig};
use evenkeel_core::Outcome;
use h2::{Reason, RecvStream};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;
use tower::Service;

/// A body of these frames, all there at once.
fn frames(frames: impl IntoIterator<Item = Result<Bytes, BoxError>, IntoIter: Send + 'static>) -> BoxBody {
    let mut frames = frames.into_iter();
    boxed(StreamBody::new(futures_util::stream::poll_fn(move |_| {
        Poll::Ready(frames.next().map(|frame| frame.map(Frame::data)))
    })))
}

/// A body whose frames the test sends.
fn sent() -> (mpsc::UnboundedSender<Result<Bytes, BoxError>>, BoxBody) {
    let (sender, mut frames) = mpsc::unbounded_channel::<Result<Bytes, BoxError>>();
    let frames = futures_util::stream::poll_fn(move |cx| frames.poll_recv(cx));
    (sender, boxed(StreamBody::new(futures_util::StreamExt::map(frames, |frame| frame.map(Frame::data)))))
}

#[allow(clippy::unnecessary_wraps, reason = "as a frame of a body that may fail")]
fn text(text: &'static str) -> Result<Bytes, BoxError> {
    Ok(Bytes::from_static(text.as_bytes()))
}

/// Requests that ended so, and how many have not ended.
async fn ended(channel: &Channel, outcome: Outcome) -> (u64, u32) {
    let backend = &channel.snapshot().await.unwrap().client.backends[0];
    (backend.ended(outcome), backend.active)
}

#[tokio::test]
async fn empty_frames_hold_nothing_up() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    for (body, length) in [(vec!["", "one", "", "", "two", ""], 6), (vec![""], 0), (vec!["", "x"], 1)] {
        let answer = channel.call(request(frames(body.into_iter().map(text)))).await.unwrap();

        let said = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(said.ends_with(format!("got {length} bytes").as_bytes()), "{said:?}");
    }
}

#[tokio::test]
async fn the_last_frame_says_that_it_is() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut body = request.into_body();
        let first = body.data().await.unwrap().unwrap();
        let status = if body.is_end_stream() && first == "hello" { 200 } else { 400 };
        respond.send_response(head(status), true).unwrap();
    })
    .await;

    let whole = channel.call(request(boxed(Full::new(Bytes::from_static(b"hello"))))).await.unwrap();
    assert_eq!(whole.status(), 200);
    let streamed = channel.call(request(frames([text("hello")]))).await.unwrap();
    assert_eq!(streamed.status(), 200);
}

#[tokio::test]
async fn trailers_follow_a_requests_body() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut body = request.into_body();
        read(&mut body).await.unwrap();
        let trailers = body.trailers().await.unwrap().unwrap();
        respond.send_response(head(if trailers["sum"] == "7" { 200 } else { 400 }), true).unwrap();
    })
    .await;
    let body = Full::new(Bytes::from_static(b"hello"));
    let trailers = http::HeaderMap::from_iter([("sum".parse().unwrap(), "7".parse().unwrap())]);

    let answer = channel.call(request(boxed(body.with_trailers(async { Some(Ok(trailers)) })))).await;
    assert_eq!(answer.unwrap().status(), 200);
}

/// Answers at once, says one word, and tells of how the request ended.
async fn one_word(request: http::Request<RecvStream>, mut respond: Respond, ends: mpsc::UnboundedSender<Reason>) {
    let mut answer = (request.uri().path() != "/silent").then(|| {
        let mut answer = respond.send_response(head(200), false).unwrap();
        answer.send_data(Bytes::from_static(b"word"), false).unwrap();
        answer
    });
    let mut body = request.into_body();
    let end = match (read(&mut body).await, &mut answer) {
        (Err(error), _) => error.reason().unwrap(),
        (Ok(_), Some(answer)) => std::future::poll_fn(|cx| answer.poll_reset(cx)).await.unwrap(),
        (Ok(_), None) => std::future::poll_fn(|cx| respond.poll_reset(cx)).await.unwrap(),
    };
    ends.send(end).unwrap();
}

#[tokio::test]
async fn a_caller_that_leaves_resets_its_stream_and_gives_its_place_back() {
    let (ends, mut end) = mpsc::unbounded_channel();
    let mut channel = scripted::channel(move |request, respond| one_word(request, respond, ends.clone())).await;
    let to = |path: &str, body: BoxBody| http::Request::post(path).body(body).unwrap();

    // Before the answer, while the body is sent and after.
    let (open, body) = sent();
    open.send(text("hello")).unwrap();
    for body in [body, frames([text("hello")])] {
        let call = tokio::spawn(channel.call(to("/silent", body)));
        until("it is in flight", async || ended(&channel, Outcome::Served).await.1 == 1).await;
        call.abort();
        assert_eq!(end.recv().await, Some(Reason::CANCEL));
    }
    until("the body is let go", async || open.is_closed()).await;
    assert_eq!(ended(&channel, Outcome::Cancelled).await, (2, 0));

    // In the middle of the answer, while the body is sent and after.
    let (open, body) = sent();
    for body in [body, frames([text("hello")])] {
        let mut answer = channel.call(to("/", body)).await.unwrap();
        assert_eq!(answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "word");
        drop(answer);
        assert_eq!(end.recv().await, Some(Reason::CANCEL));
    }
    until("the body is let go", async || open.is_closed()).await;
    assert_eq!(ended(&channel, Outcome::Cancelled).await, (4, 0));
}

#[tokio::test]
async fn both_ends_may_talk_at_once() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut answer = respond.send_response(head(200), false).unwrap();
        let mut body = request.into_body();
        while let Some(data) = body.data().await {
            answer.send_data(data.unwrap(), false).unwrap();
        }
        answer.send_data(Bytes::new(), true).unwrap();
    })
    .await;
    let (say, body) = sent();
    let mut answer = channel.call(request(body)).await.unwrap();

    for word in ["one", "two", "three"] {
        say.send(text(word)).unwrap();
        assert_eq!(answer.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), word);
    }
    drop(say);
    assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    assert_eq!(ended(&channel, Outcome::Served).await, (1, 0));
}

#[tokio::test]
async fn an_answer_before_the_request_has_ended_is_whole() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut answer = respond.send_response(head(413), false).unwrap();
        answer.send_data(Bytes::from_static(b"too long"), true).unwrap();
        // h2 resets without error: the rest is not needed.
        drop(request);
    })
    .await;
    let (more, body) = sent();
    more.send(text("hello")).unwrap();

    let answer = channel.call(request(body)).await.unwrap();
    until("the sending has ended", async || more.is_closed()).await;

    assert_eq!(answer.status(), 413);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "too long");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let reason = if request.uri().path() == "/cancel" { Reason::CANCEL } else { Reason::NO_ERROR };
        let mut long = head(200);
        long.headers_mut().insert("content-length", "10".parse().unwrap());
        let mut answer = respond.send_response(long, false).unwrap();
        answer.send_data(Bytes::from_static(b"half"), false).unwrap();
        // The half is on its way before the reset, which would overtake it.
        read(&mut request.into_body()).await.unwrap();
        answer.send_reset(reason);
    })
    .await;
    for path in ["/cancel", "/no_error"] {
        let (end, body) = sent();
        let answer = channel.call(http::Request::post(path).body(body).unwrap()).await.unwrap();
        assert_eq!(answer.body().size_hint().exact(), Some(10));
        drop(end);
        assert!(answer.into_body().collect().await.is_err(), "{path}");
    }
    assert_eq!(ended(&channel, Outcome::Failed).await, (2, 0));
}

#[tokio::test]
async fn a_peer_that_resets_while_nothing_fits_ends_the_call() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut body = request.into_body();
        // Its window is full, and stays so.
        let mut unread = 0;
        while unread < 65_535 {
            unread += body.data().await.unwrap().unwrap().len();
        }
        respond.send_reset(Reason::INTERNAL_ERROR);
    })
    .await;
    let (more, body) = sent();
    for _ in 0..100 {
        more.send(Ok(Bytes::from(vec![7; 10_000]))).unwrap();
    }

    let answer = channel.call(request(body)).await;

    assert!(matches!(answer, Err(CallError::Broken(_))), "{answer:?}");
    assert!(more.is_closed());
    assert_eq!(ended(&channel, Outcome::Failed).await, (1, 0));
}

#[tokio::test]
async fn a_body_that_fails_is_not_the_backends_fault_whenever_it_does() {
    let (ends, mut end) = mpsc::unbounded_channel();
    let mut channel = scripted::channel(move |request, respond| one_word(request, respond, ends.clone())).await;

    let silent = http::Request::post("/silent");
    let failing = frames([text("half"), Err("out of paper".into())]);
    let answer = channel.call(silent.body(failing).unwrap()).await;
    assert!(matches!(&answer, Err(CallError::Body(error)) if error.to_string() == "out of paper"), "{answer:?}");
    assert_eq!(end.recv().await, Some(Reason::CANCEL));

    let (say, body) = sent();
    let answer = channel.call(request(body)).await.unwrap();
    say.send(Err("out of paper".into())).unwrap();
    answer.into_body().collect().await.unwrap_err();
    assert_eq!(end.recv().await, Some(Reason::CANCEL));
    assert_eq!(ended(&channel, Outcome::Cancelled).await, (2, 0));
    assert_eq!(ended(&channel, Outcome::Failed).await, (0, 0));
}

#[tokio::test]
async fn heads_without_bodies_are_whole_answers() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        respond.send_informational(head(103)).unwrap();
        respond.send_informational(head(103)).unwrap();
        let mut answer = head(if request.method() == http::Method::HEAD { 200 } else { 204 });
        if answer.status() == 200 {
            answer.headers_mut().insert("content-length", "1000".parse().unwrap());
        }
        respond.send_response(answer, true).unwrap();
    })
    .await;

    for (method, status) in [("HEAD", 200), ("GET", 204), ("DELETE", 204)] {
        let asked = http::Request::builder().method(method).uri("/").body(empty()).unwrap();
        let answer = channel.call(asked).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().size_hint().exact()), (status, Some(0)), "{method}");
        assert!(answer.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    assert_eq!(ended(&channel, Outcome::Served).await, (3, 0));
}

#[tokio::test]
async fn a_slow_reader_holds_the_sender_up() {
    const CHUNK: usize = 64 << 10;
    const CHUNKS: usize = 256;
    let said = Arc::new(AtomicUsize::new(0));
    let (go, may_read) = mpsc::unbounded_channel::<()>();
    let (saying, gate) = (Arc::clone(&said), Arc::new(tokio::sync::Mutex::new(may_read)));
    let mut channel = scripted::channel(move |request, mut respond: Respond| {
        let (said, gate) = (Arc::clone(&saying), Arc::clone(&gate));
        async move {
            let mut answer = respond.send_response(head(200), false).unwrap();
            let mut sum = 0;
            while sum < CHUNK * CHUNKS {
                answer.reserve_capacity(CHUNK);
                let room = std::future::poll_fn(|cx| answer.poll_capacity(cx)).await.unwrap().unwrap();
                let length = room.min(CHUNK * CHUNKS - sum);
                answer.send_data(Bytes::from(vec![7; length]), false).unwrap();
                sum = said.fetch_add(length, SeqCst) + length;
            }
            gate.lock().await.recv().await;
            let got: usize = read(&mut request.into_body()).await.unwrap().iter().sum();
            answer.send_data(Bytes::from(got.to_string()), true).unwrap();
        }
    })
    .await;
    let asked = Arc::new(AtomicUsize::new(0));
    let asking = Arc::clone(&asked);
    let body = frames((0..CHUNKS).map(move |_| {
        asking.fetch_add(1, SeqCst);
        Ok(Bytes::from(vec![7; CHUNK]))
    }));

    let mut answer = channel.call(request(body)).await.unwrap().into_body();
    settled(&said).await;
    settled(&asked).await;

    // Our window of a stream is 2 MB; the peer's is 64 kB, and one frame waits on each side of it.
    assert!((1 << 20..=2 << 20).contains(&said.load(SeqCst)), "{said:?}");
    assert!((1..=3).contains(&asked.load(SeqCst)), "{asked:?}");
    let mut got = 0;
    while got < CHUNK * CHUNKS {
        got += answer.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
    go.send(()).unwrap();
    assert_eq!(answer.collect().await.unwrap().to_bytes(), (CHUNK * CHUNKS).to_string());
}

/// Waits until a number has not changed for a while.
async fn settled(number: &AtomicUsize) {
    let mut before = usize::MAX;
    until("it settles", async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        std::mem::replace(&mut before, number.load(SeqCst)) == number.load(SeqCst)
    })
    .await;
}

/// A channel that itself limits nothing to a peer that takes ten at once, and counts who came and how many at once at
/// most.
async fn limited(wait: Duration) -> (Channel, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (came, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counting, at_once) = ((Arc::clone(&came), Arc::clone(&most)), Arc::new(AtomicUsize::new(0)));
    let script = move |request: http::Request<RecvStream>, mut respond: Respond| {
        let ((came, most), at_once) = (counting.clone(), Arc::clone(&at_once));
        came.fetch_add(1, SeqCst);
        most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
        async move {
            let got = read(&mut request.into_body()).await;
            let gone = std::future::poll_fn(|cx| respond.poll_reset(cx));
            let is_gone = tokio::time::timeout(wait, gone).await.is_ok();
            at_once.fetch_sub(1, SeqCst);
            if let (Ok(_), false) = (got, is_gone) {
                respond.send_response(head(200), true).unwrap();
            }
        }
    };
    let mut config = ChannelConfig::default();
    config.client.flow.active_max = 1000;
    let backends = Fixed::new([scripted::start(10, script).await]);
    let channel = Channel::with(config, Tcp, "service", backends).unwrap();
    (channel.usable().await.unwrap(), came, most)
}

#[tokio::test]
async fn more_calls_than_the_peer_takes_at_once_all_get_their_turn() {
    let (channel, came, most) = limited(Duration::from_millis(2)).await;

    let calls = (0..200).map(|number| {
        let body = if number % 2 == 0 { empty() } else { boxed(Full::new(Bytes::from(vec![7; 1000]))) };
        channel.clone().call(request(body))
    });
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap().status(), 200);
    }

    assert_eq!((came.load(SeqCst), most.load(SeqCst)), (200, 10));
    let backend = &channel.snapshot().await.unwrap().client.backends[0];
    assert_eq!((backend.ended(Outcome::Served), backend.ended(Outcome::Unsent), backend.active), (200, 0, 0));
}

#[tokio::test]
async fn who_leaves_the_line_is_never_sent() {
    let (mut channel, came, _) = limited(Duration::from_secs(60)).await;
    let calls: Vec<_> = (0..200).map(|_| tokio::spawn(channel.call(request(empty())))).collect();
    until("ten have come", async || came.load(SeqCst) == 10).await;

    calls.iter().for_each(tokio::task::JoinHandle::abort);
    until("all have left", async || ended(&channel, Outcome::Cancelled).await == (200, 0)).await;
    let last = tokio::spawn(channel.call(request(empty())));
    until("the last has come", async || came.load(SeqCst) > 10).await;

    assert_eq!(came.load(SeqCst), 11);
    assert_eq!(channel.snapshot().await.unwrap().last_lost, [None]);
    last.abort();
}

#[tokio::test]
async fn headers_about_a_connection_stay_here() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        let mut names: Vec<_> = request.headers().keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        let mut answer = head(200);
        answer.headers_mut().insert("names", names.join(" ").parse().unwrap());
        respond.send_response(answer, true).unwrap();
    })
    .await;
    let about = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];
    for alone in about {
        let asked = http::Request::post("/").header(alone, "x").header("kept", "x").body(empty()).unwrap();
        let names = channel.call(asked).await.unwrap().headers()["names"].to_str().unwrap().to_owned();
        assert!(names.contains("kept") && names.contains("content-length"), "{names}");
        assert!(!names.split(' ').any(|name| name == alone), "{names}");
    }
    let mut asked = http::Request::get("/").header("te", "trailers").body(empty()).unwrap();
    asked.headers_mut().insert("connection", "close, named, bad name".parse().unwrap());
    asked.headers_mut().insert("named", "x".parse().unwrap());
    let names = channel.call(asked).await.unwrap().headers()["names"].clone();
    assert_eq!(names, "baggage evenkeel-criticality evenkeel-lot te");
}

#[tokio::test]
async fn requests_that_cannot_be_are_errors() {
    let mut channel = scripted::channel(|request, mut respond: Respond| async move {
        if read(&mut request.into_body()).await.is_ok() {
            respond.send_response(head(200), true).unwrap();
        }
    })
    .await;
    for (method, uri) in [("GET", "service:80"), ("CONNECT", "service:80")] {
        let asked = http::Request::builder().method(method).uri(uri).body(empty()).unwrap();
        let answer = channel.call(asked).await;
        assert!(matches!(answer, Err(CallError::BadRequest(_))), "{method} {uri}: {answer:?}");
    }
    let mut unnamed = request(empty());
    unnamed.extensions_mut().insert(evenkeel::Context::default().with_customer("größe"));
    let answer = channel.call(unnamed).await;
    assert!(matches!(answer, Err(CallError::BadRequest(why)) if why.starts_with("the customer's name")), "{answer:?}");
    let mut longer = request(boxed(Full::new(Bytes::from_static(b"hello"))));
    longer.headers_mut().insert("content-length", "10".parse().unwrap());
    channel.call(longer).await.unwrap_err();
    let mut huge = request(empty());
    huge.headers_mut().insert("huge", "x".repeat(100_000).parse().unwrap());
    assert_eq!(channel.call(huge).await.unwrap().status(), 200);

    for method in ["OPTIONS", "CONNECT"] {
        let odd = http::Request::builder().method(method).uri("http://service/").body(empty()).unwrap();
        drop(channel.call(odd).await);
    }
    assert_eq!(channel.call(request(empty())).await.unwrap().status(), 200);
}
