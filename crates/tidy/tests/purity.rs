//! What core may not touch: clocks, chance, threads, sockets, files, the environment, locks, the platform's maths.
//!
//! clippy's `disallowed_*` lists know types and methods; this rule knows spelling, so that neither a new lint level
//! nor an `allow` lets one of them in. Comments, doc lines and literals are not looked at. Inline tests obey the same
//! rule, but may measure core's own maths against the platform's.

use std::path::Path;

use evenkeel_tidy::source::{code_only, find_words, lines_before_tests};
use evenkeel_tidy::{Finding, assert_none, tree};

#[test]
fn core_owns_no_clock_no_chance_and_no_lock() {
    let files: Vec<_> = tree::rust_files().into_iter().filter(|file| file.starts_with("crates/core/src")).collect();
    assert!(!files.is_empty(), "core has sources");

    let findings: Vec<Finding> =
        files.iter().flat_map(|file| impurities(file, &tree::text(file).expect("Rust source is UTF-8"))).collect();

    assert_none("crates/core/src is pure: time, chance and effects are arguments or actions", &findings);
}

fn impurities(file: &Path, source: &str) -> Vec<Finding> {
    let code = code_only(source);
    let tests_after = lines_before_tests(source);
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(code.lines()) {
        let maths = if number <= tests_after { PLATFORM_MATHS } else { &[] };
        for (needle, instead) in FORBIDDEN.iter().chain(maths) {
            if find_words(line, needle).is_some() {
                findings.push(Finding::new(file, number, format!("`{needle}`: {instead}")));
            }
        }
    }
    findings.extend(grouped_imports(file, &code));
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// `use std::{fmt, thread}` names `std::thread` without spelling it.
fn grouped_imports(file: &Path, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, opening) in code.match_indices("std::{") {
        let group = at + opening.len();
        for (offset, item) in group_items(&code[group..]) {
            let path = format!("std::{item}");
            let line = code[..group + offset].matches('\n').count() + 1;
            let named = FORBIDDEN.iter().filter(|(needle, _)| find_words(&path, needle) == Some(0));
            findings.extend(named.map(|(needle, instead)| Finding::new(file, line, format!("`{needle}`: {instead}"))));
        }
    }
    findings
}

/// The items up to the brace that closes the group, each with where it begins.
fn group_items(group: &str) -> Vec<(usize, &str)> {
    let mut items = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let item = group[begin..at].trim_start();
                items.push((at - item.len(), item));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items
}

/// What may not be spelled in core, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("Instant::now", "take `now` as an argument"),
    ("SystemTime", "take `now` as an argument"),
    ("thread_rng", "take `rng` as an argument"),
    ("rand::", "take `rng` as an argument"),
    ("std::thread", "core owns no thread"),
    ("std::net", "addresses and sockets belong to the driver"),
    ("std::fs", "core reads no file"),
    ("std::env", "configuration is an argument"),
    ("println!", "return a snapshot, let the driver print"),
    ("eprintln!", "return a snapshot, let the driver print"),
    ("Mutex", "the request path takes no lock"),
    ("RwLock", "the request path takes no lock"),
    ("HashMap", "its order is random: use BTreeMap"),
    ("unsafe", "core needs none"),
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
];

/// The same, for what inline tests may use as a yardstick.
const PLATFORM_MATHS: &[(&str, &str)] = &[
    (".exp()", "the platform's maths differs: use core's own"),
    (".ln()", "the platform's maths differs: use core's own"),
    (".powf(", "the platform's maths differs: use core's own"),
];

fn found(source: &str) -> Vec<(usize, String)> {
    let findings = impurities(Path::new("sample.rs"), source);
    let needle = |what: &str| what.split('`').nth(1).expect("a finding quotes its needle").to_owned();
    findings.iter().map(|finding| (finding.line, needle(&finding.what))).collect()
}

#[test]
fn every_forbidden_spelling_is_found() {
    for (needle, _) in FORBIDDEN.iter().chain(PLATFORM_MATHS) {
        let lines: Vec<usize> =
            found(&format!("fn f() {{\n    x {needle}\n}}\n")).iter().map(|(line, _)| *line).collect();

        assert_eq!(lines, [2], "{needle}");
    }
}

#[test]
fn comments_doc_lines_and_literals_are_not_looked_at() {
    let sample = "//! No `Mutex`.\n/// Not `Instant::now`.\n// unsafe\n/* HashMap */\nlet x = \"SystemTime\";\n";

    assert_eq!(found(sample), []);
}

#[test]
fn names_that_merely_contain_a_needle_are_fine() {
    assert_eq!(found("#![forbid(unsafe_code)]\nuse crate::operand::Operand;\nstruct MutexFree;\nx.expect(a);\n"), []);
}

#[test]
fn inline_tests_may_use_the_platforms_maths_and_nothing_else() {
    let sample = "x.ln();\n#[cfg(test)]\nmod tests {\n    x.ln();\n    Instant::now();\n}\n";

    assert_eq!(found(sample), [(1, ".ln()".to_owned()), (5, "Instant::now".to_owned())]);
}

#[test]
fn a_grouped_import_hides_nothing() {
    let sample = "use std::{\n    collections::{BTreeMap, HashMap},\n    fmt,\n    thread,\n    net::{IpAddr},\n};\n";

    let expected = [(2, "HashMap"), (4, "std::thread"), (5, "std::net")].map(|(line, name)| (line, name.to_owned()));
    assert_eq!(found(sample), expected);
}
