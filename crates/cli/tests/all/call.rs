//! `evenkeel call`, as a process: every request is in exactly one count.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support::{Backend, Process, assert_explained, document, free_address, http, run, until};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn counts_add_up_over_backends_and_outcomes() {
    let backends = [Backend::start(""), Backend::start("--error-rate 0.5")];
    let [a, b] = [backends[0].address, backends[1].address];

    let called = document(&format!("call {a} {b} --requests 300 --concurrency 4 --policy round_robin --json"));

    assert_eq!((total(&called), &called["requests"]["asked"]), (300, &300.into()));
    // Half of what the second one gets; 1 in 2^40 draws has fewer than 40 of about 150.
    assert!(called["requests"]["failed"].as_u64() > Some(40), "{called}");
    assert_eq!(called["failures"]["grpc Internal"], called["requests"]["failed"]);
    let ended: u64 = rows(&called["backends"])
        .iter()
        .flat_map(|row| row["ended"].as_object().unwrap().values())
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(ended, 300 + called["retries"].as_u64().unwrap());
    let [p50, p99, max] = ["p50", "p99", "max"].map(|name| called["latency_ms"][name].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p99 && p99 <= max, "{called}");
}

#[test]
fn plain_http_works_too() {
    let backend = Backend::start("");

    let called = document(&format!("call {} --http --requests 50 --bytes 1000 --json", backend.address));

    assert_explained(&called);
    assert_eq!(called["requests"]["ok"], 50);
    assert_eq!(called["backends"][0]["name"], backend.address.to_string());
}

#[test]
fn latency_counts_from_when_a_request_was_due_and_what_is_too_much_is_not_sent() {
    let backend = Backend::start("");

    // 20 requests in a fifth of a second, and each takes a tenth with one in flight: most find one there.
    let line = format!("call {} --rate 100 --seconds 0.2 --in-flight 1 --sleep-us 100000 --json", backend.address);
    let called = document(&line);

    assert_eq!((total(&called), &called["requests"]["asked"]), (20, &20.into()));
    assert!(called["requests"]["not_sent"].as_u64() >= Some(15), "{called}");
    assert!(called["latency_ms"]["p50"].as_f64() >= Some(100.0), "{called}");
}

#[test]
fn nobody_there_is_an_error_that_says_who_and_what_to_do() {
    let address = free_address();

    let output = run(&format!("call {address} --json"));

    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(said.contains(&address.to_string()) && said.contains("evenkeel backend"), "{said}");
}

#[test]
fn answers_that_all_fail_end_with_1_and_the_figures() {
    let backend = Backend::start("--error-rate 1");

    let output = run(&format!("call {} --requests 10 --json", backend.address));

    assert_eq!(output.status.code(), Some(1));
    let called: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((total(&called), &called["requests"]["failed"]), (10, &10.into()));
}

#[tokio::test]
async fn ctrl_c_prints_what_was_until_then() {
    let admin = free_address();
    let backend = Backend::start(&format!("--admin {admin}"));
    let mut calling = Process::start(&format!("call {} --seconds 600 --sleep-us 1000 --json", backend.address));
    let admitted = || http(admin, "GET", "/state").1["servers"][0]["admitted"].as_u64();
    until("requests arrive", async || admitted() > Some(20)).await;

    calling.signal(Signal::INT);

    let (code, said) = calling.end().await;
    assert_eq!(code, Some(130));
    let called: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(Some(total(&called)), called["requests"]["asked"].as_u64());
}

fn total(called: &Value) -> u64 {
    let requests = &called["requests"];
    let plain = ["ok", "degraded", "failed", "not_sent", "unfinished"].map(|name| requests[name].as_u64().unwrap());
    let refused = requests["refused"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
    plain.into_iter().chain(refused).sum()
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn idle_connections_are_let_go_and_brought_back_and_watch_says_so() {
    let backend = Backend::start("");
    let line =
        format!("call {} --rate 4 --seconds 3 --idle-after 0.05 --check-every 0.2 --watch --json", backend.address);

    for (option, how) in
        [("", "inactive, checked by datagrams"), ("--no-datagrams", "inactive, connected to now and then")]
    {
        let output = run(&format!("{line} {option}"));

        let called: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_explained(&called);
        assert_eq!(called["requests"]["ok"], called["requests"]["asked"], "{called}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("healthy, connected") && said.contains(how), "{option}: {said}");
        let checks = &called["checks"];
        assert!(checks["woken"].as_u64() > Some(0), "{called}");
        assert_eq!(checks["answered"].as_u64() > Some(0), option.is_empty(), "{called}");
    }
}
