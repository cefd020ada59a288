//! Random worlds with random faults: whatever goes wrong, nothing is lost, counted twice or sent to a lame duck.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_sim::swarm;

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
    for seed in 0..200 {
        let scenario = swarm::scenario(seed);
        scenario.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        abouts.insert(format!("{:?}", scenario.faults));
    }
    assert!(abouts.len() > 100, "{} different sets of faults", abouts.len());
}

#[test]
fn a_seed_gives_the_same_trace_again() {
    for seed in [3, 17, 40] {
        assert_eq!(swarm::run(seed).unwrap(), swarm::run(seed).unwrap());
    }
}
