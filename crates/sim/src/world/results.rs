//! Figures and series of a run that is over.

use std::collections::BTreeMap;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{Churn, Dealt};
use evenkeel_core::stats::Spread;
use evenkeel_core::{BackendState, Criticality};

use super::faults::FaultState;
use super::overload::Watch;
use super::tally::{End, Window};
use super::task::Task;
use super::{Event, ORIGIN, RunResult, World};
use crate::document::Series;
use crate::number::RATIO_MOST;
use crate::scenario::{FaultKind, Switch};

impl World<'_> {
    /// A window of measurement is over.
    pub(super) fn on_window(&mut self) {
        let now = self.now;
        let seconds = self.scenario.window.seconds();
        let is_first = now == ORIGIN;
        let loads: Vec<f32> = self.tasks.iter_mut().map(|task| task.window_load(now, seconds)).collect();
        if is_first {
            self.tally.window = Window::default();
        } else {
            self.tally.on_window(loads);
        }
        self.tally.window.capacity = self.capacities();
        if self.scenario.idle.after.is_some() && self.central.is_none() {
            let share = self.inactive_share();
            self.tally.on_inactive(now, share);
        }
        let next = now + self.scenario.window.nanos();
        if next <= self.end() {
            self.queue.push(next, Event::Window);
        }
    }

    pub(super) fn results(&mut self) -> RunResult {
        let mut metrics = BTreeMap::new();
        let mut series = BTreeMap::new();
        self.request_figures(&mut metrics);
        self.retry_figures(&mut metrics);
        self.eject_figures(&mut metrics);
        self.load_figures(&mut metrics, &mut series);
        self.fault_figures(&mut metrics, &mut series);
        self.churn_figures(&mut metrics);
        self.idle_figures(&mut metrics);
        self.cluster_figures(&mut metrics, &mut series);
        if let Some(watch) = &self.watch {
            watch.figures(&mut metrics);
            series.insert("goodput".to_owned(), watch.series());
        }
        self.outcome_series(&mut series);
        series.insert("latency_above".to_owned(), self.latency_above());
        metrics.insert("events".to_owned(), self.events as f64);
        let profile = self.watch.as_ref().map(Watch::profile).unwrap_or_default();
        RunResult { metrics, series, profile, trace: self.trace }
    }

    fn request_figures(&self, metrics: &mut BTreeMap<String, f64>) {
        let tally = &self.tally;
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        let of = |end: End| tally.ended[end as usize] as f64;
        let asked = tally.asked as f64;
        let failed = of(End::Failed) + of(End::Expired) + of(End::Unsent) + of(End::Cancelled) + of(End::Rejected);
        put("requests", asked);
        put("served", of(End::Served));
        put("failed", failed);
        put("expired", of(End::Expired));
        put("unsent", of(End::Unsent));
        put("refused", of(End::Refused));
        if !self.scenario.server.is_off() {
            put("rejected", of(End::Rejected));
            put("held_back", tally.held_back as f64);
        }
        if asked > 0.0 {
            put("served_share", of(End::Served) / asked);
            put("failed_share", failed / asked);
            put("refused_share", of(End::Refused) / asked);
        }
        if !tally.latency.is_empty() {
            for (name, quantile) in [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)] {
                put(name, tally.latency.value_at_quantile(quantile) as f64 * 1e-6);
            }
            put("mean_ms", tally.latency.mean() * 1e-6);
        }
        for (name, p99) in
            tally.p99_by_half().into_iter().flat_map(|halves| ["first", "second"].into_iter().zip(halves))
        {
            put(&format!("{name}_half_p99_ms"), p99 as f64 * 1e-6);
        }
        put("in_handlers_most", f64::from(tally.in_handlers_most));
        put("restarts", tally.restarts as f64);
        let served = |[ended, served]: [u64; 2]| (ended > 0).then(|| served as f64 / ended as f64);
        for level in Criticality::ALL.into_iter().filter(|_| !self.scenario.criticality.is_empty()) {
            if let Some(share) = served(tally.by_criticality[level.index()]) {
                put(&format!("{}_served_share", level.as_str().to_lowercase()), share);
            }
        }
        for (name, &counts) in self.scenario.customers.keys().zip(&tally.by_customer) {
            if let Some(share) = served(counts) {
                put(&format!("customer_{name}_served_share"), share);
            }
        }
        for (layer, &asked) in tally.layer_asked.iter().enumerate().skip(1) {
            put(&format!("layer{layer}_requests"), asked as f64);
        }
    }

    /// How often clients left a backend out, and how often too few would have been left.
    fn eject_figures(&self, metrics: &mut BTreeMap<String, f64>) {
        if self.scenario.client.eject == Switch::Off {
            return;
        }
        let counts = self.clients.iter().map(|client| client.brain.snapshot(self.time()).ejected);
        let (ejected, panics) =
            counts.fold((0, 0), |(ejected, panics), one| (ejected + one.ejected, panics + one.panics));
        metrics.insert("ejected".to_owned(), ejected as f64);
        metrics.insert("panics".to_owned(), panics as f64);
    }

    /// Attempts by their number, and what load grew by.
    fn retry_figures(&self, metrics: &mut BTreeMap<String, f64>) {
        if self.scenario.retry.is_off() {
            return;
        }
        let mut put = |name: String, value: f64| metrics.insert(name, value);
        let attempts = &self.tally.attempts;
        for (number, &count) in attempts[0].iter().enumerate() {
            put(format!("attempts_{}", number + 1), count as f64);
        }
        // Behind the first service: over what its requests would call for, were each sent once at every layer.
        let mut once = attempts[0][0] as f64;
        for (layer, counts) in attempts.iter().enumerate() {
            let name = if layer == 0 { "amplification".to_owned() } else { format!("layer{layer}_amplification") };
            put(name, share(counts.iter().sum::<u64>() as f64, once));
            once *= self.services.get(layer).map_or(1.0, |service| f64::from(service.calls));
        }
    }

    /// Windows that are measured, each with the seconds at which it ends.
    pub(super) fn measured(&self) -> impl Iterator<Item = (f64, &Window)> {
        let (window, settle) = (self.scenario.window.seconds(), self.scenario.settle.seconds());
        let ends = (1..).map(move |number| f64::from(number) * window);
        ends.zip(&self.tally.windows).filter(move |(end, _)| end - window >= settle - 1e-9)
    }

    fn load_figures(&self, metrics: &mut BTreeMap<String, f64>, series: &mut BTreeMap<String, Series>) {
        let count = self.services[0].count as usize;
        let rows: Vec<(f64, Vec<f64>)> = self
            .measured()
            .map(|(end, window)| (end, window.utilization.iter().take(count).map(|&load| f64::from(load)).collect()))
            .collect();
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        let window = self.scenario.window.seconds();
        let loads: Vec<&[f64]> = rows.iter().map(|(_, row)| row.as_slice()).collect();
        for (name, seconds) in [("spread_1s", 1.0), ("spread_60s", 60.0)] {
            let group = (seconds / window).round() as usize;
            // A window that does not fit gives a figure of another time, which is not what its name says.
            if group == 0 || (group as f64 * window - seconds).abs() > 1e-9 {
                continue;
            }
            let spreads = loads.chunks_exact(group).filter_map(|rows| Spread::of(means(rows))).map(ratio);
            let sorted = sorted(spreads.collect());
            if let Some(median) = quantile(&sorted, 0.5) {
                put(name, median);
                put(&format!("{name}_p95"), quantile(&sorted, 0.95).unwrap_or(median));
            }
        }
        if let Some(spread) = Spread::of(means(&loads)) {
            put("spread", ratio(spread));
            put("utilization", spread.mean);
            put("most_to_mean", spread.most_to_mean());
        }
        let cores: Vec<f64> = self.tasks.iter().map(|task| task.machine.cores()).collect();
        let wasted: Vec<f64> = loads.iter().filter_map(|row| wasted(row, &cores)).collect();
        if !wasted.is_empty() {
            put("wasted_cores", wasted.iter().sum::<f64>() / wasted.len() as f64);
        }
        self.group_figures(&mut put, &rows);
        load_series(&rows, &cores, series);
        let connections = self.tasks.iter().take(count).map(|task| task.watchers.len() as f64);
        series.insert("connections_by_backend".to_owned(), numbered("connections", connections.collect()));
    }

    /// Means of clusters and layers, where there are several.
    fn group_figures(&self, put: &mut impl FnMut(&str, f64) -> Option<f64>, rows: &[(f64, Vec<f64>)]) {
        let mut mean_of = |name: &str, wanted: &dyn Fn(usize) -> bool| {
            let loads = rows.iter().flat_map(|(_, row)| row.iter().enumerate());
            if let Some(spread) = Spread::of(loads.filter(|(task, _)| wanted(*task)).map(|(_, &load)| load)) {
                put(name, spread.mean);
            }
        };
        for cluster in (0..self.scenario.clusters.count).filter(|_| self.scenario.clusters.count > 1) {
            mean_of(&format!("cluster{cluster}_utilization"), &|task| self.tasks[task].cluster == cluster);
        }
        for (layer, service) in self.services.iter().enumerate().skip(1) {
            let tasks = service.first as usize..(service.first + service.count) as usize;
            let loads = self.measured().flat_map(|(_, window)| window.utilization[tasks.clone()].iter());
            if let Some(spread) = Spread::of(loads.map(|&load| f64::from(load))) {
                put(&format!("layer{layer}_utilization"), spread.mean);
            }
        }
    }

    fn fault_figures(&self, metrics: &mut BTreeMap<String, f64>, series: &mut BTreeMap<String, Series>) {
        let length = self.scenario.window.nanos();
        let mut faulted = vec![false; self.tasks.len()];
        for (number, fault) in self.faults.iter().enumerate() {
            if matches!(fault.kind, FaultKind::Resize { .. } | FaultKind::Policy { .. }) {
                continue;
            }
            let failed = self.windows().filter(|&(start, _)| start + length > fault.from);
            let failed = failed.map(|(_, window)| window.failed).sum::<u32>();
            metrics.insert(format!("fault{number}_failed"), f64::from(failed));
            // Who asks for what is counted at the first service only.
            if fault.layer > 0 {
                continue;
            }
            for &backend in &fault.backends {
                faulted[backend as usize] = true;
            }
            self.figures_of(number, fault, metrics);
        }
        if faulted.contains(&true) {
            // A window's figure stands in its middle.
            let half = self.scenario.window.seconds() / 2.0;
            let points = self.windows().map(|(from, window)| {
                let begun = window.begun.iter().zip(&faulted);
                let hit: u32 = begun.filter(|(_, faulted)| **faulted).map(|(begun, _)| *begun).sum();
                (seconds(from) + half, share(f64::from(hit), window.begun.iter().sum::<u32>().into()))
            });
            series.insert("faulted_share".to_owned(), points_of("share", points));
        }
    }

    fn figures_of(&self, number: usize, fault: &FaultState, metrics: &mut BTreeMap<String, f64>) {
        let mut put = |name: &str, value: f64| metrics.insert(format!("fault{number}_{name}"), value);
        let length = self.scenario.window.nanos();
        let tasks = f64::from(self.services[0].count);
        let fair = fault.backends.len() as f64 / tasks;
        let share_between = |from: u64, until: u64| {
            let inside = self.windows().filter(|&(start, _)| start >= from && start + length <= until);
            let (mut hit, mut all) = (0.0, 0.0);
            for (_, window) in inside {
                hit += fault.backends.iter().map(|&one| f64::from(window.begun[one as usize])).sum::<f64>();
                all += window.begun.iter().map(|&begun| f64::from(begun)).sum::<f64>();
            }
            (all > 0.0).then(|| hit / all)
        };
        put("fair", fair);
        if matches!(fault.kind, FaultKind::Restart { .. }) {
            put("restarted_share", share(f64::from(fault.restarted), fault.backends.len() as f64));
        }
        if let Some(share) = share_between(fault.from + SECOND, fault.from + 10 * SECOND) {
            put("share", share);
        }
        if let Some(share) = share_between(fault.from, fault.until) {
            put("during_share", share);
            put("others_share", 1.0 - share);
        }
        if fault.until < self.end() {
            let later = self.windows().filter(|&(start, _)| start >= fault.until);
            let back = later
                .map(|(start, _)| start + length)
                .find(|&end| share_between(end - length, end).is_some_and(|share| share >= BACK * fair));
            // One that does not come back within the run has no such figure.
            if let Some(back) = back {
                put("back_s", (back - fault.until) as f64 / 1e9);
            }
        }
    }

    /// Every window, each with when it began.
    fn windows(&self) -> impl Iterator<Item = (u64, &Window)> {
        let length = self.scenario.window.nanos();
        (0..).map(move |number| ORIGIN + number * length).zip(&self.tally.windows)
    }

    /// What a change of size cost in connections, and what the planner says of it.
    fn churn_figures(&self, metrics: &mut BTreeMap<String, f64>) {
        let Some((before, after)) = self.tally.resized else { return };
        let Ok(algorithm) = self.scenario.subset.algorithm.parse::<Algorithm>() else { return };
        let deal = |shape| Dealt::new(shape, algorithm, self.dealing_seed()).ok();
        let (Some(old), Some(new)) = (deal(before), deal(after)) else { return };
        let churn = Churn::between(&old, &new);
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        put("connections_before", churn.before as f64);
        put("connections_lost", self.tally.let_go as f64);
        put("connections_lost_share", share(self.tally.let_go as f64, churn.before as f64));
        put("plan_lost", churn.lost as f64);
        put("plan_lost_share", share(churn.lost as f64, churn.before as f64));
        put("least_lost_share", share(churn.least, churn.before as f64));
    }

    /// What became of connections that nobody used, where they are let go.
    fn idle_figures(&self, metrics: &mut BTreeMap<String, f64>) {
        if self.scenario.idle.after.is_none() || self.central.is_some() {
            return;
        }
        let idle = &self.tally.idle;
        let mut put = |name: &str, value: f64| metrics.insert(name.to_owned(), value);
        put("inactive_share", idle.shares.0 / f64::from(idle.shares.1.max(1)));
        put("waited", idle.waited as f64);
        put(
            "datagrams_per_second",
            idle.datagrams as f64 / (self.scenario.duration.seconds() - self.scenario.settle.seconds()),
        );
        put("unreached", self.tasks.iter().map(Task::given_up).sum::<u64>() as f64);
        let (mut woken, mut visits, mut refusing) = (0, 0, 0);
        for client in self.clients.iter().filter(|client| !client.is_gone) {
            let snapshot = client.brain.snapshot(self.time());
            woken += snapshot.woken;
            visits += snapshot.checks.visits;
            refusing += snapshot.state_changes[BackendState::Healthy as usize][BackendState::Refusing as usize];
        }
        put("woken", woken as f64);
        put("visits", visits as f64);
        put("became_refusing", refusing as f64);
        // Whoever has not heard by the end has waited until then.
        let untold = self.datagrams.untold().map(|at| self.now.min(self.end()).saturating_sub(at)).max();
        if let Some(most) = idle.told_most.max(untold) {
            put("told_ms", most as f64 * 1e-6);
        }
    }

    fn outcome_series(&self, series: &mut BTreeMap<String, Series>) {
        let length = self.scenario.window.seconds();
        let mut put = |name: &str, of: &dyn Fn(&Window) -> u32| {
            let middle = |from| seconds(from) + length / 2.0;
            let points = self.windows().map(|(from, window)| (middle(from), f64::from(of(window)) / length));
            series.insert(name.to_owned(), points_of("per second", points));
        };
        put("served", &|window| window.served);
        put("failed", &|window| window.failed);
        put("refused", &|window| window.refused);
    }

    /// Share of requests slower than so many milliseconds, at values that look evenly spaced on a logarithmic axis.
    fn latency_above(&self) -> Series {
        let latency = &self.tally.latency;
        let total = latency.len() as f64;
        let mut series = Series { unit: "share".to_owned(), ..Series::default() };
        let (mut seen, mut next) = (0, 0.0);
        for step in latency.iter_recorded() {
            seen += step.count_since_last_iteration();
            let millis = step.value_iterated_to() as f64 * 1e-6;
            let above = 1.0 - seen as f64 / total;
            if millis >= next && above > 0.0 {
                series.x.push(millis);
                series.y.push(above);
                next = millis * LATENCY_STEP;
            }
        }
        series
    }
}

