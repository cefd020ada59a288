//! What was seen in a world: who was busy, how long requests took, where they went.

use evenkeel_core::{Outcome, Time};

/// Counts of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    end: Time,
    cores: u32,
    latencies_ns: Vec<u64>,
    sent: u64,
    ended: u64,
    refused: u64,
    /// By backend, in the second half of the run.
    sent_late: Vec<u64>,
    utilization: Vec<f64>,
}

impl Tally {
    pub(crate) fn new(end: Time, cores: u32, backends: usize) -> Self {
        Tally {
            end,
            cores,
            latencies_ns: Vec::new(),
            sent: 0,
            ended: 0,
            refused: 0,
            sent_late: vec![0; backends],
            utilization: Vec::new(),
        }
    }

    pub(crate) fn is_past_half(&self, now: Time) -> bool {
        now.nanos() > self.end.nanos() / 2
    }

    pub(crate) fn count_sent(&mut self, now: Time, backend: usize) {
        self.sent += 1;
        if self.is_past_half(now) {
            self.sent_late[backend] += 1;
        }
    }

    pub(crate) fn count_refused(&mut self) {
        self.refused += 1;
    }

    pub(crate) fn count_ended(&mut self, began: Time, now: Time, outcome: Outcome) {
        self.ended += 1;
        if outcome == Outcome::Served {
            self.latencies_ns.push(now.since(began).as_nanos() as u64);
        }
    }

    /// Until now the machines were busy for so many core-seconds each.
    pub(crate) fn count_busy(&mut self, now: Time, busy_core_s: impl Iterator<Item = f64>) {
        let core_s = now.since(Time::ZERO).as_secs_f64() * f64::from(self.cores);
        self.utilization = busy_core_s.map(|busy| busy / core_s).collect();
    }

    /// Nothing more comes; latencies can be asked for.
    pub(crate) fn sort(&mut self) {
        self.latencies_ns.sort_unstable();
    }

    /// Cores in use over cores there are, of each backend.
    pub(crate) fn utilization(&self) -> &[f64] {
        &self.utilization
    }

    /// The latency that this share of the answered requests did not exceed.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        let place = (last as f64 * share).round() as usize;
        self.latencies_ns.get(place).map_or(0.0, |&nanos| nanos as f64 / 1e6)
    }

    /// Requests that arrived, whatever became of them.
    pub(crate) fn requests(&self) -> u64 {
        self.sent + self.refused
    }

    #[cfg(test)]
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    #[cfg(test)]
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// The share of the second half's requests that went to this backend.
    pub(crate) fn share_late(&self, backend: usize) -> f64 {
        let all: u64 = self.sent_late.iter().sum();
        self.sent_late[backend] as f64 / all.max(1) as f64
    }
}
