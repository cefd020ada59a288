//! Peak EWMA on two choices, as tower's `PeakEwma` and `p2c::Balance` have it: latency times outstanding requests plus one.
//!
//! An answer slower than the estimate becomes the estimate at once; a faster one pulls it down with a time constant of
//! 10 s, and so does every look, towards 0. tower is followed rather than Finagle, whose unknown backends cost nothing
//! while idle and almost everything while busy; the values are those of Linkerd's proxy, which drives tower's code
//! (`default_rtt` 30 ms for unknown backends, `decay` 10 s). An error is an answer like any other, so one that fails fast
//! looks fast.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Outcome, Rng, Time};

use super::Baseline;
use super::sample::{lower_of_two, two_of};
use super::table::{Table, lock};

#[derive(Debug, Default)]
pub(super) struct PeakEwma {
    estimates: Mutex<Table<Option<Estimate>>>,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    seconds: f64,
    updated: Time,
}

impl Estimate {
    fn unknown(now: Time) -> Self {
        Estimate { seconds: DEFAULT_RTT_SECONDS, updated: now }
    }

    /// After an answer that took `seconds`, or after a look, which counts as one that took none.
    fn update(&mut self, now: Time, seconds: f64) -> f64 {
        if seconds > self.seconds {
            self.seconds = seconds;
        } else {
            let kept = libm::exp(-now.since(self.updated).as_secs_f64() / DECAY_SECONDS);
            self.seconds = self.seconds * kept + seconds * (1.0 - kept);
        }
        self.updated = now;
        self.seconds
    }
}

impl Policy for PeakEwma {
    fn name(&self) -> &'static str {
        "peak_ewma"
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let mut estimates = lock(&self.estimates);
        let drawn = two_of(among.len(), rng);
        lower_of_two(among, drawn, rng, |position| {
            let outstanding = among.in_flight(position)?;
            let estimate = estimates.at(position, among.backend(position)?);
            let seconds = estimate.get_or_insert_with(|| Estimate::unknown(now)).update(now, 0.0);
            Some(seconds * f64::from(outstanding + 1))
        })
    }
}

impl Baseline for PeakEwma {
    fn on_answer(&self, now: Time, backend: BackendId, latency: Duration, _outcome: Outcome, _report: &LoadReport) {
        let mut estimates = lock(&self.estimates);
        let estimate = estimates.of(backend).get_or_insert_with(|| Estimate::unknown(now));
        estimate.update(now, latency.as_secs_f64());
    }
}

const DEFAULT_RTT_SECONDS: f64 = 0.030;
const DECAY_SECONDS: f64 = 10.0;
