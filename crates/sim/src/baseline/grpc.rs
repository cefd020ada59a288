//! gRPC's `weighted_round_robin` (gRFC A58) with its defaults: in proportion to requests per utilization, from reports.
//!
//! weight = qps / (utilization + eps / qps · penalty), from the report of each answer. A weight counts once reports have
//! come for 10 s (blackout) and until none has come for 3 minutes; who has none gets the mean, and with fewer than two
//! weights all take turns. Weights are read once a second into gRPC's static stride scheduler, with its scale, its caps at
//! 10 times and a hundredth of the mean, and its offset between neighbours. They are read by the first pick after the
//! second, since nobody else would see them; a backend that is back among the candidates is in blackout again.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Outcome, Rng, Time};

use super::Baseline;
use super::sample::any_with_room;
use super::table::{Table, lock};

#[derive(Debug)]
pub(super) struct Weighted {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    weights: Table<Weight>,
    schedule: Schedule,
    /// When weights are read next.
    due: Time,
    /// Goes on over all schedules.
    sequence: u64,
}

/// The weight of one backend, and since when it has one.
#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    value: f64,
    updated: Time,
    reports_since: Option<Time>,
    /// The schedule that had it as a candidate last.
    seen: u64,
}

impl Weight {
    fn hear(&mut self, now: Time, report: &LoadReport) {
        let (Some(utilization), Some(qps)) = (report.utilization, report.qps) else { return };
        if utilization > 0.0 && qps > 0.0 {
            self.value = qps / (utilization + report.eps.unwrap_or(0.0) / qps * ERROR_PENALTY);
            self.updated = now;
            self.reports_since.get_or_insert(now);
        }
    }

    /// 0 where there is none that counts.
    fn read(&mut self, now: Time) -> f64 {
        let Some(since) = self.reports_since else { return 0.0 };
        if now.since(self.updated) >= EXPIRATION {
            self.reports_since = None;
            return 0.0;
        }
        if now.since(since) < BLACKOUT { 0.0 } else { self.value }
    }
}

/// Who is picked how often, fixed for a second.
#[derive(Debug, Default)]
struct Schedule {
    backends: Vec<BackendId>,
    /// Out of [`SCALE`]; empty for plain round robin.
    weights: Vec<u64>,
    generation: u64,
}

impl Schedule {
    fn fits(&self, among: &Candidates<'_>) -> bool {
        self.backends.len() == among.len()
            && self.backends.iter().enumerate().all(|(position, &backend)| among.backend(position) == Some(backend))
    }

    /// The next position: each is taken in as many of [`SCALE`] rounds as its weight says, evenly spread.
    fn next(&self, sequence: &mut u64) -> usize {
        let count = self.backends.len() as u64;
        loop {
            let (round, position) = (*sequence / count, *sequence % count);
            *sequence += 1;
            let Some(&weight) = self.weights.get(position as usize) else { return position as usize };
            if (weight * round + position * (SCALE / 2)) % SCALE >= SCALE - weight {
                return position as usize;
            }
        }
    }
}

impl State {
    fn reschedule(&mut self, now: Time, among: &Candidates<'_>) {
        let generation = self.schedule.generation + 1;
        self.schedule.generation = generation;
        self.schedule.backends.clear();
        self.schedule.backends.extend((0..among.len()).filter_map(|position| among.backend(position)));
        let mut read: Vec<f64> = Vec::with_capacity(among.len());
        for (position, &backend) in self.schedule.backends.iter().enumerate() {
            let weight = self.weights.at(position, backend);
            if weight.seen + 1 < generation {
                weight.reports_since = None;
            }
            weight.seen = generation;
            read.push(weight.read(now));
        }
        self.schedule.weights = strides(&read);
        self.due = now + UPDATE;
    }
}

/// Weights out of [`SCALE`]; none where fewer than two are known.
fn strides(weights: &[f64]) -> Vec<u64> {
    let known = weights.iter().filter(|&&weight| weight > 0.0).count();
    if known < 2 {
        return Vec::new();
    }
    let mean = weights.iter().sum::<f64>() / known as f64;
    let most = weights.iter().copied().fold(0.0, f64::max).min(mean * MOST_TO_MEAN);
    let scaled = |weight: f64| (weight.min(most) / most * SCALE as f64).round();
    let least = (scaled(mean) * LEAST_TO_MEAN).round().max(1.0);
    weights.iter().map(|&weight| scaled(if weight > 0.0 { weight } else { mean }).max(least) as u64).collect()
}

impl Weighted {
    pub(super) fn new(seed: u64) -> Self {
        // A start of its own for each client, so that they do not march in step.
        let sequence = Rng::from_seed(seed).next_u64() >> 32;
        let state = State { weights: Table::default(), schedule: Schedule::default(), due: Time::ZERO, sequence };
        Weighted { state: Mutex::new(state) }
    }
}

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        "grpc_weighted"
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        if among.is_empty() {
            return None;
        }
        let mut state = lock(&self.state);
        if now >= state.due || !state.schedule.fits(among) {
            state.reschedule(now, among);
        }
        let State { schedule, sequence, .. } = &mut *state;
        // gRPC knows no full backends: here they lose their turn, and after two rounds of that anybody will do.
        let picked = (0..2 * among.len()).map(|_| schedule.next(sequence)).find(|&position| among.has_room(position));
        picked.or_else(|| any_with_room(among, rng))
    }
}

impl Baseline for Weighted {
    fn on_answer(&self, now: Time, backend: BackendId, _latency: Duration, _outcome: Outcome, report: &LoadReport) {
        lock(&self.state).weights.of(backend).hear(now, report);
    }
}

/// Defaults of gRFC A58.
const UPDATE: Duration = Duration::from_secs(1);
const BLACKOUT: Duration = Duration::from_secs(10);
const EXPIRATION: Duration = Duration::from_secs(180);
const ERROR_PENALTY: f64 = 1.0;
/// Constants of gRPC's `static_stride_scheduler.cc`.
const SCALE: u64 = 65_535;
const MOST_TO_MEAN: f64 = 10.0;
const LEAST_TO_MEAN: f64 = 0.01;
