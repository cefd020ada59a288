//! A mean that also knows what it was: reports tell of a moment ago, and are compared with what was so then.
//!
//! A share that rises by 0.06 in a second and is held against a load of half a second ago makes the whole look 5 % smaller
//! than it is. So a cluster that had been left a little too far was come back to beyond its capacity.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;
use crate::stats::DecayingMean;

/// A decaying mean, and what it was for some readings.
#[derive(Clone, Debug)]
pub(super) struct Past {
    mean: DecayingMean,
    /// Oldest first.
    was: VecDeque<(Time, f64)>,
}

impl Past {
    /// Knows nothing yet.
    pub(super) fn new(half_life: Duration) -> Self {
        Past { mean: DecayingMean::new(half_life), was: VecDeque::with_capacity(KEPT) }
    }

    /// Takes what held since the last sample.
    pub(super) fn sample(&mut self, now: Time, value: f64) {
        self.mean.sample(now, value);
        // Of one moment the last counts.
        if self.was.back().is_some_and(|&(then, _)| then == now) {
            self.was.pop_back();
        } else if self.was.len() >= KEPT {
            self.was.pop_front();
        }
        if let Some(mean) = self.mean.mean() {
            self.was.push_back((now, mean));
        }
    }

    /// What the mean is.
    pub(super) fn mean(&self) -> Option<f64> {
        self.mean.mean()
    }

    /// What the mean was so many seconds before the last sample; of longer ago than is kept, the oldest that is.
    pub(super) fn ago(&self, seconds: f64) -> Option<f64> {
        let &(now, mean) = self.was.back()?;
        let (mut later, mut value) = (0.0, mean);
        for &(then, earlier) in self.was.iter().rev() {
            let ago = now.since(then).as_secs_f64();
            if ago >= seconds {
                let part = if ago > later { (seconds - later) / (ago - later) } else { 0.0 };
                return Some(value + part * (earlier - value));
            }
            (later, value) = (ago, earlier);
        }
        Some(value)
    }
}

/// Readings. Nearly four seconds at the default period: a utilization is compared with shares over 2 s, and reports that are older
/// tell little. Less where the period is shorter: at 10 ms a share that rises by 0.04 in a second is taken for 3 % more.
const KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(250);

    #[test]
    fn what_was_is_known_between_two_samples_and_no_further_back_than_is_kept() {
        let (mut past, mut now) = (Past::new(Duration::ZERO), Time::from_secs(1));
        assert_eq!((past.mean(), past.ago(0.0)), (None, None));

        // Without a half-life the mean is the last sample.
        for step in 0..40_u32 {
            past.sample(now, f64::from(step));
            now = now + PERIOD;
        }

        let ago = |seconds: f64| past.ago(seconds).unwrap_or(f64::NAN);
        for (seconds, expected) in [(0.0, 39.0), (0.25, 38.0), (0.375, 37.5), (3.75, 24.0), (60.0, 24.0)] {
            assert!((ago(seconds) - expected).abs() < 1e-9, "{seconds}: {}", ago(seconds));
        }
        assert_eq!(past.mean(), Some(39.0));
    }

    #[test]
    fn a_clock_that_stands_still_or_is_set_back_tells_something_that_was() {
        let (mut past, now) = (Past::new(PERIOD), Time::from_secs(9));
        for (at, value) in [(now, 1.0), (now, 1.0), (Time::from_secs(3), 0.5), (Time::from_secs(3), 0.5)] {
            past.sample(at, value);
            for seconds in [0.0, 0.1, 1e9] {
                assert!(past.ago(seconds).is_some_and(|was| (0.5..=1.0).contains(&was)), "{at:?} {seconds}");
            }
        }
    }
}
