//! What `weighted` thinks of each backend, from its reports.
//!
//! A weight is a capability (of those whose reports count, else their mean), times what the loop on utilization has made
//! of it, less for fresh backends and for those that failed us a moment ago.

use std::time::Duration;

use super::{EXPIRY_MOST, WeightedConfig};
use crate::Time;
use crate::client::backend::BackendId;
use crate::client::pick::believed::{cores, mean, mean_within, median, most_believed};
use crate::client::pick::{Before, Candidates};

/// Everything that was learned, in the order of the candidates it was learned of.
#[derive(Debug, Default)]
pub(super) struct Learned {
    backends: Box<[OfBackend]>,
    at: Time,
}

#[derive(Clone, Copy, Debug)]
struct OfBackend {
    backend: BackendId,
    usable_since: Time,
    /// When the reports that still count began.
    reports_since: Option<Time>,
    /// When it spoke last, and how many attempts of this client had ended there when that was seen.
    spoke: Option<(Time, u64)>,
    /// What utilization has made of its weight.
    correction: f64,
    weight: f64,
    why: &'static str,
}

/// What a report says, where it counts.
#[derive(Clone, Copy, Debug)]
struct Heard {
    age: Duration,
    /// Successes a second for a whole utilization.
    capability: f64,
    /// With errors as use.
    utilization: f64,
    /// Seconds that it needs for what waits for a processor there.
    backlog: f64,
    processors: Option<f64>,
}

impl Learned {
    /// What is thought now, after what was thought before.
    pub(super) fn after(&self, now: Time, among: &Candidates<'_>, config: &WeightedConfig) -> Learned {
        let mut backends: Vec<OfBackend> = self.still_there(among);
        let mut heard: Vec<Result<Heard, &'static str>> =
            (0..).zip(&mut backends).map(|(position, one)| one.hear(now, among, position, config)).collect();
        believe(&mut heard);
        correct(&mut backends, &heard, now, now.since(self.at), config);
        let mean = mean(heard.iter().flatten().map(|one| one.capability)).unwrap_or(0.0);
        for (position, (one, heard)) in backends.iter_mut().zip(&heard).enumerate() {
            let (capability, why) = match heard {
                Ok(heard) if mean > 0.0 => {
                    let relief = heard.relief(config);
                    let why = if relief < RELIEF_NAMED { "work waits there" } else { corrected(one.correction) };
                    (heard.capability / mean * relief, why)
                }
                Ok(_) => (1.0, "nobody answers well: all equal"),
                Err(why) => (1.0, *why),
            };
            let fresh = one.fresh_share(now, config);
            let errors = among.errors(now, position);
            one.weight = capability * one.correction * fresh / (1.0 + f64::from(errors));
            one.why = match (errors, fresh < 1.0) {
                (1.., _) => "it failed a moment ago",
                (0, true) => "slow start",
                (0, false) => why,
            };
        }
        bound(&mut backends);
        Learned { backends: backends.into_boxed_slice(), at: now }
    }

    /// Of which at least one is above 0.
    pub(super) fn weights(&self) -> impl ExactSizeIterator<Item = f64> + Clone {
        self.backends.iter().map(|one| one.weight)
    }

    /// The weight of one, with a mean of 1 over all, and why.
    pub(super) fn of(&self, position: usize, backend: BackendId) -> Option<(f64, &'static str)> {
        let one = self.backends.get(position).filter(|one| one.backend == backend)?;
        Some((one.weight, one.why))
    }

    fn still_there(&self, among: &Candidates<'_>) -> Vec<OfBackend> {
        let mut before = Before::new(&self.backends, |one| one.backend);
        let each = (0..among.len()).filter_map(|position| {
            let (backend, usable_since) = (among.backend(position)?, among.usable_since(position)?);
            let known = before.of(position, backend).copied();
            let mut one = known.unwrap_or_else(|| OfBackend::new(backend));
            if one.usable_since != usable_since {
                // Perhaps another process: what it said before is no news of this one.
                (one.usable_since, one.reports_since) = (usable_since, None);
            }
            Some(one)
        });
        each.collect()
    }
}

