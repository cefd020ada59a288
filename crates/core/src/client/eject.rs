//! Backends that fail where others do not are left out for a while (C, outlier ejection).
//!
//! Looked at by the slow brain: of each backend the share of attempts that failed of late, beside what is usual. One is
//! an outlier where most of its attempts fail and most of its siblings' do not: where all of them fail alike the trouble
//! is elsewhere, and leaving some out would only load the rest. Refusals for overload are no failures: whoever sheds load
//! must not shift all of it to the others, who would be next.
//!
//! It comes back by itself after a second; if it still fails it is left out again, twice as long each time. Never more
//! than a share is out, and where too few others are left (*panic*) nobody is: a backend that may fail is better than one
//! that surely breaks under the load of all.

use std::collections::BTreeMap;
use std::time::Duration;

use super::backend::BackendId;
use crate::stats::decay;
use crate::{InvalidConfig, Mode, Outcome, Time};

/// Which backends are left out because they fail.
#[derive(Clone, Debug, PartialEq)]
pub struct EjectConfig {
    /// Whether. Default on.
    pub mode: Mode,
    /// Share of attempts that must have failed of late. Lower is stricter; one that fails now and then is better used
    /// than left out. Default 0.5.
    pub failing: f64,
    /// Attempts of late below which nothing is concluded. Default 5.
    pub least: u32,
    /// Share of the usable backends that can be out at once; one can where there are two. Default 0.3.
    pub most: f64,
    /// How long one is out the first time; twice that if it fails again at once, and so on. Default 1 s.
    pub first: Duration,
    /// Never longer than this: how late a healed one may be used again. Default 4 s.
    pub longest: Duration,
    /// Share of the subset that must be usable besides, or nobody is left out. Default 0.5.
    pub panic: f64,
}

impl Default for EjectConfig {
    fn default() -> Self {
        EjectConfig {
            mode: Mode::On,
            failing: 0.5,
            least: 5,
            most: 0.3,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(4),
            panic: 0.5,
        }
    }
}

impl EjectConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let hour = Duration::from_secs(3600);
        InvalidConfig::unless_in_range("eject.failing", self.failing, 0.05, 1.0)?;
        InvalidConfig::unless_in_range("eject.least", self.least, 1, 100_000)?;
        InvalidConfig::unless_in_range("eject.most", self.most, 0.0, 1.0)?;
        InvalidConfig::unless_in_range("eject.first", self.first, Duration::from_millis(100), hour)?;
        InvalidConfig::unless_in_range("eject.longest", self.longest, self.first, hour)?;
        InvalidConfig::unless_in_range("eject.panic", self.panic, 0.0, 1.0)
    }
}

/// What was counted of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EjectCounts {
    /// Backends that were left out, each time.
    pub ejected: u64,
    /// Those that would have been, while it only observes.
    pub observed: u64,
    /// How often too few were left, so that nobody was.
    pub panics: u64,
    /// Whether that is so now.
    pub panics_now: bool,
}

/// A member as it is looked at: who, and its attempts that ended in the order of [`Outcome::ALL`].
pub(crate) type Ended = (BackendId, [u64; Outcome::ALL.len()]);

/// Looks at the backends of one client and leaves some out.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    records: BTreeMap<BackendId, Record>,
    looked_at: Option<Time>,
    next: Option<Time>,
    idle_looks: u32,
    counts: EjectCounts,
}

/// What is known of one backend.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    seen: Tries,
    /// Of late: halved in every [`HALF_LIFE`].
    tried: f64,
    failed: f64,
    out_until: Option<Time>,
    /// How often in a row it was out, and when it last came back.
    times: u32,
    back_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tries {
    tried: u64,
    failed: u64,
}

