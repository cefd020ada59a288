//! Retries on real sockets (B12 to B17): what is sent again and where, what is not, and what a caller's caller hears.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::scripted::{self, Respond, head};
use crate::support::{in_state, listener, until};
use bytes::Bytes;
use evenkeel::body::{BoxBody, boxed, empty};
use evenkeel::client::{CountedBody, Fixed, Tcp};
use evenkeel::wire::outcome::outcome_of;
use evenkeel::{CallError, Channel, ChannelConfig, Context, Server};
use evenkeel_core::{BackendState, Cause, Mode, Outcome, PolicyName, Repeat, RetryCounts, Stop};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::Instant;
use tower::{Service, service_fn};

/// What a backend does with every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Serves,
    /// Elsewhere it may go better.
    Refuses,
    /// The same, of gRPC, all in the head.
    RefusesGrpc,
    /// A code of gRPC that refusals have too, without their mark.
    Exhausted,
    /// The service has too much.
    SaysDont,
    Fails,
    /// Never answers.
    Hangs,
    Resets,
}

/// What a backend saw of a request: its attempt as the wire has it, and its body.
type Seen = Arc<Mutex<Vec<(Option<String>, String)>>>;

async fn backend(does: Does) -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let seeing = Arc::clone(&seen);
    let address = scripted::start(100, move |request, respond| {
        let seen = Arc::clone(&seeing);
        async move {
            let headers = request.headers();
            let attempt = headers.get("x-envoy-attempt-count").or(headers.get("grpc-previous-rpc-attempts"));
            let attempt = attempt.map(|value| value.to_str().unwrap().to_owned());
            let mut body = request.into_body();
            let mut bytes = Vec::new();
            while let Some(Ok(data)) = body.data().await {
                bytes.extend_from_slice(&data);
                let _ = body.flow_control().release_capacity(data.len());
            }
            seen.lock().unwrap().push((attempt, String::from_utf8(bytes).unwrap()));
            answer(does, respond).await;
        }
    })
    .await;
    (address, seen)
}

async fn answer(does: Does, mut respond: Respond) {
    let (status, headers): (u16, &[(&'static str, &'static str)]) = match does {
        Does::Serves => (200, &[]),
        Does::Refuses => (503, &[("retry-after", "0")]),
        Does::RefusesGrpc => {
            (200, &[("content-type", "application/grpc"), ("grpc-status", "14"), ("grpc-retry-pushback-ms", "0")])
        }
        Does::Exhausted => (200, &[("content-type", "application/grpc"), ("grpc-status", "8")]),
        Does::SaysDont => (503, &[("x-envoy-ratelimited", "true")]),
        Does::Fails => (500, &[]),
        Does::Hangs => return std::future::pending().await,
        Does::Resets => return respond.send_reset(h2::Reason::INTERNAL_ERROR),
    };
    let mut answer = head(status);
    for (name, value) in headers {
        answer.headers_mut().insert(*name, HeaderValue::from_static(value));
    }
    // Who asks may have gone.
    drop(respond.send_response(answer, true));
}

fn config() -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.client.policy = PolicyName::RoundRobin;
    config.client.retry.wait = Duration::from_millis(1);
    // What is refused in a test is much of what is sent.
    config.client.retry.refused_most = 1.0;
    config.client.retry.share = 4.0;
    config.replay_most = 100;
    config
}

