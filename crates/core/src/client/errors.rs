//! Recent errors as if they were active requests (A14).
//!
//! A backend that fails at once always looks idle and would draw all traffic: a sinkhole. So errors weigh like requests
//! that stay for a while. The first of a row weighs a quarter of a request, which is not noticed; each further one doubles
//! the weight until it adds a whole request, so the third makes it whole. All of it halves every half-life, and an answer takes an eighth off.
//!
//! So a backend that fails at everything is left alone after three errors and tried about once in a half-life, while one that
//! fails now and then keeps its share: were it left alone for every error, the healthy ones would break under its load.
//! The weight never exceeds `most`, the limit of active requests: more would only make a healed backend wait longer.
//!
//! While it only observes, errors are counted and weighed as ever and count as nothing for whoever picks; off, they are
//! not counted. Both are a number that is compared anyway, so picking costs the same.
//!
//! All in integers and in one word, stamp and value, so that readers see both or neither.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::{saturating_nanos, ticks_since};
use crate::{Mode, Time};

/// How errors are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forgetting {
    /// Half-lives in a tick, in units of 2^-32, rounded up: a multiplication where each look would need divisions.
    half_lives_per_tick: u64,
    most: u32,
    /// What a value must be for picks to look at it at all.
    counts_from: u32,
}

impl Forgetting {
    pub(crate) fn new(half_life: Duration, most: u32) -> Self {
        let ticks = (saturating_nanos(half_life) >> TICK_SHIFT).clamp(1, u64::from(u32::MAX));
        let half_lives_per_tick = (1u64 << 32).div_ceil(ticks);
        Forgetting { half_lives_per_tick, most: most.min(MOST), counts_from: ONE / 2 }
    }

    /// The same as far as this mode goes.
    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        match mode {
            Mode::On => self,
            // No value is that great.
            Mode::Observe => Forgetting { counts_from: u32::MAX, ..self },
            Mode::Off => Forgetting { counts_from: u32::MAX, most: 0, ..self },
        }
    }
}

/// A decaying count of errors: stamp in the high half, value (in 1/256) in the low half.
#[derive(Debug, Default)]
pub(crate) struct RecentErrors(AtomicU64);

impl RecentErrors {
    /// One more error: twice the weight, at least a quarter and at most one request more.
    pub(crate) fn add(&self, now: Time, forgetting: Forgetting) {
        self.change(now, forgetting, |value| (value + value.clamp(FIRST, ONE)).min(forgetting.most * ONE));
    }

    /// The backend answered: it does not fail at everything, so what it failed at weighs an eighth less.
    ///
    /// Costs a load where there was no error, which is nearly always.
    #[inline]
    pub(crate) fn forgive(&self, now: Time, forgetting: Forgetting) {
        if self.0.load(Ordering::Relaxed) as u32 != 0 {
            self.change(now, forgetting, |value| value - value.div_ceil(8));
        }
    }