impl Ejection {
    /// When to look next; never before there was anything to look at.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next
    }

    /// Other settings, or other backends: to be looked at soon.
    pub(crate) fn on_change(&mut self, now: Time, config: &EjectConfig) {
        if config.mode == Mode::Off {
            let counts = EjectCounts { panics_now: false, ..self.counts };
            *self = Ejection { counts, ..Ejection::default() };
            return;
        }
        let soon = now + EVERY;
        self.next = Some(self.next.map_or(soon, |at| at.min(soon)));
    }

    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        let moved = |at: Option<Time>| at.map(|at| at.moved(before, now));
        (self.looked_at, self.next) = (moved(self.looked_at), moved(self.next));
        for record in self.records.values_mut() {
            (record.out_until, record.back_at) = (moved(record.out_until), moved(record.back_at));
        }
    }

    /// Looks at all members, of whom so many are connected and willing. Says whether who is out has changed.
    pub(crate) fn look(&mut self, now: Time, config: &EjectConfig, ended: &[Ended], usable: usize) -> bool {
        let is_first = self.looked_at.is_none();
        let passed = self.looked_at.replace(now).map_or(Duration::ZERO, |at| now.since(at));
        let kept = decay(passed, HALF_LIFE);
        self.records.retain(|backend, _| ended.iter().any(|(known, _)| known == backend));
        let mut is_used = false;
        for (backend, ended) in ended {
            let record = self.records.entry(*backend).or_default();
            is_used |= record.read(ended, kept);
            if is_first {
                // What was before it began to look says nothing of what is so now.
                (record.tried, record.failed) = (0.0, 0.0);
            }
        }
        let mut changed = false;
        for record in self.records.values_mut() {
            changed |= record.come_back(now);
        }
        changed |= self.leave_out(now, config, usable);
        self.idle_looks = if is_used || self.records.values().any(|record| record.out_until.is_some()) {
            0
        } else {
            (self.idle_looks + 1).min(IDLE_LOOKS_MOST)
        };
        self.next = Some(now + EVERY * (1 << self.idle_looks));
        changed
    }

    fn leave_out(&mut self, now: Time, config: &EjectConfig, usable: usize) -> bool {
        let usual = self.usual(config);
        let mut outliers: Vec<(BackendId, f64)> = self
            .records
            .iter()
            .filter_map(|(&backend, record)| Some((backend, record.failing(now, config)?)))
            .filter(|&(_, share)| share >= config.failing && share >= OUTLYING * usual)
            .collect();
        outliers.sort_by(|(one, left), (other, right)| right.total_cmp(left).then(one.cmp(other)));
        let most = (usable as f64 * config.most) as usize;
        // Were it the only one there would be nobody else.
        let most = if usable >= 2 && config.most > 0.0 { most.max(1) } else { 0 };
        let out = self.records.values().filter(|record| record.out_until.is_some()).count();
        outliers.truncate(most.saturating_sub(out));
        for &(backend, _) in &outliers {
            if let Some(record) = self.records.get_mut(&backend) {
                record.leave_out(now, config);
            }
            let count = if config.mode == Mode::On { &mut self.counts.ejected } else { &mut self.counts.observed };
            *count += 1;
        }
        !outliers.is_empty()
    }

    /// Share of attempts that fail at a usual backend: the median of those with enough of them.
    fn usual(&self, config: &EjectConfig) -> f64 {
        let known = self.records.values().filter(|record| record.tried >= f64::from(config.least));
        let mut shares: Vec<f64> = known.map(Record::share).collect();
        shares.sort_by(f64::total_cmp);
        // The lower of two in the middle: of two backends the better one is the usual one.
        shares.get(shares.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
    }

    /// Until when a backend is out, whether or not it makes a difference; `None` while it is in. It is back with the next
    /// look after that.
    pub(crate) fn out_until(&self, backend: BackendId) -> Option<Time> {
        self.records.get(&backend)?.out_until
    }

    /// Whether those that are out are to be left out: not while it only observes, nor where too few of the `wished` are
    /// left. `inside` is how many are usable besides them.
    pub(crate) fn applies(&mut self, config: &EjectConfig, inside: usize, outside: usize, wished: usize) -> bool {
        let panics = outside > 0 && (inside as f64) < config.panic * wished.min(inside + outside).max(1) as f64;
        let panics = config.mode == Mode::On && (panics || outside > 0 && inside == 0);
        self.counts.panics += u64::from(panics && !self.counts.panics_now);
        self.counts.panics_now = panics;
        config.mode == Mode::On && !panics
    }

    pub(crate) fn counts(&self) -> EjectCounts {
        self.counts
    }
}

impl Record {
    /// Takes in what has ended since; says whether anything has.
    fn read(&mut self, ended: &[u64; Outcome::ALL.len()], kept: f64) -> bool {
        let of = |outcome: Outcome| ended[outcome.index()];
        let failed = of(Outcome::Failed) + of(Outcome::Expired);
        let now = Tries { tried: failed + of(Outcome::Served), failed };
        // Fewer than before: the slot is another backend's, or this one's anew.
        let before = if now.tried < self.seen.tried { Tries::default() } else { self.seen };
        let (tried, failed) = (now.tried - before.tried, now.failed.saturating_sub(before.failed));
        self.seen = now;
        self.tried = self.tried * kept + tried as f64;
        self.failed = self.failed * kept + failed as f64;
        tried > 0
    }

    fn come_back(&mut self, now: Time) -> bool {
        if self.out_until.is_none_or(|at| at > now) {
            return false;
        }
        // What was in flight when it was left out has ended by now; what comes next decides.
        (self.out_until, self.back_at, self.tried, self.failed) = (None, Some(now), 0.0, 0.0);
        true
    }

    fn share(&self) -> f64 {
        if self.tried > 0.0 { self.failed / self.tried } else { 0.0 }
    }

    /// The share that fails, if enough is known to judge. One that has just come back is on trial: two attempts tell.
    fn failing(&self, now: Time, config: &EjectConfig) -> Option<f64> {
        let on_trial = self.back_at.is_some_and(|at| now.since(at) < TRIAL);
        let least = if on_trial { config.least.min(TRIAL_LEAST) } else { config.least };
        (self.out_until.is_none() && self.tried >= f64::from(least)).then(|| self.share())
    }

    fn leave_out(&mut self, now: Time, config: &EjectConfig) {
        let is_relapse = self.back_at.is_some_and(|at| now.since(at) < RELAPSE.max(config.longest));
        self.times = if is_relapse { self.times + 1 } else { 1 };
        let twice = 1u32 << (self.times - 1).min(TIMES_MOST);
        self.out_until = Some(now + config.first.saturating_mul(twice).min(config.longest));
    }
}

/// How often it looks while there are requests, and how often it may double that while there are none.
const EVERY: Duration = Duration::from_millis(500);
const IDLE_LOOKS_MOST: u32 = 2;
/// Time in which an attempt's weight halves: what was so a few seconds ago is not so now.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// Times as often as usual must it fail.
const OUTLYING: f64 = 3.0;
/// How long one that came back is on trial, and how many attempts tell then.
const TRIAL: Duration = Duration::from_secs(2);
const TRIAL_LEAST: u32 = 2;
/// One that is out again within this long has not healed.
const RELAPSE: Duration = Duration::from_secs(5);
const TIMES_MOST: u32 = 16;

#[cfg(all(test, not(loom)))]
mod tests;
