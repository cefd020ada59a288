//! "Linear" of the Prequal paper (NSDI 2024, figure 7): the lowest ½ · latency + ½ · 75 ms · requests in flight.
//!
//! Both values are the server's, and come with answers and with probes. The testbed's clients keep 16 probes, which at
//! three probes a query and 56 queries a second are about 100 ms old; here every backend is asked each 250 ms, so that
//! what is known is as old on average, and each pick scores 16 backends drawn at random. As in Prequal's pool, a request
//! sent since counts as one more in flight. A backend that said nothing yet costs nothing but what was sent to it.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Outcome, Rng, Time};

use super::Baseline;
use super::sample::lowest_of_sample;
use super::table::{Table, lock};

#[derive(Debug, Default)]
pub(super) struct Linear {
    said: Mutex<Table<Said>>,
}

/// What a backend last said, and what was sent to it since.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    latency_seconds: f64,
    in_flight: u32,
    sent: u32,
}

impl Said {
    fn score(self) -> f64 {
        let in_flight = f64::from(self.in_flight) + f64::from(self.sent);
        (1.0 - IN_FLIGHT_SHARE) * self.latency_seconds + IN_FLIGHT_SHARE * SECONDS_PER_REQUEST * in_flight
    }

    fn hear(&mut self, report: &LoadReport) {
        if let Some(latency) = report.latency {
            self.latency_seconds = latency.as_secs_f64();
        }
        if let Some(in_flight) = report.in_flight {
            (self.in_flight, self.sent) = (in_flight, 0);
        }
    }
}

impl Policy for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let mut said = lock(&self.said);
        lowest_of_sample(among, rng, |position| {
            let backend = among.backend(position)?;
            among.has_room(position).then(|| said.at(position, backend).score())
        })
    }
}

impl Baseline for Linear {
    fn on_begin(&self, _now: Time, backend: BackendId) {
        lock(&self.said).of(backend).sent += 1;
    }

    fn on_answer(&self, _now: Time, backend: BackendId, _latency: Duration, _outcome: Outcome, report: &LoadReport) {
        lock(&self.said).of(backend).hear(report);
    }

    fn poll_every(&self) -> Option<Duration> {
        Some(POLL)
    }

    fn on_report(&self, _now: Time, backend: BackendId, report: &LoadReport) {
        lock(&self.said).of(backend).hear(report);
    }
}

/// Figure 7 has both halves equal; the paper's appendix A tries others.
const IN_FLIGHT_SHARE: f64 = 0.5;
/// The paper's scale between the two.
const SECONDS_PER_REQUEST: f64 = 0.075;
const POLL: Duration = Duration::from_millis(250);
