//! How many handlers run or are ready to run (B10): what the slots of the queue and the executor load average count.
//!
//! Each handler is counted in when it is started or woken and out when it waits for something, whichever thread that
//! happens on. Counts are spread over shards, each on a cache line of its own; one shard alone may be below zero.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Handlers that run or could run, and requests that wait for one of them to rest.
#[derive(Debug, Default)]
pub struct Running {
    shards: [Shard; SHARDS],
    waiting: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

impl Running {
    /// One more. `thread` is any number that differs between threads.
    #[inline]
    pub fn runs(&self, thread: usize) {
        self.shards[thread % SHARDS].0.fetch_add(1, Ordering::AcqRel);
    }

    /// One less; says whether a request waits for that.
    #[inline]
    #[must_use = "whoever waits is to be called"]
    pub fn rests(&self, thread: usize) -> bool {
        // Sequentially consistent with `now`: of a request that joins the line and a handler that rests at the same time,
        // one sees the other.
        self.shards[thread % SHARDS].0.fetch_sub(1, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) != 0
    }

    /// How many.
    #[inline]
    pub fn now(&self) -> u32 {
        // Two's complement: a sum of shards that wrapped is right again.
        let sum = self.shards.iter().fold(0_u64, |sum, shard| sum.wrapping_add(shard.0.load(Ordering::SeqCst)));
        // While counts move between shards the sum may be below zero for a moment.
        u32::try_from(sum.cast_signed()).unwrap_or(0)
    }

    /// Requests that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    pub(crate) fn set_waiting(&self, count: u32) {
        self.waiting.store(count, Ordering::SeqCst);
    }
}

/// Threads beyond this share; the model checker explores every one, so it gets few.
const SHARDS: usize = if cfg!(loom) { 2 } else { 8 };

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_begins_on_one_thread_and_rests_on_another_is_counted_once() {
        let running = Running::default();
        running.runs(0);
        running.runs(9);
        assert_eq!(running.now(), 2);
        assert!(!running.rests(3));
        assert_eq!(running.now(), 1);
        running.set_waiting(2);
        assert!(running.rests(7));
        assert_eq!((running.now(), running.waiting()), (0, 2));
    }
}
