//! What a world does where something ends in the middle: cores come back, what ran is not run again, time has an end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use std::collections::BTreeMap;

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::world;

fn metrics(toml: &str) -> BTreeMap<String, f64> {
    world::run_checked(&Scenario::parse(toml).unwrap(), 7).unwrap().metrics
}

#[test]
fn one_line_for_all_cores_goes_on_after_all_of_them_were_gone() {
    let metrics = metrics(
        r#"
        policy = "oracle"
        duration = "20s"
        settle = "10s"
        [clients]
        load = 0.5
        deadline = "2s"
        [backends]
        count = 4
        cores = 2
        [[method]]
        cpu = { kind = "exponential", mean = "10ms" }
        [[fault]]
        kind = "kill"
        at = "2s"
        lasts = "5s"
        backends = "all"
        [[fault]]
        kind = "lame_duck"
        at = "9s"
        lasts = "50ms"
        backends = "0-1"
        "#,
    );

    // Requests asked for since 10 s meet what any free core gives them: about 10 ms.
    assert_eq!(metrics["served_share"], 1.0);
    assert!(metrics["mean_ms"] < 15.0, "{metrics:?}");
}

#[test]
fn what_is_slow_behind_a_task_fills_its_handlers_and_no_core() {
    let stalled = |times: &str| {
        metrics(&format!(
            r#"
            duration = "10s"
            settle = "1s"
            [clients]
            rate = 1000
            [client]
            active_max = 100000
            [backends]
            count = 1
            [[method]]
            cpu = {{ kind = "fixed", mean = "1ms" }}
            wait = {{ kind = "fixed", mean = "50ms" }}
            [[fault]]
            kind = "stall"
            at = "2s"
            lasts = "3s"
            times = {times}
            "#
        ))
    };
    let (calm, slow) = (stalled("1"), stalled("10"));

    // By Little's law 51 and 501 of a thousand in a second; chance adds a few standard deviations of 7 and 22.
    assert!((60.0..90.0).contains(&calm["in_handlers_most"]), "{calm:?}");
    assert!((520.0..600.0).contains(&slow["in_handlers_most"]), "{slow:?}");
    assert!((calm["utilization"] - slow["utilization"]).abs() < 0.01, "{slow:?}");
    assert!(slow["p50_ms"] < 60.0 && slow["p90_ms"] > 500.0, "{slow:?}");
}

#[test]
fn what_ran_is_not_sent_again_when_its_task_could_wait_no_longer() {
    let metrics = metrics(
        r#"
        duration = "90s"
        settle = "0s"
        [clients]
        count = 2
        rate = 2
        deadline = "10m"
        [backends]
        count = 2
        [[method]]
        cpu = { kind = "fixed", mean = "1ms" }
        wait = { kind = "fixed", mean = "50s" }
        [[fault]]
        kind = "restart"
        at = "10s"
        backends = "0"
        "#,
    );

    // A task drains for 30 s at most: what it then still has fails, and is not asked for again.
    assert!(metrics["failed"] > 0.0, "{metrics:?}");
    assert!(metrics["p999_ms"] < 51_000.0, "{metrics:?}");
    assert_eq!(metrics["requests"], metrics["served"] + metrics["failed"]);
}

#[test]
fn times_beyond_the_end_of_counting_are_never_and_not_soon() {
    let slow = r#"
        duration = "20s"
        settle = "0s"
        [clients]
        rate = 10
        deadline = "5s"
        [backends]
        count = 2
        [[method]]
        cpu = { kind = "fixed", mean = "1ms" }
        wait = { kind = "pareto", least = "1m", range = 1e9, alpha = 0.1 }
    "#;
    let metrics = metrics(slow);

    assert_eq!((metrics["served"], metrics["expired"]), (0.0, metrics["requests"]));
}

#[test]
fn cores_are_wasted_by_uneven_shares_and_not_by_unequal_machines() {
    let metrics = metrics(
        r#"
        policy = "oracle"
        duration = "15s"
        settle = "5s"
        [clients]
        load = 0.7
        [backends]
        count = 2
        [[backends.machine]]
        cores = 8
        [[backends.machine]]
        cores = 64
        "#,
    );

    // 72 cores, all used alike: had the small machine to use as many as the large one, 39 would seem wasted.
    assert!(metrics["spread"] < 1.02 && metrics["wasted_cores"] < 5.0, "{metrics:?}");
}

/// Four clients, of which every second asks once in a while, and four backends that are restarted after a while.
fn restart_with_inactive(more: &str) -> BTreeMap<String, f64> {
    metrics(&format!(
        r#"
        duration = "30s"
        settle = "0s"
        {more}
        [clients]
        count = 4
        rate = 200
        rare = 0.5
        rarely = 0.002
        [idle]
        after = "1s"
        check_every = "1s"
        check_timeout = "200ms"
        visit_every = "5s"
        [[fault]]
        kind = "restart"
        at = "5s"
        backends = "all"
        "#
    ))
}

#[test]
fn a_request_that_finds_everybody_inactive_waits_for_a_connection_and_is_served() {
    let metrics = restart_with_inactive("backends = { count = 4 }");

    assert!(metrics["waited"] > 0.0 && metrics["woken"] >= metrics["waited"], "{metrics:?}");
    assert_eq!((metrics["served_share"], metrics["became_refusing"], metrics["visits"]), (1.0, 0.0, 0.0));
    assert_eq!(metrics["told_ms"], 0.25);
}

#[test]
fn a_process_with_another_secret_resets_its_clients_and_they_connect_for_a_new_key() {
    let metrics = restart_with_inactive("backends = { count = 4, keeps_secret = false }");

    // Two clients visit each of the four within a period of the first question to its new process.
    assert!(metrics["visits"] >= 4.0, "{metrics:?}");
    assert_eq!((metrics["served_share"], metrics["told_ms"]), (1.0, 0.25));
    assert!(metrics["inactive_share"] > 0.3, "{metrics:?}");
}

#[test]
fn backends_without_datagrams_are_visited_and_nobody_is_asked() {
    let metrics = restart_with_inactive("backends = { count = 4, datagrams = false }");

    assert!(metrics["visits"] > 10.0 && metrics["inactive_share"] > 0.3, "{metrics:?}");
    assert_eq!((metrics["datagrams_per_second"], metrics["served_share"]), (0.0, 1.0));
}

#[test]
fn a_layer_counts_the_requests_that_were_made_for_those_that_are_counted() {
    let metrics = metrics(
        r#"
        duration = "4s"
        settle = "2s"
        [clients]
        rate = 200
        [backends]
        count = 4
        [[layer]]
        calls = 2
        [layer.backends]
        count = 4
        "#,
    );

    assert_eq!(metrics["layer1_requests"], 2.0 * metrics["requests"]);
}