/// A channel over a backend that does this and one that serves, and what each of them saw.
async fn beside_one_that_serves(does: Does, config: ChannelConfig) -> (Channel, Seen, Seen) {
    let ((first, bad), (second, good)) = (backend(does).await, backend(Does::Serves).await);
    let channel = Channel::with(config, Tcp, "service", Fixed::new([first, second])).unwrap();
    until("both are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;
    (channel, bad, good)
}

/// A channel over two backends that refuse everything, and what each of them saw.
async fn two_that_refuse(config: ChannelConfig) -> (Channel, [Seen; 2]) {
    let ((first, one), (second, other)) = (backend(Does::Refuses).await, backend(Does::Refuses).await);
    let channel = Channel::with(config, Tcp, "service", Fixed::new([first, second])).unwrap();
    until("both are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;
    (channel, [one, other])
}

fn request(method: Method, body: BoxBody) -> http::Request<BoxBody> {
    http::Request::builder().method(method).uri("http://service/").body(body).unwrap()
}

fn hello(method: Method) -> http::Request<BoxBody> {
    request(method, boxed(Full::new(Bytes::from_static(b"hello"))))
}

fn grpc() -> http::Request<BoxBody> {
    let mut request = hello(Method::POST);
    request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc+proto"));
    request
}

fn safe_grpc() -> http::Request<BoxBody> {
    let mut request = grpc();
    request.extensions_mut().insert(Repeat::Safe);
    request
}

/// The statuses of so many calls; 0 for none.
async fn statuses(channel: &mut Channel, count: u32, request: impl Fn() -> http::Request<BoxBody>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        statuses.push(channel.call(request()).await.map_or(0, |answer| answer.status().as_u16()));
    }
    statuses
}

async fn counts(channel: &Channel) -> RetryCounts {
    let client = channel.snapshot().await.unwrap().client;
    assert!(client.backends.iter().all(|backend| backend.active == 0), "all places are given back");
    client.retries
}

fn stopped(counts: &RetryCounts, stop: Stop) -> u64 {
    counts.stopped[Stop::COUNTED.into_iter().position(|one| one == stop).unwrap()]
}

fn outcome(answer: &http::Response<CountedBody>) -> Outcome {
    outcome_of(answer.status(), answer.headers())
}

#[tokio::test]
async fn what_one_refuses_another_serves_with_its_body_and_its_number() {
    let (mut channel, bad, good) = beside_one_that_serves(Does::Refuses, config()).await;

    assert_eq!(statuses(&mut channel, 6, || hello(Method::POST)).await, [200; 6]);

    let (refused, served) = (bad.lock().unwrap().clone(), good.lock().unwrap().clone());
    let count = refused.len();
    assert!(count >= 2, "every second one is picked for it, or more");
    assert!(refused.iter().all(|(attempt, body)| attempt.is_none() && body == "hello"));
    assert_eq!(served.iter().filter(|(attempt, _)| attempt.as_deref() == Some("2")).count(), count, "{served:?}");
    assert!(served.iter().all(|(_, body)| body == "hello"));
    assert_eq!(counts(&channel).await.made[Cause::Overloaded.index()], count as u64);
}

#[tokio::test]
async fn a_refusal_of_grpc_is_known_from_its_head_and_tried_elsewhere() {
    let (mut channel, bad, good) = beside_one_that_serves(Does::RefusesGrpc, config()).await;

    for _ in 0..4 {
        let answer = channel.call(grpc()).await.unwrap();
        assert!(answer.headers().get("grpc-status").is_none(), "the other one's");
    }

    let (refused, served) = (bad.lock().unwrap().len(), good.lock().unwrap());
    let retried = served.iter().filter(|(attempt, _)| attempt.as_deref() == Some("1")).count();
    assert!(refused >= 2 && retried == refused, "{refused} {served:?}");
}

#[tokio::test]
async fn what_may_have_run_is_sent_again_only_where_that_is_safe() {
    for does in [Does::Fails, Does::Resets, Does::Exhausted] {
        let make = move |method| if does == Does::Exhausted { grpc() } else { hello(method) };
        let (mut channel, bad, _) = beside_one_that_serves(does, config()).await;
        statuses(&mut channel, 4, || make(Method::POST)).await;
        assert_eq!(bad.lock().unwrap().len(), 2, "{does:?}: two are not sent again");
        assert_eq!((counts(&channel).await.made, stopped(&counts(&channel).await, Stop::Unsafe)), ([0; 3], 2));

        let said = || {
            let mut request = make(Method::POST);
            request.extensions_mut().insert(Repeat::Safe);
            request
        };
        assert_eq!(statuses(&mut channel, 4, said).await, [200; 4], "{does:?}: the caller says it may run twice");
        assert!(counts(&channel).await.made.iter().sum::<u64>() >= 2);
    }
    let (mut channel, _, _) = beside_one_that_serves(Does::Fails, config()).await;
    assert_eq!(statuses(&mut channel, 4, || hello(Method::PUT)).await, [200; 4], "by its method");
    let said = || {
        let mut request = hello(Method::GET);
        request.extensions_mut().insert(Repeat::Unsafe);
        request
    };
    assert!(statuses(&mut channel, 4, said).await.contains(&500), "the caller says it must not");
}

#[tokio::test]
async fn dont_retry_is_honoured_and_three_attempts_are_all() {
    let (mut channel, bad, good) = beside_one_that_serves(Does::SaysDont, config()).await;
    let got = statuses(&mut channel, 4, || hello(Method::GET)).await;
    assert_eq!(got.iter().filter(|status| **status == 503).count(), 2, "{got:?}");
    assert_eq!((bad.lock().unwrap().len(), good.lock().unwrap().len()), (2, 2));
    assert_eq!(stopped(&counts(&channel).await, Stop::DontRetry), 2);

    let (mut channel, seen) = two_that_refuse(config()).await;
    let answer = channel.call(hello(Method::POST)).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"0".parse::<HeaderValue>().unwrap())
    );
    let mut attempts: Vec<_> =
        seen.iter().flat_map(|seen| seen.lock().unwrap().clone()).map(|(attempt, _)| attempt).collect();
    attempts.sort();
    assert_eq!(attempts, [None, Some("2".to_owned()), Some("3".to_owned())]);
    assert_eq!(seen.each_ref().map(|seen| seen.lock().unwrap().len().min(1)), [1; 2], "the second goes elsewhere");
    assert_eq!(stopped(&counts(&channel).await, Stop::Attempts), 1);
}

