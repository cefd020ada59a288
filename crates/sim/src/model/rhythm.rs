//! How the rate of requests moves: a factor for every moment, and the largest there can be.
//!
//! Arrivals are drawn at the largest rate and thinned to that of the moment, which is exact for any shape.

use crate::scenario::Rhythm;

impl Rhythm {
    /// The factor this many seconds after the start.
    pub fn factor(&self, seconds: f64) -> f64 {
        match *self {
            Rhythm::Step { at, lasts, times } => {
                let since = seconds - at.seconds();
                if since >= 0.0 && lasts.is_none_or(|lasts| since < lasts.seconds()) { times } else { 1.0 }
            }
            Rhythm::Ramp { at, over, times } => {
                let (since, over) = (seconds - at.seconds(), over.seconds());
                if since <= 0.0 {
                    1.0
                } else if since >= over {
                    times
                } else {
                    1.0 + (times - 1.0) * since / over
                }
            }
            Rhythm::Burst { every, lasts, times } => {
                // A remainder by 0 is no number, and no number is below anything: no burst.
                if seconds % every.seconds() < lasts.seconds() { times } else { 1.0 }
            }
            Rhythm::Diurnal { period, swing } => {
                1.0 + swing * libm::sin(std::f64::consts::TAU * (seconds / period.seconds()))
            }
        }
    }

    /// No factor is larger.
    pub fn most(&self) -> f64 {
        match *self {
            Rhythm::Step { times, .. } | Rhythm::Ramp { times, .. } | Rhythm::Burst { times, .. } => times.max(1.0),
            Rhythm::Diurnal { swing, .. } => 1.0 + swing.abs(),
        }
    }
}

/// All together: factors multiply.
pub(crate) fn factor(rhythms: &[Rhythm], seconds: f64) -> f64 {
    rhythms.iter().map(|rhythm| rhythm.factor(seconds)).product()
}

/// No product of factors is larger.
pub(crate) fn most(rhythms: &[Rhythm]) -> f64 {
    rhythms.iter().map(Rhythm::most).product()
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use crate::scenario::Span;

    #[test]
    fn factors_are_what_the_words_say() {
        let second = Span::from_secs(1);
        let step = Rhythm::Step { at: Span::from_secs(2), lasts: Some(second), times: 3.0 };
        assert_eq!([1.9, 2.0, 2.9, 3.0].map(|t| step.factor(t)), [1.0, 3.0, 3.0, 1.0]);
        let stays = Rhythm::Step { at: Span::from_secs(2), lasts: None, times: 0.5 };
        assert_eq!([1.9, 2.0, 900.0].map(|t| stays.factor(t)), [1.0, 0.5, 0.5]);
        let ramp = Rhythm::Ramp { at: second, over: Span::from_secs(2), times: 5.0 };
        assert_eq!([0.0, 1.0, 2.0, 3.0, 9.0].map(|t| ramp.factor(t)), [1.0, 1.0, 3.0, 5.0, 5.0]);
        let burst = Rhythm::Burst { every: Span::from_secs(4), lasts: second, times: 2.0 };
        assert_eq!([0.0, 0.9, 1.0, 4.5, 7.0].map(|t| burst.factor(t)), [2.0, 2.0, 1.0, 2.0, 1.0]);
        let day = Rhythm::Diurnal { period: Span::from_secs(8), swing: 0.5 };
        assert_eq!([0.0, 2.0].map(|t| day.factor(t)), [1.0, 1.5]);
        assert!((day.factor(6.0) - 0.5).abs() < 1e-12);

        let all = [step, ramp, burst, day];
        assert_eq!(most(&all), 3.0 * 5.0 * 2.0 * 1.5);
        assert!((0..4_000).map(|tick| factor(&all, f64::from(tick) / 100.0)).all(|now| now <= most(&all)));
        assert_eq!((factor(&[], 1.0), most(&[])), (1.0, 1.0));
    }
}
