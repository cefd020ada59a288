//! Adaptive concurrency (C): how many requests can usefully be in flight.
//!
//! Handlers that wait for something else hold no processor, so the queue does not bound them. By Little's law what is in
//! flight is the rate of answers times the time each takes; more than a few times that, at the time they take when nothing
//! is wrong, is requests piling up on something slow.

/// Learns the limit.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Seconds in a handler when nothing is wrong: follows what is lower at once, what is higher slowly.
    calm: Option<f64>,
    /// Answers in a second, the most of late.
    rate: f64,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { calm: None, rate: 0.0 }
    }
}

impl Limit {
    /// In `seconds` so many requests were answered, each after so long in its handler on average.
    pub(crate) fn read(&mut self, seconds: f64, answered: u64, mean: Option<f64>) {
        let rate = answered as f64 / seconds;
        self.rate = if rate > self.rate {
            self.rate + FASTER * (rate - self.rate)
        } else {
            self.rate + SLOWER * (rate - self.rate)
        };
        if let Some(mean) = mean.filter(|mean| mean.is_finite() && *mean > 0.0) {
            let calm = self.calm.unwrap_or(mean);
            let gain = if mean < calm { FASTER } else { SLOWER };
            self.calm = Some(calm + gain * (mean - calm));
        }
    }

    /// Requests in flight, at most; none before anything is known.
    pub(crate) fn get(&self, times: f64, least: u32) -> u32 {
        let Some(calm) = self.calm else { return u32::MAX };
        let most = (times * calm * self.rate).ceil();
        // A cast saturates.
        (most as u32).max(least)
    }
}

/// Gains for a reading every tenth of a second: half a second towards what is calmer or busier, half a minute away from it.
const FASTER: f64 = 0.2;
const SLOWER: f64 = 0.003;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_multiple_of_what_the_rate_needs_and_a_slow_backend_does_not_move_it_soon() {
        let mut limit = Limit::default();
        assert_eq!(limit.get(2.0, 64), u32::MAX);
        for _ in 0..100 {
            limit.read(0.1, 100, Some(0.2));
        }
        let calm = limit.get(2.0, 64);
        assert!((390..=400).contains(&calm), "{calm}");
        // Everything takes ten times as long, at the same rate until the limit bites.
        for _ in 0..20 {
            limit.read(0.1, 100, Some(2.0));
        }
        assert!(limit.get(2.0, 64) < 2 * calm);
        for _ in 0..100_000 {
            limit.read(0.1, 0, None);
        }
        assert_eq!(limit.get(2.0, 64), 64, "never so low that a first burst is refused");
    }
}
