//! What it costs to know the cost: a poll that is metered and counted, beside a bare one and one between two readings of
//! the thread's clock.
//!
//! `poll`: a future that is never ready, polled again and again. `wake_poll`: it is woken before each poll; what that
//! adds to the poll is the wake's. `request`: all of a request whose handler is ready at once.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use evenkeel::meter::{Factor, Metered, Runners, Task};

use crate::clock::thread_cpu;
use crate::report::Aim;
use crate::rounds::{Measured, Subject};

/// Polls a round: long enough that a timer interrupt is noise.
pub const FULL: u32 = 500_000;
/// Enough to show that it runs.
pub const QUICK: u32 = 50_000;

/// Every subject, prepared.
pub fn subjects(polls: u32) -> Vec<Subject> {
    let request = |runners| Task::of_request(runners, Factor::default());
    let counted = || request(Some(Arc::new(Runners::default())));
    let kept = Kept::default();
    let never = || never(Rc::clone(&kept));
    let woken = Some(&kept);
    vec![
        subject(POLL_BARE, polls, never(), None),
        subject("poll/metered", polls, Metered::new(request(None), never()), None).noted("not counted"),
        subject(POLL, polls, Metered::new(counted(), never()), None).noted("as a server does it"),
        subject("poll/thread_clock", polls / 10, clocked(never()), None).noted("between two readings"),
        subject(WAKE_BARE, polls, never(), woken),
        subject(WAKE, polls, Metered::new(counted(), never()), woken).noted("as a server does it"),
        whole_request(polls),
    ]
}

/// What metering adds, and what a wake adds to that.
pub fn aims(measured: &[Measured]) -> Vec<Aim> {
    let median = |question| measured.iter().find(|row| row.question == question).map(|row| row.median);
    let added = |with, without| Some(median(with)? - median(without)?);
    let (Some(poll), Some(both)) = (added(POLL, POLL_BARE), added(WAKE, WAKE_BARE)) else { return Vec::new() };
    let aim =
        |question: &str, median_ns| Aim { question: question.into(), most_ns: MOST_NS, median_ns, alone_ns: None };
    vec![aim("added to a poll", poll), aim("added to a wake", both - poll)]
}

type Kept = Rc<RefCell<Option<Waker>>>;

fn subject(question: &str, polls: u32, future: impl Future<Output = ()> + 'static, kept: Option<&Kept>) -> Subject {
    let (mut future, kept) = (Box::pin(future), kept.map(Rc::clone));
    let waker = Waker::from(Arc::new(Woken::default()));
    Subject::new(question.to_owned(), polls, move |polls| {
        let mut cx = Context::from_waker(&waker);
        let began = thread_cpu();
        for _ in 0..polls {
            if let Some(waker) = kept.as_ref().and_then(|kept| kept.borrow().clone()) {
                waker.wake();
            }
            assert!(black_box(future.as_mut()).poll(&mut cx).is_pending());
        }
        ns_each(began, polls)
    })
}

fn whole_request(requests: u32) -> Subject {
    let runners = Arc::new(Runners::default());
    Subject::new("request/metered_and_counted".to_owned(), requests, move |requests| {
        let mut cx = Context::from_waker(Waker::noop());
        let began = thread_cpu();
        for _ in 0..requests {
            let task = Task::of_request(Some(Arc::clone(&runners)), Factor::default());
            let mut handler = pin!(Metered::new(Arc::clone(&task), std::future::ready(())));
            assert!(handler.as_mut().poll(&mut cx).is_ready());
            black_box(task.account().cpu());
        }
        ns_each(began, requests)
    })
}

/// Never ready; keeps its waker as long as it is the same, as timers and sockets do.
fn never(kept: Kept) -> impl Future<Output = ()> {
    poll_fn(move |cx| {
        let mut kept = kept.borrow_mut();
        if !kept.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *kept = Some(cx.waker().clone());
        }
        Poll::Pending
    })
}

/// The same between two readings of the thread's clock.
fn clocked(future: impl Future<Output = ()>) -> impl Future<Output = ()> {
    let mut future = Box::pin(future);
    poll_fn(move |cx| {
        let began = thread_cpu();
        let polled = future.as_mut().poll(cx);
        black_box(thread_cpu().saturating_sub(began));
        polled
    })
}

/// Counts, as the cheapest executor would.
#[derive(Default)]
struct Woken(AtomicU64);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn ns_each(began: std::time::Duration, operations: u32) -> f64 {
    thread_cpu().saturating_sub(began).as_nanos() as f64 / f64::from(operations)
}

const POLL_BARE: &str = "poll/bare";
const POLL: &str = "poll/metered_and_counted";
const WAKE_BARE: &str = "wake_poll/bare";
const WAKE: &str = "wake_poll/metered_and_counted";
/// Of 20 for reading the counter twice.
const MOST_NS: f64 = 25.0;
