//! When to try a lost connection again: soon, then ever later, never all at once.

use std::time::Duration;

use super::config::BackoffConfig;
use crate::{Rng, Time};

/// The tries at one backend since it was last up for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    tries: u32,
    last_wait: Duration,
}

impl Backoff {
    /// When to try next, after the connection was lost or refused at `now`, having been up for `up_for`.
    pub(crate) fn next_try(&mut self, now: Time, up_for: Duration, config: &BackoffConfig, rng: &mut Rng) -> Time {
        // A connection that ends as soon as it stands is no success, or a broken backend is hammered.
        if up_for > self.last_wait {
            self.tries = 0;
        }
        // Below the most by the jitter, or half of all clients would wait exactly the most.
        let most = config.most.div_f64(1.0 + config.jitter);
        let doubled = config.first.saturating_mul(1 << self.tries.min(DOUBLINGS_MAX)).min(most);
        self.tries = self.tries.saturating_add(1);
        let swing = 1.0 + config.jitter * (2.0 * rng.unit() - 1.0);
        self.last_wait = doubled.mul_f64(swing);
        now + self.last_wait
    }
}

/// Beyond this the wait is at its most for any configuration that is allowed.
const DOUBLINGS_MAX: u32 = 22;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_most_and_start_over_after_a_good_while_up() {
        let config = BackoffConfig { jitter: 0.0, ..BackoffConfig::default() };
        let (mut backoff, mut rng) = (Backoff::default(), Rng::from_seed(1));
        let mut wait = |up_for| backoff.next_try(Time::ZERO, up_for, &config, &mut rng).since(Time::ZERO).as_millis();

        let waits: Vec<u128> = (0..10).map(|_| wait(Duration::ZERO)).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(wait(Duration::from_secs(5)), 10_000, "up for less than the last wait");
        assert_eq!(wait(Duration::from_secs(11)), 50);
    }

    #[test]
    fn jitter_keeps_clients_apart_within_bounds() {
        let config = BackoffConfig::default();
        let mut rng = Rng::from_seed(2);
        let waits: Vec<u64> = (0..200)
            .map(|_| Backoff::default().next_try(Time::ZERO, Duration::ZERO, &config, &mut rng).nanos())
            .collect();

        assert!(waits.iter().all(|wait| (40_000_000..=60_000_000).contains(wait)));
        assert!(waits.iter().max().unwrap() - waits.iter().min().unwrap() > 15_000_000);
    }
}
