//! What requests cost (B2, B3): a mean for each method, and how dear the dearest are.

use std::time::Duration;

use crate::MethodId;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What has been learned of costs; every request that ends adds to it.
#[derive(Debug)]
pub(crate) struct Costs {
    /// Of all methods at 0, and of each.
    means: Box<[Mean]>,
    /// How many requests cost about so much: eight steps for each doubling.
    steps: Box<[AtomicU32]>,
}

/// A mean and how many it is of, in one word: 16 bits of count, 48 bits of sixteenths of a nanosecond.
#[derive(Debug, Default)]
struct Mean(AtomicU64);

impl Default for Costs {
    fn default() -> Self {
        Costs {
            means: (0..METHODS).map(|_| Mean::default()).collect(),
            steps: (0..STEPS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Costs {
    /// What a request of this method is expected to cost, in nanoseconds; where the method is new, what others do.
    #[inline]
    pub(crate) fn expected(&self, method: MethodId) -> u64 {
        let own = self.means.get(usize::from(method.0)).and_then(|mean| mean.get(LEARNED_AFTER));
        own.or_else(|| self.means[0].get(1)).unwrap_or(UNKNOWN)
    }

    /// The mean of all, in nanoseconds.
    pub(crate) fn mean(&self) -> Option<u64> {
        self.means[0].get(1)
    }

    /// One more has ended.
    pub(crate) fn learn(&self, method: MethodId, cost: Duration) {
        let nanos = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX).min(COST_MOST);
        self.means[0].add(nanos);
        if let Some(own) = self.means.get(usize::from(method.0)).filter(|_| method.0 != 0) {
            own.add(nanos);
        }
        self.steps[step_of(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    /// The mean of a method and whether anything is known of it, for people.
    pub(crate) fn of(&self, method: MethodId) -> Option<Duration> {
        self.means.get(usize::from(method.0))?.get(1).map(Duration::from_nanos)
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().map(|step| step.load(Ordering::Relaxed))
    }
}

impl Mean {
    #[inline]
    fn get(&self, least: u64) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> 48 >= least).then_some((word & MEAN_BITS) >> 4)
    }

    fn add(&self, nanos: u64) {
        let seen = self.0.load(Ordering::Relaxed);
        let (count, mean) = ((seen >> 48) + 1, (seen & MEAN_BITS).cast_signed());
        let count = count.min(REMEMBERED);
        let mean = mean + ((nanos << 4).cast_signed() - mean) / count.cast_signed();
        // Of two that end at once one may be lost: the mean is as good without it.
        self.0.store(count << 48 | mean.cast_unsigned().min(MEAN_BITS), Ordering::Relaxed);
    }
}

/// How dear the dearest are, from counts by step; what was counted ten seconds ago counts half.
#[derive(Debug)]
pub(crate) struct Dearest {
    seen: Vec<u32>,
    weights: Vec<f64>,
}

impl Default for Dearest {
    fn default() -> Self {
        Dearest { seen: vec![0; STEPS], weights: vec![0.0; STEPS] }
    }
}

impl Dearest {
    /// Takes in what was counted since; `kept` is what is left of what was before.
    pub(crate) fn read(&mut self, costs: &Costs, kept: f64) {
        for ((weight, seen), now) in self.weights.iter_mut().zip(&mut self.seen).zip(costs.steps()) {
            *weight = *weight * kept + f64::from(now.wrapping_sub(*seen));
            *seen = now;
        }
    }

    /// What this share of requests costs at most, in nanoseconds; nothing before enough of them were seen.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let sum: f64 = self.weights.iter().sum();
        if sum < ENOUGH {
            return None;
        }
        let mut below = 0.0;
        let place = self.weights.iter().position(|weight| {
            below += weight;
            below >= share * sum
        })?;
        Some(end_of(place))
    }
}

/// Eight steps for each doubling, from a microsecond on.
fn step_of(nanos: u64) -> usize {
    let micros_eighths = (nanos / 125).max(8);
    let doubling = micros_eighths.ilog2() - 3;
    let eighth = (micros_eighths >> doubling) as usize - 8;
    (doubling as usize * 8 + eighth).min(STEPS - 1)
}

/// Where a step ends, in nanoseconds.
fn end_of(step: usize) -> u64 {
    ((step as u64 % 8 + 9) * 125) << (step / 8)
}

/// Nanoseconds that a request is taken to cost before any has ended: a line of them has an end.
const UNKNOWN: u64 = 1_000_000;
/// Methods with a mean of their own, and one for all others. The model checker explores every one, so it gets few.
pub(crate) const METHODS: usize = if cfg!(loom) { 2 } else { 257 };
/// Up to 2^30 µs, a quarter of an hour of CPU.
const STEPS: usize = if cfg!(loom) { 2 } else { 240 };
const COST_MOST: u64 = 1 << 40;
const MEAN_BITS: u64 = (1 << 48) - 1;
/// Requests a mean is over, at most.
const REMEMBERED: u64 = 2_000;
/// Requests from which on a method's own mean is better than that of all.
const LEARNED_AFTER: u64 = 8;
/// A quantile of fewer is a guess.
const ENOUGH: f64 = 50.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_an_eighth_of_a_doubling_and_leave_no_gap() {
        for nanos in [0, 999, 1_000, 1_124, 1_125, 3_900_000, 40_000_000, 1 << 39] {
            let step = step_of(nanos);
            assert!(nanos < end_of(step), "{nanos} {step}");
            assert!(step == 0 || nanos >= end_of(step - 1), "{nanos} {step}");
        }
        assert_eq!(step_of(u64::MAX), STEPS - 1);
    }

    #[test]
    fn a_method_is_known_by_its_own_mean_once_it_was_seen_often_enough() {
        let costs = Costs::default();
        assert_eq!(costs.expected(MethodId(3)), UNKNOWN);
        for _ in 0..100 {
            costs.learn(MethodId(1), Duration::from_millis(2));
            costs.learn(MethodId(2), Duration::from_millis(40));
        }
        assert_eq!(costs.expected(MethodId(1)), 2_000_000);
        assert_eq!(costs.expected(MethodId(2)), 40_000_000);
        assert!((20_000_000..22_000_000).contains(&costs.expected(MethodId(3))), "as the others");
        assert!(costs.expected(MethodId(u16::MAX)) > 0);
    }

    #[test]
    fn the_dearest_of_a_hundred_are_found_and_forgotten() {
        let (costs, mut dearest) = (Costs::default(), Dearest::default());
        assert_eq!(dearest.quantile(0.99), None);
        for number in 0..1_000 {
            costs.learn(MethodId(0), Duration::from_millis(if number % 20 == 0 { 40 } else { 2 }));
        }
        dearest.read(&costs, 1.0);
        let most = dearest.quantile(0.99).unwrap();
        assert!((40_000_000..46_000_000).contains(&most), "{most}");
        for _ in 0..1_000 {
            costs.learn(MethodId(0), Duration::from_millis(2));
        }
        dearest.read(&costs, 0.01);
        assert!(dearest.quantile(0.99).unwrap() < 2_500_000);
    }
}
