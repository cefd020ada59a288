//! What is remembered of one cluster between two decisions.
//!
//! A report's utilization is a mean over about 2 s, so it answers to what was sent over that time and not to what is sent
//! now. Shares and capacities that are compared with it are kept as means over the same time, and taken as they were when the
//! report was made (`past.rs`): then a share that was just changed is not changed again because its effect cannot be seen yet,
//! and a client without a model of delays does not swing.

use std::time::Duration;

use super::Reading;
use super::past::Past;
use crate::Time;
use crate::stats::{DecayingMean, decay};

/// One cluster, from decision to decision.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Whether most of its requests come from clients like this one, which then know best what fails there.
    is_home: bool,
    /// The last reading.
    pub(super) last: Reading,
    /// Mean share over the time that a report's utilization covers.
    share_reported: Past,
    /// The same as far as the cluster could take it: a utilization that ends at 1 answers to no more.
    share_taken: Past,
    /// Mean share over the time that errors are counted.
    share_lately: Past,
    /// What a processor gets of what is sent, over the time that a report's utilization covers: the mean of 1 / capacity.
    per_processor: Past,
    /// Attempts begun and completed, with those of long ago forgotten.
    begun: f64,
    completed: f64,
    /// Those that ended, were refused and failed, likewise.
    ended: f64,
    refused: f64,
    failed: f64,
    /// Mean share refused, over the time that a report's utilization covers.
    refused_reported: DecayingMean,
    counted: Option<Time>,
    backlog_before: Option<f64>,
    /// Mean utilization of late: what the reports' mean must have been made of.
    utilization_lately: DecayingMean,
    /// Processors in use and answers in a second of a task: parts of what `dearer` compares.
    work_lately: DecayingMean,
    answers_lately: DecayingMean,
}

impl Memory {
    pub(super) fn new(is_home: bool) -> Self {
        Memory {
            is_home,
            last: Reading::default(),
            share_reported: Past::new(REPORTED),
            share_taken: Past::new(REPORTED),
            share_lately: Past::new(LATELY),
            per_processor: Past::new(REPORTED),
            begun: 0.0,
            completed: 0.0,
            ended: 0.0,
            refused: 0.0,
            failed: 0.0,
            refused_reported: DecayingMean::new(REPORTED),
            counted: None,
            backlog_before: None,
            utilization_lately: DecayingMean::new(LATELY),
            work_lately: DecayingMean::new(LATELY),
            answers_lately: DecayingMean::new(LATELY),
        }
    }

    /// A reading, and the share of requests that went there since the last one.
    pub(super) fn observe(&mut self, now: Time, reading: Reading, share: f64) {
        self.share_reported.sample(now, share);
        self.share_lately.sample(now, share);
        if reading.usable > 0 {
            self.per_processor.sample(now, 1.0 / reading.capacity());
        }
        let left = self.counted.map_or(0.0, |then| decay(now.since(then), LATELY));
        // Backends that leave take their counts along; then nothing has happened since.
        let since = |count: fn(&Reading) -> u64| match self.counted {
            None => 0.0,
            Some(_) => count(&reading).saturating_sub(count(&self.last)) as f64,
        };
        let (ended, refused, failed) = (since(|one| one.ended), since(|one| one.refused), since(|one| one.failed));
        let begun = since(|one| one.begun);
        let completed = since(|one| one.begun.saturating_sub(one.in_flight));
        self.begun = self.begun * left + begun;
        self.completed = self.completed * left + completed;
        self.ended = self.ended * left + ended;
        self.refused = self.refused * left + refused;
        self.failed = self.failed * left + failed;
        self.refused_reported.sample(now, self.refused_share());
        self.undo_mean(now, &reading);
        self.counted = Some(now);
        self.backlog_before = self.last.backlog;
        self.last = reading;
        self.share_taken.sample(now, share / self.offered_lately().unwrap_or(0.0).max(1.0));
    }

    /// A mean that forgets at a known rate can be taken apart again: what it must have been given since the last time. Only
    /// where reports are as young as that: what came about in the seconds between two of a rare caller's did not come about
    /// in the time between two readings.
    fn undo_mean(&mut self, now: Time, reading: &Reading) {
        let left = self.counted.map_or(1.0, |then| decay(now.since(then), REPORTED));
        if left >= UNDONE_MOST || !is_young(reading) {
            return;
        }
        let since = |mean: Option<f64>, before: Option<f64>| Some(((mean? - before? * left) / (1.0 - left)).max(0.0));
        if let Some(utilization) = since(reading.mean, self.last.mean) {
            self.utilization_lately.sample(now, utilization.min(1.0));
        }
        let (work, answers) = (since(reading.work, self.last.work), since(reading.answers, self.last.answers));
        if let (Some(work), Some(answers)) = (work, answers) {
            self.work_lately.sample(now, work);
            self.answers_lately.sample(now, answers);
        }
    }

