//! What each customer may use (B4, B6, B9), charged before its cost is known (DESIGN §5).
//!
//! A bucket is one number: the moment at which it will be full again. Using CPU moves it into the future, by as much time
//! as the quota needs to give that much back; refusing is comparing it with now. What a request is expected to cost is
//! taken when it is let in, the difference when it has ended, so a bucket may go into debt.

use std::time::Duration;

use super::config::Quota;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::saturating_nanos;
use crate::{Criticality, CustomerId, Time};

/// The buckets of all customers that have a number; whoever has none of its own shares the first.
#[derive(Debug)]
pub(crate) struct Buckets {
    buckets: Box<[Bucket]>,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Nanoseconds of time that a nanosecond of CPU stands for, in units of 2^-20; 0 for no limit.
    price: AtomicU64,
    /// How far ahead of now `full_at` may be.
    burst: AtomicU64,
    full_at: AtomicU64,
    /// The same for what counts as demand, which is never in debt: a customer that is always over its quota still asks for that
    /// much.
    counted_at: AtomicU64,
    hard: AtomicU32,
}

/// How a customer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Within,
    /// Over its quota, which bites only while capacity is short.
    OverSoft,
    OverHard,
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets { buckets: (0..CUSTOMERS).map(|_| Bucket::default()).collect() }
    }
}

impl Buckets {
    /// Sets what one customer may use, or that it has no limit.
    pub(crate) fn set(&self, customer: CustomerId, quota: Option<Quota>) {
        if let Some(bucket) = self.buckets.get(customer.0 as usize) {
            bucket.set(quota);
        }
    }

    /// Whether a request of this criticality may use more.
    #[inline]
    pub(crate) fn standing(&self, now: Time, customer: CustomerId, class: Criticality) -> Standing {
        self.standing_without(now, customer, class, 0)
    }

    /// The same for one that was charged so much already: its own is not held against it.
    pub(crate) fn standing_without(
        &self,
        now: Time,
        customer: CustomerId,
        class: Criticality,
        charged: u64,
    ) -> Standing {
        let Some(bucket) = self.limited(customer) else { return Standing::Within };
        let ahead = bucket.full_at.load(Ordering::Relaxed).saturating_sub(now.nanos());
        let ahead = ahead.saturating_sub(bucket.time_of(charged));
        if u128::from(ahead) < bucket.share_of(class) {
            Standing::Within
        } else if bucket.hard.load(Ordering::Relaxed) != 0 {
            Standing::OverHard
        } else {
            Standing::OverSoft
        }
    }

    /// Whether a request that is expected to cost so much is part of what its customer may ask for. What is beyond is served while
    /// there is room, and is not for the others to make room for.
    pub(crate) fn is_demand(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) -> bool {
        let Some(bucket) = self.limited(customer) else { return true };
        // Further ahead than anything counts: the clock was set back.
        let most = now.nanos().saturating_add(bucket.burst.load(Ordering::Relaxed)).saturating_add(CHARGE_MOST_NANOS);
        let at = bucket.counted_at.load(Ordering::Relaxed);
        let at = if at > most { now.nanos() } else { at.max(now.nanos()) };
        if u128::from(at - now.nanos()) >= bucket.share_of(class) {
            return false;
        }
        // Two threads may both find room: demand is an estimate.
        let time = bucket.time_of(nanos).min(CHARGE_MOST_NANOS);
        bucket.counted_at.store(at.saturating_add(time), Ordering::Relaxed);
        true
    }

    /// A request is let in that is expected to cost so many nanoseconds of CPU; says how many it was charged, which is what
    /// may be given back.
    #[inline]
    pub(crate) fn charge(&self, now: Time, customer: CustomerId, nanos: u64) -> u64 {
        let Some(bucket) = self.limited(customer) else { return 0 };
        let time = bucket.time_of(nanos).min(CHARGE_MOST_NANOS);
        // One that was let in though its customer owes more than a few bursts was let in because there is room: what was
        // once used is not held against it for ever.
        let most = now.nanos().saturating_add(bucket.burst.load(Ordering::Relaxed).saturating_mul(DEBT_MOST));
        let charged = |before: u64| Some(before.clamp(now.nanos(), most).saturating_add(time));
        // It never declines.
        let (Ok(_) | Err(_)) = bucket.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
        nanos
    }

    /// One that was let in costs so much more than it was expected to: that is owed in full.
    pub(crate) fn charge_more(&self, now: Time, customer: CustomerId, nanos: u64) {
        if let Some(bucket) = self.limited(customer) {
            let time = bucket.time_of(nanos).min(CHARGE_MOST_NANOS);
            bucket.full_at.fetch_max(now.nanos(), Ordering::Relaxed);
            bucket.full_at.fetch_add(time, Ordering::Relaxed);
        }
    }