impl Heard {
    /// The share of its weight that lets it work off what waits there, over some of our periods: a full backend looks no
    /// fuller however much waits. Not part of the correction, which would still remember it when nothing waits any more.
    fn relief(&self, config: &WeightedConfig) -> f64 {
        let over = (2 * config.every).max(RELIEF_OVER).as_secs_f64();
        // Nobody works off more than a second in a second: of a long line the rest is still there, whatever came since.
        let left = (self.backlog - self.age.saturating_sub(LINE_WITHIN).as_secs_f64()).max(0.0);
        (1.0 / (1.0 + left / over)).max(RELIEF_LEAST)
    }
}

impl OfBackend {
    fn new(backend: BackendId) -> Self {
        let (usable_since, reports_since, spoke) = (Time::ZERO, None, None);
        OfBackend { backend, usable_since, reports_since, spoke, correction: 1.0, weight: 1.0, why: "" }
    }

    /// What its last report says, or why that does not count.
    fn hear(
        &mut self,
        now: Time,
        among: &Candidates<'_>,
        position: usize,
        config: &WeightedConfig,
    ) -> Result<Heard, &'static str> {
        let last = among.report(position).filter(|(told, _)| *told >= self.usable_since);
        let (told, report) = last.ok_or("no report yet: the mean of the others")?;
        let age = now.since(told);
        if age > self.counts_for(told, among.ended(position), config) {
            self.reports_since = None;
            return Err("no report for long: the mean of the others");
        }
        let since = (*self.reports_since.get_or_insert(told)).min(told);
        if now.since(since) < config.blackout {
            return Err("first reports: the mean of the others");
        }
        let slow = report.utilization_slow.or(report.utilization);
        let (Some(slow), Some(qps)) = (slow, report.qps.filter(|qps| *qps > 0.0)) else {
            return Err("it does not say what it does: the mean of the others");
        };
        if slow < UTILIZATION_LEAST {
            return Err("hardly used: the mean of the others");
        }
        let eps = report.eps.unwrap_or(0.0).min(qps);
        let penalty = eps / qps * config.error_penalty;
        let utilization = report.utilization.unwrap_or(slow) + penalty;
        // Those that wait for a processor, times what a request takes of all of them.
        let waiting = report.runnable.zip(report.processors).map_or(0.0, |(runnable, all)| (runnable - all).max(0.0));
        let (capability, backlog) = ((qps - eps) / (slow + penalty), waiting * slow / qps);
        Ok(Heard { age, capability, utilization, backlog, processors: report.processors })
    }

    /// How long what it said then counts. Whoever asks rarely hears rarely: until one is asked again, and says nothing, its last
    /// word is the best there is. Slow ones have fewer turns, so theirs would expire first, and they would get the mean.
    fn counts_for(&mut self, told: Time, ended: u64, config: &WeightedConfig) -> Duration {
        let (_, ended_then) =
            *self.spoke.insert(self.spoke.filter(|(spoke, _)| *spoke == told).unwrap_or((told, ended)));
        if ended == ended_then { EXPIRY_MOST } else { config.expiry }
    }

    /// The share of its weight that it gets as a fresh one.
    fn fresh_share(&self, now: Time, config: &WeightedConfig) -> f64 {
        let passed = now.since(self.usable_since);
        if passed >= config.slow_start {
            return 1.0;
        }
        (passed.as_secs_f64() / config.slow_start.as_secs_f64()).max(SLOW_START_LEAST)
    }
}

/// Capability, and what was added to it or taken off until all use the same.
fn corrected(correction: f64) -> &'static str {
    match correction {
        ..CORRECTED_DOWN => "what it answers for what it uses, less: it uses more than the mean",
        CORRECTED_UP.. => "what it answers for what it uses, more: it uses less than the mean",
        _ => "what it answers for what it uses",
    }
}

