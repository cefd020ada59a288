//! Where a context reaches and which source of it wins (DESIGN §5).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::context::{Context, Defaults, InContext, Resolved, resolve, spawn, spawn_blocking};
use evenkeel::wire::headers;
use evenkeel_core::Criticality::{self, Critical, CriticalPlus, Sheddable, SheddablePlus};
use evenkeel_core::{CustomerId, Kind, Lot, Time};
use http::Request;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

fn sheddable() -> Context {
    Context::serving().with_criticality(Sheddable)
}

fn level() -> Option<Criticality> {
    Context::current().and_then(|context| context.criticality)
}

#[tokio::test]
async fn outside_any_scope_there_is_no_context() {
    assert!(Context::current().is_none());
    assert_eq!(spawn(async { level() }).await.unwrap(), None);
    assert_eq!(spawn_blocking(level).await.unwrap(), None);
}

#[tokio::test]
async fn joined_and_selected_futures_keep_it_across_waits() {
    let waits = || async {
        tokio::task::yield_now().await;
        level()
    };

    let (joined, selected) = sheddable()
        .scope(async {
            let joined = tokio::join!(waits(), waits());
            let selected = tokio::select! {
                found = waits() => found,
                () = std::future::pending() => None,
            };
            (joined, selected)
        })
        .await;

    assert_eq!(joined, (Some(Sheddable), Some(Sheddable)));
    assert_eq!(selected, Some(Sheddable));
    assert!(Context::current().is_none());
}

#[tokio::test]
async fn an_inner_scope_hides_the_outer_one_while_it_lasts() {
    let seen = sheddable()
        .scope(async {
            let inner = Context::default().with_criticality(CriticalPlus).scope(async { level() }).await;
            (inner, level())
        })
        .await;

    assert_eq!(seen, (Some(CriticalPlus), Some(Sheddable)));
}

#[tokio::test]
async fn children_keep_it_when_spawned_by_us_and_lose_it_when_not() {
    let (ours, blocking, nested, foreign) = sheddable()
        .scope(async {
            let nested = spawn(async { spawn(async { level() }).await.unwrap() });
            let foreign = tokio::spawn(async { level() });
            tokio::join!(spawn(async { level() }), spawn_blocking(level), nested, foreign)
        })
        .await;

    assert_eq!(ours.unwrap(), Some(Sheddable));
    assert_eq!(blocking.unwrap(), Some(Sheddable));
    assert_eq!(nested.unwrap(), Some(Sheddable));
    assert_eq!(foreign.unwrap(), None);
}

#[tokio::test]
async fn a_body_polled_later_by_another_task_keeps_it() {
    let body = sheddable().scope(async { InContext::new(Context::current().unwrap(), Asks { left: 2 }) }).await;

    let seen = tokio::spawn(async { body.collect().await.unwrap().to_bytes() }).await.unwrap();

    assert_eq!(seen, "SHEDDABLE;SHEDDABLE;");
    assert!(Context::current().is_none());
}

#[test]
fn the_wrapped_body_still_says_when_it_ends() {
    let done = InContext::new(sheddable(), Asks { left: 0 });

    assert!(done.is_end_stream(), "a Trailers-Only answer needs this at once");
    assert_eq!(done.size_hint().exact(), Some(0));
}

#[tokio::test]
async fn a_queue_to_another_task_hands_it_over_on_the_request() {
    let (queue, mut queued) = mpsc::channel::<(Request<()>, oneshot::Sender<Resolved>)>(1);
    let worker = tokio::spawn(async move {
        while let Some((request, answer)) = queued.recv().await {
            answer.send(resolved(&request, Context::current().as_ref())).expect("the caller waits");
        }
    });

    let context = sheddable();
    let seen = context
        .clone()
        .scope(async move {
            let (answer, answered) = oneshot::channel();
            let mut request = Request::new(());
            Context::carry(&mut request);
            queue.send((request, answer)).await.unwrap();
            answered.await.unwrap()
        })
        .await;
    seen.remember_dont_retry();

    assert_eq!(seen.criticality, Sheddable);
    assert!(!seen.context_missing);
    assert!(context.dont_retry());
    worker.await.unwrap();
}

