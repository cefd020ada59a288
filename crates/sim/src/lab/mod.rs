//! Runs a scenario: every variant with every seed, on as many threads as asked for, and makes one document of it.
//!
//! Runs know nothing of each other and are collected by their place, so the document does not depend on the number of
//! threads. A variant is run with the same seeds as its siblings: they see the same requests.

mod checks;
mod dealing;
mod replay;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use replay::{Difference, difference, order_of};

use crate::by_variant::full_name;
use crate::document::{Document, Input, Series};
use crate::scenario::{BadScenario, FigureSpec, Model, SEEDS_MOST, Scenario};
use crate::world::{self, Profile, RunResult};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// What the scenario is called.
    pub name: String,
    /// The scenario, and what is set otherwise.
    pub input: Input,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, where the scenario does not want more.
    pub seeds: Option<u32>,
}

/// Runs all of it. `progress` is told the share done, from any thread.
///
/// ```
/// use evenkeel_sim::lab::{Order, run};
/// use evenkeel_sim::{Input, catalog};
///
/// let toml = catalog::text("figure-20-5").unwrap().to_owned();
/// let order = Order { name: "figure-20-5".to_owned(), input: Input { toml, ..Input::default() }, seed: 1, seeds: None };
/// let document = run(&order, 1, &|_| {})?;
/// assert!(document.checks.iter().all(|check| check.pass));
/// # Ok::<(), evenkeel_sim::scenario::BadScenario>(())
/// ```
pub fn run(order: &Order, threads: usize, progress: &(dyn Fn(f64) + Sync)) -> Result<Document, BadScenario> {
    run_with(order, threads, progress, &by_model)
}

/// One run of one scenario with one seed.
type Runner = dyn Fn(&Scenario, u64, &mut dyn FnMut(f64)) -> RunResult + Sync;

fn by_model(scenario: &Scenario, seed: u64, progress: &mut dyn FnMut(f64)) -> RunResult {
    match scenario.model {
        Model::World => world::run(scenario, seed, progress),
        Model::Dealing => dealing::run(scenario, seed, progress),
    }
}

fn run_with(
    order: &Order,
    threads: usize,
    progress: &(dyn Fn(f64) + Sync),
    runner: &Runner,
) -> Result<Document, BadScenario> {
    let scenario = ordered(&order.input)?;
    let variants = scenario.variants()?;
    let seeds = order.seeds.unwrap_or(1).max(scenario.seeds);
    if seeds > SEEDS_MOST {
        let what = format!("must be from 1 to {SEEDS_MOST}");
        return Err(BadScenario::field("", what).within(format!("--seeds {seeds}")));
    }
    let jobs: Vec<(usize, u64)> = (0..variants.len())
        .flat_map(|variant| (0..u64::from(seeds)).map(move |later| (variant, order.seed.wrapping_add(later))))
        .collect();
    let one = |place: usize, progress: &mut dyn FnMut(f64)| {
        let (variant, seed) = jobs[place];
        let mut result = runner(&variants[variant].1, seed, progress);
        // Only the first seed is drawn; a thousand others would not fit into memory.
        if seed != order.seed {
            result.series = BTreeMap::new();
        }
        result
    };
    let results = in_parallel(jobs.len(), threads, progress, &one);

    let mut document = Document {
        scenario: order.name.clone(),
        about: scenario.about.clone(),
        seed: order.seed,
        seeds,
        input: order.input.clone(),
        metrics: BTreeMap::new(),
        checks: Vec::new(),
        series: BTreeMap::new(),
        figures: figures(&scenario, &order.input),
        trace: BTreeMap::new(),
    };
    for (variant, runs) in variants.iter().zip(results.chunks(seeds as usize)) {
        document.add(&variant.0, order.seed, runs);
    }
    document.checks = checks::evaluated(&scenario.checks, &document.metrics, order.input.policy.is_some());
    Ok(document)
}

