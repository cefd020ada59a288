//! Random worlds with random faults: whatever goes wrong, nothing is lost, counted twice or sent to a lame duck.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::{swarm, world};

/// 200 worlds; 10,000 with `./test --long`.
#[test]
fn whatever_goes_wrong_every_invariant_holds_after_every_event() {
    let seeds = if std::env::var_os("EVENKEEL_LONG").is_some() { 10_000 } else { 200 };
    let broken: Vec<String> =
        (0..seeds).filter_map(|seed| swarm::run(seed).err()).map(|broken| broken.to_string()).collect();

    assert!(broken.is_empty(), "look at one with `evenkeel sim swarm --seed N`:\n{}", broken.join("\n"));
}

#[test]
fn the_worlds_of_a_swarm_are_possible_scenarios_and_differ() {
    let mut abouts = std::collections::BTreeSet::new();
    for seed in 0..2_000 {
        let scenario = swarm::scenario(seed);
        scenario.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        abouts.insert(format!("{:?}", scenario.faults));
    }
    assert!(abouts.len() > 1_000, "{} different sets of faults", abouts.len());
}

#[test]
fn a_seed_gives_the_same_trace_again() {
    for seed in [3, 17, 40] {
        assert_eq!(swarm::run(seed).unwrap(), swarm::run(seed).unwrap());
    }
}

/// Found as a seed that never ended: both ends gave the connection up, and the backend kept what it could never finish.
#[test]
fn what_hangs_behind_a_partition_is_dropped_with_its_connection() {
    let toml = r#"
        duration = "3s"
        settle = "0s"
        [clients]
        count = 8
        rate = 180
        deadline = "2s"
        [backends]
        count = 2
        [network]
        silence = "500ms"
        [[fault]]
        kind = "hang"
        at = "1s"
        backends = "1"
        [[fault]]
        kind = "partition"
        at = "1100ms"
        backends = "0-1"
        clients = 0.9
    "#;
    let result = world::run_checked(&Scenario::parse(toml).unwrap(), 1277);

    assert!(result.is_ok(), "{}", result.unwrap_err());
}
