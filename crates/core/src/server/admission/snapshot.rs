//! Admission as it is now, as plain data.

use std::time::Duration;

use super::Governor;
use crate::server::gate::Gate;
use crate::server::refusal::ServerRefusal;
use crate::{Cutoff, MethodId, Time};

/// Who is let in, and why; arrays of four are by criticality, the least first.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionSnapshot {
    /// What is refused.
    pub cutoff: Cutoff,
    /// What would be, if everything were on.
    pub cutoff_observed: Cutoff,
    /// The signal that asks for the highest cutoff, if any does.
    pub signal: Option<String>,
    /// Each signal's mean of late, then those of the service; `None` for one that cannot be read.
    pub signals: Vec<(String, Option<f64>)>,
    /// Signals that are left out because refusing does not bring them down.
    pub stuck: Vec<String>,
    /// CPU seconds a second that are asked for, also by what is refused, were every answer whole; `None` where everything but
    /// deadlines is off, so that nobody measures it.
    pub demand: Option<[f64; 4]>,
    /// CPU that customers have asked for beyond their quotas, which is no demand.
    pub beyond_quota: [Duration; 4],
    /// CPU seconds a second that handlers can have.
    pub capacity: f64,
    /// How much of that is handed out.
    pub trim: f64,
    /// Handlers that run or are ready to.
    pub running: u32,
    /// Handlers that run at once, at most.
    pub slots: u32,
    /// Requests in line.
    pub waiting: u32,
    /// CPU that they are expected to cost.
    pub queued: Duration,
    /// Requests in handlers, at most; `None` before anything is known.
    pub limit: Option<u32>,
    /// Retries as a share of requests; `None` where there are too few.
    pub retries: Option<f64>,
    /// Whether clients are told not to retry.
    pub dont_retry: bool,
    /// Whether they would be, if that were on.
    pub dont_retry_observed: bool,
    /// How much cheaper answers should be, up to 3.
    pub degrade: u8,
    /// How much cheaper they would be asked to be, if that were on.
    pub degrade_observed: u8,
    /// Answers that were made cheaper.
    pub degraded: u64,
    /// What one request in a hundred costs at least.
    pub dearest: Option<Duration>,
    /// What a whole answer costs, on average.
    pub cost: Option<Duration>,
    /// What answers cost at the level of `degrade`, on average; `None` where that is 0, or none was made cheaper.
    pub cost_degraded: Option<Duration>,
    /// CPU that handlers used, by criticality.
    pub cpu: [Duration; 4],
    /// Requests that came.
    pub asked: [u64; 4],
    /// Requests that clients held back.
    pub held: [u64; 4],
    /// Requests that were served.
    pub served: [u64; 4],
    /// Requests that were refused, by reason in the order of [`ServerRefusal::ALL`].
    pub refused: [[u64; 4]; ServerRefusal::ALL.len()],
    /// Requests that would have been, by mechanisms that only observe.
    pub observed: [[u64; 4]; ServerRefusal::ALL.len()],
    /// Requests that would have stood in line, where that only observes.
    pub would_wait: [u64; 4],
}

impl Governor {
    pub(crate) fn snapshot(&self, now: Time, gate: &Gate) -> AdmissionSnapshot {
        let (totals, rules) = (gate.totals(), gate.rules());
        let (_, signal) = self.signals.cutoff(&self.config.signals);
        AdmissionSnapshot {
            cutoff: rules.cutoff().max(rules.limit_cutoff()),
            cutoff_observed: rules.cutoff_observed().max(rules.limit_cutoff_observed()),
            signal: signal.map(str::to_owned),
            signals: self.signals.means(),
            stuck: self.signals.stuck().map(str::to_owned).collect(),
            demand: self.config.modes.learn().then(|| self.demand_in_full.rates()),
            beyond_quota: totals.beyond_quota.map(Duration::from_nanos),
            capacity: self.capacity.get(),
            trim: self.controller.trim(),
            running: gate.running().now(),
            slots: rules.slots(),
            waiting: gate.running().waiting(),
            queued: Duration::from_nanos(rules.queued()),
            limit: Some(rules.limit()).filter(|limit| *limit != u32::MAX),
            retries: self.attempts.share(now),
            dont_retry: rules.dont_retry(),
            dont_retry_observed: rules.dont_retry_observed(),
            degrade: rules.degrade(),
            degrade_observed: rules.degrade_observed(),
            degraded: totals.degraded,
            dearest: self.dearest.quantile(0.99).map(Duration::from_nanos),
            cost: gate.costs().mean().map(Duration::from_nanos),
            cost_degraded: gate.degraded_cost_of(MethodId::default()),
            cpu: totals.cpu_nanos.map(Duration::from_nanos),
            asked: totals.asked,
            held: totals.held,
            served: totals.served,
            refused: totals.refused,
            observed: totals.observed,
            would_wait: totals.would_wait,
        }
    }
}