#[test]
fn a_carried_scope_loses_to_the_caller_and_wins_over_the_task_that_sends() {
    let mut plain = Request::new(());
    let mut header = Request::builder().header("evenkeel-criticality", "CRITICAL_PLUS").body(()).unwrap();

    sheddable().with_customer("mail").sync_scope(|| {
        Context::carry(&mut plain);
        Context::carry(&mut header);
    });

    let worker = Context::serving().with_criticality(Critical).with_customer("worker");
    assert_eq!(resolved(&plain, Some(&worker)).criticality, Sheddable);
    assert_eq!(resolved(&header, Some(&worker)).criticality, CriticalPlus);
    assert_eq!(resolved(&header, Some(&worker)).customer.as_deref(), Some("mail"));
    assert_eq!(Context::from_extensions(plain.extensions()).unwrap().criticality, Some(Sheddable));
}

#[test]
fn the_caller_wins_over_the_scope_and_the_scope_over_the_channel() {
    let plain = Request::new(());
    let header = Request::builder().header("evenkeel-criticality", "CRITICAL_PLUS").body(()).unwrap();
    let mut both = Request::builder().header("evenkeel-criticality", "CRITICAL_PLUS").body(()).unwrap();
    both.extensions_mut().insert(Context::default().with_criticality(Critical));
    let scope = sheddable();

    assert_eq!(resolved(&both, Some(&scope)).criticality, Critical);
    assert_eq!(resolved(&header, Some(&scope)).criticality, CriticalPlus);
    assert_eq!(resolved(&plain, Some(&scope)).criticality, Sheddable);
    assert_eq!(resolved(&plain, None).criticality, SheddablePlus);
}

#[test]
fn a_lost_context_is_told_from_one_that_says_nothing() {
    let plain = Request::new(());
    let named = Request::builder().header("evenkeel-criticality", "CRITICAL").body(()).unwrap();
    let unknown = Request::builder().header("evenkeel-criticality", "URGENT").body(()).unwrap();

    assert!(resolved(&plain, None).context_missing);
    assert!(resolved(&unknown, None).context_missing);
    assert!(!resolved(&plain, Some(&Context::serving())).context_missing);
    assert!(!resolved(&named, None).context_missing);
    assert!(resolved(&unknown, Some(&sheddable())).criticality_unknown);
    assert_eq!(resolved(&unknown, Some(&sheddable())).criticality, Sheddable);
}

#[tokio::test(start_paused = true)]
async fn deadlines_come_from_the_request_then_the_scope_then_the_channel() {
    let clock = evenkeel::clock::Clock::new();
    let after = |secs| Some(Instant::now() + Duration::from_secs(secs));
    let plain = Request::new(());
    let header = Request::builder().header("grpc-timeout", "2S").body(()).unwrap();
    let scope = Context::serving().with_deadline(after(5).unwrap());

    assert_eq!(resolved(&header, Some(&scope)).deadline, after(2));
    assert_eq!(resolved(&plain, Some(&scope)).deadline, after(5));
    assert_eq!(resolved(&plain, None).deadline, after(9));

    let meta = resolved(&header, None).meta(clock, Kind::Stream, CustomerId(7));
    assert_eq!(meta.deadline, clock.now() + Duration::from_secs(2));
    assert_eq!((meta.kind, meta.customer), (Kind::Stream, CustomerId(7)));
}

#[test]
fn nothing_said_means_no_deadline() {
    let request = Request::new(());
    let said = resolve(Instant::now(), request.extensions(), request.headers(), None, Defaults::default(), || Lot(77));

    assert_eq!(said.deadline, None);
    assert_eq!(said.meta(evenkeel::clock::Clock::new(), Kind::Unary, CustomerId(0)).deadline, Time::NEVER);
}

#[tokio::test(start_paused = true)]
async fn what_was_resolved_goes_out_with_what_remains_of_the_deadline() {
    let mut request = Request::builder().header("content-type", "application/grpc").body(()).unwrap();
    let scope = sheddable().with_customer("mail").with_deadline(Instant::now() + Duration::from_secs(5));
    let call = resolved(&request, Some(&scope));

    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(call.write(Instant::now(), request.headers_mut()));

    let sent = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!((sent("grpc-timeout"), sent("evenkeel-customer")), (Some("3000000u"), Some("mail")));
    assert_eq!(sent("evenkeel-criticality"), Some("SHEDDABLE"));
    assert_eq!(resolved(&request, None).deadline, scope.deadline);
}

