//! The slow loop of `level`: what is learned of each backend, four times a second.

use std::time::Duration;

use super::{Candidates, View};
use crate::client::backend::BackendId;
use crate::client::glance::{Glimpse, TICKS_PER_SECOND, ticks};
use crate::client::pick::believed::{SLACK, cores, mean, mean_within, median, most_believed};
use crate::{LoadReport, Time};

/// What is known between two turns.
#[derive(Clone, Debug)]
pub(super) struct Learned {
    gain: f64,
    /// The last turn.
    at: Option<Time>,
    /// Attempts of this client that ended in a second, of late.
    rate: Option<f64>,
    /// Whether anybody has been heard of late.
    is_awake: bool,
    /// In the order of the candidates; then those that are away for a while.
    marks: Vec<Mark>,
    means: Means,
}

/// What is known of one backend.
#[derive(Clone, Copy, Debug)]
struct Mark {
    backend: BackendId,
    /// How far it is ahead, in requests per core.
    ahead: f64,
    /// CPU above the mean of the subset; `None` where it is not known.
    excess: Option<f64>,
    /// How much of that is failures, and a long line.
    failing: f64,
    waiting: f64,
    /// When it was a candidate last, and how many attempts of this client had ended there by then.
    seen: Time,
    ended: u64,
}

/// Means over the subset and over some seconds; `None` until something is known.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    /// Requests of others for each core.
    others: Option<f64>,
    /// Requests in flight on a backend, and how many of them are runnable.
    in_flight: Option<f64>,
    runnable: Option<f64>,
    /// Requests that a backend answers in a second.
    qps: Option<f64>,
}

/// One candidate as a turn finds it.
struct Found {
    backend: BackendId,
    /// Its last report, if that is fresh.
    report: Option<LoadReport>,
    /// Nothing was heard of it for long.
    is_silent: bool,
    /// Usable for too short a time to say what it uses, unlike others.
    is_new: bool,
    glimpse: Glimpse,
    has_errors: bool,
    /// Attempts of this client that have ended there.
    ended: u64,
    /// Those it has, as far as that is believed; of one that says nothing, those that most have.
    cores: f64,
}

impl Found {
    /// CPU in use, with failures as if each were a request's worth of all cores: failing is no way to look idle. A long line
    /// counts as well: CPU that is full looks the same however much waits for it.
    fn cpu(&self) -> Option<f64> {
        let report = self.report.as_ref().filter(|_| !self.is_new)?;
        Some(report.utilization? + self.failing() + self.waiting())
    }

    /// What a long line there counts as.
    fn waiting(&self) -> f64 {
        let runnable = self.report.as_ref().and_then(|report| report.runnable);
        runnable.map_or(0.0, |runnable| LINE_WORTH * (runnable / self.cores - LINE_USUAL).max(0.0))
    }

    /// Share of its answers that fail.
    fn failing(&self) -> f64 {
        self.report.as_ref().map_or(0.0, LoadReport::failing_share)
    }

    /// What it said to have in flight there of others.
    fn others(&self) -> Option<f64> {
        (self.report.is_some() && self.glimpse.age < f32::MAX).then(|| f64::from(self.glimpse.others))
    }

    /// What it said to have in flight, and how much of that is runnable.
    fn in_flight(&self) -> Option<(f64, f64)> {
        let report = self.report.as_ref()?;
        // Where nobody says what is runnable: what has a core is, and the others may be.
        let runnable = report.runnable.or(Some(report.utilization? * report.processors?))?;
        Some((f64::from(report.in_flight?), runnable))
    }
}

impl Learned {
    pub(super) fn new(gain: f64) -> Self {
        Learned { gain, at: None, rate: None, is_awake: true, marks: Vec::new(), means: Means::default() }
    }

    pub(super) fn period(&self) -> Duration {
        if self.is_awake { TURN } else { TURN_ASLEEP }
    }

    /// Where the backend stands among the candidates of the last turn, or behind them.
    pub(super) fn place_of(&self, backend: BackendId) -> Option<usize> {
        self.marks.iter().position(|mark| mark.backend == backend)
    }

