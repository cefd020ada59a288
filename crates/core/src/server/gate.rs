//! What a request meets at a server: in or not, and what is counted.
//!
//! Counts are spread over shards, each on a cache line of its own, so that cores do not pass one line around; whoever
//! needs a total adds them up.

use super::refusal::ServerRefusal;
use crate::report_cell::ReportCell;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{LoadReport, Outcome, RequestMeta, Rng, Time};

/// Decides for each request of a server; shared by all threads.
#[derive(Debug, Default)]
pub struct Gate {
    shards: [Shard; SHARDS],
    report: ReportCell,
    closed: AtomicU32,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard {
    admitted: AtomicU64,
    finished: AtomicU64,
    errors: AtomicU64,
    latency_nanos: AtomicU64,
    too_late: AtomicU64,
    closed: AtomicU64,
}

/// Proof that a request was let in; give it back exactly once.
#[must_use = "a request that is never finished keeps the server from draining"]
#[derive(Debug)]
pub struct Admission {
    shard: u32,
    began: Time,
}

/// What one thread remembers between its requests.
#[derive(Clone, Debug, Default)]
pub struct GateLocal {
    shard: Option<u32>,
}

/// Sums over all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) admitted: u64,
    pub(crate) finished: u64,
    pub(crate) errors: u64,
    pub(crate) latency_nanos: u64,
    pub(crate) too_late: u64,
    pub(crate) closed: u64,
}

impl Totals {
    pub(crate) fn in_flight(&self) -> u64 {
        self.admitted.saturating_sub(self.finished)
    }
}

impl Gate {
    /// Lets a request in, or says why not.
    pub fn admit(
        &self,
        local: &mut GateLocal,
        now: Time,
        meta: &RequestMeta,
        rng: &mut Rng,
    ) -> Result<Admission, ServerRefusal> {
        let number = *local.shard.get_or_insert_with(|| rng.below(SHARDS as u32));
        let shard = &self.shards[number as usize % SHARDS];
        if meta.deadline <= now {
            shard.too_late.fetch_add(1, Ordering::Relaxed);
            return Err(ServerRefusal::TooLate);
        }
        if self.closed.load(Ordering::Acquire) != 0 {
            shard.closed.fetch_add(1, Ordering::Relaxed);
            return Err(ServerRefusal::Closed);
        }
        shard.admitted.fetch_add(1, Ordering::AcqRel);
        Ok(Admission { shard: number, began: now })
    }

    /// The request ended so.
    #[expect(clippy::needless_pass_by_value, reason = "finishing twice does not compile")]
    pub fn finish(&self, now: Time, admission: Admission, outcome: Outcome) {
        let Admission { shard, began } = admission;
        let shard = &self.shards[shard as usize % SHARDS];
        let latency = now.since(began).as_nanos() as u64;
        shard.latency_nanos.fetch_add(latency, Ordering::Relaxed);
        if outcome.is_error() {
            shard.errors.fetch_add(1, Ordering::Relaxed);
        }
        shard.finished.fetch_add(1, Ordering::AcqRel);
    }

    /// What to tell a client with an answer: the brain's last figures, and the requests in flight now.
    pub fn report(&self) -> LoadReport {
        let (_, report) = self.report.last().unwrap_or_default();
        LoadReport { in_flight: Some(self.in_flight()), ..report }
    }

    /// Requests being worked on now.
    pub fn in_flight(&self) -> u32 {
        let running = self.shards.iter().map(|shard| {
            // Finished first: see `totals`. A request is counted out where it was counted in.
            let finished = shard.finished.load(Ordering::Acquire);
            shard.admitted.load(Ordering::Acquire).saturating_sub(finished)
        });
        u32::try_from(running.sum::<u64>()).unwrap_or(u32::MAX)
    }

    pub(crate) fn set_report(&self, now: Time, report: &LoadReport) {
        self.report.tell(now, report);
    }

    pub(crate) fn set_closed(&self, closed: bool) {
        self.closed.store(u32::from(closed), Ordering::Release);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shards {
            // Finished first: a request that ends in between makes the sum too high for a moment, never too low.
            totals.finished += shard.finished.load(Ordering::Acquire);
            totals.admitted += shard.admitted.load(Ordering::Acquire);
            totals.errors += shard.errors.load(Ordering::Relaxed);
            totals.latency_nanos += shard.latency_nanos.load(Ordering::Relaxed);
            totals.too_late += shard.too_late.load(Ordering::Relaxed);
            totals.closed += shard.closed.load(Ordering::Relaxed);
        }
        totals
    }
}

/// Threads beyond this share; the model checker explores every one, so it gets few.
const SHARDS: usize = if cfg!(loom) { 2 } else { 8 };
