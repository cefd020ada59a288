//! With `--json` or `--dump` stdout is exactly one JSON document, and it says what the text says.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

#[test]
fn plan_prints_one_document_with_every_figure() {
    let plan = document("plan --clients 40 --backends 30 --size 6 --algorithm rounds --json");

    assert_eq!(plan["algorithm"], "rounds/1");
    assert_eq!(plan["size"], 6);
    let balance = &plan["balance"];
    // 40 clients of 6 on 30 backends: eight full rounds.
    assert_eq!((&balance["least"], &balance["mean"], &balance["most"]), (&8.0.into(), &8.0.into(), &8.0.into()));
    assert_eq!(balance["histogram"], serde_json::json!([[8, 30]]));
    assert_eq!(plan["extra_machines"], 0);
    assert_eq!(plan["published"], Value::Null);
    assert_eq!((&balance["least_to_mean"], &balance["wasted_connections"]), (&1.0.into(), &0.0.into()));
    assert_eq!(plan["restart_window"], 3);
    assert_eq!(rows(&plan["compared"]).len(), 3);
    assert_eq!(plan["changes_not_possible"], serde_json::json!([]));
    let changes: Vec<&str> = rows(&plan["churn"]).iter().filter_map(|row| row["change"].as_str()).collect();
    assert_eq!(changes, ["+1b", "-1b", "+10%b", "-10%b", "+10%c"]);
    for field in ["advice", "burst", "expected_random", "restart_share", "seed", "clients", "backends"] {
        assert!(!plan[field].is_null(), "{field} is missing");
    }
}

#[test]
fn plan_counts_the_changes_that_were_asked_for() {
    let plan = document("plan --clients 40 --backends 30 --algorithm random --change -25%b --change +1c --json");

    let changes: Vec<&Value> = rows(&plan["churn"]).iter().map(|row| &row["change"]).collect();
    assert_eq!(changes, ["-25%b", "+1c"]);
}

#[test]
fn published_draws_stand_beside_their_own_shape_only() {
    let published = |size: u32| {
        let line = format!("plan --clients 300 --backends 300 --algorithm random --change +1c --json --size {size}");
        document(&line)["published"].clone()
    };

    assert_eq!(published(90), serde_json::json!({"least_percent": 63, "most_percent": 121}));
    assert_eq!(published(30), serde_json::json!({"least_percent": 50, "most_percent": 150}));
    assert_eq!(published(31), Value::Null);
}

#[test]
fn a_dump_has_a_row_for_each_client_and_no_backend_twice() {
    for algorithm in ["random", "rounds", "even"] {
        let dump = document(&format!("plan --clients 23 --backends 40 --size 7 --algorithm {algorithm} --dump"));

        let clients = rows(&dump["clients"]);
        assert_eq!(clients.len(), 23, "{algorithm}");
        for row in clients {
            let backends: BTreeSet<u64> = rows(row).iter().filter_map(Value::as_u64).collect();
            assert_eq!(backends.len(), rows(row).len(), "{algorithm}: a backend twice in {row}");
            assert!(backends.iter().all(|&backend| backend < 40), "{algorithm}: {row}");
        }
    }
}

#[test]
fn a_service_of_one_is_planned_too() {
    let plan = document("plan --clients 1 --backends 1 --json");

    assert_eq!(plan["size"], 1);
    // One backend less of one cannot be, so the usual changes that take one are left out.
    let changes: Vec<&Value> = rows(&plan["churn"]).iter().map(|row| &row["change"]).collect();
    assert_eq!(changes, ["+1b", "+10%b", "+10%c"]);
    assert_eq!(plan["changes_not_possible"], serde_json::json!(["-1b", "-10%b"]));
}

#[test]
fn more_backends_than_there_are_can_be_asked_for() {
    let plan = document("plan --clients 5 --backends 30 --size 31 --change +1c --json");

    assert_eq!((&plan["size"], &plan["balance"]["subset_most"]), (&31.into(), &30.into()));
}

#[test]
fn every_field_of_a_document_is_explained() {
    let page = include_str!("../../../../docs/plan.md");
    let documents = [
        document("plan --clients 300 --backends 300 --size 90 --algorithm random --change -1b --json"),
        document("plan --clients 2 --backends 3 --dump"),
    ];
    for name in documents.iter().flat_map(names) {
        assert!(page.contains(&format!("`{name}`")), "docs/plan.md says nothing of {name}");
    }
}

#[test]
fn a_dump_ignores_changes() {
    let line = "plan --clients 4 --backends 12 --size 3 --dump";

    assert_eq!(document(line), document(&format!("{line} --change +1b")));
}

#[test]
fn a_plan_that_takes_long_says_so_on_stderr_only() {
    let output = run("plan --clients 1000 --backends 60000 --size 2 --algorithm rounds --change +1c --json");

    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "plan: 121 million looks at backends; this takes about 2 s\n");
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
}

#[test]
fn bad_usage_ends_with_code_2_and_leaves_stdout_empty() {
    for line in [
        "plan --clients 0 --backends 3 --json",
        "plan --clients 3 --backends 4294967296 --json",
        "plan --clients -1 --backends 3 --dump",
        "plan --clients 3 --backends 3 --burst NaN --json",
        "plan --clients 131072 --backends 131072 --size 131072 --json",
        "plan --clients 131072 --backends 131072 --size 2 --json",
        "plan --clients 3 --backends 3 --change -3b --json",
        "plan --clients 3 --backends 3 --change +99999999999999999999b --json",
        "plan --clients 3 --backends 3 --json --dump",
        "demo --seconds 0 --json",
        "demo --backends 0 --json",
        "demo --seed -1 --json",
        "demo --policy fastest --json",
        "backend --listen localhost --json",
        "backend --virtual-cores 0 --json",
        "backend --error-rate 2 --json",
        "backend --speed NaN --json",
        "call --json",
        "call http://127.0.0.1:1/ --json",
        "call 127.0.0.1:1 --requests 5 --seconds 1 --json",
        "call 127.0.0.1:1 --concurrency 5 --rate 1 --json",
        "call 127.0.0.1:1 --bytes 16777217 --json",
        "call 127.0.0.1:1 127.0.0.1:1 --json",
        "sail",
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_error() {
    let mut child = command("plan --clients 5000 --backends 100 --algorithm rounds --dump")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut first = String::new();
    // Reads a line and closes the pipe.
    BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut first).expect("it writes a line");

    let output = child.wait_with_output().expect("it ends");
    assert_eq!(first, "{\"clients\": [\n");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// The only document on stdout of a command that succeeds.
fn document(line: &str) -> Value {
    let output = run(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: not one JSON document: {error}"))
}

fn run(line: &str) -> Output {
    command(line).output().expect("the binary starts")
}

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(line.split_whitespace());
    command
}

/// Names of fields at any depth.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| [vec![name.clone()], names(value)].concat()).collect()
        }
        Value::Array(items) => items.iter().flat_map(names).collect(),
        _ => Vec::new(),
    }
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
