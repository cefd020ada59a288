//! `docs/scenarios.md` has every field, every kind, every policy and every figure there is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_core::Criticality;
use evenkeel_sim::lab::{self, Order};
use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::{Document, Input, admission, baseline, catalog};
use serde_json::Value;

/// Something of everything; what is left out is written as null and so has its name all the same.
const EVERYTHING: &str = r#"
[clients]
others = {}
rhythm = [
    { kind = "step", at = "1s", lasts = "1s", times = 1 },
    { kind = "ramp", at = "1s", over = "1s", times = 1 },
    { kind = "burst", every = "2s", lasts = "1s", times = 1 },
    { kind = "diurnal", period = "1s", swing = 1 },
]
[clusters]
reach = "all"
[idle]
after = "1m"
[overload]
from = "1s"
until = "9s"
[backends]
machine = [{}]
neighbours = {}
background = {}
readings = {}
warmup = {}
[[method]]
cpu = { kind = "bimodal", least = "1ms", most = "2ms", share = 1 }
wait = { kind = "exponential", mean = "1ms" }
[[method]]
cpu = { kind = "normal", centre = "1ms", deviation = "1ms" }
wait = { kind = "lognormal", mean = "1ms", sigma = 1 }
[[layer]]
method = [{ cpu = { kind = "pareto", least = "1ms", range = 2, alpha = 1 } }]
[[fault]]
kind = "kill"
at = "1s"
backends = "1"
[[fault]]
kind = "hang"
at = "1s"
[[fault]]
kind = "fail"
at = "1s"
[[fault]]
kind = "slow"
at = "1s"
speed = 1
[[fault]]
kind = "partition"
at = "1s"
[[fault]]
kind = "no_datagrams"
at = "1s"
[[fault]]
kind = "lame_duck"
at = "1s"
[[fault]]
kind = "restart"
at = "1s"
backends = "2"
[[fault]]
kind = "policy"
at = "1s"
policy = "p2c"
[[variant]]
name = "v"
[[check]]
id = "c"
metric = "v/spread"
at_most = 1
[[figure]]
kind = "spread"
published = [{ label = "x", value = 1 }]
"#;

/// What cannot be together with the rest.
const RESIZE: &str = r#"
[[fault]]
kind = "resize"
at = "1s"
change = "+1b"
"#;

#[test]
fn every_field_and_kind_has_its_words() {
    let mut names = BTreeSet::new();
    for text in [EVERYTHING, RESIZE] {
        collect(&serde_json::to_value(Scenario::parse(text).unwrap()).unwrap(), &mut names);
    }
    assert!(names.len() > 90, "{}", names.len());

    let page = page();
    let missing: Vec<&String> = names.iter().filter(|name| !has(&page, name)).collect();

    assert!(missing.is_empty(), "docs/scenarios.md says nothing of {missing:?}");
}

#[test]
fn every_policy_has_its_name() {
    let bad = Scenario::parse("policy = \"\"").unwrap_err().message;
    let names = bad.strip_prefix("use one of ").unwrap();
    let page = page();

    let missing: Vec<&str> = names.split(", ").filter(|name| !has(&page, name)).collect();

    assert!(missing.is_empty(), "docs/scenarios.md says nothing of {missing:?}");
}

#[test]
fn what_others_do_is_said_in_the_same_words() {
    let page = page();
    for (name, what) in baseline::NAMES {
        assert!(page.contains(&format!("| `{name}` | {what} |\n")), "{name}: {what}");
    }
    for (name, what) in admission::NAMES {
        assert!(page.contains(&format!("`{name}` is {what} ")), "{name}: {what}");
    }
}

