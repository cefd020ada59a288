//! `docs/scenarios.md` has every field and every kind there is.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_sim::scenario::Scenario;
use serde_json::Value;

/// Something of everything; what is left out is written as null and so has its name all the same.
const EVERYTHING: &str = r#"
[clients]
rhythm = [
    { kind = "step", at = "1s", lasts = "1s", times = 1 },
    { kind = "ramp", at = "1s", over = "1s", times = 1 },
    { kind = "burst", every = "2s", lasts = "1s", times = 1 },
    { kind = "diurnal", period = "1s", swing = 1 },
]
[clusters]
reach = "all"
[backends]
machine = [{}]
neighbours = {}
warmup = {}
[[method]]
cpu = { kind = "fixed", mean = "1ms" }
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
