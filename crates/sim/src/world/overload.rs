//! What is looked at while there is too much: goodput over time, who was served, how the doors decided.

use std::collections::BTreeMap;

use evenkeel_core::server::ServerRefusal;
use evenkeel_core::{Criticality, Rng, Time};
use hdrhistogram::Histogram;

use super::event::RequestId;
use super::inversion::Inversion;
use super::profile::Profile;
use super::recovery::recovered;
use super::requests::Request;
use super::tally::End;
use super::{ORIGIN, World};
use crate::document::Series;
use crate::model::{Requests as Methods, machines};
use crate::scenario::{Overload, Scenario};

/// Counts of the part of a run in which there is too much, and of what follows it.
#[derive(Debug)]
pub(crate) struct Watch {
    from: u64,
    until: u64,
    /// When the last ones ask.
    asked_until: u64,
    /// When goodput and latency begin to count.
    counts_from: u64,
    /// Length of the windows that say when it has settled.
    settles_over: u64,
    /// CPU seconds that all cores of the first service have in a second.
    capacity: f64,
    /// Seconds that one request in a hundred takes at least when it is alone.
    unloaded_p99: f64,
    bins: Vec<Bin>,
    latency: Histogram<u64>,
    /// Of those that may not be shed.
    latency_critical: Histogram<u64>,
    /// Asked for, and served, while there is too much.
    by_criticality: [[u64; 2]; Criticality::ALL.len()],
    by_customer: Vec<(String, [u64; 2])>,
    pub(crate) inversion: Inversion,
    held_back: u64,
    rejected: u64,
    /// How many, their sum and that of their squares.
    cutoffs: [f64; 3],
    /// Sums of the same readings: the level of cheaper answers, and seconds of work in line.
    level: f64,
    line: f64,
    /// How often a backend moved its level, and where it was.
    level_moves: u64,
    levels: BTreeMap<u32, u8>,
}

/// A short while.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// CPU seconds of the requests asked for in it.
    offered: f64,
    /// CPU seconds spent in it on requests that were answered in time.
    good: f64,
    /// Requests asked for in it, and how many of those were served.
    asked: u32,
    served: u32,
}

impl Watch {
    pub(crate) fn new(scenario: &Scenario, overload: &Overload) -> Self {
        let cores = machines(&scenario.backends).into_iter().map(|(cores, speed)| f64::from(cores) * speed);
        let length = scenario.duration.nanos() + scenario.clients.deadline.nanos();
        let from = ORIGIN + overload.from.nanos();
        Watch {
            from,
            until: ORIGIN + overload.until.nanos(),
            asked_until: ORIGIN + scenario.duration.nanos(),
            counts_from: from + overload.skip.nanos(),
            settles_over: overload.window.nanos(),
            capacity: cores.sum(),
            unloaded_p99: unloaded_p99(scenario),
            bins: vec![Bin::default(); (length / BIN) as usize + 2],
            latency: latencies(),
            latency_critical: latencies(),
            by_criticality: Default::default(),
            by_customer: scenario.customers.keys().map(|name| (name.clone(), [0; 2])).collect(),
            inversion: Inversion::default(),
            held_back: 0,
            rejected: 0,
            cutoffs: [0.0; 3],
            level: 0.0,
            line: 0.0,
            level_moves: 0,
            levels: BTreeMap::new(),
        }
    }

    fn is_on(&self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }

    fn counts(&self, at: u64) -> bool {
        (self.counts_from..self.until).contains(&at)
    }

    fn on_asked(&mut self, request: &Request) {
        if let Some(bin) = self.bins.get_mut(bin_of(request.asked)) {
            bin.offered += request.cpu;
            bin.asked += 1;
        }
    }

    pub(crate) fn on_end(&mut self, now: u64, request: &Request, end: End) {
        let is_served = end == End::Served;
        if self.is_on(request.asked) {
            let customer = self.by_customer.get_mut(request.customer as usize).map(|(_, counts)| counts);
            let class = self.by_criticality.get_mut(request.criticality.index());
            for counts in [customer, class].into_iter().flatten() {
                counts[0] += 1;
                counts[1] += u64::from(is_served);
            }
            self.rejected += u64::from(end == End::Rejected);
        }
        if !is_served {
            return;
        }
        if let Some(bin) = self.bins.get_mut(bin_of(request.asked)) {
            bin.served += 1;
        }
        self.spread(request);
        if self.counts(request.asked) {
            self.latency.saturating_record((now - request.asked).max(1));
            if request.criticality >= Criticality::Critical {
                self.latency_critical.saturating_record((now - request.asked).max(1));
            }
        }
    }