fn load_series(rows: &[(f64, Vec<f64>)], cores: &[f64], series: &mut BTreeMap<String, Series>) {
    let mut put = |name: String, of: &dyn Fn(&[f64]) -> Option<f64>| {
        let points = rows.iter().filter_map(|(end, row)| Some((*end, of(row)?)));
        series.insert(name, points_of("share of cores", points));
    };
    put("utilization_least".to_owned(), &|row| Some(Spread::of(row.iter().copied())?.least));
    put("utilization_mean".to_owned(), &|row| Some(Spread::of(row.iter().copied())?.mean));
    put("utilization_most".to_owned(), &|row| Some(Spread::of(row.iter().copied())?.most));
    let tasks = rows.first().map_or(0, |(_, row)| row.len());
    for shown in 0..tasks.min(TASKS_SHOWN) {
        let task = shown * tasks / tasks.min(TASKS_SHOWN);
        put(format!("task_{shown}"), &|row| row.get(task).copied().filter(|load| load.is_finite()));
    }
    if let Some((_, row)) = rows.last() {
        let mut used: Vec<f64> = in_cores(row, cores).filter(|load| load.is_finite()).collect();
        used.sort_by(|a, b| b.total_cmp(a));
        series.insert("cpu_used_by_task".to_owned(), numbered("cores", used));
    }
}