    /// Learns from what was reported since the last turn.
    pub(super) fn turn(&mut self, now: Time, among: &Candidates<'_>) -> Box<[View]> {
        // Candidates may change in between, and nobody may have been there for long: neither counts for more than it is.
        let last = self.at.replace(now);
        let passed = last.map_or(0.0, |at| now.since(at).as_secs_f64());
        let seconds = passed.min(1.0);
        let mut found: Vec<Found> = (0..among.len()).filter_map(|place| find(now, among, place)).collect();
        let usual = median(found.iter().filter_map(|one| one.report.as_ref()?.processors));
        for one in &mut found {
            one.cores = cores(one.report.as_ref().and_then(|report| report.processors), usual);
        }
        // Where all are, it is the client that is new, and their readings are as good as ever.
        if found.iter().all(|one| one.is_new) {
            for one in &mut found {
                one.is_new = false;
            }
        }
        self.is_awake = found.iter().any(|one| one.report.is_some());
        let ended = self.ended_since(last, &found);
        blend(&mut self.rate, (passed > 0.0).then(|| ended as f64 / passed), (seconds / LEARNED_OVER_S).min(1.0));
        self.keep_marks(now, &found);
        self.correct(&found, seconds);
        self.means.learn(&found, seconds);
        self.views(&found)
    }

    /// Attempts of this client that ended since the last turn, on those that were candidates then too: one that comes back brings
    /// what it has counted in all its life.
    fn ended_since(&self, last: Option<Time>, found: &[Found]) -> u64 {
        let since = |one: &Found| {
            let mark = self.marks.iter().find(|mark| mark.backend == one.backend && Some(mark.seen) == last)?;
            Some(one.ended.saturating_sub(mark.ended))
        };
        found.iter().filter_map(since).sum()
    }

    /// Share of all requests to these backends that are this client's, as far as is known.
    pub(super) fn own_share(&self) -> f64 {
        let present = self.marks.iter().filter(|mark| Some(mark.seen) == self.at).count();
        let all = self.means.qps.map(|qps| qps * present as f64).filter(|all| *all > 0.0);
        self.rate.zip(all).map_or(1.0, |(own, all)| (own / all).min(1.0))
    }

    /// Puts the marks in the order of the candidates; those of backends that left are kept for a while.
    fn keep_marks(&mut self, now: Time, found: &[Found]) {
        let mut before = std::mem::take(&mut self.marks);
        for one in found {
            let place = before.iter().position(|mark| mark.backend == one.backend);
            let ahead = place.map_or(0.0, |place| before.swap_remove(place).ahead);
            self.marks.push(Mark {
                backend: one.backend,
                ahead,
                excess: None,
                failing: one.failing(),
                waiting: one.waiting(),
                seen: now,
                ended: one.ended,
            });
        }
        before.retain(|mark| now.since(mark.seen) < KEPT_FOR);
        before.truncate(found.len());
        self.marks.extend(before);
    }

    /// Who used more than the mean falls behind, who used less gets ahead.
    fn correct(&mut self, found: &[Found], seconds: f64) {
        let mean = mean_within(found.iter().filter_map(Found::cpu), |_| EXCESS_MOST).unwrap_or(0.0);
        for (mark, one) in self.marks.iter_mut().zip(found) {
            let Some(cpu) = one.cpu() else {
                // A caller of a request a second hears of each backend four times a minute: what it learned must last till then.
                if !one.is_silent {
                    continue;
                }
                // Nobody can tell any more whether it is still right.
                let step = AHEAD_MOST * seconds / KEPT_FOR.as_secs_f64();
                mark.ahead -= mark.ahead.clamp(-step, step);
                continue;
            };
            let excess = (cpu - mean).clamp(-EXCESS_MOST, EXCESS_MOST);
            // One that fails uses little, which is no reason to send it more.
            let excess = if one.has_errors { excess.max(0.0) } else { excess };
            mark.excess = Some(excess);
            mark.ahead -= self.gain * seconds * excess;
        }
        if found.is_empty() {
            return;
        }
        // Only differences count; and what cannot be corrected must not add up for ever.
        let present = &mut self.marks[..found.len()];
        let middle = present.iter().map(|mark| mark.ahead).sum::<f64>() / found.len() as f64;
        for mark in present {
            mark.ahead = (mark.ahead - middle).clamp(-AHEAD_MOST, AHEAD_MOST);
        }
    }

