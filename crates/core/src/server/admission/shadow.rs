//! The line that would stand in front of the handlers, were it on: for observing, where nobody waits.
//!
//! Work that came and would have been let in, less what the task can do meanwhile; the highest criticality is done first.
//! What would not have fitted, or not in time, is counted and taken out again. So the cutoff is decided as if it were in
//! force, though the line has no end and those in it are not in order.

use std::time::Duration;

use super::queue::most_of;
use super::rules::Rules;
use crate::server::refusal::ServerRefusal;
use crate::sync::{AtomicU64, Ordering};
use crate::{Criticality, RequestMeta, Time};

/// Nanoseconds of CPU that would be under way or waiting, by criticality.
#[derive(Debug, Default)]
pub(crate) struct Shadow {
    work: [AtomicU64; 4],
    /// CPU that the task can do in a microsecond, in nanoseconds; 0 before that is known.
    pace: AtomicU64,
    /// What of it would be running.
    running: AtomicU64,
    /// Up to when it was worked on, in nanoseconds.
    drained_at: AtomicU64,
    /// What could have been done since the last tick and there was nothing to do.
    spare: AtomicU64,
}

/// What would have become of a request, or of one that it drives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Starts,
    Waits,
    Refused(ServerRefusal, Criticality),
}

impl Shadow {
    /// One more that would be let in as far as the line.
    pub(crate) fn enter(&self, now: Time, meta: &RequestMeta, work: u64, rules: &Rules) -> Fate {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace == 0 {
            return Fate::Starts;
        }
        self.drain(now, pace);
        let class = meta.criticality.index();
        let cutoff = rules.cutoff_observed();
        let each: [u64; 4] = std::array::from_fn(|one| self.work[one].load(Ordering::Relaxed));
        // While all fits they stand in one line.
        let before = if rules.goes_by_criticality(cutoff) { class } else { 0 };
        let ahead = each[before..].iter().sum::<u64>().saturating_sub(self.running.load(Ordering::Relaxed));
        if ahead == 0 {
            self.work[class].fetch_add(work, Ordering::Relaxed);
            return Fate::Starts;
        }
        let micros = ahead / pace;
        if meta.deadline <= now + Duration::from_micros(micros) {
            return Fate::Refused(ServerRefusal::TooLate, meta.criticality);
        }
        self.work[class].fetch_add(work, Ordering::Relaxed);
        let mut above = 0;
        let is_too_long = Criticality::ALL.into_iter().rev().any(|one| {
            above += each[one.index()] + if one.index() == class { work } else { 0 };
            above > most_of(one, cutoff, rules)
        });
        let lowest = Criticality::ALL.into_iter().find(|one| one.index() == class || each[one.index()] >= work);
        match lowest.filter(|_| is_too_long) {
            Some(lowest) => {
                self.take(lowest.index(), work);
                Fate::Refused(ServerRefusal::QueueFull, lowest)
            }
            None => Fate::Waits,
        }
    }

    /// So much work of this criticality did not come, since clients do without hints what protects them. Were admission on, they
    /// would hear what is let in and send that: it would stand in line as far as there is room.
    pub(crate) fn hold(&self, now: Time, class: Criticality, work: u64, rules: &Rules) {
        let pace = self.pace.load(Ordering::Relaxed);
        if pace == 0 {
            return;
        }
        self.drain(now, pace);
        let cutoff = rules.cutoff_observed();
        let comes = (work as f64 * cutoff.admitted(class)) as u64;
        let ahead: u64 = self.work[class.index()..].iter().map(|work| work.load(Ordering::Relaxed)).sum();
        let room = most_of(class, cutoff, rules).saturating_sub(ahead);
        self.work[class.index()].fetch_add(comes.min(room), Ordering::Relaxed);
    }

    /// What it could have done since the last tick and there was nothing to do, in nanoseconds of CPU; nothing in its first.
    pub(crate) fn tick(&self, now: Time) -> Option<f64> {
        let pace = self.pace.load(Ordering::Relaxed);
        self.drain(now, pace);
        // Also after the clock was set back.
        self.drained_at.store(now.nanos(), Ordering::Relaxed);
        let spare = self.spare.swap(0, Ordering::Relaxed);
        (pace > 0).then_some(spare as f64)
    }

    /// Does what there was time for. Not only at ticks: between two of them work comes and is done many times over.
    fn drain(&self, now: Time, pace: u64) {
        let at = self.drained_at.load(Ordering::Relaxed);
        let micros = now.nanos().saturating_sub(at) / 1_000;
        let until = at + micros * 1_000;
        // Whoever moves it does the work of that time; others need not wait for it.
        let is_own =
            micros > 0 && self.drained_at.compare_exchange(at, until, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_own {
            let done = micros.saturating_mul(pace);
            let left = (0..4).rev().fold(done, |left, class| left - self.take(class, left));
            self.spare.fetch_add(left, Ordering::Relaxed);
        }
    }

    /// What would wait.
    pub(crate) fn queued(&self) -> u64 {
        let all: u64 = self.work.iter().map(|work| work.load(Ordering::Relaxed)).sum();
        all.saturating_sub(self.running.load(Ordering::Relaxed))
    }

    /// CPU seconds of handlers in a second, and nanoseconds of them that run at once.
    pub(crate) fn set_pace(&self, capacity: f64, running: f64) {
        self.pace.store(((capacity * 1e3) as u64).max(1), Ordering::Relaxed);
        self.running.store(running as u64, Ordering::Relaxed);
    }

    /// Nobody stands there, and nobody is told to before the next tick.
    pub(crate) fn clear(&self) {
        self.pace.store(0, Ordering::Relaxed);
        self.work.iter().for_each(|work| work.store(0, Ordering::Relaxed));
    }

    /// As much of it as there is; says how much that was.
    fn take(&self, class: usize, wanted: u64) -> u64 {
        let mut seen = self.work[class].load(Ordering::Relaxed);
        loop {
            let left = seen.saturating_sub(wanted);
            match self.work[class].compare_exchange_weak(seen, left, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return seen - left,
                Err(now) => seen = now,
            }
        }
    }
}
