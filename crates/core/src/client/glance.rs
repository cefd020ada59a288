//! What others have in flight on a backend, at a glance.
//!
//! A report says how many requests the backend works on, from all clients. This client's own part it knows better and at
//! every moment, so what is kept is the others' part: what was reported, less what was its own just then. All in one word,
//! with its time, so that a policy that looks at twenty backends reads one word of each.

use crate::Time;
use crate::sync::{AtomicU64, Ordering};
use crate::time::ticks_since;

/// The time in the high half, others' requests in the low half; 0 while nothing was told.
#[derive(Debug, Default)]
pub(crate) struct Glance(AtomicU64);

/// What a [`Glance`] said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Glimpse {
    /// How long ago, in ticks; 0 where another thread's clock is ahead.
    pub(crate) age: f32,
    /// Requests of others. A little below 0 where own requests were on their way.
    pub(crate) others: f32,
}

impl Glimpse {
    /// Older than anything that is still believed.
    pub(crate) const NEVER: Glimpse = Glimpse { age: f32::MAX, others: 0.0 };
}

impl Glance {
    /// The backend works on `there` requests, `own` of which are this client's.
    pub(crate) fn keep(&self, now: Time, there: u32, own: u32) {
        let others = (i64::from(there) - i64::from(own)).clamp(-OTHERS_MOST, OTHERS_MOST) as i32;
        // Never 0, which says that nothing was told.
        let told = ticks(now).max(1);
        self.0.store(u64::from(told) << 32 | u64::from(others.cast_unsigned()), Ordering::Relaxed);
    }

    /// What was told last, seen from `now` in ticks.
    pub(crate) fn at(&self, now: u32) -> Glimpse {
        match self.lanes(now) {
            (i32::MAX, _) => Glimpse::NEVER,
            (age, others) => Glimpse { age: age as f32, others: others as f32 },
        }
    }

    /// The same as whole numbers, age and others, for a look at many. What was never told, or is not believed any more, is
    /// as old as can be.
    #[inline]
    pub(crate) fn lanes(&self, now: u32) -> (i32, i32) {
        let word = self.0.load(Ordering::Relaxed);
        let age = match ticks_since(now, (word >> 32) as u32, AHEAD_MOST) {
            Some(age) if word != 0 => age.cast_signed(),
            _ => i32::MAX,
        };
        (age, (word as u32).cast_signed())
    }

    /// Forgets it: it was another backend's.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The time in units of 2^16 ns (66 µs), which wrap after 78 hours.
#[inline]
pub(crate) fn ticks(now: Time) -> u32 {
    (now.nanos() >> TICK_SHIFT) as u32
}

const TICK_SHIFT: u32 = 16;
/// Ticks in a second.
pub(crate) const TICKS_PER_SECOND: f64 = 1e9 / (1u32 << TICK_SHIFT) as f64;
/// A second.
const AHEAD_MOST: u32 = 1_000_000_000 >> TICK_SHIFT;
/// More is nonsense, and a few such must not swallow the rest of a sum.
const OTHERS_MOST: i64 = 1_000_000;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn others_are_what_is_there_and_not_ones_own() {
        let (glance, now) = (Glance::default(), Time::from_secs(100));
        assert_eq!(glance.at(ticks(now)), Glimpse::NEVER);

        glance.keep(now, 7, 3);
        let seen = glance.at(ticks(now + Duration::from_secs(1)));
        assert!((f64::from(seen.age) - TICKS_PER_SECOND).abs() <= 1.0, "{}", seen.age);
        let others = |there, own| {
            glance.keep(now, there, own);
            glance.at(ticks(now)).others as i32
        };
        assert_eq!([others(7, 3), others(1, 3)], [4, -2], "two were on their way");
        assert_eq!([others(u32::MAX, 0), others(0, u32::MAX)], [1_000_000, -1_000_000]);
    }

    #[test]
    fn at_time_zero_something_was_told_too() {
        let glance = Glance::default();
        glance.keep(Time::ZERO, 0, 0);
        assert!(glance.at(0).age <= 0.0);
        glance.clear();
        assert_eq!(glance.at(0), Glimpse::NEVER);
    }
}
