//! How many of recent requests are retries (B16): many of them mean that others refuse too, so retrying is no help.

use std::time::Duration;

use crate::Time;
use crate::stats::Window;

/// Counts first tries and further ones over two seconds.
#[derive(Debug)]
pub(crate) struct Attempts {
    all: Window<9>,
    retries: Window<9>,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { all: Window::new(SPAN), retries: Window::new(SPAN) }
    }
}

impl Attempts {
    pub(crate) fn read(&mut self, now: Time, all: u64, retries: u64) {
        self.all.add(now, all as f64);
        self.retries.add(now, retries as f64);
    }

    /// Retries as a share of requests; nothing before there are enough to tell.
    pub(crate) fn share(&self, now: Time) -> Option<f64> {
        let all = self.all.sum(now);
        (all >= ENOUGH).then(|| self.retries.sum(now) / all)
    }
}

const SPAN: Duration = Duration::from_secs(2);
/// At the default threshold four of them are retries by no accident.
const ENOUGH: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_the_last_two_seconds_and_of_enough_requests() {
        let mut attempts = Attempts::default();
        attempts.read(Time::from_secs(10), 99, 50);
        assert_eq!(attempts.share(Time::from_secs(10)), None);
        attempts.read(Time::from_secs(10), 101, 0);
        assert_eq!(attempts.share(Time::from_secs(10)), Some(0.25));
        assert_eq!(attempts.share(Time::from_secs(14)), None);
    }
}