    /// What is asked of the cluster over what it can do, of late: beyond 1 where more is begun than completed, which
    /// utilization cannot say.
    pub(super) fn offered_lately(&self) -> Option<f64> {
        Some(self.pressed_lately()? + self.errors())
    }

    /// The same without errors: as far as reports tell it, and by what is begun and completed.
    fn pressed_lately(&self) -> Option<f64> {
        let (busy, waits) = (self.busy_lately()?, self.waits());
        // Elsewhere too little is begun to tell.
        let grown = if self.is_home { (self.begun + PRIOR) / (self.completed + PRIOR) } else { 1.0 };
        // Only where work waits is it for want of processors that less is completed than begun.
        Some(busy * (1.0 + waits * (grown.clamp(GROWN_LEAST, GROWN_MOST) - 1.0)))
    }

    /// Utilization of late, while reports are young: old ones leave it as it was, and what was so once says nothing of now.
    fn undone_lately(&self) -> Option<f64> {
        self.utilization_lately.mean().filter(|_| is_young(&self.last))
    }

    /// Share of its processors in use of late: all of them where work waits.
    pub(super) fn busy_lately(&self) -> Option<f64> {
        let utilization = self.undone_lately()?;
        Some(utilization + self.waits() * (1.0 - utilization).max(0.0))
    }

    /// Whether work waits for processors: 1 where all of them are surely in use. A server with a line in front of its handlers
    /// has nobody ready to run without a processor, however much waits: there it is told by processors that never rest.
    fn waits(&self) -> f64 {
        self.backlog_waits().max(rises(self.undone_lately().unwrap_or(0.0), RESTS_LEAST, NEVER_RESTS))
    }

    /// The same as far as handlers are seen that wait for a processor.
    fn backlog_waits(&self) -> f64 {
        rises(self.last.backlog.unwrap_or(0.0), WAITING_LEAST, BACKLOG_HIGH)
    }

    /// What would be asked of it over what it can do, if it got everything: by the mean of reports, and where work waits by
    /// what is begun and completed, which is the sooner and the less exact. Neither is far above it.
    pub(super) fn asked_for_all(&self) -> Option<f64> {
        let load = self.expected(self.last.mean?);
        // Errors are counted here: over a shorter time than load, and nothing is late.
        let errors = self.errors() / self.share_lately();
        let by_errors = load / self.share_reported() + errors;
        let reported = by_errors.max(load / self.share_taken.ago(self.age_s())?);
        let Some(pressed) = self.pressed_lately() else { return Some(reported) };
        let lately = pressed / self.share_pressed() + errors.max(self.refused_over_served() / self.share_lately());
        let between = reported + self.waits() * (lately - reported);
        Some(between.max(reported - SLACK).max(lately - SLACK))
    }

    /// What is refused for each that is not. A cluster that refuses a share of what it is asked for takes the rest, so this is how
    /// far beyond its capacity it is.
    fn refused_over_served(&self) -> f64 {
        let refused = self.refused_beyond_chance().min(REFUSED_MOST);
        refused / (1.0 - refused)
    }

    /// Every error as more than full load.
    fn errors(&self) -> f64 {
        ERROR_LOAD * (self.failed_share() + self.refused_beyond_chance())
    }

    /// Mean load of its tasks and what they are about to get, with errors.
    pub(super) fn mean_load(&self) -> Option<f64> {
        Some(self.expected(self.last.mean?) + self.errors())
    }

    /// Mean share over the time that the last reading's load covers.
    pub(super) fn share_reported(&self) -> f64 {
        self.share_reported.ago(self.age_s()).unwrap_or(0.0)
    }

    /// Mean share that caused what [`pressed_lately`](Self::pressed_lately) says. Utilization is told late. Where work waits or much
    /// was refused for a while, all processors are in use whatever it says, and what this client begins, completes and is refused
    /// tells of now. Not where processors only never rest: near full load that is chance, and a share that just changed, held
    /// against what the one before it caused, would answer to itself.
    pub(super) fn share_pressed(&self) -> f64 {
        let then = self.share_lately.ago(self.age_s()).unwrap_or(0.0);
        let refused = rises(self.refused_reported.mean().unwrap_or(0.0), REFUSED_SOME, REFUSED_MUCH);
        let by_own = if self.is_home { self.backlog_waits().max(refused) } else { 0.0 };
        then + by_own * (self.share_lately() - then)
    }

