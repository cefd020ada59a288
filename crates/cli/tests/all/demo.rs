//! `evenkeel demo`, as a process with processes of its own: its summary, and that it leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::{Process, assert_explained, document, until};
use rustix::process::Signal;

#[test]
fn the_summary_has_every_figure_and_no_request_fails_in_a_restart() {
    let demo = document("demo --backends 4 --seconds 3 --headless --json --seed 1");

    assert_explained(&demo);
    let names: Vec<&String> = demo.as_object().unwrap().keys().collect();
    assert_eq!(names, ["backends", "latency_ms", "requests", "retries", "spread", "wasted"]);
    let [min, mean, max] = ["min", "mean", "max"].map(|name| demo["spread"][name].as_f64().unwrap());
    assert!(0.0 < min && min <= mean && mean <= max && max <= 1.01, "{demo}");
    assert!(demo["wasted"].as_f64().unwrap() >= 0.0);
    let [p50, p99] = ["p50", "p99"].map(|name| demo["latency_ms"][name].as_f64().unwrap());
    // The cheapest request takes 10 ms at full speed.
    assert!(9.9 < p50 && p50 <= p99, "{demo}");
    let requests = &demo["requests"];
    assert_eq!((&requests["failed"], &requests["degraded"]), (&0.into(), &0.into()), "{demo}");
    assert!(requests["refused"].is_object() && demo["retries"].is_u64());
    let backends = demo["backends"].as_array().unwrap();
    let answered: u64 = backends.iter().map(|backend| backend["requests"].as_u64().unwrap()).sum();
    assert_eq!((backends.len(), Some(answered)), (4, requests["ok"].as_u64()));
    assert!(answered > 100, "{demo}");
    assert_eq!(backends.iter().map(|backend| backend["restarts"].as_u64().unwrap()).sum::<u64>(), 1);
    for backend in backends {
        assert!(backend["utilization"].as_f64() > Some(0.0) && backend["speed"].as_f64() > Some(0.0), "{backend}");
    }
}

#[test]
fn the_page_is_served_where_it_says() {
    let mut demo = Process::start("demo --backends 2 --seconds 600");
    let page = (0..3).map(|_| demo.line()).last().unwrap();
    let address = page.strip_prefix("live page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap();

    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();

    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("<html"), "{answer}");
}

#[tokio::test]
async fn ctrl_c_ends_every_process_and_says_what_was_until_then() {
    let mut demo = Process::start("demo --backends 3 --seconds 600 --headless");
    assert!(demo.line().starts_with("3 backends"));
    assert!(demo.line().contains("requests a second for 600 s"));
    let backends = children(demo.id());
    assert_eq!(backends.len(), 3);

    demo.signal(Signal::INT);

    let (code, said) = demo.end().await;
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("Utilization of each backend"), "{said}");
    let header = said.lines().nth(2).unwrap_or_default();
    assert_eq!(
        header.split_whitespace().collect::<Vec<_>>(),
        ["backend", "speed", "utilization", "answered", "p99", "ms"]
    );
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(backends.iter().all(|&backend| !is_alive(backend)), "{backends:?}");
}

#[tokio::test]
async fn ctrl_c_while_it_starts_leaves_nothing_either() {
    let mut demo = Process::start("demo --backends 3 --seconds 600 --headless --json");
    until("its first backend runs", async || !children(demo.id()).is_empty()).await;
    let mut backends = BTreeSet::from_iter(children(demo.id()));

    demo.signal(Signal::INT);

    // Others may have been on their way.
    until("it ends", async || {
        backends.extend(children(demo.id()));
        demo.has_ended()
    })
    .await;
    assert_eq!(demo.end().await.0, Some(130));
    until("they end", async || backends.iter().all(|&backend| !is_alive(backend))).await;
}

#[tokio::test]
async fn backends_end_with_a_demo_that_was_killed() {
    let mut demo = Process::start("demo --backends 3 --seconds 600 --headless");
    until("its backends run", async || children(demo.id()).len() == 3).await;
    let backends = children(demo.id());

    demo.signal(Signal::KILL);

    demo.end().await;
    until("they end", async || backends.iter().all(|&backend| !is_alive(backend))).await;
}

fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.filter(|&process| stat(process).is_some_and(|(_, of)| of == parent)).collect()
}

fn is_alive(process: u32) -> bool {
    // What has ended and was not waited for is nobody's burden.
    stat(process).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// State and parent of a process.
fn stat(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may have blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
