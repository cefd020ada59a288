//! More than a task can do: what is refused, what is held back, what is counted of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::world;

/// Four times what two cores can do, for a second.
const STEP: &str = r#"
duration = "5s"
settle = "0s"
[clients]
count = 10
load = 0.5
deadline = "300ms"
rhythm = [{ kind = "step", at = "1s", lasts = "1s", times = 8 }]
[client]
active_max = 100000
[subset]
size = 1
[backends]
count = 1
cores = 2
[server]
mode = "on"
[overload]
from = "1s"
until = "2s"
skip = "300ms"
[[method]]
cpu = { kind = "exponential", mean = "4ms" }
[criticality]
CRITICAL = 0.2
SHEDDABLE = 0.8
"#;

/// Every invariant is looked at after every event.
fn figures(set: &[&str]) -> BTreeMap<String, f64> {
    let set: Vec<String> = set.iter().map(|&one| one.to_owned()).collect();
    let scenario = Scenario::with(STEP, &set).unwrap();
    world::run_checked(&scenario, 1).unwrap_or_else(|broken| panic!("{broken}")).metrics
}

#[test]
fn the_task_does_what_it_can_for_those_that_matter_most() {
    let found = figures(&[]);

    assert!(found["rejected"] > 100.0 && found["held_back"] > 100.0, "{found:?}");
    assert!(found["goodput"] > 0.8, "{found:?}");
    assert!(found["overload_critical_served_share"] > 0.9, "{found:?}");
    assert!(found["overload_sheddable_served_share"] < 0.5, "{found:?}");
    assert!(found["recover_s"] <= 0.5, "{found:?}");
}

#[test]
fn with_nothing_on_nobody_is_refused_and_little_is_in_time() {
    let off = figures(&["server.mode=off"]);

    assert!(off["goodput"] < 0.8, "{off:?}");
    assert_eq!((off.get("rejected"), off["overload_rejected"], off["cutoff_mean"]), (None, 0.0, 0.0));
}

#[test]
fn who_only_observes_changes_nothing_of_what_requests_meet() {
    let (off, observing) = (figures(&["server.mode=off"]), figures(&["server.mode=observe"]));

    for name in ["served", "failed", "goodput", "p99_ms"] {
        assert!((off[name] - observing[name]).abs() < 1e-9, "{name}: {} and {}", off[name], observing[name]);
    }
    assert_eq!((observing["rejected"], observing["held_back"]), (0.0, 0.0));
}

#[test]
fn strangers_do_not_heed_hints_and_cost_the_task_their_refusals() {
    let (ours, strangers) = (figures(&[]), figures(&["clients.foreign=1"]));

    assert!(strangers["held_back"].abs() < 0.5);
    assert!(strangers["rejected"] > 2.0 * ours["rejected"], "{strangers:?}");
    // Each refusal is a tenth of a request, and there are three for each one that is served.
    assert!(strangers["goodput"] < ours["goodput"], "{} and {}", strangers["goodput"], ours["goodput"]);
    let free = figures(&["clients.foreign=1", "server.refusal_cost=0"]);
    assert!(free["goodput"] > strangers["goodput"], "{} and {}", free["goodput"], strangers["goodput"]);
}

#[test]
fn a_bounded_queue_refuses_what_has_no_place() {
    let bounded = figures(&["server.mode=off", "backends.workers=2", "backends.queue=10"]);
    let endless = figures(&["server.mode=off", "backends.workers=2"]);

    assert!(bounded["overload_rejected"] > 100.0, "{bounded:?}");
    // Ten in line of 4 ms each on two cores wait 20 ms, a few times that at worst.
    assert!(bounded["accepted_p99_ms"] < 100.0, "{bounded:?}");
    assert!(endless["overload_rejected"] == 0.0 && endless["goodput"] < bounded["goodput"], "{endless:?}");
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    for (set, wanted) in [
        ("server.refusal_cost=-1", "must be from 0 to 10"),
        ("server.quotas.x=1.0", "no customer of that name"),
        ("server.age=0", "--set server.age=0"),
        ("server.limit_times=0.5", "--set server.limit_times=0.5"),
        ("overload.until=1s", "must be after overload.from"),
        ("overload.until=6s", "within duration"),
        ("backends.queue=3", "nobody queues without workers"),
        ("policy=oracle", "leave server.mode off"),
    ] {
        let bad = Scenario::with(STEP, &[set.to_owned()]).unwrap_err().to_string();
        assert!(bad.contains(wanted), "{set}: {bad}");
    }
}

/// A fresh task on two cores: critical requests for half of it, and so many times as much in all, from the first moment on.
const START: &str = r#"
duration = "5s"
settle = "0s"
[clients]
count = 100
load = 10.0
deadline = "400ms"
[client]
active_max = 1000000
[subset]
size = 1
[backends]
count = 1
cores = 2
[server]
mode = "on"
[overload]
from = "0s"
until = "4s"
[network]
delay = "500us"
[[method]]
cpu = { kind = "exponential", mean = "3.9ms" }
[criticality]
CRITICAL = 0.05
SHEDDABLE = 0.95
"#;

const BIMODAL: &str = r#"method.0.cpu={ kind = "bimodal", least = "2ms", most = "40ms", share = 0.05 }"#;
const LOGNORMAL: &str = r#"method.0.cpu={ kind = "lognormal", mean = "3.9ms", sigma = 1.2 }"#;

/// How many critical requests were lost in the first four seconds.
fn lost_at_start(set: &[&str], seed: u64) -> f64 {
    let set: Vec<String> = set.iter().map(|&one| one.to_owned()).collect();
    let scenario = Scenario::with(START, &set).unwrap();
    let found = world::run(&scenario, seed, &mut |_| {}).metrics;
    let asked = 4.0 * 0.5 * 2.0 / 0.0039;
    (1.0 - found["overload_critical_served_share"]) * asked
}

/// One in a thousand of a minute's, which is 15: all that may be lost, onset included. The first seeds had dear answers first and
/// lost 27 to 92.
#[test]
fn a_fresh_task_whose_first_answers_are_dear_serves_what_matters() {
    let unlucky = [
        (&[] as &[&str], vec![2015]),
        (&[BIMODAL], vec![2018, 2043, 2076, 3001, 3035, 3099, 3159, 3188]),
        (&[LOGNORMAL], vec![2031, 2033]),
    ];
    for (set, seeds) in unlucky {
        for seed in seeds.into_iter().chain(100..120) {
            let lost = lost_at_start(set, seed);
            assert!(lost <= 15.0, "{set:?} with seed {seed}: {lost}");
        }
    }
}
