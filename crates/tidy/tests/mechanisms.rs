//! Every mechanism has a file and a test: `docs/mechanisms.md` names them, and what it names exists.

use std::path::Path;

use evenkeel_tidy::source::code_only;
use evenkeel_tidy::{Finding, assert_none, tree};

#[test]
fn every_mechanism_is_listed_and_what_is_listed_exists() {
    let text = tree::text(Path::new(TABLE)).expect("the table is UTF-8");

    assert_none(
        "docs/mechanisms.md lists every mechanism with its file and its test",
        &check(&text, &tree::text_if_there),
    );
}

/// What is wrong with the table; `text_of` gives a file's text if it exists.
fn check(table: &str, text_of: &dyn Fn(&Path) -> Option<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (line, cells) in rows(table) {
        let mut wrong = |what: String| findings.push(Finding::new(Path::new(TABLE), line, what));
        let [id, mechanism, file, test, measured] = cells[..] else {
            wrong(format!("{} cells, a row has five", cells.len()));
            continue;
        };
        seen.push(id);
        if !ids().iter().any(|known| known == id) {
            wrong(format!("unknown id {id}"));
        }
        if mechanism.is_empty() || measured.is_empty() {
            wrong(format!("{id}: mechanism and measured are filled, if only with `{TO_COME}`"));
        }
        if file == TO_COME {
            continue;
        }
        for what in wrong_files(file, text_of).into_iter().chain(wrong_tests(test, text_of)) {
            wrong(format!("{id}: {what}"));
        }
    }
    let missing = ids().into_iter().filter(|id| !seen.contains(&id.as_str()));
    findings.extend(missing.map(|id| Finding::new(Path::new(TABLE), 1, format!("{id} is missing"))));
    findings
}

fn wrong_files(cell: &str, text_of: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let files = quoted(cell);
    if files.is_empty() {
        return vec![format!("no file in backticks, nor `{TO_COME}`")];
    }
    files.iter().filter(|file| text_of(Path::new(file)).is_none()).map(|file| format!("no file {file}")).collect()
}

fn wrong_tests(cell: &str, text_of: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let tests = quoted(cell);
    if tests.is_empty() {
        return vec!["a mechanism with a file has a test, as `file#function`".to_owned()];
    }
    tests.iter().filter_map(|test| wrong_test(test, text_of)).collect()
}

fn wrong_test(test: &str, text_of: &dyn Fn(&Path) -> Option<String>) -> Option<String> {
    let Some((file, function)) = test.split_once('#') else {
        return Some(format!("{test} is not of the form file#function"));
    };
    let Some(content) = text_of(Path::new(file)) else {
        return Some(format!("no file {file}"));
    };
    let is_rust = Path::new(file).extension().is_some_and(|extension| extension == "rs");
    // A function that is commented out is no test.
    let is_there = if is_rust {
        code_only(&content).contains(&format!("fn {function}("))
    } else {
        content.lines().any(|line| line.starts_with(&format!("{function}() ")))
    };
    (!is_there).then(|| format!("no function {function} in {file}"))
}

/// The rows of every table of the page, with their line: header and rule are left out.
fn rows(page: &str) -> Vec<(usize, Vec<&str>)> {
    let lines = (1..).zip(page.lines()).filter(|(_, line)| line.starts_with('|'));
    lines
        .map(|(number, line)| (number, line.trim().trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>()))
        .filter(|(_, cells)| cells[0] != "id" && !cells[0].starts_with("--"))
        .collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn ids() -> Vec<String> {
    PARTS.iter().flat_map(|(part, count)| (1..=*count).map(move |number| format!("{part}{number}"))).collect()
}

const TABLE: &str = "docs/mechanisms.md";
const TO_COME: &str = "to come";

/// The parts of the table and how many mechanisms each has.
const PARTS: &[(&str, usize)] = &[("A", 20), ("B", 19), ("C", 14)];

/// A page with every id, on which `row` replaces the row of A1.
fn page(row: &str) -> String {
    let others = ids().into_iter().skip(1).map(|id| format!("| {id} | x | to come | | to come |\n"));
    format!("| id | mechanism | file | test | measured |\n|---|---|---|---|---|\n{row}\n{}", others.collect::<String>())
}

fn found(row: &str) -> Vec<String> {
    let files = |file: &Path| match file.to_str() {
        Some("src/pick.rs") => Some("// fn gone() {}\nfn pick() {}\n".to_owned()),
        Some("test") => Some("part_syscalls() {\n".to_owned()),
        _ => None,
    };
    check(&page(row), &files).into_iter().map(|finding| finding.what).collect()
}

#[test]
fn a_row_with_file_and_test_is_fine_and_so_is_one_to_come() {
    assert_eq!(found("| A1 | x | `src/pick.rs` | `src/pick.rs#pick`, `test#part_syscalls` | 20 ns |"), [""; 0]);
    assert_eq!(found("| A1 | x | to come | | to come |"), [""; 0]);
}

#[test]
fn a_missing_an_unknown_and_a_broken_row_are_found() {
    assert_eq!(found(""), ["A1 is missing"]);
    assert_eq!(found("| A21 | x | to come | | to come |"), ["unknown id A21", "A1 is missing"]);
    assert_eq!(found("| A1 | x | to come |"), ["3 cells, a row has five", "A1 is missing"]);
    assert_eq!(found("| A1 | x | to come | | |"), ["A1: mechanism and measured are filled, if only with `to come`"]);
}

#[test]
fn a_file_that_does_not_exist_is_found() {
    let test = "`src/pick.rs#pick` | - |";

    assert_eq!(found(&format!("| A1 | x | `src/gone.rs` | {test}")), ["A1: no file src/gone.rs"]);
    assert_eq!(found(&format!("| A1 | x | src/pick.rs | {test}")), ["A1: no file in backticks, nor `to come`"]);
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let row = |test: &str| format!("| A1 | x | `src/pick.rs` | {test} | - |");

    assert_eq!(found(&row("")), ["A1: a mechanism with a file has a test, as `file#function`"]);
    assert_eq!(found(&row("`src/pick.rs`")), ["A1: src/pick.rs is not of the form file#function"]);
    assert_eq!(found(&row("`src/pick.rs#gone`")), ["A1: no function gone in src/pick.rs"]);
    assert_eq!(found(&row("`src/gone.rs#pick`")), ["A1: no file src/gone.rs"]);
    assert_eq!(found(&row("`test#part_model`")), ["A1: no function part_model in test"]);
}

#[test]
fn a_path_that_leaves_the_tree_is_no_file() {
    assert!(tree::text_if_there(Path::new("crates/../Cargo.toml")).is_none());
    assert!(tree::text_if_there(&tree::root().join("Cargo.toml")).is_none());
}