    /// Gives back what was taken too much.
    pub(crate) fn refund(&self, customer: CustomerId, nanos: u64) {
        if let Some(bucket) = self.limited(customer) {
            let time = bucket.time_of(nanos);
            let less = |at: u64| Some(at.saturating_sub(time));
            let _always = bucket.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    pub(crate) fn is_limited(&self, customer: CustomerId) -> bool {
        self.limited(customer).is_some()
    }

    fn limited(&self, customer: CustomerId) -> Option<&Bucket> {
        let bucket = self.buckets.get(customer.0 as usize).or_else(|| self.buckets.first())?;
        (bucket.price.load(Ordering::Relaxed) != 0).then_some(bucket)
    }
}

impl Bucket {
    fn set(&self, quota: Option<Quota>) {
        let price = quota.map_or(0, |quota| ((PRICE_UNIT as f64 / quota.cpu) as u64).max(1));
        let burst = quota.map_or(Duration::ZERO, |quota| quota.burst);
        self.burst.store(saturating_nanos(burst), Ordering::Relaxed);
        self.hard.store(u32::from(quota.is_some_and(|quota| quota.hard)), Ordering::Relaxed);
        self.price.store(price, Ordering::Relaxed);
    }

    /// The more it matters, the further the bucket may be emptied: the lowest is out first.
    fn share_of(&self, class: Criticality) -> u128 {
        u128::from(self.burst.load(Ordering::Relaxed)) * (class.index() as u128 + 1) / 4
    }

    fn time_of(&self, nanos: u64) -> u64 {
        let time = u128::from(nanos) * u128::from(self.price.load(Ordering::Relaxed)) / u128::from(PRICE_UNIT);
        u64::try_from(time).unwrap_or(u64::MAX / 4)
    }
}

/// Customers with a bucket of their own.
pub(crate) const CUSTOMERS: usize = if cfg!(loom) { 2 } else { 4_096 };
const PRICE_UNIT: u64 = 1 << 20;
const DEBT_MOST: u64 = 4;
/// For how long, at the rate of its quota, a customer can owe for one charge: what costs more was read wrong, or is beyond
/// what keeping it out would mend.
const CHARGE_MOST_NANOS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn buckets(hard: bool) -> Buckets {
        let buckets = Buckets::default();
        let quota = Quota { hard, burst: Duration::from_secs(1), ..Quota::of_cpu(0.5) };
        buckets.set(CustomerId(7), Some(quota));
        buckets
    }

    #[test]
    fn the_lowest_criticality_is_out_first_and_others_are_not_touched() {
        let (buckets, now, search) = (buckets(false), Time::from_secs(10), CustomerId(7));
        // Half a CPU second fills the burst of a second at half a CPU.
        for (used, out) in [(0, 0), (130, 1), (130, 2), (130, 3), (130, 4)] {
            buckets.charge(now, search, used * MS);
            let over = Criticality::ALL.map(|class| buckets.standing(now, search, class) == Standing::OverSoft);
            assert_eq!(over.iter().filter(|over| **over).count(), out, "{used}");
            assert!(over.is_sorted_by(|lower, higher| lower >= higher));
        }
        assert_eq!(buckets.standing(now, CustomerId(8), Criticality::Sheddable), Standing::Within);
        assert_eq!(buckets.standing(now + Duration::from_secs(2), search, Criticality::Sheddable), Standing::Within);
    }

    #[test]
    fn what_was_taken_too_much_comes_back_and_debt_has_an_end() {
        let (buckets, now, search) = (buckets(true), Time::from_secs(10), CustomerId(7));
        buckets.charge(now, search, 600 * MS);
        assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
        buckets.refund(search, 590 * MS);
        assert_eq!(buckets.standing(now, search, Criticality::Sheddable), Standing::Within);

        buckets.charge(now, search, u64::MAX);
        assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
        let later = now + Duration::from_secs(65);
        assert_eq!(buckets.standing(later, search, Criticality::CriticalPlus), Standing::Within);
    }

    #[test]
    fn requests_dearer_than_the_burst_are_paid_for_all_the_same() {
        let (buckets, search) = (buckets(true), CustomerId(7));
        // Ten CPU seconds each, of half a CPU: one in twenty seconds.
        let asked = (0..600).map(|second| Time::from_secs(1_000 + second));
        let let_in = asked.filter(|&now| {
            let may = buckets.standing(now, search, Criticality::CriticalPlus) == Standing::Within;
            may && buckets.charge(now, search, 10_000 * MS) == 10_000 * MS
        });
        let count = let_in.count();
        assert!((29..=32).contains(&count), "{count}");
    }

    #[test]
    fn a_customer_that_is_always_over_its_quota_still_asks_for_that_much() {
        let (buckets, search) = (buckets(false), CustomerId(7));
        // Two CPUs asked for in requests of 10 ms, for ten seconds; half a CPU is its quota.
        let counted = (0..2_000).filter(|&request| {
            let now = Time::from_millis(10_000 + request * 5);
            buckets.charge(now, search, 10 * MS);
            buckets.is_demand(now, search, Criticality::Critical, 10 * MS)
        });
        // 5 CPU seconds in ten seconds, and what the burst had besides.
        let count = counted.count();
        assert!((500..=540).contains(&count), "{count}");
        assert_eq!(buckets.standing(Time::from_secs(20), search, Criticality::Critical), Standing::OverSoft);
    }

    #[test]
    fn nothing_is_given_back_that_was_not_taken() {
        let (buckets, now, free) = (Buckets::default(), Time::from_secs(10), CustomerId(9));
        assert_eq!(buckets.charge(now, free, 500 * MS), 0);
    }
}