    /// Its CPU, over the time in which it was worked on.
    fn spread(&mut self, request: &Request) {
        let (from, until) = request.worked;
        let length = (until - from).max(1) as f64;
        for place in bin_of(from)..=bin_of(until) {
            let begins = ORIGIN + place as u64 * BIN;
            let inside = until.max(from + 1).min(begins + BIN).saturating_sub(from.max(begins));
            if let Some(bin) = self.bins.get_mut(place) {
                bin.good += request.cpu * inside as f64 / length;
            }
        }
    }

    pub(crate) fn figures(&self, metrics: &mut BTreeMap<String, f64>) {
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        let (offered, good) = self.sums(self.counts_from, self.until);
        let capacity = self.capacity * (self.until - self.counts_from) as f64 * 1e-9;
        put("goodput", good / offered.min(capacity).max(f64::MIN_POSITIVE));
        put("latency_unloaded_p99_ms", self.unloaded_p99 * 1e3);
        if !self.latency.is_empty() {
            let p99 = self.latency.value_at_quantile(0.99) as f64 * 1e-9;
            put("accepted_p99_ms", p99 * 1e3);
            put("accepted_p99_ratio", p99 / self.unloaded_p99);
        }
        if !self.latency_critical.is_empty() {
            for (name, quantile) in [("critical_p50_ms", 0.5), ("critical_p99_ms", 0.99)] {
                put(name, self.latency_critical.value_at_quantile(quantile) as f64 * 1e-6);
            }
        }
        // One that does not recover within the run has no such figure.
        if let Some(recovered) = self.recovered() {
            put("recover_s", recovered);
        }
        for (level, [asked, served]) in Criticality::ALL.into_iter().zip(self.by_criticality) {
            if asked > 0 {
                let name = format!("overload_{}_served_share", level.as_str().to_lowercase());
                put(&name, served as f64 / asked as f64);
            }
        }
        let most = self.by_customer.iter().map(|(_, [asked, _])| *asked).max();
        let mut others: Option<([u64; 2], f64)> = None;
        for (name, [asked, served]) in self.by_customer.iter().filter(|(_, [asked, _])| *asked > 0) {
            let errors = 1.0 - *served as f64 / *asked as f64;
            put(&format!("customer_{name}_error_share"), errors);
            if Some(*asked) != most {
                let ([all_asked, all_served], worst) = others.unwrap_or_default();
                others = Some(([all_asked + asked, all_served + served], worst.max(errors)));
            }
        }
        if let Some(([asked, served], worst)) = others {
            put("other_customers_error_share", 1.0 - served as f64 / asked as f64);
            put("other_customers_error_worst", worst);
        }
        let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let inversion = &self.inversion;
        put("inversion_of_refused", share(inversion.refused_inverted, inversion.refused));
        put("inversion_of_accepted", share(inversion.accepted_inverted, inversion.accepted));
        put("overload_rejected", self.rejected as f64);
        put("overload_held_back", self.held_back as f64);
        let [count, sum, squares] = self.cutoffs;
        if count > 0.0 {
            let mean = sum / count;
            put("cutoff_mean", mean);
            put("cutoff_std", (squares / count - mean * mean).max(0.0).sqrt());
            put("degrade_mean", self.level / count);
            put("degrade_moves", self.level_moves as f64);
            put("line_mean_ms", self.line / count * 1e3);
        }
    }

    /// Goodput over time, as a share of what the cores can do.
    pub(crate) fn series(&self) -> Series {
        let whole = self.capacity * BIN as f64 * 1e-9;
        let middle = |place: usize| (place as f64 + 0.5) * BIN as f64 * 1e-9;
        Series {
            unit: "share of cores".to_owned(),
            x: (0..self.bins.len()).map(middle).collect(),
            y: self.bins.iter().map(|bin| bin.good / whole).collect(),
        }
    }

    fn between(&self, from: u64, until: u64) -> &[Bin] {
        self.bins.get(bin_of(from)..bin_of(until)).unwrap_or_default()
    }

    /// CPU asked for, and spent well.
    fn sums(&self, from: u64, until: u64) -> (f64, f64) {
        let bins = self.between(from, until).iter();
        bins.fold((0.0, 0.0), |(offered, good), bin| (offered + bin.offered, good + bin.good))
    }