    fn views(&self, found: &[Found]) -> Box<[View]> {
        let believed_s = self.means.qps.map_or(BELIEVED_LEAST_S, |qps| BELIEVED_FOR / qps);
        let believed_s = believed_s.clamp(BELIEVED_LEAST_S, BELIEVED_MOST_S);
        let (others, share) = (self.means.others.unwrap_or(0.0).max(0.0), self.means.runnable_share());
        let view = |(one, mark): (&Found, &Mark)| {
            let cores = one.cores;
            let correction = self.gain * AT_ONCE_S * mark.excess.unwrap_or(0.0) - mark.ahead;
            View {
                each: (share / cores) as f32,
                mean: (others * cores) as f32,
                fade: (1.0 / (believed_s * TICKS_PER_SECOND)) as f32,
                bias: (1.0 / cores + correction) as f32,
            }
        };
        found.iter().zip(&self.marks).map(view).collect()
    }

    /// Why the candidate at `place` gets what it gets.
    pub(super) fn why(&self, place: usize) -> &'static str {
        let (failing, waiting) = self.marks.get(place).map_or((0.0, 0.0), |mark| (mark.failing, mark.waiting));
        match self.marks.get(place).map(|mark| (mark.excess, mark.ahead)) {
            None => "new: taken for average",
            Some((Some(excess), ahead))
                if failing > NOTABLE.max(excess / 2.0) && (excess > NOTABLE || ahead < -NOTABLE) =>
            {
                "less: it fails, which counts as CPU"
            }
            Some((None, ahead)) if ahead.abs() > NOTABLE => "no fresh report of CPU: as it was learned last",
            Some((None, _)) => "no fresh report of CPU: taken for average",
            Some((Some(excess), _)) if excess > NOTABLE && waiting > excess / 2.0 => {
                "less: a long line, which counts as CPU"
            }
            Some((Some(excess), _)) if excess > NOTABLE => "less: uses more CPU than the mean",
            Some((Some(excess), _)) if excess < -NOTABLE => "more: uses less CPU than the mean",
            Some((_, ahead)) if ahead > NOTABLE => "more, which keeps its CPU at the mean",
            Some((_, ahead)) if ahead < -NOTABLE => "less, which keeps its CPU at the mean",
            Some(_) => "fewest runnable requests per core come first",
        }
    }
}

impl Means {
    fn learn(&mut self, found: &[Found], seconds: f64) {
        let weight = (seconds / LEARNED_OVER_S).min(1.0);
        // All for each core: whoever has more of them may have more of everything.
        let others = |one: &Found| Some(one.others()? / one.cores);
        let most = most_believed(found.iter().filter_map(others), SLACK);
        let believed = found.iter().filter(|one| others(one).is_some_and(|each| each <= most));
        let (requests, cores) = believed
            .fold((0.0, 0.0), |(requests, cores), one| (requests + one.others().unwrap_or(0.0), cores + one.cores));
        blend(&mut self.others, (cores > 0.0).then(|| requests / cores), weight);
        let both = || found.iter().filter_map(|one| Some((one.cores, one.in_flight()?)));
        let most_in_flight = most_believed(both().map(|(cores, (in_flight, _))| in_flight / cores), SLACK);
        let most_runnable = most_believed(both().map(|(cores, (_, runnable))| runnable / cores), SLACK);
        let is_believed = |&(cores, (in_flight, runnable)): &(f64, (f64, f64))| {
            in_flight / cores <= most_in_flight && runnable / cores <= most_runnable
        };
        let both = || both().filter(is_believed).map(|(_, both)| both);
        blend(&mut self.in_flight, mean(both().map(|(in_flight, _)| in_flight)), weight);
        blend(&mut self.runnable, mean(both().map(|(_, runnable)| runnable)), weight);
        let qps = || found.iter().filter_map(|one| Some((one.cores, one.report.as_ref()?.qps?)));
        let most = most_believed(qps().map(|(cores, qps)| qps / cores), SLACK);
        let qps = qps().filter(|(cores, qps)| qps / cores <= most).map(|(_, qps)| qps);
        blend(&mut self.qps, mean(qps), weight);
    }