/// The scenario that was ordered. One policy asked for takes the place of all variants.
fn ordered(input: &Input) -> Result<Scenario, BadScenario> {
    let scenario = Scenario::with(&input.toml, &input.set)?;
    let Some(policy) = &input.policy else { return Ok(scenario) };
    let checks = scenario.checks.clone();
    let figures = scenario.figures.clone();
    let alone =
        Scenario { policy: policy.clone(), variants: Vec::new(), checks: Vec::new(), figures: Vec::new(), ..scenario };
    alone.check().map_err(|bad| match bad.field.as_str() {
        "policy" => bad.set_by(format!("--policy {policy}")),
        _ => bad,
    })?;
    Ok(Scenario { checks, figures, ..alone })
}

/// The pictures; where there are no variants after all, of what there is.
fn figures(scenario: &Scenario, input: &Input) -> Vec<FigureSpec> {
    let mut figures = scenario.figures.clone();
    if input.policy.is_some() {
        for figure in &mut figures {
            figure.variants.clear();
        }
    }
    figures
}

/// The run of one place in the list.
type Job<'a> = dyn Fn(usize, &mut dyn FnMut(f64)) -> RunResult + Sync + 'a;

/// Runs `count` jobs on some threads; each result is in its job's place.
fn in_parallel(count: usize, threads: usize, progress: &(dyn Fn(f64) + Sync), job: &Job<'_>) -> Vec<RunResult> {
    let next = AtomicUsize::new(0);
    // In millionths of a job, so that threads can add to one number.
    let done = AtomicU64::new(0);
    let results: Vec<Mutex<RunResult>> = (0..count).map(|_| Mutex::default()).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(result) = results.get(place) else { return };
            let mut told = 0;
            let mut tell = |share: f64| {
                let share = (share.clamp(0.0, 1.0) * MILLION) as u64;
                let more = share.saturating_sub(told);
                told += more;
                let all = done.fetch_add(more, Ordering::Relaxed) + more;
                progress((all as f64 / MILLION / count as f64).min(1.0));
            };
            let found = job(place, &mut tell);
            tell(1.0);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
        work();
    });
    results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

impl Document {
    /// As text: pretty, keys in order, a newline at the end. The same document gives the same bytes.
    ///
    /// # Panics
    /// Never: names, numbers and lists have a text.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names, numbers and lists have a text") + "\n"
    }

    /// Adds the runs of a variant: means of the figures that every run has, what is drawn of the first, a trace of each.
    fn add(&mut self, variant: &str, first: u64, runs: &[RunResult]) {
        let named = |name: &str| full_name(variant, name);
        let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, &value) in runs.iter().flat_map(|run| &run.metrics) {
            found.entry(name).or_default().push(value);
        }
        for (name, values) in found {
            // The mean of some seeds would pass for that of all: those without it may be the ones that went wrong.
            if values.len() < runs.len() {
                continue;
            }
            // From the first on, so that the mean of equal figures is that figure, to the last bit.
            let mean = values[0] + values.iter().map(|value| value - values[0]).sum::<f64>() / values.len() as f64;
            // A figure that is infinite with one seed has no mean, and leaving that seed out would hide it.
            if mean.is_finite() {
                self.metrics.insert(named(name), mean);
            }
        }
        Profile::mean_of(runs.iter().map(|run| &run.profile)).put_into(&mut self.metrics, named);
        for (seed, run) in (0..).map(|later| first.wrapping_add(later)).zip(runs) {
            self.trace.insert(named(&seed.to_string()), format!("{:016x}", run.trace));
        }
        let drawn = runs.first().map(|run| &run.series);
        for (name, series) in drawn.into_iter().flatten() {
            // A point that is nowhere cannot be drawn, nor written as JSON.
            let points = series.x.iter().zip(&series.y).filter(|(x, y)| x.is_finite() && y.is_finite());
            let (x, y) = points.unzip();
            let series = Series { unit: series.unit.clone(), x, y };
            self.series.insert(named(name), series);
        }
    }
}

const MILLION: f64 = 1e6;

#[cfg(test)]
mod tests;