#[tokio::test]
async fn a_budget_of_a_tenth_is_a_tenth() {
    let mut settings = config();
    settings.client.retry.share = 0.1;
    (settings.client.throttle.local, settings.client.throttle.hints) = (Mode::Off, Mode::Off);
    let (mut channel, seen) = two_that_refuse(settings).await;

    assert_eq!(statuses(&mut channel, 200, || hello(Method::GET)).await, [503; 200]);

    assert_eq!(seen.iter().map(|seen| seen.lock().unwrap().len()).sum::<usize>(), 220);
    assert_eq!(counts(&channel).await.left, 0);
}

#[tokio::test]
async fn a_body_that_is_not_kept_is_not_sent_again() {
    let (mut channel, bad, good) = beside_one_that_serves(Does::Refuses, config()).await;
    let long = || request(Method::PUT, boxed(Full::new(Bytes::from(vec![b'x'; 200]))));

    let got = statuses(&mut channel, 4, long).await;

    assert_eq!(got.iter().filter(|status| **status == 503).count(), 2, "{got:?}");
    assert_eq!((bad.lock().unwrap().len(), good.lock().unwrap().len()), (2, 2));
    assert_eq!(stopped(&counts(&channel).await, Stop::Gone), 2);
}

#[tokio::test]
async fn nothing_is_tried_again_past_the_deadline() {
    let mut settings = config();
    settings.client.retry.wait = Duration::from_secs(10);
    let (mut channel, bad, _) = beside_one_that_serves(Does::Fails, settings).await;
    let soon = || {
        let mut request = hello(Method::GET);
        let deadline = Instant::now() + Duration::from_secs(4);
        request.extensions_mut().insert(Context::default().with_deadline(deadline));
        request
    };

    let got = statuses(&mut channel, 4, soon).await;

    assert_eq!(got.iter().filter(|status| **status == 500).count(), 2, "{got:?}");
    assert_eq!(bad.lock().unwrap().len(), 2);
    assert_eq!(stopped(&counts(&channel).await, Stop::TooLate), 2);
}