/// Who says to do far more with a processor than most is not believed: it would get nearly everything.
fn believe(heard: &mut [Result<Heard, &'static str>]) {
    let usual = median(heard.iter().flatten().filter_map(|one| one.processors));
    let each = |one: &Heard| one.capability / cores(one.processors, usual);
    let most = most_believed(heard.iter().flatten().map(each), 0.0);
    for one in heard.iter_mut().filter(|one| one.is_ok_and(|one| most > 0.0 && each(&one) > most)) {
        *one = Err("says to do far more than others can: the mean of the others");
    }
}

/// Moves each correction against its backend's deviation from the mean utilization.
fn correct(
    backends: &mut [OfBackend],
    heard: &[Result<Heard, &'static str>],
    now: Time,
    passed: Duration,
    config: &WeightedConfig,
) {
    // One that is not at its full weight yet has its reason to be used less.
    let counts = |one: &OfBackend, heard: &Result<Heard, &'static str>| {
        let heard = heard.ok().filter(|heard| heard.age < CORRECTED_WITHIN)?;
        (one.fresh_share(now, config) >= 1.0).then_some(heard.utilization)
    };
    let counted: Vec<f64> = backends.iter().zip(heard).filter_map(|(one, heard)| counts(one, heard)).collect();
    if counted.len() < 2 || config.correction <= 0.0 {
        return;
    }
    // No farther than a deviation counts.
    let mean = mean_within(counted.iter().copied(), |middle| DEVIATION_MOST * middle).unwrap_or(0.0);
    let mean = mean.max(UTILIZATION_LEAST);
    let passed = passed.as_secs_f64();
    // After a pause no more than what half of the deviation asks for.
    let gain = (config.correction * passed).min(STEP_MOST);
    let leak = gain * LEAK;
    for (one, heard) in backends.iter_mut().zip(heard) {
        if let Some(utilization) = counts(one, heard) {
            let deviation = ((utilization - mean) / mean).clamp(-DEVIATION_MOST, DEVIATION_MOST);
            one.correction *= 1.0 - gain * deviation;
        }
        // In proportion, or small corrections would be pulled back by many times their size.
        one.correction *= 1.0 + leak * (1.0 - one.correction) / one.correction.max(1.0);
    }
    let mean = backends.iter().map(|one| one.correction).sum::<f64>() / backends.len() as f64;
    for one in backends {
        one.correction = (one.correction / mean).clamp(1.0 / SHRUNK_MOST, GROWN_MOST);
    }
}

/// A mean of 1, nobody without a turn, and nobody with nearly all of them.
fn bound(backends: &mut [OfBackend]) {
    let mean = backends.iter().map(|one| one.weight).sum::<f64>() / backends.len().max(1) as f64;
    for one in backends {
        one.weight = if mean > 0.0 { (one.weight / mean).clamp(WEIGHT_LEAST, WEIGHT_MOST) } else { 1.0 };
    }
}

/// What a report says of use is a mean over 2 s, and worth no more correction than that. Were it to count for 5 s, a thousand callers
/// of a request a second without probes would correct too much for each word they hear: p99 5 to 13 s instead of 3 at 95 % load.
const CORRECTED_WITHIN: Duration = Duration::from_secs(2);
/// A line that was there so long ago is taken to be there still, since others feed it too.
const LINE_WITHIN: Duration = Duration::from_secs(5);
/// Who has said nothing for so long is asked: half of the time that a line is believed in.
pub(super) const ASKED_AFTER: Duration = Duration::from_millis(2_500);
/// Below a twentieth what a backend uses is mostly not for requests.
const UTILIZATION_LEAST: f64 = 0.05;
const SLOW_START_LEAST: f64 = 0.1;
/// The most of a deviation that one step corrects; more would overshoot.
const STEP_MOST: f64 = 0.5;
const DEVIATION_MOST: f64 = 0.5;
/// How much of a correction goes by itself, as a share of the gain: those of overlapping clients are not unique, and would
/// drift. It leaves a hundredth of the correction as a deviation.
const LEAK: f64 = 0.01;
/// Twice the time that utilization is a mean over.
const RELIEF_OVER: Duration = Duration::from_secs(4);
const RELIEF_LEAST: f64 = 0.5;
/// Corrections beyond these are told.
const CORRECTED_DOWN: f64 = 0.95;
const CORRECTED_UP: f64 = 1.05;
/// Less than this much is a moment's chance.
const RELIEF_NAMED: f64 = 0.9;
/// A client with much of the traffic may have to leave some of its backends nearly to the others: with 8 the hard world
/// stays at 1.23 max/min with one seed where it comes to 1.15 with this.
const SHRUNK_MOST: f64 = 64.0;
/// One that says to use less than it does would get ahead for ever, with all of the traffic in the end. Nobody who is right
/// needs more: the hard world comes out the same with any number from here on, and with 2 a little less even.
const GROWN_MOST: f64 = 4.0;
/// A hundredth of the mean is enough to hear of it.
const WEIGHT_LEAST: f64 = 0.01;
const WEIGHT_MOST: f64 = 50.0;
