//! Retries in a world: what is counted of them, and that nothing is lost on the way.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::BTreeMap;

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::world;

/// Half of the tasks refuse half, and one fails half of what it gets.
const TROUBLE: &str = r#"
duration = "12s"
settle = "1s"
policy = "least_loaded"
[clients]
count = 4
rate = 400.0
[subset]
size = 8
[backends]
count = 8
cores = 2
[retry]
mode = "on"
share = 0.5
[[method]]
cpu = { kind = "exponential", mean = "2ms" }
[[fault]]
kind = "refuse"
at = "0s"
backends = "0-3"
share = 0.5
[[fault]]
kind = "fail"
at = "0s"
backends = "4"
share = 0.5
"#;

/// Every invariant is looked at after every event.
fn figures(set: &[&str]) -> BTreeMap<String, f64> {
    let set: Vec<String> = set.iter().map(|&one| one.to_owned()).collect();
    let scenario = Scenario::with(TROUBLE, &set).unwrap();
    world::run_checked(&scenario, 1).unwrap_or_else(|broken| panic!("{broken}")).metrics
}

#[test]
fn retries_mend_what_some_tasks_refuse_or_fail() {
    let (off, on) = (figures(&["retry.mode=off"]), figures(&[]));

    assert!(off["served_share"] < 0.97 && on["served_share"] > 0.995, "{off:?} {on:?}");
    assert!(!off.contains_key("amplification"), "nothing to tell where nobody retries");
    assert!(on["attempts_2"] > 100.0 && on["attempts_4"] == 0.0 && on["amplification"] < 1.5, "{on:?}");
    assert_eq!(on["attempts_1"], on["requests"]);
}

#[test]
fn observing_is_like_off_but_for_what_is_counted() {
    let (off, observe) = (figures(&["retry.mode=off"]), figures(&["retry.mode=observe"]));

    for name in ["requests", "served", "failed", "events", "p99_ms"] {
        assert_eq!(off[name], observe[name], "{name}");
    }
    assert_eq!(observe["amplification"], 1.0);
}

#[test]
fn naive_clients_try_whatever_was_not_served_as_often_as_they_like() {
    let all = ["retry.mode=off", "retry.naive=4", "fault.0.backends=all", "fault.0.share=1.0"];
    let naive = figures(&all);

    assert_eq!((naive["served"], naive["amplification"]), (0.0, 4.0));
    assert!(figures(&["retry.mode=off", "retry.naive=4"])["served_share"] > 0.999);
}
