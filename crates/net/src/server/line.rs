//! Requests that wait for a handler to rest: each sleeps until core's line calls it, to be started or refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel_core::Outcome;
use evenkeel_core::server::{Admission, Called, Gate, Line, Place, Refused, Waiting};

use super::seat;
use crate::clock::Clock;

/// The line of one server.
#[derive(Debug)]
pub(crate) struct Queue {
    gate: Arc<Gate>,
    line: Mutex<Line<Arc<Sleeper>>>,
    clock: Clock,
}

/// One that waits.
#[derive(Debug, Default)]
struct Sleeper(Mutex<Sleep>);

#[derive(Debug, Default)]
struct Sleep {
    waker: Option<Waker>,
    verdict: Option<Result<Admission, Refused>>,
    /// Nobody will hear the verdict.
    is_gone: bool,
}

impl Sleeper {
    fn lock(&self) -> MutexGuard<'_, Sleep> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    pub(crate) fn new(gate: Arc<Gate>, clock: Clock) -> Self {
        Queue { line: Mutex::new(Line::new(Arc::clone(&gate))), gate, clock }
    }

    /// Takes a place in line, which may be called at once.
    pub(crate) fn enter(self: &Arc<Self>, waiting: Waiting) -> Standing {
        let sleeper = Arc::new(Sleeper::default());
        let place = self.lock().enter(waiting, Arc::clone(&sleeper));
        let standing = Standing { queue: Arc::clone(self), sleeper, place: Some(place) };
        // A handler may have come to rest since the gate looked.
        self.call();
        standing
    }

    /// Calls everybody who is to be started or refused now.
    pub(crate) fn call(&self) {
        while let Some(Called { payload, verdict }) = self.next() {
            let mut sleep = payload.lock();
            if sleep.is_gone {
                drop(sleep);
                self.give_back(verdict);
                continue;
            }
            sleep.verdict = Some(verdict);
            let waker = sleep.waker.take();
            drop(sleep);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn next(&self) -> Option<Called<Arc<Sleeper>>> {
        // Most of the time nobody waits, and nobody needs the lock.
        if self.gate.running().waiting() == 0 {
            return None;
        }
        self.lock().next(self.clock.now())
    }

    fn lock(&self) -> MutexGuard<'_, Line<Arc<Sleeper>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called while its client went away: where it counts as running, it will not run. Whoever calls this calls the next.
    fn give_back(&self, verdict: Result<Admission, Refused>) {
        if let Ok(admission) = verdict {
            self.gate.finish(self.clock.now(), admission, Outcome::Cancelled, Some(Duration::ZERO));
            let thread = seat::with(|local, _| local.thread());
            let _somebody_waits = self.gate.running().rests(thread);
        }
    }
}

/// A place in line, which is given up with it.
#[derive(Debug)]
pub(crate) struct Standing {
    queue: Arc<Queue>,
    sleeper: Arc<Sleeper>,
    /// Until it has been called and has heard of it.
    place: Option<Place>,
}

impl Standing {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admission, Refused>> {
        let mut sleep = self.sleeper.lock();
        if let Some(verdict) = sleep.verdict.take() {
            self.place = None;
            return Poll::Ready(verdict);
        }
        if !sleep.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            sleep.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let queue = &self.queue;
        if queue.lock().leave(place).is_some() {
            return;
        }
        let mut sleep = self.sleeper.lock();
        sleep.is_gone = true;
        let verdict = sleep.verdict.take();
        drop(sleep);
        if let Some(verdict) = verdict {
            queue.give_back(verdict);
            queue.call();
        }
    }
}
