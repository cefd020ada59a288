//! One task that works for a request: its handler, or a child of it; and the waker that counts it.
//!
//! A task counts as running from the wake that makes it runnable to the poll that leaves it waiting for the next one.
//! All that is shared by the tasks of a request stands in the first one's allocation.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

use evenkeel_core::Behind;

use super::account::Account;
use super::factor::Factor;
use super::runners::Runners;

/// One task, counted while it runs or could.
#[derive(Debug)]
pub struct Task {
    state: AtomicU8,
    /// What polls it; a task that comes to be polled by another is replaced.
    waker: OnceLock<Waker>,
    whose: Whose,
}

#[derive(Debug)]
enum Whose {
    Own(Request),
    ChildOf(Arc<Task>),
}

/// What all tasks of a request share, and all clones of its context.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) account: Account,
    /// Trying again makes it worse, as somebody downstream said or as was found out there: [`Behind`], or 0.
    dont_retry: AtomicU8,
    /// How much cheaper the task asks its answer to be, and how much cheaper it is.
    pub(crate) degrade: AtomicU8,
    pub(crate) degraded: AtomicU8,
    runners: Option<Arc<Runners>>,
}

impl Request {
    pub(crate) fn remember(&self, behind: Behind) {
        self.dont_retry.fetch_max(behind as u8, Ordering::Relaxed);
    }

    /// The worst that was remembered.
    pub(crate) fn behind(&self) -> Option<Behind> {
        let worst = self.dont_retry.load(Ordering::Relaxed);
        [Behind::Failed, Behind::TooMuch].into_iter().find(|&behind| behind as u8 == worst)
    }

    #[inline]
    pub(super) fn runs(&self) {
        if let Some(runners) = &self.runners {
            runners.runs();
        }
    }

    #[inline]
    pub(super) fn rests(&self) {
        if let Some(runners) = &self.runners {
            runners.rests();
        }
    }
}

impl Task {
    /// The first task of a request, which is not counted yet. Without `runners` none of its tasks ever is.
    pub fn of_request(runners: Option<Arc<Runners>>, factor: Factor) -> Arc<Self> {
        let request = Request {
            account: Account::new(factor),
            dont_retry: AtomicU8::new(0),
            degrade: AtomicU8::new(0),
            degraded: AtomicU8::new(0),
            runners,
        };
        Task::new(Whose::Own(request), OUT)
    }

    /// What the request has cost so far.
    pub fn account(&self) -> &Account {
        &self.request().account
    }

    /// Somebody who let it through has counted it already: it must not be again when it is polled first.
    pub fn counted(&self) {
        // Whoever is counted by now has been polled, and is let through too late to matter.
        if self.state.compare_exchange(OUT, WOKEN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            self.request().rests();
        }
    }

    /// The answer is to be so much cheaper; said before it is polled first.
    pub(crate) fn ask_to_degrade(&self, level: u8) {
        self.request().degrade.store(level, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn request(&self) -> &Request {
        match &self.whose {
            Whose::Own(request) => request,
            Whose::ChildOf(first) => first.request(),
        }
    }

    /// Another task of the same request, not counted yet.
    pub(super) fn child(self: &Arc<Self>) -> Arc<Self> {
        let first = match &self.whose {
            Whose::Own(_) => self,
            Whose::ChildOf(first) => first,
        };
        Task::new(Whose::ChildOf(Arc::clone(first)), OUT)
    }

    /// Counts it before it is polled: whoever is spawned can run.
    pub(super) fn starts(&self) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == OUT {
            self.request().runs();
        }
    }

    /// The same task for another waker; what wakes the old one still reaches whom it belonged to.
    #[cold]
    pub(super) fn moved(self: &Arc<Self>, to: &Waker) -> Arc<Self> {
        let moved = self.child();
        moved.waker.get_or_init(|| to.clone());
        let was_counted = is_counted(self.state.swap(OUT, Ordering::AcqRel));
        moved.state.store(if was_counted { WOKEN } else { OUT }, Ordering::Release);
        moved
    }

    /// Whether it is polled by whom it was polled by before.
    #[inline]
    pub(super) fn belongs_to(&self, waker: &Waker) -> bool {
        self.waker.get_or_init(|| waker.clone()).will_wake(waker)
    }

    /// A poll begins.
    #[inline]
    pub(super) fn begins(&self) {
        if !is_counted(self.state.swap(RUNS, Ordering::AcqRel)) {
            self.request().runs();
        }
    }

    /// A poll has left it waiting; one that was woken meanwhile still counts.
    #[inline]
    pub(super) fn waits(&self) {
        if self.state.compare_exchange(RUNS, RESTS, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.request().rests();
        }
    }

    /// It waits for nothing, because it has ended, is dropped, or gave something and is not asked for more yet. Whatever
    /// still wakes it does not count: there may be no poll that would count it out again.
    #[inline]
    pub(super) fn leaves(&self) {
        if is_counted(self.state.swap(OUT, Ordering::AcqRel)) {
            self.request().rests();
        }
    }

    fn new(whose: Whose, state: u8) -> Arc<Self> {
        Arc::new(Task { state: AtomicU8::new(state), waker: OnceLock::new(), whose })
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::Relaxed);
        while state == RESTS || state == RUNS {
            match self.state.compare_exchange_weak(state, WOKEN, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => {
                    if before == RESTS {
                        self.request().runs();
                    }
                    break;
                }
                Err(changed) => state = changed,
            }
        }
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

#[inline]
fn is_counted(state: u8) -> bool {
    state == RUNS || state == WOKEN
}

/// Waits for a wake.
const RESTS: u8 = 0;
/// Is being polled.
const RUNS: u8 = 1;
/// Will be polled.
const WOKEN: u8 = 2;
/// Waits in line, or is over: wakes do not count.
const OUT: u8 = 3;