/// Worlds that have every kind of figure between them, each short.
const WORLDS: [(&str, &[&str]); 11] = [
    ("sinkhole", &["seeds=1", "duration=20s", "fault.0.lasts=4s"]),
    ("slow-backend", &["settle=10s", "duration=70s"]),
    ("layers", &["duration=8s"]),
    ("clusters", &["duration=8s"]),
    ("mix", &["duration=8s"]),
    ("churn", &["duration=5s"]),
    ("rolling-restart", &["seeds=1", "duration=8s"]),
    ("idle-restart", &["seeds=1", "duration=16s"]),
    ("at-capacity", &["seeds=1", "duration=10s", "overload.until=7s", "customers.one=1", "customers.two=2"]),
    ("retry-layers", &["duration=4s", "settle=1s"]),
    ("subsets", &["seeds=1"]),
];

#[test]
fn every_metric_and_series_has_its_words() {
    let (mut metrics, mut series) = (BTreeSet::new(), BTreeSet::new());
    for (name, set) in WORLDS {
        let toml = catalog::text(name).unwrap().to_owned();
        let set = set.iter().map(|&one| one.to_owned()).collect();
        let order = Order { name: name.to_owned(), input: Input { toml, set, policy: None }, seed: 1, seeds: None };
        let document = lab::run(&order, 2, &|_| {}).unwrap();
        assert_eq!(unforeseen(&order, &document), [""; 0], "{name}: a check of these would be refused");
        metrics.extend(document.metrics.keys().map(|key| in_general(key)));
        series.extend(document.series.keys().map(|key| in_general(key)));
    }
    let page = page();

    for (heading, measured) in [("Metrics", metrics), ("Series", series)] {
        let missing: Vec<&String> = measured.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/scenarios.md says nothing of {missing:?}");
        let unknown: Vec<String> = listed(&page, heading).difference(&measured).cloned().collect();
        assert!(unknown.is_empty(), "docs/scenarios.md has {unknown:?}, which no world here has");
    }
}

/// Figures of the document that no run was said to have.
fn unforeseen(order: &Order, document: &Document) -> Vec<String> {
    let scenario = Scenario::with(&order.input.toml, &order.input.set).unwrap();
    let known: BTreeSet<String> = scenario
        .variants()
        .unwrap()
        .iter()
        .flat_map(|(name, variant)| {
            let before = if name.is_empty() { String::new() } else { format!("{name}/") };
            variant.metrics().into_iter().map(move |metric| format!("{before}{metric}"))
        })
        .collect();
    document.metrics.keys().filter(|name| !known.contains(*name)).cloned().collect()
}

/// What stands in code marks in the first column of the table below this heading.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').step_by(2)).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The name that stands for it on the page: without its variant, for any number and any customer.
fn in_general(key: &str) -> String {
    let name = key.rsplit('/').next().unwrap_or(key);
    if let Some((_, share)) = name.strip_prefix("customer_").and_then(|rest| rest.split_once('_')) {
        return format!("customer_NAME_{share}");
    }
    for before in ["", "overload_"] {
        let is_level = |level: &Criticality| name == format!("{before}{}_served_share", level.as_str().to_lowercase());
        if Criticality::ALL.iter().any(is_level) {
            return format!("{before}critical_served_share");
        }
    }
    for word in ["fault", "cluster", "layer", "attempts_"] {
        if let Some(rest) = name.strip_prefix(word).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return format!("{word}N{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()));
        }
    }
    // Those between are meant by the dots.
    let is_between = name.starts_with("task_") && name != "task_11";
    if is_between { "task_0".to_owned() } else { name.to_owned() }
}

#[test]
fn the_example_of_the_page_can_be_run() {
    let page = page();
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    Scenario::parse(example).unwrap();
}

/// Names of fields, and what stands behind `kind`.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                names.insert(name.clone());
                if let ("kind", Some(kind)) = (name.as_str(), value.as_str()) {
                    names.insert(kind.to_owned());
                }
                collect(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

/// Whether a name stands in code marks: alone, at the end of a path, or as the name of a table.
fn has(page: &str, name: &str) -> bool {
    ["`", ".", "[["]
        .iter()
        .any(|before| ["`", "]`", "]]`"].iter().any(|after| page.contains(&format!("{before}{name}{after}"))))
}

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenarios.md")).unwrap()
}
