//! After how long an answer is late: what one in twenty takes longer than, learned from those that came.
//!
//! An estimate that every answer moves a little: up by nineteen parts if it took longer, down by one if not. It rests
//! where one in twenty takes longer, whatever their distribution is. Threads may lose a step to each other.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::saturating_nanos;

/// How long answers take, at the slow end.
#[derive(Debug, Default)]
pub(crate) struct Slowness {
    /// Nanoseconds; 0 before the first answer.
    estimate: AtomicU64,
    answers: AtomicU64,
}

impl Slowness {
    /// An answer took this long.
    pub(crate) fn learn(&self, took: Duration) {
        let took = saturating_nanos(took).max(1);
        let before = self.estimate.load(Ordering::Relaxed);
        let step = (before / STEP).max(1);
        let after = match before {
            0 => took,
            before if took > before => before.saturating_add(19 * step),
            before => before.saturating_sub(step).max(1),
        };
        self.estimate.store(after, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// What one in twenty takes longer than; nothing before there were enough to tell.
    pub(crate) fn estimate(&self) -> Option<Duration> {
        let is_known = self.answers.load(Ordering::Relaxed) >= ENOUGH;
        is_known.then(|| Duration::from_nanos(self.estimate.load(Ordering::Relaxed)))
    }
}

/// A step down is one part in so many: a few per cent of noise, and a hundred answers to follow a change by half.
const STEP: u64 = 400;
/// From the first answer on it takes some steps to rise to where it belongs.
const ENOUGH: u64 = 200;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn one_answer_in_twenty_takes_longer_than_the_estimate() {
        let (slowness, mut rng) = (Slowness::default(), Rng::from_seed(3));
        // Mostly short, up to 100 ms.
        let mut draw = || Duration::from_secs_f64(0.1 * rng.unit() * rng.unit());
        (0..199).for_each(|_| slowness.learn(draw()));
        assert_eq!(slowness.estimate(), None);
        (0..5_000).for_each(|_| slowness.learn(draw()));
        let mut longer = 0;
        for _ in 0..20_000 {
            let took = draw();
            longer += u32::from(took > slowness.estimate().unwrap_or_default());
            slowness.learn(took);
        }
        assert!((900..1_100).contains(&longer), "{longer} of 20,000");
    }
}