    /// How much of its time in flight a request wants a core.
    fn runnable_share(&self) -> f64 {
        match (self.runnable, self.in_flight) {
            (Some(runnable), Some(in_flight)) if in_flight > 0.0 => (runnable / in_flight).clamp(SHARE_LEAST, 1.0),
            _ => 1.0,
        }
    }
}

fn find(now: Time, among: &Candidates<'_>, place: usize) -> Option<Found> {
    let last = among.report(place);
    let heard_within = |limit: Duration| last.filter(|(told, _)| now.since(*told) < limit);
    Some(Found {
        backend: among.backend(place)?,
        report: heard_within(FRESH_FOR).map(|(_, report)| report),
        is_silent: heard_within(KEPT_FOR).is_none(),
        is_new: among.usable_since(place).is_some_and(|since| now.since(since) < NEW_FOR),
        glimpse: among.glimpse(ticks(now), place),
        has_errors: among.errors(now, place) > 0,
        ended: among.ended(place),
        cores: 1.0,
    })
}

/// Moves a mean towards a new value, if there is one.
fn blend(mean: &mut Option<f64>, value: Option<f64>, weight: f64) {
    if let Some(value) = value {
        *mean = Some(mean.map_or(value, |before| before + (value - before) * weight));
    }
}

/// How often the slow loop turns, and how often while nobody is heard.
const TURN: Duration = Duration::from_millis(250);
const TURN_ASLEEP: Duration = Duration::from_secs(1);
/// How long a report says something of CPU, which is a mean over 2 s.
const FRESH_FOR: Duration = Duration::from_secs(5);
/// How long a backend is left out of the correction after it was connected to: its CPU is a mean over no time yet, of the
/// rush of requests that find it empty.
const NEW_FOR: Duration = Duration::from_secs(5);
/// How long what was learned of a backend that left, or says nothing, is kept, since a restart takes less; and how fast that of
/// one goes that has said nothing for so long. Were it to go after [`FRESH_FOR`], a thousand callers of a request a second would forget
/// between two reports what they learn from one, and slow machines would have lines of 20 s at 95 % load (`scenarios/stable-rare.toml`).
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How many requests reach a backend until a report of those in flight says nothing any more.
const BELIEVED_FOR: f64 = 10.0;
const BELIEVED_LEAST_S: f64 = 0.001;
const BELIEVED_MOST_S: f64 = 1.0;
/// Seconds of correction that count at once, before they have added up: less swing from second to second.
const AT_ONCE_S: f64 = 5.0;
/// Runnable work for each core that nothing is made of, and what more of it is worth in CPU: twenty more are a whole core.
/// Queues of a moment are shorter; at half and at double of either the same comes out (`docs/decisions/0012-level.md`).
const LINE_USUAL: f64 = 5.0;
const LINE_WORTH: f64 = 0.05;
/// More than half of its cores too much is corrected no faster.
const EXCESS_MOST: f64 = 0.5;
/// One request for each core is all that a correction can be worth.
const AHEAD_MOST: f64 = 1.0;
/// Seconds over which means of the subset are taken.
const LEARNED_OVER_S: f64 = 2.0;
/// A request that waits for nearly all of its time still counts for something.
const SHARE_LEAST: f64 = 0.01;
/// What people are told of.
const NOTABLE: f64 = 0.05;
