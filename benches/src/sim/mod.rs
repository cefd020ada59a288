//! How fast the simulator is, and how much it holds: events per second with core in the loop, large worlds, many seeds,
//! and the whole report.
//!
//! Every run is a process of its own, the bench started again, so that its CPU time and its peak of memory are its own.
//! All runs of a round follow each other, so that a noisy minute hits all of them alike; the report is run once.

mod child;
mod world;

use std::io;

use evenkeel_sim::catalog;

pub use child::{Run, run_as_child};
pub use world::{FULL, QUICK, Scale};

use crate::figure::{Aim, Figure};
use crate::{clock, rounds};

/// What can be asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Events per second on one core, by policy.
    Events,
    /// 1,000 clients of 1,000 backends.
    Large,
    /// 10,000 clients of 10,000 backends.
    Huge,
    /// Several seeds, on one thread and on every core.
    Seeds,
    /// Every scenario of the catalog.
    Report,
}

impl Part {
    pub const ALL: [(&str, Part); 5] = [
        ("events", Part::Events),
        ("large", Part::Large),
        ("huge", Part::Huge),
        ("seeds", Part::Seeds),
        ("report", Part::Report),
    ];

    /// Its runs of one round, in the order [`figures`](Part::figures) wants them.
    fn orders(self, scale: Scale) -> Vec<Order> {
        let alone = |toml| Order { toml, seeds: 1, threads: 1 };
        match self {
            Part::Events => POLICIES.map(|policy| alone(world::plain(policy, scale.plain))).to_vec(),
            Part::Large => vec![alone(world::large(scale.large))],
            Part::Huge => vec![alone(world::huge(scale.huge)), alone(world::huge(CONNECTED))],
            Part::Seeds => {
                let toml = world::plain(POLICIES[0], scale.seeds);
                [1, clock::cores().len()].map(|threads| Order { toml: toml.clone(), seeds: SEEDS, threads }).to_vec()
            }
            Part::Report => Vec::new(),
        }
    }

    /// What the rounds say.
    fn figures(self, scale: Scale, rounds: &[Vec<Run>]) -> Vec<Figure> {
        let of = |name: &str, unit, value: &dyn Fn(&[Run]) -> f64| {
            Figure::new(name.to_owned(), unit, rounds.iter().map(|runs| value(runs)).collect())
        };
        match self {
            Part::Events => POLICIES
                .iter()
                .enumerate()
                .flat_map(|(place, policy)| {
                    let name = |of| format!("events/100x100/{policy}/{of}");
                    let cpu = of(&name("cpu"), EVENTS, &|runs| runs[place].events_per_cpu_s() * 1e-6);
                    let wall = of(&name("wall"), EVENTS, &|runs| runs[place].events / runs[place].wall_s * 1e-6);
                    [cpu.aimed(Aim::AtLeast(4.0)), wall]
                })
                .collect(),
            Part::Large => {
                let seconds = scale.large;
                let wall = of("large/1000x1000/wall", "simulated s per s", &|runs| seconds / runs[0].wall_s);
                vec![
                    wall.aimed(Aim::AtLeast(1.0 / 3.0)),
                    of("large/1000x1000/cpu", "simulated s per s", &|runs| seconds / runs[0].cpu_s),
                    of("large/1000x1000/events", EVENTS, &|runs| runs[0].events_per_cpu_s() * 1e-6),
                    of("large/1000x1000/memory", "GiB", &|runs| runs[0].peak_bytes / GIB),
                ]
            }
            Part::Huge => vec![
                of("huge/10000x10000/memory", "GiB", &|runs| runs[0].peak_bytes / GIB).aimed(Aim::AtMost(8.0)),
                of("huge/10000x10000/connected/cpu", "s", &|runs| runs[1].cpu_s),
                of("huge/10000x10000/connected/wall", "s", &|runs| runs[1].wall_s),
                of("huge/10000x10000/events", EVENTS, &|runs| runs[0].since(runs[1]).events_per_cpu_s() * 1e-6),
            ],
            Part::Seeds => {
                let threads = clock::cores().len();
                let name = |of: &str| format!("seeds/{SEEDS}_seeds/{threads}_threads/{of}");
                vec![
                    of(&name("speedup"), "times", &|runs| runs[0].wall_s / runs[1].wall_s),
                    of(&name("more_cpu"), "times", &|runs| runs[1].cpu_s / runs[0].cpu_s),
                ]
            }
            Part::Report => Vec::new(),
        }
    }
}

/// One run of a scenario.
#[derive(Clone, Debug)]
struct Order {
    toml: String,
    seeds: u32,
    threads: usize,
}

/// A scenario of the report and what it took.
#[derive(Clone, Copy, Debug)]
pub struct Reported {
    pub scenario: &'static str,
    pub run: Run,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    pub figures: Vec<Figure>,
    /// Each scenario, where the report was asked for.
    pub report: Vec<Reported>,
}

/// Runs the parts: those of rounds interleaved, then the report.
///
/// # Errors
/// A run could not be started, or ended early.
pub fn measure(parts: &[Part], scale: Scale, rounds: u32) -> io::Result<Measured> {
    let orders: Vec<Vec<Order>> = parts.iter().map(|part| part.orders(scale)).collect();
    let mut found = vec![Vec::new(); parts.len()];
    if orders.iter().any(|orders| !orders.is_empty()) {
        for round in 1..=rounds {
            for (orders, found) in orders.iter().zip(&mut found) {
                found.push(orders.iter().map(Order::run).collect::<io::Result<Vec<Run>>>()?);
            }
            rounds::progress(round, rounds);
        }
    }
    let mut measured = Measured::default();
    for (part, found) in parts.iter().zip(&found) {
        measured.figures.extend(part.figures(scale, found));
    }
    if parts.contains(&Part::Report) {
        measured.report = report()?;
        measured.figures.extend(report_figures(&measured.report));
    }
    Ok(measured)
}

/// Every scenario of the catalog, one after another on every core, with the seeds that it wants.
fn report() -> io::Result<Vec<Reported>> {
    let one = |&(scenario, toml): &(&'static str, &str)| {
        let run = Order { toml: toml.to_owned(), seeds: 1, threads: clock::cores().len() }.run()?;
        eprintln!("report: {scenario} took {:.1} s", run.wall_s);
        Ok(Reported { scenario, run })
    };
    catalog::all().iter().map(one).collect()
}

fn report_figures(report: &[Reported]) -> Vec<Figure> {
    let sum = |of: fn(Run) -> f64| report.iter().map(|one| of(one.run)).sum::<f64>();
    let figure = |name: &str, unit, value| Figure::new(format!("report/{name}"), unit, vec![value]);
    let slowest = report.iter().max_by(|one, other| one.run.wall_s.total_cmp(&other.run.wall_s));
    let mut figures = vec![
        figure("wall", "s", sum(|run| run.wall_s)).aimed(Aim::AtMost(20.0 * 60.0)),
        figure("cpu", "s", sum(|run| run.cpu_s)),
        figure("events", "million", sum(|run| run.events) * 1e-6),
    ];
    figures.extend(slowest.map(|one| figure(&format!("slowest/{}", one.scenario), "s", one.run.wall_s)));
    figures
}

/// The first is the default, which the seeds and the large worlds run with.
const POLICIES: [&str; 3] = ["least_loaded", "round_robin", "p2c"];
const SEEDS: u32 = 8;
/// So short that a world is only built, connected and read: simulated seconds.
const CONNECTED: f64 = 0.001;
const EVENTS: &str = "million events/s";
const GIB: f64 = (1u64 << 30) as f64;
