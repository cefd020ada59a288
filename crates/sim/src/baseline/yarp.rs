//! "YARP-Po2C" of the Prequal paper (NSDI 2024, figure 7): of two different backends drawn at random, the one that had fewer
//! requests in flight when it was last asked, every 500 ms.
//!
//! The value is the server's own count, of all clients, but up to half a second old; nothing is learned from answers, and
//! nothing is added for what was sent since. A backend that was not asked yet counts as idle.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Rng, Time};

use super::Baseline;
use super::sample::{lower_of_two, two_of};
use super::table::{Table, lock};

#[derive(Debug, Default)]
pub(super) struct Yarp {
    /// Requests in flight when last asked.
    polled: Mutex<Table<u32>>,
}

impl Policy for Yarp {
    fn name(&self) -> &'static str {
        "yarp"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let mut polled = lock(&self.polled);
        let drawn = two_of(among.len(), rng);
        lower_of_two(among, drawn, rng, |position| {
            let backend = among.backend(position)?;
            among.has_room(position).then(|| *polled.at(position, backend))
        })
    }
}

impl Baseline for Yarp {
    fn poll_every(&self) -> Option<Duration> {
        Some(POLL)
    }

    fn on_report(&self, _now: Time, backend: BackendId, report: &LoadReport) {
        if let Some(in_flight) = report.in_flight {
            *lock(&self.polled).of(backend) = in_flight;
        }
    }
}

const POLL: Duration = Duration::from_millis(500);
