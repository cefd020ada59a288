//! What a gate counts, spread over shards on cache lines of their own, so that cores do not pass one line around.

use super::admission::costs::Price;
use super::refusal::ServerRefusal;
use crate::sync::{AtomicU64, Ordering};
use crate::{Criticality, RequestMeta};

/// The counts of one share of the threads.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Shard {
    pub(crate) admitted: AtomicU64,
    pub(crate) finished: AtomicU64,
    /// Those of them that never came further than the line.
    pub(crate) left_line: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) latency_nanos: AtomicU64,
    /// Whole answers, and their time in handlers, without the time in line.
    pub(crate) whole: AtomicU64,
    pub(crate) whole_nanos: AtomicU64,
    /// CPU that handlers used, by criticality.
    pub(crate) cpu_nanos: [AtomicU64; 4],
    pub(crate) retries: AtomicU64,
    /// By criticality: requests that came, those that clients held back, and the CPU both are expected to cost.
    pub(crate) asked: [AtomicU64; 4],
    pub(crate) held: [AtomicU64; 4],
    pub(crate) asked_work: [AtomicU64; 4],
    /// Squares of that, in microseconds: how lumpy it came.
    pub(crate) asked_squares: [AtomicU64; 4],
    /// CPU that customers ask for beyond their quotas, as far as is known.
    pub(crate) beyond_quota: [AtomicU64; 4],
    /// How much more both would be, were every answer whole: counted only while some are not.
    pub(crate) saved_work: [AtomicU64; 4],
    pub(crate) saved_squares: [AtomicU64; 4],
    pub(crate) served: [AtomicU64; 4],
    /// By reason and criticality: refused, and those that would have been.
    pub(crate) refused: [[AtomicU64; 4]; ServerRefusal::ALL.len()],
    pub(crate) observed: [[AtomicU64; 4]; ServerRefusal::ALL.len()],
    /// Requests that would have stood in line.
    pub(crate) would_wait: [AtomicU64; 4],
    pub(crate) degraded: AtomicU64,
}

impl Shard {
    #[inline]
    pub(crate) fn count_asked(&self, meta: &RequestMeta) {
        self.asked[meta.criticality.index()].fetch_add(1, Ordering::Relaxed);
        if meta.attempt > 0 {
            self.retries.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn add_work(&self, class: Criticality, price: Price) {
        let class = class.index();
        self.asked_work[class].fetch_add(price.now, Ordering::Relaxed);
        // What was held back comes in one lump, and is as uneven as one request of that size.
        self.asked_squares[class].fetch_add(square_micros(price.now), Ordering::Relaxed);
        if price.now < price.whole {
            self.saved_work[class].fetch_add(price.whole - price.now, Ordering::Relaxed);
            let squares = square_micros(price.whole) - square_micros(price.now);
            self.saved_squares[class].fetch_add(squares, Ordering::Relaxed);
        }
    }
}

fn square_micros(nanos: u64) -> u64 {
    (nanos / 1_000).saturating_mul(nanos / 1_000)
}

/// Sums over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) admitted: u64,
    pub(crate) finished: u64,
    pub(crate) left_line: u64,
    pub(crate) errors: u64,
    pub(crate) latency_nanos: u64,
    pub(crate) whole: u64,
    pub(crate) whole_nanos: u64,
    pub(crate) cpu_nanos: [u64; 4],
    pub(crate) retries: u64,
    pub(crate) asked: [u64; 4],
    pub(crate) held: [u64; 4],
    pub(crate) asked_work: [u64; 4],
    pub(crate) asked_squares: [u64; 4],
    pub(crate) beyond_quota: [u64; 4],
    pub(crate) saved_work: [u64; 4],
    pub(crate) saved_squares: [u64; 4],
    pub(crate) served: [u64; 4],
    pub(crate) refused: [[u64; 4]; ServerRefusal::ALL.len()],
    pub(crate) observed: [[u64; 4]; ServerRefusal::ALL.len()],
    pub(crate) would_wait: [u64; 4],
    pub(crate) degraded: u64,
}

impl Totals {
    pub(crate) fn in_flight(&self) -> u64 {
        self.admitted.saturating_sub(self.finished)
    }

    /// That were in a handler and are not any more.
    pub(crate) fn left(&self) -> u64 {
        self.finished.saturating_sub(self.left_line)
    }

    pub(crate) fn of(&self, refusal: ServerRefusal) -> u64 {
        self.refused[refusal.index()].iter().sum()
    }

    /// Refused for having too much to do.
    pub(crate) fn overloaded(&self) -> u64 {
        ServerRefusal::ALL.into_iter().filter(|refusal| refusal.is_overload()).map(|refusal| self.of(refusal)).sum()
    }

    /// Would have been refused for that.
    pub(crate) fn overloaded_observed(&self) -> u64 {
        let overload = ServerRefusal::ALL.into_iter().filter(|refusal| refusal.is_overload());
        overload.filter(|one| *one != ServerRefusal::LimitReached).flat_map(|one| self.observed[one.index()]).sum()
    }

    pub(crate) fn add(&mut self, shard: &Shard) {
        let sum = |into: &mut u64, from: &AtomicU64| *into = into.wrapping_add(from.load(Ordering::Relaxed));
        let each = |into: &mut [u64; 4], from: &[AtomicU64; 4]| {
            into.iter_mut().zip(from).for_each(|(into, from)| sum(into, from));
        };
        // Finished first: a request that ends in between makes the number in flight too high for a moment, never too low.
        self.finished += shard.finished.load(Ordering::Acquire);
        self.admitted += shard.admitted.load(Ordering::Acquire);
        sum(&mut self.errors, &shard.errors);
        sum(&mut self.latency_nanos, &shard.latency_nanos);
        sum(&mut self.left_line, &shard.left_line);
        sum(&mut self.whole, &shard.whole);
        sum(&mut self.whole_nanos, &shard.whole_nanos);
        sum(&mut self.retries, &shard.retries);
        sum(&mut self.degraded, &shard.degraded);
        each(&mut self.cpu_nanos, &shard.cpu_nanos);
        each(&mut self.asked, &shard.asked);
        each(&mut self.beyond_quota, &shard.beyond_quota);
        each(&mut self.held, &shard.held);
        each(&mut self.asked_work, &shard.asked_work);
        each(&mut self.asked_squares, &shard.asked_squares);
        each(&mut self.saved_work, &shard.saved_work);
        each(&mut self.saved_squares, &shard.saved_squares);
        each(&mut self.served, &shard.served);
        each(&mut self.would_wait, &shard.would_wait);
        for (into, from) in self.refused.iter_mut().zip(&shard.refused) {
            each(into, from);
        }
        for (into, from) in self.observed.iter_mut().zip(&shard.observed) {
            each(into, from);
        }
    }
}
