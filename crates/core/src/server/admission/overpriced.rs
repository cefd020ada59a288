//! Whether requests are refused while processors idle: then they cost less than was learned of them.
//!
//! A price is a mean over thousands of answers. After a machine was slow for long it is many times too high, little of what
//! fits is let in, and few answers come to tell so. What the processors do not use of what was let in by its price tells it
//! within a tenth of a second. Callers that go away before they are answered look the same, and are: what they asked for
//! costs less.

/// Counts ticks in which that is so.
#[derive(Debug, Default)]
pub(crate) struct Overpriced {
    ticks: u32,
    idle: f64,
}

impl Overpriced {
    /// `idle` is the share of the processors that nobody used while requests were refused; `None` where none were, or somebody
    /// waited. Says what prices are to be multiplied by, if anything.
    pub(crate) fn read(&mut self, idle: Option<f64>) -> Option<f64> {
        let Some(idle) = idle.filter(|idle| *idle >= IDLE) else {
            *self = Overpriced::default();
            return None;
        };
        self.ticks += 1;
        self.idle += idle;
        if self.ticks < TICKS {
            return None;
        }
        let factor = 1.0 - self.idle / f64::from(self.ticks);
        *self = Overpriced::default();
        Some(factor.max(LEAST))
    }
}

/// Share of the processors that chance leaves idle for no tenth of a second while more is asked for than fits: with two, one
/// of them all the time. At 0.3 requests of very unequal cost were taken for overpriced now and then (p99 2.28 for 2.02).
const IDLE: f64 = 0.5;
/// A tenth of a second.
const TICKS: u32 = 10;
/// Prices fall no lower than to this part of what they were, at once.
const LEAST: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_a_second_of_idling_lowers_prices_by_as_much_and_less_does_not() {
        let mut overpriced = Overpriced::default();
        for _ in 0..3 {
            assert!((0..9).all(|_| overpriced.read(Some(0.6)).is_none()));
            assert!(overpriced.read(Some(0.4)).is_none() && overpriced.read(None).is_none());
        }
        let told: Vec<f64> = (0..20).filter_map(|_| overpriced.read(Some(0.6))).collect();
        assert!(
            matches!(told[..], [first, second] if (first - 0.4).abs() < 1e-9 && (second - 0.4).abs() < 1e-9),
            "{told:?}"
        );
        assert_eq!((0..10).find_map(|_| overpriced.read(Some(1.0))), Some(LEAST));
    }
}