/// Cores that stand idle because the most loaded task is full first.
fn wasted(row: &[f64], cores: &[f64]) -> Option<f64> {
    let most = Spread::of(row.iter().copied())?.most;
    let idle = row.iter().zip(cores).filter(|(load, _)| load.is_finite()).map(|(load, cores)| cores * (most - load));
    Some(idle.sum())
}

fn in_cores<'a>(row: &'a [f64], cores: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    row.iter().zip(cores).map(|(load, cores)| load * cores)
}

/// The mean load of each task over the windows in which it was up; not a number where that was less than half of them.
fn means(rows: &[&[f64]]) -> Vec<f64> {
    let tasks = rows.iter().map(|row| row.len()).min().unwrap_or(0);
    let mean_of = |task: usize| {
        let loads = || rows.iter().map(|row| row[task]).filter(|load| load.is_finite());
        let up = loads().count();
        if up * 2 < rows.len() { f64::NAN } else { loads().sum::<f64>() / up as f64 }
    };
    (0..tasks).map(mean_of).collect()
}

fn ratio(spread: Spread) -> f64 {
    spread.most_to_least().min(RATIO_MOST)
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn seconds(at: u64) -> f64 {
    (at - ORIGIN) as f64 / 1e9
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], quantile: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * quantile).round() as usize])
}

fn numbered(unit: &str, y: Vec<f64>) -> Series {
    Series { unit: unit.to_owned(), x: (0..y.len()).map(|number| number as f64).collect(), y }
}

pub(super) fn points_of(unit: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
    let (x, y) = points.unzip();
    Series { unit: unit.to_owned(), x, y }
}

const SECOND: u64 = 1_000_000_000;
/// A backend is back when it gets this share of what is fair.
const BACK: f64 = 0.9;
/// Tasks that are drawn one by one.
const TASKS_SHOWN: usize = 12;
const LATENCY_STEP: f64 = 1.04;