    fn change(&self, now: Time, forgetting: Forgetting, after: impl Fn(u32) -> u32) {
        let stamp = ticks(now);
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let value = after(value_at(seen, stamp, forgetting));
            let word = u64::from(stamp) << 32 | u64::from(value);
            match self.0.compare_exchange_weak(seen, word, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// How many active requests the recent errors count as for whoever picks.
    #[inline]
    pub(crate) fn count(&self, now: Time, forgetting: Forgetting) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        // Less than half a request is none, and it only gets less.
        if (word as u32) < forgetting.counts_from {
            return 0;
        }
        whole_requests(word, now, forgetting)
    }

    /// The same for people to read: what they count as, or would while it only observes.
    pub(crate) fn weigh(&self, now: Time, forgetting: Forgetting) -> u32 {
        if forgetting.most == 0 {
            return 0;
        }
        whole_requests(self.0.load(Ordering::Relaxed), now, forgetting)
    }

    /// Forgets all of them: another backend takes the place.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// What is left of `word` in requests, rounded.
#[inline]
fn whole_requests(word: u64, now: Time, forgetting: Forgetting) -> u32 {
    (value_at(word, ticks(now), forgetting) + ONE / 2) / ONE
}

/// What is left of the value in `word`: halved for every half-life, straight lines between.
fn value_at(word: u64, now: u32, forgetting: Forgetting) -> u32 {
    let (stamp, value) = ((word >> 32) as u32, word as u32);
    // What a clock stamped that was set back must not stay for as long as it was set back.
    let Some(elapsed) = ticks_since(now, stamp, JUMP_TICKS) else { return 0 };
    let passed = u64::from(elapsed) * forgetting.half_lives_per_tick;
    let (half_lives, into) = ((passed >> 32) as u32, passed & u64::from(u32::MAX));
    let value = value.checked_shr(half_lives).unwrap_or(0);
    value - ((u64::from(value) * into) >> 33) as u32
}

fn ticks(now: Time) -> u32 {
    (now.nanos() >> TICK_SHIFT) as u32
}

/// Stamps are in units of 2^22 ns (4.2 ms), which wrap after 208 days.
const TICK_SHIFT: u32 = 22;
const ONE: u32 = 256;
/// What the first error of a row weighs: less than half a request, so that it takes others to be noticed.
const FIRST: u32 = ONE / 4;
/// So that `most * ONE` fits its half of the word.
const MOST: u32 = 1 << 23;
/// A second.
const JUMP_TICKS: u32 = 238;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn forgetting() -> Forgetting {
        Forgetting::new(Duration::from_secs(1), 100)
    }

    fn after(millis: u64) -> Time {
        Time::from_secs(1_000) + Duration::from_millis(millis)
    }

    fn errors_in_a_row(count: usize) -> RecentErrors {
        let errors = RecentErrors::default();
        for _ in 0..count {
            errors.add(after(0), forgetting());
        }
        errors
    }

    #[test]
    fn one_error_is_let_pass_two_count_for_a_moment_and_three_for_a_half_life() {
        assert_eq!(errors_in_a_row(1).count(after(0), forgetting()), 0);

        let errors = errors_in_a_row(2);
        assert_eq!([0, 50].map(|millis| errors.count(after(millis), forgetting())), [1, 0]);
        // The third makes it whole, which stays for a half-life.
        let errors = errors_in_a_row(3);
        assert_eq!([0, 900, 1_100].map(|millis| errors.count(after(millis), forgetting())), [1, 1, 0]);
    }

    #[test]
    fn many_errors_add_up_halve_and_stop_at_the_most() {
        // A quarter, a half, one, and one more for each of the others.
        let errors = errors_in_a_row(18);
        let seen = [0, 500, 1_000, 2_000, 4_000].map(|millis| errors.count(after(millis), forgetting()));
        assert_eq!(seen, [16, 12, 8, 4, 1]);

        assert_eq!(errors_in_a_row(1_000).count(after(0), forgetting()), 100);
    }

    #[test]
    fn answers_take_the_weight_off_again() {
        let errors = errors_in_a_row(18);
        let weights = [(); 4].map(|()| {
            for _ in 0..5 {
                errors.forgive(after(0), forgetting());
            }
            errors.count(after(0), forgetting())
        });
        // Seven eighths to the fifth is about one half.
        assert_eq!(weights, [8, 4, 2, 1]);

        for _ in 0..40 {
            errors.forgive(after(0), forgetting());
        }
        assert_eq!(errors.0.load(Ordering::Relaxed) as u32, 0, "nothing is left to look at");
    }

    #[test]
    fn errors_that_are_only_observed_are_weighed_and_count_as_nothing() {
        for (mode, counted, weighed) in [(Mode::On, 16, 16), (Mode::Observe, 0, 16), (Mode::Off, 0, 0)] {
            let (errors, forgetting) = (RecentErrors::default(), forgetting().in_mode(mode));
            for _ in 0..18 {
                errors.add(after(0), forgetting);
            }
            assert_eq!(
                (errors.count(after(0), forgetting), errors.weigh(after(0), forgetting)),
                (counted, weighed),
                "{mode}"
            );
        }
        // Of those that were counted before it was switched off nothing is left to see.
        let errors = errors_in_a_row(18);
        assert_eq!(errors.weigh(after(0), forgetting().in_mode(Mode::Off)), 0);
        errors.add(after(0), forgetting().in_mode(Mode::Off));
        assert_eq!(errors.weigh(after(0), forgetting()), 0);
    }

    #[test]
    fn a_clock_that_jumps_back_frees_what_it_stamped() {
        let errors = errors_in_a_row(3);
        assert_eq!(errors.count(Time::from_secs(999), forgetting()), 1, "a second apart is two threads");
        assert_eq!(errors.count(Time::from_secs(10), forgetting()), 0);

        for _ in 0..3 {
            errors.add(Time::from_secs(10), forgetting());
        }
        assert_eq!(errors.count(Time::from_secs(10), forgetting()), 1);
        assert_eq!(errors.count(Time::NEVER, forgetting()), 0);
    }
}
