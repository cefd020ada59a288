//! What policies may spend on probes: so many for each request, and never more than so many a second.

use super::config::ProbesConfig;
use crate::Time;

/// What has been saved up; two purses, both of which pay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProbeBudget {
    by_requests: f64,
    by_time: f64,
    requests: u64,
    at: Option<Time>,
}

impl ProbeBudget {
    /// How many may be sent now, `requests` having been answered in all.
    pub(crate) fn allowed(&mut self, now: Time, requests: u64, config: &ProbesConfig) -> usize {
        // Backends that leave take their counts along: then none has been answered since.
        let answered = requests.saturating_sub(std::mem::replace(&mut self.requests, requests));
        let passed = self.at.replace(now).map_or(0.0, |at| now.since(at).as_secs_f64());
        self.by_requests =
            (self.by_requests + answered as f64 * config.per_request).min(saved_most(config.per_request));
        self.by_time = (self.by_time + passed * config.per_second).min(saved_most(config.per_second));
        self.by_requests.min(self.by_time) as usize
    }

    /// So many were sent.
    pub(crate) fn spend(&mut self, probes: usize) {
        self.by_requests -= probes as f64;
        self.by_time -= probes as f64;
    }
}

/// A rate of none is none at once: what was saved before it was set is not spent.
fn saved_most(rate: f64) -> f64 {
    if rate > 0.0 { SAVED_MOST } else { 0.0 }
}

/// A pause must not be followed by a burst.
const SAVED_MOST: f64 = 16.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_purses_must_pay_and_neither_saves_for_long() {
        let config = ProbesConfig { per_request: 0.5, per_second: 10.0 };
        let (mut budget, start) = (ProbeBudget::default(), Time::from_secs(9));
        assert_eq!(budget.allowed(start, 0, &config), 0);

        let later = start + Duration::from_secs(1);
        assert_eq!(budget.allowed(later, 8, &config), 4, "eight requests pay for four, a second for ten");
        budget.spend(4);
        assert_eq!(budget.allowed(later, 1_000, &config), 6, "the second has paid for ten in all");
        budget.spend(6);
        assert_eq!(budget.allowed(later + Duration::from_secs(3_600), 9_000, &config), 16);
        assert_eq!(budget.allowed(later + Duration::from_secs(3_601), 3, &config), 16, "fewer are no debt");
    }

    #[test]
    fn a_rate_that_is_set_to_none_spends_nothing_of_what_was_saved() {
        let config = ProbesConfig { per_request: 0.5, per_second: 10.0 };
        let (mut budget, start) = (ProbeBudget::default(), Time::from_secs(9));
        budget.allowed(start, 0, &config);
        let later = start + Duration::from_secs(1);
        assert_eq!(budget.allowed(later, 8, &config), 4);

        assert_eq!(budget.allowed(later, 8, &ProbesConfig { per_request: 0.0, ..config.clone() }), 0);
        assert_eq!(budget.allowed(later, 16, &config), 4, "and begins anew");
        assert_eq!(budget.allowed(later, 16, &ProbesConfig { per_second: 0.0, ..config }), 0);
    }
}