    /// So long ago is what the last reading tells.
    fn age_s(&self) -> f64 {
        self.last.age_s.unwrap_or(0.0)
    }

    /// Mean share over the time that the shares of errors cover.
    pub(super) fn share_lately(&self) -> f64 {
        self.share_lately.mean().unwrap_or(0.0)
    }

    pub(super) fn capacity(&self) -> f64 {
        self.last.capacity()
    }

    /// Capacity over the time that the last reading's load covers.
    pub(super) fn capacity_reported(&self) -> f64 {
        self.per_processor.ago(self.age_s()).map_or_else(|| self.capacity(), f64::recip)
    }

    /// What the load is about to be: tasks that are gone leave theirs to the others at once, requests that became dearer take
    /// more, and reports say so later.
    fn expected(&self, load: f64) -> f64 {
        let capacity = self.capacity();
        if capacity <= 0.0 {
            return load;
        }
        load * (self.capacity_reported() / capacity * self.dearer()).clamp(1.0, LOSS_MOST)
    }

    /// What an answer takes of late over what it took before: beyond 1 where cores became slow, which a mean from before hides
    /// for some seconds, since utilization ends at 1. Told only near that: elsewhere utilization says it by itself, and what a
    /// rush of long requests uses comes before their answers.
    ///
    /// Servers tell answers as a mean over 10 s, and here it is taken apart as if it were one over 2 s: at first a part of a step
    /// is seen, and it is gone after some ten seconds. Not tried with windows that match. Utilization of late instead of its mean
    /// is too much: 1.15 to 1.18 of a capacity at 80 % load where this has 1.04 to 1.07.
    fn dearer(&self) -> f64 {
        let each = |work: Option<f64>, answers: Option<f64>| {
            let each = work? / answers.filter(|&answers| answers > 0.0)?;
            (each > 0.0).then_some(each)
        };
        let lately = each(self.work_lately.mean(), self.answers_lately.mean());
        let (Some(utilization), Some(lately), Some(reported)) =
            (self.undone_lately(), lately, each(self.last.work, self.last.answers))
        else {
            return 1.0;
        };
        let is_told = rises(utilization, NEARLY_ALL_LEAST, NEARLY_ALL);
        1.0 + is_told * ((lately / reported).clamp(1.0, DEARER_MOST) - 1.0)
    }

    /// Share of attempts that were refused as too much.
    pub(super) fn refused_share(&self) -> f64 {
        self.refused / (self.ended + PRIOR)
    }

    /// The same without what chance refuses near full load: of few attempts one refusal says nothing of a cluster. At home
    /// each counts, where leaving costs a longer way; elsewhere it takes room from a home that may be beyond its capacity.
    pub(super) fn refused_beyond_chance(&self) -> f64 {
        if self.is_home {
            return self.refused_share();
        }
        let mean = self.ended * REFUSED_BY_CHANCE;
        let chance = (mean + DEVIATIONS * mean.sqrt()).max(1.0);
        (self.refused - chance).max(0.0) / (self.ended + PRIOR)
    }

    /// Share of attempts that failed; elsewhere also of others' attempts, so that it needs no errors of our own.
    pub(super) fn failed_share(&self) -> f64 {
        let own = self.failed / (self.ended + PRIOR);
        if self.is_home { own } else { own.max(self.last.failing.unwrap_or(0.0)) }
    }

    /// How full the cluster is: its most loaded tasks, what they are about to get, and every error as more than full.
    pub(super) fn load(&self) -> Option<f64> {
        let errors = self.errors();
        match self.last.load {
            Some(load) => Some(self.expected(load) + errors),
            // Errors alone are known: enough to say that it is full, never that it is idle.
            None => (errors > 0.5).then_some(errors),
        }
    }

    /// Processors in use.
    pub(super) fn used(&self) -> Option<f64> {
        Some(self.last.mean? * self.capacity_reported())
    }

    /// Mean load over that of the most loaded: how much of the room of these all have together.
    pub(super) fn evenness(&self) -> f64 {
        match (self.last.mean, self.last.load) {
            (Some(mean), Some(load)) if load > IDLE => (mean / load).clamp(EVENNESS_LEAST, 1.0),
            _ => 1.0,
        }
    }

