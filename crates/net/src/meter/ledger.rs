//! What all requests of this process have cost and moved, so that it is known what the rest of the process costs.
//!
//! Each thread writes a page of its own, which costs a nanosecond; who reads, once a second, adds them up. The page of a
//! thread that has ended goes to the next one that starts, with what stands on it: sums never fall.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::remainder::Interval;
use super::thread::{Here, here};
use super::ticks::nanos_of;

/// Sums over this process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ledger {
    /// CPU time that was charged to some request.
    pub metered: Duration,
    /// Requests that have ended.
    pub requests: u64,
    /// Data of bodies in KiB: of answers as they were taken to be sent, of requests as their heads announced it. Where a
    /// head does not, as with most gRPC clients, it counts as nothing.
    pub kib: f64,
}

impl Ledger {
    /// As of now.
    pub fn read() -> Self {
        let pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&Page) -> &AtomicU64| {
            pages.all.iter().map(|page| of(page).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let (ticks, requests, bytes): (u64, u64, u64) =
            (sum(|page| &page.ticks), sum(|page| &page.requests), sum(|page| &page.bytes));
        Ledger { metered: Duration::from_nanos(nanos_of(ticks)), requests, kib: bytes as f64 / 1024.0 }
    }

    /// What passed between an `earlier` reading and this one, in which the process used as much CPU.
    pub fn since(&self, earlier: &Ledger, process: Duration) -> Interval {
        Interval {
            process,
            metered: self.metered.saturating_sub(earlier.metered),
            requests: self.requests.saturating_sub(earlier.requests),
            kib: (self.kib - earlier.kib).max(0.0),
        }
    }
}

/// CPU time was charged to a request.
#[inline]
pub(super) fn charge(here: &Here, ticks: u64) {
    add(here, |page| &page.ticks, ticks);
}

/// A request has ended.
pub(crate) fn on_request() {
    here(|here| add(here, |page| &page.requests, 1));
}

/// Part of a body was announced, or taken to be sent.
pub(crate) fn on_bytes(count: u64) {
    here(|here| add(here, |page| &page.bytes, count));
}

/// What one thread has seen.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Page {
    ticks: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
}

#[inline]
fn add(here: &Here, of: fn(&Page) -> &AtomicU64, count: u64) {
    let Some(page) = here.page.get().or_else(|| open(&here.page)) else { return };
    let sum = of(page);
    // This thread alone writes there.
    // A head may announce any length.
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// A page for this thread; `None` for what a thread does while it ends.
#[cold]
fn open(page: &Cell<Option<&'static Page>>) -> Option<&'static Page> {
    OPEN.try_with(|open| {
        let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
        let found = pages.free.pop().unwrap_or_else(|| {
            let new: &'static Page = Box::leak(Box::default());
            pages.all.push(new);
            new
        });
        open.0.set(Some(found));
        page.set(Some(found));
        found
    })
    .ok()
}

struct Pages {
    all: Vec<&'static Page>,
    free: Vec<&'static Page>,
}

/// Gives the page back when its thread ends.
struct Open(Cell<Option<&'static Page>>);

impl Drop for Open {
    fn drop(&mut self) {
        here(|here| here.page.set(None));
        if let Some(page) = self.0.take() {
            PAGES.lock().unwrap_or_else(PoisonError::into_inner).free.push(page);
        }
    }
}

thread_local! {
    static OPEN: Open = const { Open(Cell::new(None)) };
}

static PAGES: Mutex<Pages> = Mutex::new(Pages { all: Vec::new(), free: Vec::new() });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_threads_have_written_still_counts() {
        let before = Ledger::read();
        for _ in 0..3 {
            std::thread::spawn(|| {
                on_request();
                on_bytes(512);
            })
            .join()
            .unwrap();
        }
        on_bytes(512);

        let passed = Ledger::read().since(&before, Duration::from_secs(1));

        // Other tests of this process may write too.
        assert!(passed.requests >= 3 && passed.kib >= 2.0, "{passed:?}");
    }
}
