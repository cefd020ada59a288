//! What requests cost (B2, B3): a mean for each method, and how dear the dearest are.
//!
//! A whole answer has one price, and answers that handlers made cheaper (B1) have another: whether there would be room for
//! whole ones again cannot be told from what the cheaper ones cost. Where no handler degrades anything both are the same.

use std::time::Duration;

use crate::MethodId;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// What has been learned of costs; every request that ends adds to it.
#[derive(Debug)]
pub(crate) struct Costs {
    /// Of whole answers: all methods at 0, and each.
    means: Box<[Mean]>,
    /// Of all that are asked to be cheaper, by level: from the first one on that was.
    degraded: [Box<[Mean]>; LEVELS],
    /// How many requests cost about so much: eight steps for each doubling.
    steps: Box<[AtomicU32]>,
}

/// What a request is expected to cost, in nanoseconds: as answers are now, and were it answered in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) now: u64,
    pub(crate) whole: u64,
}

/// How an answer came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    /// How much cheaper it was asked to be.
    pub(crate) level: u8,
    /// Its handler said that it is.
    pub(crate) is_degraded: bool,
    /// Asked for in full while others were not, so that it is known what that costs.
    pub(crate) is_sample: bool,
}

/// A mean and how many it is of, in one word: 16 bits of count, 48 bits of sixteenths of a nanosecond.
#[derive(Debug, Default)]
struct Mean(AtomicU64);