    /// Whether work piles up there.
    pub(super) fn backlog(&self) -> Backlog {
        match (self.last.backlog, self.backlog_before) {
            (Some(now), before) if now > BACKLOG_HIGH => {
                if before.is_some_and(|before| now < before * BACKLOG_FALLS) {
                    Backlog::Falls
                } else {
                    Backlog::Grows
                }
            }
            _ => Backlog::None,
        }
    }
}

/// From 0 to 1 as the value goes from one to the other.
fn rises(value: f64, from: f64, to: f64) -> f64 {
    ((value - from) / (to - from)).clamp(0.0, 1.0)
}

/// Whether its reports tell of now.
fn is_young(reading: &Reading) -> bool {
    reading.age_s.is_none_or(|age| age <= UNDONE_AGE_MOST_S)
}

/// What waits for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backlog {
    /// Little, or nobody says.
    None,
    /// Much, and less than before.
    Falls,
    /// Much, and no less than before.
    Grows,
}

/// Half-life of the utilization in a report.
pub(super) const REPORTED: Duration = Duration::from_millis(1_386);
/// Readings that follow each other sooner cannot be taken apart: 30 ms.
const UNDONE_MOST: f64 = 0.985;
/// Four readings at the default period. Half of it was too little: clients of a few dozen requests a second hear of another
/// cluster's tasks after 0.4 to 1 s, and what they knew of it came and went.
const UNDONE_AGE_MOST_S: f64 = 1.0;
/// Half-life of what is counted of errors: quick, since an error is certain where a load is a mean.
const LATELY: Duration = Duration::from_millis(350);
/// What an error counts as load. Published: a region that shed looked idle until each error counted as 120 %.
const ERROR_LOAD: f64 = 1.2;
/// One error of a client that asks rarely is not a share of 1.
const PRIOR: f64 = 1.0;
/// Of what comes from elsewhere. Measured: clusters at 0.93 to 0.96 of their capacity refuse 0.3 to 2.7 % of it.
const REFUSED_BY_CHANCE: f64 = 0.02;
/// How far beyond the mean a count may be by chance: up to 8 attempts one refusal, of 40 two, of 400 thirteen. At three a cluster
/// that is really too full is seen later: 1.05 of a capacity in the worst second of 300 clients in `spill`, where two have 1.02.
const DEVIATIONS: f64 = 2.0;
/// A tenth of what was there, or as much more to do for each: nothing can be foretold of that.
const LOSS_MOST: f64 = 10.0;
/// Utilization of late from which on what an answer takes is told by little and by little, and up to which. Chosen.
const NEARLY_ALL_LEAST: f64 = 0.85;
const NEARLY_ALL: f64 = 0.95;
/// Slower than to a quarter within seconds, or a standstill: nothing can be foretold of that either.
const DEARER_MOST: f64 = 4.0;
/// A load of which no ratio can be formed.
const IDLE: f64 = 0.05;
const EVENNESS_LEAST: f64 = 0.2;
/// Twice as much as chance leaves waiting at 85 % of four processors with requests sent at random.
const BACKLOG_HIGH: f64 = 2.0;
const BACKLOG_FALLS: f64 = 0.98;
/// As much as chance leaves waiting at 85 %.
const WAITING_LEAST: f64 = 0.5;
/// Utilization of late up to which processors rest: nearly nothing has to wait there. Others are filled up to 0.98 (`TOP`), half way
/// to where work surely waits: then they count as being at 0.99, and as filling up only beyond that.
const RESTS_LEAST: f64 = 0.97;
/// And one that nobody has without work that waits. Chosen: clients of servers that refuse see 0.98 to 1 where these are asked
/// for 1 to 1.05 of what they can do, and a mean over tasks is seldom 1 itself.
const NEVER_RESTS: f64 = 0.99;
/// What is begun over what is completed: beyond these it is a jolt, no rate.
const GROWN_LEAST: f64 = 0.5;
const GROWN_MOST: f64 = 4.0;
/// Share refused over some seconds from which on it is no chance by little and by little, and from which on none of it is: at home
/// chance refuses up to 3 in 100 at 0.96 of the capacity. Over a time as short as refusals themselves are counted, the share was
/// compared with that of then again as soon as they ended: 1.07 of 60 cores in the third second at 80 % load.
const REFUSED_SOME: f64 = 0.05;
const REFUSED_MUCH: f64 = 0.1;
/// Who refuses more tells of his failure and not of how much is asked for.
const REFUSED_MOST: f64 = 0.75;
/// How far two ways to tell one thing may be apart by chance.
const SLACK: f64 = 0.1;

#[cfg(test)]
mod tests;
