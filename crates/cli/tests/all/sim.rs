//! `evenkeel sim`: one document on stdout, files that can be run again, exit codes that scripts can rely on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command in that folder.
fn sim(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command
        .arg("sim")
        .args(line.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .expect("evenkeel runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A folder with a scenario that is quick, meets one goal and misses another.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    fs::write(folder.path().join("mine.toml"), SCENARIO).expect("the folder can be written to");
    folder
}

#[test]
fn the_list_is_a_document_with_a_name_and_a_line_for_each() {
    let output = sim(Path::new("."), "list --json");

    let list: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(list.iter().any(|row| row["name"] == "figure-20-5"));
    assert!(list.iter().all(|row| row["about"].as_str().is_some_and(|about| !about.is_empty())));
}

#[test]
fn every_field_of_a_document_is_explained() {
    let page = include_str!("../../../../docs/commands.md");
    let document: Value = serde_json::from_slice(&sim(folder().path(), "run mine.toml --json").stdout).unwrap();
    for part in [&document, &document["input"], &document["checks"][0], &document["figures"][0]] {
        for name in part.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{name}`")), "docs/commands.md says nothing of {name}");
        }
    }
}

#[test]
fn what_is_shown_can_be_run() {
    let folder = folder();
    let shown = sim(folder.path(), "show figure-20-5");
    fs::write(folder.path().join("figure-20-5.toml"), &shown.stdout).unwrap();

    let of_file = sim(folder.path(), "run figure-20-5.toml --json");
    let of_catalog = sim(folder.path(), "run figure-20-5 --json --threads 1");

    assert_eq!(code(&of_file), 0, "{}", stderr(&of_file));
    assert_eq!(of_file.stdout, of_catalog.stdout);
}

#[test]
fn a_run_leaves_a_document_and_figures_and_is_run_again() {
    let folder = folder();
    let output = sim(folder.path(), "run mine.toml --seed 3 --out left/here");
    assert_eq!(code(&output), 0, "{}", stderr(&output));

    let figure = fs::read_to_string(folder.path().join("left/here/mine-1-connections.svg")).unwrap();
    assert!(figure.starts_with("<svg") && figure.contains("Who has how many"));
    let again = sim(folder.path(), "replay left/here/mine.json");
    assert_eq!((code(&again), again.stdout.starts_with(b"same: mine with seed 3")), (0, true), "{}", stderr(&again));

    let kept = fs::read_to_string(folder.path().join("left/here/mine.json")).unwrap();
    fs::write(folder.path().join("other.json"), kept.replace("\"least\"", "\"fewest\"")).unwrap();
    let other = sim(folder.path(), "replay other.json");
    assert_eq!(code(&other), 1);
    assert!(stderr(&other).contains("kept `\"id\": \"fewest\",`, now `\"id\": \"least\",`"), "{}", stderr(&other));
}

#[test]
fn a_missed_goal_is_a_failure_only_when_asked() {
    let folder = folder();

    let strict = sim(folder.path(), "run mine.toml --strict");

    assert_eq!(code(&sim(folder.path(), "run mine.toml")), 0);
    assert_eq!(code(&strict), 3);
    assert_eq!(stderr(&strict), "error: 1 goal missed: mine/most");
    assert!(String::from_utf8_lossy(&strict.stdout).contains("Goals: 1 of 2 met"));
}

/// Nobody reads, as behind `| head -1` that has ended.
#[test]
fn a_missed_goal_is_told_by_the_exit_code_even_where_nobody_reads() {
    let folder = folder();
    for (line, exit) in [("run mine.toml --strict", 3), ("run mine.toml --strict --json", 3), ("run mine.toml", 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        command.arg("sim").args(line.split_whitespace()).current_dir(folder.path()).env("NO_COLOR", "1").stdout(writer);
        let output = command.stderr(std::process::Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();

        assert_eq!(code(&output), exit, "{line}: {}", stderr(&output));
        assert_eq!(stderr(&output).contains("1 goal missed: mine/most"), exit == 3, "{line}");
    }
}

#[test]
fn a_policy_is_not_set_below_variants_that_set_their_own() {
    let folder = folder();
    let variants = "[[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nset = { policy = \"p2c\" }\n";
    let small = "duration = \"2s\"\nsettle = \"1s\"\nclients.count = 2\nbackends.count = 2\n";
    let check = |id: &str| format!("[[check]]\nid = \"{id}\"\nmetric = \"a/{id}\"\nat_most = 1\n");
    let two = format!("{small}{variants}{}{}", check("p50_ms"), check("p99_ms"));
    fs::write(folder.path().join("two.toml"), two).unwrap();
    fs::write(folder.path().join("small.toml"), small).unwrap();

    let set = sim(folder.path(), "run two.toml --set policy=random");
    let instead = sim(folder.path(), "run two.toml --policy random");
    let as_json = sim(folder.path(), "run two.toml --policy random --json");

    let words = "its variants set policy: use --policy random to run one policy instead of them";
    assert_eq!((code(&set), stderr(&set).contains(words)), (2, true), "{}", stderr(&set));
    assert_eq!(code(&sim(folder.path(), "run small.toml --set policy=random")), 0);
    let note = "2 goals are about variants: not looked at";
    assert!(String::from_utf8_lossy(&instead.stdout).contains(note), "{}", stderr(&instead));
    assert!(stderr(&as_json).contains(note) && serde_json::from_slice::<Value>(&as_json.stdout).is_ok());
}

#[test]
fn a_figure_that_does_not_exist_is_told_with_what_was_meant() {
    let folder = folder();
    let misspelt = SCENARIO.replace("\"connections_most\"", "\"conections_most\"");
    fs::write(folder.path().join("misspelt.toml"), misspelt).unwrap();

    let output = sim(folder.path(), "run misspelt.toml");

    let said = stderr(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((code(&output), output.stdout.len()), (2, 0), "nothing is run for it: {said}");
    assert!(said.contains("check.1.metric = \"conections_most\" is not possible"), "{said}");
    assert!(said.contains("did you mean \"connections_most\"?"), "{said}");
}

#[test]
fn a_picture_that_cannot_be_drawn_is_told() {
    let folder = folder();
    fs::write(folder.path().join("share.toml"), SCENARIO.replace("kind = \"connections\"", "kind = \"share\""))
        .unwrap();

    let output = sim(folder.path(), "run share.toml --out left");

    assert_eq!(code(&output), 0);
    assert!(stderr(&output).contains("figure 1 of share is not drawn"), "{}", stderr(&output));
}

#[test]
fn a_document_without_its_last_newline_is_the_same() {
    let folder = folder();
    let kept = sim(folder.path(), "run mine.toml --json").stdout;
    fs::write(folder.path().join("mine.json"), kept.trim_ascii_end()).unwrap();

    let again = sim(folder.path(), "replay mine.json");

    assert_eq!(code(&again), 0, "{}", stderr(&again));
}

#[test]
fn a_swarm_counts_in_whole_numbers() {
    let output = sim(Path::new("."), "swarm --seed 1 --json");

    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["events"].is_u64() && document["requests"].is_u64(), "{document}");
}

#[test]
fn a_field_set_otherwise_counts() {
    let output = sim(folder().path(), "run mine.toml --set subset.size=2 --set clients.count=6 --json");

    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["metrics"]["connections_mean"], 2.0);
    assert_eq!(document["input"]["set"], serde_json::json!(["subset.size=2", "clients.count=6"]));
}

#[test]
fn a_report_is_a_page_with_files_the_same_each_time() {
    let folder = folder();
    let first = sim(folder.path(), "report --out one --only figure-20-5 --strict");
    let second = sim(folder.path(), "report --out two --only figure-20-5 --threads 1");

    assert_eq!((code(&first), code(&second)), (0, 0), "{}", stderr(&first));
    assert!(String::from_utf8_lossy(&first.stdout).contains("goals met in 1 scenario\n"));
    for name in ["index.html", "figure-20-5.json", "figure-20-5-1-connections.svg"] {
        let read = |out: &str| fs::read(folder.path().join(out).join(name)).unwrap();
        assert_eq!(read("one"), read("two"), "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_where_and_why() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), "[clients]\nload = -1\n").unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (line, exit, words) in [
        ("run bad.toml", 2, "error: bad: line 2: clients.load = -1 is not possible"),
        ("run none.toml", 2, "error: cannot read the scenario none.toml"),
        ("run mine.toml --set clients.size=3", 2, "--set clients.size=3: unknown field"),
        ("run mine.toml --policy fastest", 2, "--policy fastest: use one of round_robin"),
        ("run mine.toml --out file/below", 1, "error: cannot write to --out file/below"),
        ("run mine.toml --seeds 0", 2, "write a whole number from 1 to 10000"),
        ("report --out x --only spraed", 2, "there is no scenario \"spraed\": did you mean spread?"),
        ("report --out x --only mine.toml", 2, "a report is of names that `evenkeel sim list` has, not of files"),
        ("replay none.json", 2, "error: cannot read the document none.json"),
        ("replay bad.toml", 2, "bad.toml is no document that"),
    ] {
        let output = sim(folder.path(), line);
        assert_eq!((code(&output), output.stdout.is_empty()), (exit, true), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{line}: {}", stderr(&output));
    }
}

const SCENARIO: &str = "\
about = \"Six clients, each of which uses three of six backends\"
model = \"dealing\"

[clients]
count = 6
[backends]
count = 6
[subset]
size = 3
algorithm = \"rounds\"

[[check]]
id = \"least\"
what = \"connections of the least loaded backend\"
metric = \"connections_least\"
at_least = 3.0
[[check]]
id = \"most\"
what = \"connections of the most loaded backend\"
metric = \"connections_most\"
at_most = 2.0

[[figure]]
kind = \"connections\"
title = \"Who has how many\"
";