#[tokio::test]
async fn observing_changes_nothing_and_the_mode_changes_while_it_runs() {
    let mut settings = config();
    settings.client.retry.mode = Mode::Observe;
    let (mut channel, bad, good) = beside_one_that_serves(Does::Refuses, settings.clone()).await;
    let got = statuses(&mut channel, 6, || hello(Method::GET)).await;
    assert_eq!(got.iter().filter(|status| **status == 503).count(), 3, "{got:?}");
    assert_eq!((bad.lock().unwrap().len(), good.lock().unwrap().len()), (3, 3));
    let now = counts(&channel).await;
    assert_eq!((now.made, now.observed[Cause::Overloaded.index()]), ([0; 3], 3));

    settings.client.retry.mode = Mode::On;
    channel.configure(settings.client.clone()).await.unwrap();
    assert_eq!(statuses(&mut channel, 6, || hello(Method::GET)).await, [200; 6]);

    settings.client.retry.attempts = 9;
    let error = channel.configure(settings.client).await.unwrap_err();
    assert_eq!(error.to_string(), "retry.attempts = 9 is not possible: must be from 1 to 5");
}

#[tokio::test]
async fn a_request_that_takes_long_is_also_sent_elsewhere_and_the_first_answer_wins() {
    let mut settings = config();
    settings.client.retry.hedge.mode = Mode::On;
    settings.client.retry.hedge.after = Some(Duration::from_millis(20));
    let (mut channel, slow, good) = beside_one_that_serves(Does::Hangs, settings).await;

    assert_eq!(statuses(&mut channel, 4, || hello(Method::PUT)).await, [200; 4]);

    let hung = slow.lock().unwrap().len() as u64;
    assert!(hung >= 2 && good.lock().unwrap().len() == 4);
    assert!(good.lock().unwrap().iter().all(|(_, body)| body == "hello"));
    assert_eq!(counts(&channel).await.made, [0, 0, hung]);
    let backends = channel.snapshot().await.unwrap().client.backends;
    let ended = |outcome| backends.iter().map(|backend| backend.ended(outcome)).sum::<u64>();
    assert_eq!((ended(Outcome::Cancelled), ended(Outcome::Served)), (hung, 4));

    // One that must not run twice waits.
    let mut expired = 0;
    for _ in 0..3 {
        let mut waiting = hello(Method::POST);
        let deadline = Instant::now() + Duration::from_millis(100);
        waiting.extensions_mut().insert(Context::default().with_deadline(deadline));
        expired += u32::from(matches!(channel.call(waiting).await, Err(CallError::Expired)));
    }
    assert!(expired >= 1);
    assert_eq!(counts(&channel).await.made, [0, 0, hung]);
}

/// A server whose handler asks `next`, and fails in a way of its own if that does not serve.
async fn middle(next: Channel, makes_of_it: fn(bool) -> http::Response<String>) -> SocketAddr {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let service = service_fn(move |_: http::Request<Incoming>| {
        let mut next = next.clone();
        async move {
            let answer = next.call(request(Method::GET, empty())).await;
            Ok::<_, Infallible>(makes_of_it(answer.is_ok_and(|answer| answer.status() == 200)))
        }
    });
    tokio::spawn(async move { Server::new().without_signals().serve(listener, service).await.unwrap() });
    address
}

fn failed(is_served: bool) -> http::Response<String> {
    let mut answer = http::Response::new(String::from("something went wrong"));
    *answer.status_mut() = if is_served { StatusCode::OK } else { StatusCode::BAD_GATEWAY };
    answer
}

