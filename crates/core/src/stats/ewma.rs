//! Means that forget: what happened a half-life ago counts half.
//!
//! Samples come whenever they come, so the weight of the past follows from the time that passed, not from the number
//! of samples. The power of two is our own: the platform's `exp` differs in its last bits, and simulated traces must
//! be the same everywhere.

use std::time::Duration;

use crate::Time;
use crate::time::saturating_nanos;

/// `2^-(elapsed / half_life)`: what is left of the past. A half-life of zero leaves nothing.
///
/// ```
/// use evenkeel_core::stats::decay;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// assert_eq!(decay(Duration::from_secs(3), second), 0.125);
/// assert_eq!(decay(Duration::ZERO, second), 1.0);
/// ```
pub fn decay(elapsed: Duration, half_life: Duration) -> f64 {
    let half_life = saturating_nanos(half_life);
    if half_life == 0 {
        return 0.0;
    }
    let half_lives = saturating_nanos(elapsed) as f64 / half_life as f64;
    if half_lives >= 1000.0 {
        return 0.0;
    }
    let whole = half_lives as u32;
    // e^-y by its series: y < 0.7, so fourteen terms leave an error of some last bits of an f64.
    let y = (half_lives - f64::from(whole)) * std::f64::consts::LN_2;
    let fraction = (1..=14).rev().fold(1.0, |sum, term| 1.0 - y / f64::from(term) * sum);
    (0..whole).fold(fraction, |left, _| left * 0.5)
}

/// A mean of samples whose weight halves with every half-life.
///
/// Nothing is known before the first sample, and `None` says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecayingMean {
    half_life: Duration,
    /// The mean, and when it was last told something.
    known: Option<(f64, Time)>,
}

impl DecayingMean {
    /// Knows nothing yet.
    pub const fn new(half_life: Duration) -> Self {
        DecayingMean { half_life, known: None }
    }

    /// Takes a sample of something that held since the last one: the longer it held, the more it counts.
    pub fn sample(&mut self, now: Time, value: f64) {
        let mean = match self.known {
            None => value,
            Some((mean, then)) => value + (mean - value) * decay(now.since(then), self.half_life),
        };
        self.known = Some((mean, now));
    }

    /// The mean so far.
    pub fn mean(&self) -> Option<f64> {
        self.known.map(|(mean, _)| mean)
    }
}

/// Events per second, from a counter that only grows.
///
/// The first reading only sets the start; from the second on there is a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    mean: DecayingMean,
    last: Option<(u64, Time)>,
}

impl Rate {
    /// Knows nothing yet.
    pub const fn new(half_life: Duration) -> Self {
        Rate { mean: DecayingMean::new(half_life), last: None }
    }

    /// Reads the counter. A reading at the same time as the last one changes nothing; one at an earlier time is a clock
    /// that was set back, and counting starts over from there.
    pub fn read(&mut self, now: Time, count: u64) {
        if let Some((last_count, then)) = self.last.filter(|&(_, then)| then <= now) {
            let seconds = now.since(then).as_secs_f64();
            if seconds <= 0.0 {
                return;
            }
            self.mean.sample(now, count.saturating_sub(last_count) as f64 / seconds);
        }
        self.last = Some((count, now));
    }

    /// Events per second lately.
    pub fn per_second(&self) -> Option<f64> {
        self.mean.mean()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of powers of two are exact")]

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the platform's exp is what ours is compared with")]
    fn decay_is_a_power_of_two_to_the_last_digits() {
        for step in 0..400u32 {
            let exact = (-f64::from(step) * 0.05 * std::f64::consts::LN_2).exp();
            let ours = decay(SECOND * step / 20, SECOND);
            assert!((ours - exact).abs() <= 1e-14 * exact, "{step}: {ours} {exact}");
        }
        assert_eq!(decay(Duration::MAX, SECOND), 0.0);
        assert_eq!(decay(SECOND, Duration::ZERO), 0.0);
    }

    #[test]
    fn a_sample_weighs_by_the_time_it_held() {
        let mut mean = DecayingMean::new(SECOND);
        assert_eq!(mean.mean(), None);
        mean.sample(Time::from_secs(10), 4.0);
        mean.sample(Time::from_secs(11), 0.0);
        assert_eq!(mean.mean(), Some(2.0));

        // A clock that jumps back makes no time pass: the sample has held for nothing.
        mean.sample(Time::from_secs(3), 100.0);
        assert_eq!(mean.mean(), Some(2.0));
    }

    #[test]
    fn a_rate_needs_two_readings_and_survives_a_clock_that_stands() {
        let mut rate = Rate::new(SECOND);
        rate.read(Time::from_secs(1), 500);
        assert_eq!(rate.per_second(), None);
        rate.read(Time::from_secs(1), 900);
        assert_eq!(rate.per_second(), None);

        rate.read(Time::from_secs(3), 700);
        assert_eq!(rate.per_second(), Some(100.0));
        rate.read(Time::from_secs(4), 700);
        assert_eq!(rate.per_second(), Some(50.0));
    }
}
