//! C3 (Suresh et al., NSDI 2015), the score of which the Prequal paper measured: the lowest Ψ = R − 1/µ + q̂³/µ.
//!
//! R is the latency this client sees, 1/µ the one the server reports, q̂ = 1 + outstanding · clients + q̄ the queue as
//! estimated from the server's requests in flight q̄ and the client's own outstanding ones, as if all clients had as many.
//! R, 1/µ and q̄ are moving averages with a weight of 0.9 for the newest, as in the authors' code. C3's rate control is
//! left out, and so is its small group of replicas: Ψ is compared over 16 backends drawn at random, and every backend is
//! asked each 250 ms, both as for Linear. One that never answered comes first.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Outcome, Rng, Time};

use super::Baseline;
use super::sample::lowest_of_sample;
use super::table::{Table, lock};

#[derive(Debug)]
pub(super) struct C3 {
    clients: f64,
    averages: Mutex<Table<Averages>>,
}

/// What is known of one backend, in seconds and requests.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    response: Option<f64>,
    service: Option<f64>,
    queue: Option<f64>,
}

impl Averages {
    fn score(self, clients: f64, outstanding: u32) -> f64 {
        let outstanding = f64::from(outstanding);
        let Some(response) = self.response else {
            // Below every known one, whose least is R − 1/µ + 1/µ; the fewest outstanding first.
            return -1.0 / (1.0 + outstanding);
        };
        let service = self.service.unwrap_or(response);
        let queue = 1.0 + outstanding * clients + self.queue.unwrap_or(0.0);
        response - service + queue * queue * queue * service
    }

    fn hear(&mut self, report: &LoadReport) {
        if let Some(latency) = report.latency {
            average(&mut self.service, latency.as_secs_f64());
        }
        if let Some(in_flight) = report.in_flight {
            average(&mut self.queue, f64::from(in_flight));
        }
    }
}

fn average(average: &mut Option<f64>, value: f64) {
    *average = Some(average.map_or(value, |before| before + NEWEST * (value - before)));
}

impl C3 {
    pub(super) fn new(clients: u32) -> Self {
        C3 { clients: f64::from(clients), averages: Mutex::default() }
    }
}

impl Policy for C3 {
    fn name(&self) -> &'static str {
        "c3"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let mut averages = lock(&self.averages);
        lowest_of_sample(among, rng, |position| {
            let outstanding = among.in_flight(position)?;
            Some(averages.at(position, among.backend(position)?).score(self.clients, outstanding))
        })
    }
}

impl Baseline for C3 {
    fn on_answer(&self, _now: Time, backend: BackendId, latency: Duration, _outcome: Outcome, report: &LoadReport) {
        let mut averages = lock(&self.averages);
        let known = averages.of(backend);
        average(&mut known.response, latency.as_secs_f64());
        known.hear(report);
    }

    fn poll_every(&self) -> Option<Duration> {
        Some(POLL)
    }

    fn on_report(&self, _now: Time, backend: BackendId, report: &LoadReport) {
        lock(&self.averages).of(backend).hear(report);
    }
}

/// α of the authors' `ScoreTracker`.
const NEWEST: f64 = 0.9;
const POLL: Duration = Duration::from_millis(250);
