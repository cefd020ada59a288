//! What a client knows of its cluster: how full the most loaded tasks are, how much it can do, what it refused.

use std::time::Duration;

use super::super::pick::unheard;
use super::super::{Client, Refusal};
use crate::{LoadReport, Outcome, Time};

/// One cluster as its [`Client`] sees it now. *Unknown is not zero*: without reports its load is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Backends that can be picked.
    pub usable: u32,
    /// Those that were to be used, usable or not: what is missing is lost capacity.
    pub wanted: u32,
    /// Backends of the cluster.
    pub known: u32,
    /// Utilization of the most loaded tasks, of which a tenth may be fuller: of nine the first, of twenty the third.
    pub load: Option<f64>,
    /// Mean utilization.
    pub mean: Option<f64>,
    /// Mean of what is ready to run and has no processor, for each processor.
    pub backlog: Option<f64>,
    /// Mean processors of a task.
    pub processors: Option<f64>,
    /// Mean processors in use of a task, of those that say what they answer too.
    pub work: Option<f64>,
    /// What these tasks answer in a second, each: what an answer takes is `work / answers`.
    pub answers: Option<f64>,
    /// Mean age of the reports that say so, in seconds.
    pub age_s: Option<f64>,
    /// Share of what its tasks answer that fails, as they say themselves: known without sending anything there.
    pub failing: Option<f64>,
    /// Attempts begun so far, ended or not, and requests this client did not send because the cluster had no room.
    pub begun: u64,
    /// Those of them that have not ended; streams do not count, which may last for hours.
    pub in_flight: u64,
    /// Attempts that ended so far, and requests this client did not send because the cluster had no room.
    pub ended: u64,
    /// Those of them that were refused as too much, there or here.
    pub refused: u64,
    /// Those of them that failed, or took too long.
    pub failed: u64,
}

impl Reading {
    /// Processors of the cluster as far as they can be used; in tasks where nobody said how many processors one has.
    pub fn capacity(&self) -> f64 {
        let there = f64::from(self.usable) / f64::from(self.wanted.max(self.usable).max(1));
        there * f64::from(self.known.max(self.usable)) * self.processors.unwrap_or(1.0)
    }
}

impl Client {
    /// What this client knows of the backends that it uses. Takes time in proportion to the subset.
    pub fn reading(&self, now: Time) -> Reading {
        let mut reading = Reading { known: self.backends.len() as u32, ..Reading::default() };
        for (_, member) in self.roster.members() {
            reading.wanted += 1;
            let Some(slot) = self.roster.slots().get(member.slot) else { continue };
            let ended = slot.ended();
            let in_flight = u64::from(slot.in_flight.counts().0);
            reading.in_flight += in_flight;
            reading.begun += ended.iter().sum::<u64>() + in_flight;
            let of = |outcomes: &[Outcome]| outcomes.iter().map(|outcome| ended[outcome.index()]).sum::<u64>();
            reading.refused += of(&[Outcome::Overloaded, Outcome::DontRetry]);
            reading.failed += of(&[Outcome::Failed, Outcome::Expired]);
            reading.ended +=
                of(&[Outcome::Served, Outcome::Failed, Outcome::Overloaded, Outcome::DontRetry, Outcome::Expired]);
        }
        let refused = self.roster.slots().refused();
        // What a customer has used up is used up everywhere: going elsewhere is no use, and no cluster is full for it.
        let throttled = refused[Refusal::Throttled.index()].saturating_sub(self.roster.slots().throttle.for_quota());
        let here = throttled + refused[Refusal::AllFull.index()];
        reading.refused += here;
        reading.ended += here;
        reading.begun += here;
        self.read_reports(now, &mut reading);
        reading
    }

    fn read_reports(&self, now: Time, reading: &mut Reading) {
        let mut loads = Vec::new();
        let (mut backlog, mut processors, mut age) = (Mean::default(), Mean::default(), Mean::default());
        let (mut work, mut answers) = (Mean::default(), Mean::default());
        let (mut answered, mut failed) = (0.0, 0.0);
        for candidate in self.roster.candidates(false).chain(self.roster.candidates(true)) {
            reading.usable += 1;
            let Some((told, report)) = candidate.counts.report.last() else { continue };
            if now.since(told) > BELIEVED_FOR {
                continue;
            }
            loads.extend(report.utilization);
            age.add(Some(now.since(told).as_secs_f64()));
            backlog.add(backlog_of(&report));
            processors.add(report.processors);
            if let (Some(utilization), Some(processors), Some(qps)) =
                (report.utilization, report.processors, report.qps)
            {
                work.add(Some(utilization * processors));
                answers.add(Some(qps));
            }
            if let (Some(qps), Some(eps)) = (report.qps, report.eps) {
                (answered, failed) = (answered + qps, failed + eps.min(qps));
            }
        }
        reading.failing = (answered > 0.0).then(|| failed / answered);
        let mut mean = Mean::default();
        for &load in &loads {
            mean.add(Some(load));
        }
        loads.sort_by(f64::total_cmp);
        // A tenth may be fuller: one task with a neighbour must not close a cluster of a hundred.
        reading.load = loads.get((loads.len() * 9).div_ceil(10).saturating_sub(1)).copied();
        (reading.mean, reading.backlog, reading.processors) = (mean.get(), backlog.get(), processors.get());
        (reading.work, reading.answers, reading.age_s) = (work.get(), answers.get(), age.get());
    }

    /// Asks some of its backends how they are, those first of whom nothing was heard for longest: a cluster that gets
    /// no requests sends no reports with answers. To be called for each cluster after a decision that
    /// [wants news](super::Spill::wants_news); the driver then drains [`Client::poll_action`].
    pub fn freshen(&mut self, now: Time) {
        self.on_clock(now);
        let all = self.roster.candidates(false).chain(self.roster.candidates(true));
        let usable: Vec<_> = all.filter(|one| self.roster.answers_checks(one.backend)).collect();
        for backend in unheard(usable.iter(), self.now, FRESH_FOR).into_iter().take(ASKED_AT_ONCE) {
            self.roster.check(backend);
        }
        self.take_news();
    }
}

/// What is ready to run beyond one for each processor, for each processor.
fn backlog_of(report: &LoadReport) -> Option<f64> {
    Some((report.runnable? / report.processors? - 1.0).max(0.0))
}

/// A mean of what is known.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// Five times what a mean of reports covers: a load from before that says nothing of now.
const BELIEVED_FOR: Duration = Duration::from_secs(10);
/// Younger than this it is not asked for.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Twenty backends that get no requests are heard of every 2.5 s at the default period.
const ASKED_AT_ONCE: usize = 2;
