//! The model against queueing theory: where there is a formula, the world gives its number.
//!
//! Poisson arrivals, exponential costs of mean 1 and no network: mean time in the system, in units of the mean cost.
//! Tolerances are about six standard errors of runs this long, found from their spread over seeds.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::world;

/// Mean time in the system, over the mean cost of 10 ms.
fn mean_time(settings: &[&str]) -> f64 {
    let base = r#"
        duration = "70s"
        settle = "10s"
        [clients]
        count = 1
        deadline = "1h"
        [network]
        delay = "0s"
        [client]
        active_max = 1000000
        [subset]
        size = 1000
        [[method]]
        cpu = { kind = "exponential", mean = "10ms" }
    "#;
    let set: Vec<String> = settings.iter().map(|&one| one.to_owned()).collect();
    let scenario = Scenario::with(base, &set).unwrap();
    world::run(&scenario, 11, &mut |_| {}).metrics["mean_ms"] / 10.0
}

fn assert_near(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() < tolerance, "{what}: {measured:.3}, theory {expected:.3}");
}

#[test]
fn one_core_that_is_shared_takes_1_over_1_minus_load() {
    // M/M/1 with processor sharing, a hundred of them: drawing at random keeps arrivals Poisson.
    for (load, expected) in [("0.5", 2.0), ("0.7", 1.0 / 0.3)] {
        let load = format!("clients.load={load}");
        let measured = mean_time(&["policy=random", "backends.count=100", "backends.cores=1", &load]);
        assert_near(measured, expected, 0.03, &load);
    }
}

#[test]
fn one_line_for_ten_cores_is_erlangs() {
    // M/M/10 waits as Erlang C says: 1.074 at 0.7, 1.669 at 0.9.
    for (load, expected) in [("0.7", 1.074), ("0.9", 1.669)] {
        let load = format!("clients.load={load}");
        let measured = mean_time(&["policy=oracle", "backends.count=10", "backends.cores=1", &load]);
        assert_near(measured, expected, 0.06, &load);
    }
}

#[test]
fn the_shorter_of_two_lines_is_the_power_of_two_choices() {
    // Sum over i of load^(2^i - 2), i from 1 on: the limit of many backends; with 100 of them about 1 % more.
    let expected: f64 = (1..8).map(|i| libm::pow(0.7, f64::from((1 << i) - 2))).sum();
    let measured = mean_time(&["policy=p2c", "backends.count=100", "backends.cores=1", "clients.load=0.7"]);
    assert_near(measured, expected, 0.04, "two choices at 0.7");
}

#[test]
fn load_is_the_share_of_cores_in_use() {
    let toml = r#"
        duration = "70s"
        [clients]
        load = 0.6
        [backends]
        count = 20
        cores = 2
        [[backends.machine]]
        speed = 1.0
        [[backends.machine]]
        speed = 2.0
    "#;
    let metrics = world::run(&Scenario::parse(toml).unwrap(), 5, &mut |_| {}).metrics;
    // Half of the machines are twice as fast and get more: between 0.6 and what equal shares would use.
    assert!((0.58..0.70).contains(&metrics["utilization"]), "{metrics:?}");
    assert_eq!(metrics["requests"], metrics["served"]);
}
