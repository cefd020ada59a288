//! What the laboratory must show, for any seed: the published pictures, sinkholes, restarts, churn, exact replays.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use evenkeel_sim::lab::{self, Order};
use evenkeel_sim::{Document, Input, catalog, plot};

/// Seeds far apart: none is special.
const SEEDS: [u64; 2] = [1, 0x9e37_79b9];

fn order(name: &str, seed: u64) -> Order {
    let toml = catalog::text(name).unwrap().to_owned();
    Order { name: name.to_owned(), input: Input { toml, ..Input::default() }, seed, seeds: None }
}

fn run(name: &str, seed: u64) -> Document {
    lab::run(&order(name, seed), threads(), &|_| {}).unwrap()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Every goal of the scenario is met, with every seed.
fn assert_goals(names: &[&str]) {
    let missed: Vec<String> = names.iter().flat_map(|name| SEEDS.map(|seed| missed(name, seed))).flatten().collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The goals that the scenario misses with this seed.
fn missed(name: &str, seed: u64) -> Vec<String> {
    let document = run(name, seed);
    assert!(!document.checks.is_empty(), "{name} has no goal");
    let missed = document.checks.iter().filter(|check| !check.pass);
    missed
        .map(|check| format!("{name} with seed {seed}: {}: {:?}, goal {}", check.what, check.measured, check.goal))
        .collect()
}

/// What is decided under load must hold, whatever is drawn: overload, picking, retries, clusters. `./test sim` runs all of
/// them with seed 1.
const UNDER_LOAD: [&str; 26] = [
    "overload-2",
    "overload-8",
    "overload-others",
    "at-capacity",
    "critical-half",
    "mild-overload",
    "limit",
    "one-customer",
    "order-customers",
    "fan-out-burst",
    "spike",
    "hints-per-backend",
    "throttle",
    "throttle-recovery",
    "nine-policies",
    "near-capacity",
    "level-stable",
    "stable-weighted",
    "stable-prequal",
    "stable-level",
    "stable-rare",
    "figure-21-1",
    "retry-layers",
    "metastable",
    "spill",
    "spill-trap",
];

#[test]
fn the_published_pictures_are_drawn() {
    let pictures = ["figure-20-1", "figure-20-2", "figure-20-3", "figure-20-4", "figure-20-5", "figure-20-6"];
    assert_goals(&pictures);
    for name in pictures {
        let document = run(name, 1);
        assert!(!document.figures.is_empty(), "{name} draws nothing");
        for figure in &document.figures {
            assert!(plot::draw(&document, figure).is_some(), "{name}: {:?} has nothing to draw", figure.kind);
        }
    }
}

#[test]
fn hedges_cut_the_tail_within_the_budget_and_stop_under_overload() {
    assert_goals(&["hedge"]);
}

#[test]
fn retries_grow_load_by_a_tenth_through_any_layers_and_keep_nothing_down() {
    assert_goals(&["figure-21-1", "retry-layers", "metastable"]);
}

#[test]
fn a_sinkhole_draws_no_traffic_and_is_back_when_healed() {
    assert_goals(&["sinkhole"]);
}

#[test]
fn half_failing_backends_do_not_snowball() {
    assert_goals(&["half-failing"]);
}

#[test]
fn a_rolling_restart_fails_nobody() {
    assert_goals(&["rolling-restart"]);
    let document = run("rolling-restart", 1);
    assert!(document.metrics["restarts"] >= 20.0, "{:?}", document.metrics);
    assert!(document.metrics["failed"] == 0.0 && document.metrics["refused"] == 0.0, "{:?}", document.metrics);
}

#[test]
fn inactive_clients_hear_of_a_restart_within_two_round_trips() {
    assert_goals(&["idle-restart"]);
    let document = run("idle-restart", 1);
    let metric = |name: &str| document.metrics[&format!("inactive/{name}")];
    assert_eq!((metric("failed"), metric("refused"), metric("unsent")), (0.0, 0.0, 0.0));
    assert!(metric("restarts") >= 20.0 && metric("woken") > 0.0 && metric("waited") > 0.0, "{:?}", document.metrics);
    // Twice 0.25 ms there and back.
    assert!(metric("told_ms") <= 1.0, "{:?}", document.metrics);
}

#[test]
fn blocked_datagrams_make_nobody_refusing_and_fail_nothing() {
    assert_goals(&["no-datagrams"]);
    let document = run("no-datagrams", 1);
    assert!(document.metrics["calm/visits"] > 100.0, "{:?}", document.metrics);
}

#[test]
fn a_cluster_that_loses_half_overloads_nobody_and_one_that_sheds_draws_nothing() {
    // `./test sim` runs them with seed 1, and those of clusters that are full and of many clients.
    for name in ["spill", "spill-trap"] {
        let missed = missed(name, SEEDS[1]);
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}

#[test]
fn groups_of_policies_and_stability_at_95_percent_hold_with_another_seed() {
    let names = ["nine-policies", "near-capacity", "level-stable", "stable-weighted", "stable-prequal", "stable-level"];
    let missed: Vec<String> = names.iter().flat_map(|name| missed(name, SEEDS[1])).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Six minutes of CPU; only with `./test --long`.
#[test]
fn what_must_hold_under_load_holds_with_seeds_far_apart() {
    if std::env::var_os("EVENKEEL_LONG").is_none() {
        return;
    }
    let runs = UNDER_LOAD.iter().flat_map(|name| [1, 300, 700].map(|seed| (*name, seed)));
    let missed: Vec<String> = runs.flat_map(|(name, seed)| missed(name, seed)).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// What diverges has tens of seconds, up to the deadline of a minute, and has more in the second half of what is measured. By chance
/// p99 differs by up to 1.8 times from 40 s to 40 s. Five minutes of CPU; only with `./test --long`.
#[test]
fn nothing_grows_with_a_thousand_rare_callers_at_either_end_of_any_setting() {
    if std::env::var_os("EVENKEEL_LONG").is_none() {
        return;
    }
    // Pools of words learn nothing; weights take minutes at their latest.
    let times = [("stable-weighted", 240, 160), ("stable-prequal", 60, 20), ("stable-level", 120, 40)];
    for (name, duration, settle) in times {
        let mut order = order(name, SEEDS[1]);
        let seconds = |key: &str, value: u32| format!("{key}={value}s");
        order.input.set =
            vec!["clients.count=1000".to_owned(), seconds("duration", duration), seconds("settle", settle)];
        let metrics = lab::run(&order, threads(), &|_| {}).unwrap().metrics;
        let halves = metrics.iter().filter_map(|(key, last)| {
            let variant = key.strip_suffix("/second_half_p99_ms")?;
            Some((variant, metrics[&format!("{variant}/first_half_p99_ms")], *last))
        });
        let halves: Vec<_> =
            halves.filter(|(variant, _, _)| !variant.ends_with("-before") && !variant.starts_with("crowd")).collect();
        assert!(halves.len() > 8, "{name}: {halves:?}");
        let grown: Vec<_> = halves.iter().filter(|(_, before, last)| *last > 10_000.0 || last / before > 2.5).collect();
        assert!(grown.is_empty(), "{name}: {grown:?}");
    }
}

#[test]
fn churn_is_what_the_planner_says() {
    assert_goals(&["churn"]);
}

#[test]
fn a_replay_is_exact() {
    for name in ["crash", "partition", "layers", "figure-20-5"] {
        let first = run(name, 3);
        let read: Document = serde_json::from_str(&first.to_json()).unwrap();
        let again = lab::run(&lab::order_of(&read), 1, &|_| {}).unwrap();
        assert_eq!(first.to_json(), again.to_json(), "{name}");
        // The comparison can fail: another seed is another trace.
        assert_ne!(first.trace, run(name, 4).trace, "{name}");
    }
}
