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
        self.shards[thread % SHARDS].0.fetch_sub(1, Ordering::AcqRel);
        self.waiting.load(Ordering::Acquire) != 0
    }

    /// How many.
    #[inline]
    pub fn now(&self) -> u32 {
        sum(self.shards.iter().map(|shard| shard.0.load(Ordering::Relaxed)))
    }

    /// The same for whoever has just joined the line: a handler that rests at that moment is seen here, or sees there that
    /// somebody waits. What changes a count is ordered with every other change of it, which a mere look is not.
    pub(crate) fn now_exactly(&self) -> u32 {
        sum(self.shards.iter().map(|shard| shard.0.fetch_add(0, Ordering::AcqRel)))
    }

    /// Requests that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    pub(crate) fn set_waiting(&self, count: u32) {
        self.waiting.store(count, Ordering::Release);
    }
}

/// Two's complement: a sum of shards that wrapped is right again. While counts move between shards it may be below zero.
fn sum(shards: impl Iterator<Item = u64>) -> u32 {
    let sum = shards.fold(0_u64, u64::wrapping_add);
    u32::try_from(sum.cast_signed()).unwrap_or(0)
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