impl Default for Costs {
    fn default() -> Self {
        let means = || (0..METHODS).map(|_| Mean::default()).collect();
        Costs {
            means: means(),
            degraded: std::array::from_fn(|_| means()),
            steps: (0..STEPS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Costs {
    /// What a request of this method is expected to cost at this level; where the method is new, what others do.
    #[inline]
    pub(crate) fn price(&self, method: MethodId, level: u8) -> Price {
        let of = |means: &[Mean]| means.get(usize::from(method.0)).and_then(|mean| mean.get(LEARNED_AFTER));
        let own = of(&self.means);
        let cheaper = usize::from(level).checked_sub(1).and_then(|place| self.degraded.get(place));
        let Some(cheaper) = cheaper else {
            let whole = own.or_else(|| self.means[0].get(1)).unwrap_or(UNKNOWN);
            return Price { now: whole, whole };
        };
        let own_cheaper = of(cheaper);
        let whole = own.or(own_cheaper).or_else(|| self.means[0].get(1)).unwrap_or(UNKNOWN);
        let others = || cheaper[0].get(LEARNED_AFTER).filter(|_| own.is_none());
        Price { now: own_cheaper.or_else(others).unwrap_or(whole).min(whole), whole }
    }

    /// Whether enough of this method have ended to tell what it costs.
    pub(crate) fn knows(&self, method: MethodId) -> bool {
        self.means.get(usize::from(method.0)).is_some_and(|mean| mean.get(LEARNED_AFTER).is_some())
    }

    /// The mean of all, in nanoseconds.
    pub(crate) fn mean(&self) -> Option<u64> {
        self.means[0].get(1)
    }

    /// Answers that the price at this level is the mean of.
    pub(crate) fn answers(&self, level: u8) -> f64 {
        let cheaper = usize::from(level).checked_sub(1).and_then(|place| self.degraded.get(place));
        let cheaper = cheaper.map_or(0, |means| means[0].count());
        self.means[0].count().max(cheaper) as f64
    }

    /// What answers of each level take of whole ones, from the first on; `None` where none or too few were made cheaper.
    pub(crate) fn parts(&self) -> [Option<f64>; LEVELS] {
        let whole = self.mean().filter(|whole| *whole > 0);
        let of = |means: &[Mean]| Some(means[0].get(LEARNED_AFTER)? as f64 / whole? as f64);
        std::array::from_fn(|place| of(&self.degraded[place]).map(|part| part.min(1.0)))
    }

    /// One more has ended.
    pub(crate) fn learn(&self, method: MethodId, cost: Duration, manner: Manner) {
        let nanos = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX).min(COST_MOST);
        self.steps[step_of(nanos)].fetch_add(1, Ordering::Relaxed);
        let add = |means: &[Mean], remembered: u64| {
            means[0].add(nanos, remembered);
            if let Some(own) = means.get(usize::from(method.0)).filter(|_| method.0 != 0) {
                own.add(nanos, remembered);
            }
        };
        let cheaper = usize::from(manner.level).checked_sub(1).and_then(|place| self.degraded.get(place));
        // One that was asked for in full and marked all the same is as whole as this handler makes them.
        if !manner.is_degraded || cheaper.is_none() {
            add(&self.means, if manner.is_sample { REMEMBERED_FEW } else { REMEMBERED });
        }
        if let Some(cheaper) = cheaper
            && (manner.is_degraded || cheaper[0].get(1).is_some())
        {
            add(cheaper, REMEMBERED_FEW);
        }
    }

    /// Prices are not what they were: they are multiplied by this, and from now on a few answers tell more than all before.
    pub(crate) fn scale(&self, factor: f64) {
        self.means.iter().chain(self.degraded.iter().flatten()).for_each(|mean| mean.scale(factor));
    }

    /// The mean of whole answers of a method, for people; `None` where nothing is known of it.
    pub(crate) fn of(&self, method: MethodId) -> Option<Duration> {
        self.means.get(usize::from(method.0))?.get(1).map(Duration::from_nanos)
    }

    /// The mean of answers of a method at this level, those that stayed whole among them, for people; `None` where none of that
    /// level was made cheaper.
    pub(crate) fn at_level(&self, method: MethodId, level: u8) -> Option<Duration> {
        let means = self.degraded.get(usize::from(level).checked_sub(1)?)?;
        means.get(usize::from(method.0))?.get(1).map(Duration::from_nanos)
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = u32> {
        self.steps.iter().map(|step| step.load(Ordering::Relaxed))
    }
}

/// How far prices of so many answers are believed, from 0 to 1: all of the way once enough have ended.
pub(crate) fn sureness(answers: f64) -> f64 {
    (answers / SURE_AFTER).min(1.0)
}

/// What prices of so many answers may be too high by, as a factor: three standard errors of the mean, where costs differ twice as
/// much as exponential ones do (one in 20 that costs 20 times as much as the others). None once enough have ended: what is left of it then chance and the line make up for.
pub(crate) fn doubt(answers: f64) -> f64 {
    let error = |count: f64| 1.0 / count.max(1.0).sqrt();
    1.0 + STANDARD_ERRORS * COSTS_DIFFER * (error(answers) - error(SURE_AFTER)).max(0.0)
}

impl Mean {
    #[inline]
    fn get(&self, least: u64) -> Option<u64> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> 48 >= least).then_some((word & MEAN_BITS) >> 4)
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> 48
    }

    fn scale(&self, factor: f64) {
        let seen = self.0.load(Ordering::Relaxed);
        let mean = ((seen & MEAN_BITS) as f64 * factor) as u64;
        // An answer that ends at this moment may be lost.
        self.0.store((seen >> 48).min(FRESH) << 48 | mean.min(MEAN_BITS), Ordering::Relaxed);
    }

    fn add(&self, nanos: u64, remembered: u64) {
        let seen = self.0.load(Ordering::Relaxed);
        let (count, mean) = ((seen >> 48) + 1, (seen & MEAN_BITS).cast_signed());
        let count = count.min(remembered);
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
/// Requests a mean is over, at most; and where the level changes, or only some are looked at.
const REMEMBERED: u64 = 2_000;
const REMEMBERED_FEW: u64 = 256;
/// Answers that a mean counts as after prices have changed: of 32 it is off by a sixth where costs are exponential.
const FRESH: u64 = 32;
/// Answers from which on prices are believed as they are. No more than are remembered of cheaper ones.
const SURE_AFTER: f64 = REMEMBERED_FEW as f64;
/// Standard errors of a mean that it may be off by; and how much costs differ, as their deviation over their mean: 1 for exponential ones,
/// 2.1 where one in 20 costs 20 times as much as the others.
const STANDARD_ERRORS: f64 = 3.0;
const COSTS_DIFFER: f64 = 2.0;
/// Levels of cheaper answers.
const LEVELS: usize = 3;
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
        let expected = |method| costs.price(MethodId(method), 0).now;
        assert_eq!(expected(3), UNKNOWN);
        for _ in 0..100 {
            costs.learn(MethodId(1), Duration::from_millis(2), Manner::default());
            costs.learn(MethodId(2), Duration::from_millis(40), Manner::default());
        }
        assert_eq!(expected(1), 2_000_000);
        assert_eq!(expected(2), 40_000_000);
        assert!((20_000_000..22_000_000).contains(&expected(3)), "as the others");
        assert!(expected(u16::MAX) > 0);
    }

    #[test]
    fn cheaper_answers_have_a_price_of_their_own_and_leave_that_of_whole_ones_alone() {
        let (costs, method) = (Costs::default(), MethodId(1));
        let learn = |millis, manner| costs.learn(method, Duration::from_millis(millis), manner);
        (0..100).for_each(|_| learn(4, Manner::default()));
        let asked = Manner { level: 3, ..Manner::default() };
        let whole = 4_000_000;

        // Asked to be cheaper, and nobody is: nothing is learned apart.
        (0..1_000).for_each(|_| learn(4, asked));
        assert_eq!(costs.price(method, 3), Price { now: whole, whole });

        (0..1_000).for_each(|_| learn(1, Manner { is_degraded: true, ..asked }));
        assert_eq!(costs.price(method, 3), Price { now: 1_000_000, whole });
        assert_eq!(costs.price(method, 1), Price { now: whole, whole }, "no level knows of another");
        let shown = [0, 1, 3, 4].map(|level| costs.at_level(method, level));
        assert_eq!(shown, [None, None, Some(Duration::from_millis(1)), None]);
        assert_eq!(costs.of(method), Some(Duration::from_millis(4)));
        assert_eq!(costs.price(method, 0), Price { now: whole, whole });

        // Whole answers have become cheaper meanwhile, as a few of them show.
        (0..1_500).for_each(|_| learn(2, Manner { is_sample: true, ..Manner::default() }));
        let Price { now, whole } = costs.price(method, 3);
        assert!(now == 1_000_000 && (2_000_000..2_050_000).contains(&whole), "{now} {whole}");
    }

    #[test]
    fn prices_of_a_few_answers_are_doubted_also_where_all_are_cheaper() {
        let costs = Costs::default();
        let learn = |count: u32, manner| {
            (0..count).for_each(|_| costs.learn(MethodId(1), Duration::from_millis(4), manner));
        };
        let doubted = |level| (doubt(costs.answers(level)) * 100.0).round() / 100.0;
        let sure = |level| sureness(costs.answers(level));
        let cheaper = Manner { level: 3, is_degraded: true, ..Manner::default() };

        assert_eq!((doubted(0), sure(0)), (6.63, 0.0));
        learn(16, Manner::default());
        assert_eq!((doubted(0), sure(0)), (2.13, 1.0 / 16.0));
        learn(256, cheaper);
        assert_eq!((doubted(3), sure(3)), (1.0, 1.0), "none is whole, and all are known");
        assert_eq!((doubted(0), sure(0)), (2.13, 1.0 / 16.0), "but whole ones are not");
        learn(240, Manner::default());
        assert_eq!((doubted(0), sure(0)), (1.0, 1.0));
    }

    #[test]
    fn the_dearest_of_a_hundred_are_found_and_forgotten() {
        let (costs, mut dearest) = (Costs::default(), Dearest::default());
        assert_eq!(dearest.quantile(0.99), None);
        for number in 0..1_000 {
            costs.learn(MethodId(0), Duration::from_millis(if number % 20 == 0 { 40 } else { 2 }), Manner::default());
        }
        dearest.read(&costs, 1.0);
        let most = dearest.quantile(0.99).unwrap();
        assert!((40_000_000..46_000_000).contains(&most), "{most}");
        for _ in 0..1_000 {
            costs.learn(MethodId(0), Duration::from_millis(2), Manner::default());
        }
        dearest.read(&costs, 0.01);
        assert!(dearest.quantile(0.99).unwrap() < 2_500_000);
    }
}
