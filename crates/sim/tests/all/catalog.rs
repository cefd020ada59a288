//! The scenarios that come with it: all there, all readable, and those that need no world come out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use evenkeel_sim::lab::{Order, run};
use evenkeel_sim::scenario::{Model, Scenario};
use evenkeel_sim::{Document, Input, catalog};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn document(name: &str, seed: u64) -> Document {
    let input = Input { toml: catalog::text(name).unwrap().to_owned(), ..Input::default() };
    run(&Order { name: name.to_owned(), input, seed, seeds: None }, 2, &|_| {}).unwrap()
}

#[test]
fn the_catalog_is_the_folder() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files.map(|file| file.strip_suffix(".toml").unwrap().to_owned()).collect();
    names.sort();
    assert_eq!(catalog::names(), names);
    assert_eq!(catalog::nearest("sinkhol", &catalog::names()), Some("sinkhole"));
    assert_eq!(catalog::text("nothing"), None);
}

#[test]
fn every_scenario_can_be_run_and_says_what_it_is_about() {
    for (name, text) in catalog::all() {
        let scenario = Scenario::parse(text).unwrap_or_else(|bad| panic!("{name}: {bad}"));
        assert!(!scenario.about.is_empty() && scenario.about.len() <= 100, "{name}: {}", scenario.about);
        assert!(!scenario.checks.is_empty(), "{name} checks nothing");
        assert!(!scenario.figures.is_empty() || *name == "churn", "{name} draws nothing");
        assert!(scenario.checks.iter().all(|check| !check.what.is_empty()), "{name}");
        assert!(text.starts_with("# "), "{name} does not say what it shows");
    }
}

#[test]
fn dealings_come_out_as_published_with_any_seed() {
    for (name, text) in catalog::all() {
        if Scenario::parse(text).unwrap().model == Model::World {
            continue;
        }
        // Far apart: a scenario takes the seeds from each on, and neighbours would be the same draws again.
        for seed in [1, 2_000_000] {
            let document = document(name, seed);
            for check in &document.checks {
                assert!(check.pass, "{name} with seed {seed}: {check:?}");
            }
            assert!(document.series.keys().all(|series| series.ends_with("connections_by_backend")), "{name}");
        }
    }
}

#[test]
fn the_last_seed_is_followed_by_the_first() {
    let document = document("figure-20-5", u64::MAX);
    assert_eq!(document.trace.len(), 10);
    assert!(document.trace.contains_key("0"));
}

#[test]
fn a_dealing_is_the_same_with_the_same_seed_and_another_with_another() {
    assert_eq!(document("subsets", 5).to_json(), document("subsets", 5).to_json());
    assert_ne!(document("subsets", 5).trace, document("subsets", 6).trace);
}