    /// Goodput from moment to moment while there is too much.
    pub(crate) fn profile(&self) -> Profile {
        let whole = self.capacity * BIN as f64 * 1e-9;
        let shares = self.between(self.from, self.until).iter().map(|bin| bin.good / whole).collect();
        let skip = ((self.counts_from - self.from) / BIN) as usize;
        Profile { skip, settle: (self.settles_over / BIN).max(1) as usize, shares }
    }

    /// Seconds after the end until nearly all are served that are asked for, and stay so.
    fn recovered(&self) -> Option<f64> {
        let after: Vec<_> =
            self.between(self.until, self.asked_until).iter().map(|bin| (bin.asked, bin.served)).collect();
        Some(recovered(&after)? as f64 * BIN as f64 * 1e-9)
    }
}

impl World<'_> {
    pub(super) fn note_asked(&mut self, id: RequestId) {
        let (Some(watch), Some(request)) = (&mut self.watch, self.requests.get(id)) else { return };
        watch.on_asked(request);
    }

    pub(super) fn note_held_back(&mut self, id: RequestId) {
        let (Some(watch), Some(request)) = (&mut self.watch, self.requests.get(id)) else { return };
        watch.held_back += u64::from(request.parent.is_none() && watch.is_on(request.asked));
    }

    /// Its backend has begun to work on it.
    pub(super) fn note_accepted(&mut self, id: RequestId) {
        let now = self.now;
        let (Some(watch), Some(request)) = (&mut self.watch, self.requests.get(id)) else { return };
        if watch.is_on(now) {
            watch.inversion.on_accepted(now, request.backend, request.customer, request.criticality.index());
        }
    }

    /// Its backend has refused it.
    pub(super) fn note_refused(&mut self, id: RequestId) {
        let now = self.now;
        let (Some(watch), Some(request)) = (&mut self.watch, self.requests.get(id)) else { return };
        // A quota decides within one customer too, from the lowest criticality up; who comes too late was not chosen by anybody.
        let decides = |why: ServerRefusal| why.is_overload() || why == ServerRefusal::OutOfQuota;
        if watch.is_on(now) && request.refusal.is_some_and(decides) {
            watch.inversion.on_refused(now, request.backend, request.customer, request.criticality.index());
        }
    }

    /// A backend may have moved its cutoff.
    pub(super) fn note_cutoff(&mut self, backend: u32) {
        let (now, task) = (self.now, &self.tasks[backend as usize]);
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.is_on(now) && task.service == 0) else { return };
        let seen = task.brain.snapshot(Time::from_nanos(now)).admission;
        let (cutoff, line) = (seen.cutoff.value(), seen.queued.as_secs_f64() / task.machine.cores());
        watch.inversion.on_cutoff(now, backend, cutoff);
        if watch.counts(now) {
            for (sum, value) in watch.cutoffs.iter_mut().zip([1.0, cutoff, cutoff * cutoff]) {
                *sum += value;
            }
            watch.level += f64::from(seen.degrade);
            watch.line += line;
            let before = watch.levels.insert(backend, seen.degrade);
            watch.level_moves += u64::from(before.is_some_and(|before| before != seen.degrade));
        }
    }
}

fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MOST, 3).expect("the bounds are in order")
}

fn bin_of(at: u64) -> usize {
    (at.saturating_sub(ORIGIN) / BIN) as usize
}

/// What one request in a hundred takes at least, alone: its CPU, its waiting, the way there and back.
fn unloaded_p99(scenario: &Scenario) -> f64 {
    let (methods, mut rng) = (Methods::new(&scenario.methods), Rng::from_seed(UNLOADED));
    let mut drawn: Vec<f64> = (0..DRAWN).map(|_| methods.draw(&mut rng)).map(|(_, cpu, wait)| cpu + wait).collect();
    drawn.sort_by(f64::total_cmp);
    drawn[DRAWN * 99 / 100] + 2.0 * scenario.network.delay.seconds()
}

/// Nanoseconds over which counts are sums.
const BIN: u64 = 50_000_000;
const LATENCY_MOST: u64 = 3_600_000_000_000;
/// Draws of what is asked for; the hundredth dearest is known within one in a hundred.
const DRAWN: usize = 200_000;
const UNLOADED: u64 = 0x756e_6c6f;