fn failed_of_grpc(is_served: bool) -> http::Response<String> {
    let mut answer = http::Response::new(String::new());
    let code = if is_served { "0" } else { "13" };
    *answer.headers_mut() = HeaderMap::from_iter([
        (http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc")),
        (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static(code)),
    ]);
    answer
}

fn did_without(_: bool) -> http::Response<String> {
    http::Response::new(String::from("less"))
}

async fn channel_to(address: SocketAddr, config: ChannelConfig) -> Channel {
    Channel::with(config, Tcp, "service", Fixed::new([address])).unwrap().usable().await.unwrap()
}

#[tokio::test]
async fn a_dont_retry_from_below_survives_the_handler_that_made_an_error_of_it() {
    // Said by the service below, known where nobody else is there, or found out by trying: each time the layer above it has
    // done what can be done.
    for (does, tasks, at_most) in [(Does::SaysDont, 1, 1), (Does::Refuses, 1, 1), (Does::Refuses, 2, 3)] {
        let (below, seen) = if tasks == 2 {
            let (channel, seen) = two_that_refuse(config()).await;
            (channel, seen.to_vec())
        } else {
            let (bottom, seen) = backend(does).await;
            (channel_to(bottom, config()).await, vec![seen])
        };
        let address = middle(below, failed).await;
        let mut top = channel_to(address, config()).await;

        let answer = top.call(hello(Method::GET)).await.unwrap();

        assert_eq!((answer.status(), outcome(&answer)), (StatusCode::BAD_GATEWAY, Outcome::DontRetry), "{does:?}");
        answer.into_body().collect().await.unwrap();
        let asked: usize = seen.iter().map(|seen| seen.lock().unwrap().len()).sum();
        assert_eq!(asked, at_most, "{does:?}: the top does not ask again");
        assert_eq!(counts(&top).await.made, [0; 3]);
    }
    let (bottom, _) = backend(Does::SaysDont).await;
    let address = middle(channel_to(bottom, config()).await, failed_of_grpc).await;
    let answer = channel_to(address, config()).await.call(grpc()).await.unwrap();
    assert_eq!(
        (&answer.headers()["grpc-status"], outcome(&answer)),
        (&"13".parse::<HeaderValue>().unwrap(), Outcome::DontRetry)
    );
}

#[tokio::test]
async fn a_handler_that_does_without_answers_as_ever() {
    for does in [Does::SaysDont, Does::Fails] {
        let (bottom, _) = backend(does).await;
        let address = middle(channel_to(bottom, config()).await, did_without).await;
        let answer = channel_to(address, config()).await.call(hello(Method::GET)).await.unwrap();
        assert_eq!(outcome(&answer), Outcome::Served);
        assert!(!answer.headers().contains_key("x-envoy-ratelimited") && !is_useless(&answer), "{does:?}");
    }
}

/// Whether trying again is said to be no use, after a failure.
fn is_useless(answer: &http::Response<CountedBody>) -> bool {
    answer.headers().get("evenkeel-dont-retry").is_some_and(|why| why == "failed")
}

#[tokio::test]
async fn what_failed_again_or_has_no_budget_is_a_failure_that_the_next_layer_does_not_retry() {
    for does in [Does::Fails, Does::Resets] {
        let (bottom, seen) = backend(does).await;
        let address = middle(channel_to(bottom, config()).await, failed).await;
        let mut top = channel_to(address, config()).await;

        let answer = top.call(hello(Method::GET)).await.unwrap();

        assert_eq!((answer.status(), outcome(&answer)), (StatusCode::BAD_GATEWAY, Outcome::Failed), "no refusal");
        assert!(is_useless(&answer) && answer.headers().contains_key("x-envoy-ratelimited"), "{does:?}");
        answer.into_body().collect().await.unwrap();
        assert_eq!(seen.lock().unwrap().len(), 3, "{does:?}: the top does not ask again");
        assert_eq!((counts(&top).await.made, stopped(&counts(&top).await, Stop::DontRetry)), ([0; 3], 1));
    }

    let mut poor = config();
    poor.client.retry.share = 0.0;
    let (bottom, seen) = backend(Does::Fails).await;
    let address = middle(channel_to(bottom, poor).await, failed_of_grpc).await;
    let mut top = channel_to(address, config()).await;
    for asked in [2, 3] {
        let answer = top.call(safe_grpc()).await.unwrap();
        assert_eq!(outcome(&answer), Outcome::Failed);
        assert_eq!(answer.headers()["grpc-retry-pushback-ms"], "-1");
        assert!(is_useless(&answer));
        assert_eq!(seen.lock().unwrap().len(), asked, "the window has one retry, and that was made");
    }
}

#[tokio::test]
async fn a_task_that_could_not_try_again_leaves_that_to_its_caller() {
    let off = |mode| {
        let mut config = config();
        config.client.retry.mode = mode;
        config
    };
    for mode in [Mode::Off, Mode::Observe] {
        for does in [Does::Fails, Does::Refuses] {
            let (bottom, seen) = backend(does).await;
            let address = middle(channel_to(bottom, off(mode)).await, failed).await;
            let mut top = channel_to(address, config()).await;

            let answer = top.call(hello(Method::GET)).await.unwrap();

            assert_eq!(outcome(&answer), Outcome::Failed);
            assert!(!is_useless(&answer) && !answer.headers().contains_key("x-envoy-ratelimited"), "{mode} {does:?}");
            answer.into_body().collect().await.unwrap();
            assert_eq!(seen.lock().unwrap().len(), 3, "{mode} {does:?}: the top is the first that retries");
        }
    }
    // It alone reaches nobody.
    let nobody = Channel::with(config(), Tcp, "service", Fixed::new(Vec::<SocketAddr>::new())).unwrap();
    let address = middle(nobody, failed).await;
    let answer = channel_to(address, off(Mode::Off)).await.call(hello(Method::GET)).await.unwrap();
    assert_eq!((outcome(&answer), is_useless(&answer)), (Outcome::Failed, false));
    drop(answer.into_body().collect().await);
}

#[tokio::test]
async fn three_layers_above_a_store_that_fails_at_everything_ask_it_little_more_than_once() {
    let mut settings = config();
    settings.client.retry = evenkeel_core::RetryConfig { wait: Duration::from_millis(1), ..Default::default() };
    let (bottom, seen) = backend(Does::Fails).await;
    let search = middle(channel_to(bottom, settings.clone()).await, failed).await;
    let front = middle(channel_to(search, settings.clone()).await, failed).await;
    let mut top = channel_to(front, settings).await;

    assert_eq!(statuses(&mut top, 300, || hello(Method::GET)).await, [502; 300]);

    // A tenth at the layer above the store and nothing at the others; with a tenth at each of them it were 399.
    let asked = seen.lock().unwrap().len();
    assert!((320..=332).contains(&asked), "{asked}");
    assert_eq!(counts(&top).await.made, [0; 3]);
}

#[tokio::test]
async fn a_handler_that_answers_as_a_refusal_has_run() {
    let refuses = |_| {
        let mut answer = http::Response::new(String::new());
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        answer.headers_mut().insert("retry-after", HeaderValue::from_static("0"));
        answer
    };
    let (bottom, asked) = backend(Does::Serves).await;
    let address = middle(channel_to(bottom, config()).await, refuses).await;
    let (good, _) = backend(Does::Serves).await;
    let mut channel = Channel::with(config(), Tcp, "service", Fixed::new([address, good])).unwrap();
    until("both are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;

    let got = statuses(&mut channel, 4, || hello(Method::POST)).await;

    // Of a backend that is not ours the same answer is a refusal, which never ran.
    assert_eq!((got.iter().filter(|status| **status == 503).count(), asked.lock().unwrap().len()), (2, 2), "{got:?}");
    assert_eq!((counts(&channel).await.made, stopped(&counts(&channel).await, Stop::Unsafe)), ([0; 3], 2));
    assert_eq!(
        statuses(&mut channel, 4, || hello(Method::GET)).await,
        [200; 4],
        "as a failure is, where it may run twice"
    );
}