#[test]
fn each_hop_counts_its_own_tries_and_bills_the_same_customer() {
    let mut scope = sheddable().with_customer("mail");
    scope.attempt = Some(3);
    let retried = Request::builder().header("x-envoy-attempt-count", "2").body(()).unwrap();

    let first = resolved(&Request::new(()), Some(&scope));

    assert_eq!((first.attempt, first.customer), (0, Some(Arc::from("mail"))));
    assert_eq!(resolved(&retried, Some(&scope)).attempt, 1);
}

#[test]
fn a_customer_whose_name_whoever_reads_it_would_read_otherwise_is_not_sent() {
    let written = |name: &str| {
        let mut request = Request::builder().header("evenkeel-customer", "stale").body(()).unwrap();
        request.extensions_mut().insert(Context::default().with_customer(name));
        let fits = resolved(&request, None).write(Instant::now(), request.headers_mut());
        (fits, headers::read_customer(request.headers()).map(str::to_owned))
    };
    let longest = "x".repeat(2048);
    for name in ["mail", "a b", "spiffe://example.org/mail", &longest] {
        assert_eq!(written(name), (true, Some(name.to_owned())));
    }
    let too_long = "x".repeat(2049);
    for name in ["", " ", "mail ", " mail", "größe", "a\nb", "a\tb", &too_long] {
        assert_eq!(written(name), (false, None), "{name:?}");
    }
}

#[test]
fn the_lot_comes_from_the_request_then_its_header_then_the_scope_and_is_drawn_only_at_the_root() {
    let plain = Request::new(());
    let header = Request::builder().header("evenkeel-lot", "2").body(()).unwrap();
    let bad = Request::builder().header("evenkeel-lot", "65536").body(()).unwrap();
    let mut both = Request::builder().header("evenkeel-lot", "2").body(()).unwrap();
    both.extensions_mut().insert(Context::default().with_lot(Lot(1)));
    let scope = Context::serving().with_lot(Lot(3));

    assert_eq!(resolved(&both, Some(&scope)).lot, Lot(1));
    assert_eq!(resolved(&header, Some(&scope)).lot, Lot(2));
    assert_eq!(resolved(&bad, Some(&scope)).lot, Lot(3));
    assert_eq!(resolved(&plain, Some(&scope)).lot, Lot(3));
    assert_eq!(resolved(&plain, None).lot, Lot(77));

    let call = resolved(&plain, Some(&scope));
    assert_eq!(call.meta(evenkeel::clock::Clock::new(), Kind::Unary, CustomerId(0)).lot, Lot(3));
    let mut sent = http::HeaderMap::new();
    call.write(Instant::now(), &mut sent);
    assert_eq!(sent.get("evenkeel-lot").unwrap(), "3");
}

#[test]
fn nothing_is_to_be_cheaper_outside_of_a_request_that_is_served() {
    assert_eq!(Context::default().degrade(), 0);
    assert_eq!(Context::serving().degrade(), 0);
    Context::default().mark_degraded(3);
}

#[test]
fn a_downstream_dont_retry_reaches_the_request_being_served_through_any_clone() {
    let served = Context::serving();

    served.clone().remember_dont_retry();

    assert!(served.dont_retry());
    assert!(!Context::serving().dont_retry());
}

fn resolved(request: &Request<()>, inherited: Option<&Context>) -> Resolved {
    let defaults = Defaults { criticality: SheddablePlus, timeout: Some(Duration::from_secs(9)) };
    resolve(Instant::now(), request.extensions(), request.headers(), inherited, defaults, || Lot(77))
}

/// A body whose frames are the context they were polled in.
#[derive(Debug)]
struct Asks {
    left: u32,
}

impl Body for Asks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return task::Poll::Ready(None);
        }
        self.left -= 1;
        let text = level().map_or("none;".to_owned(), |level| format!("{level};"));
        task::Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> http_body::SizeHint {
        if self.left == 0 { http_body::SizeHint::with_exact(0) } else { http_body::SizeHint::default() }
    }
}
