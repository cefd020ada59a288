//! How long a file and a function may be: one idea per file, one thought per function.
//!
//! Code that is pleasant to enter has files of 50..150 lines at the median. The limits are the outer walls; the
//! report, printed with `--nocapture`, says how far the tree is from the aim.

use std::path::{Path, PathBuf};

use evenkeel_tidy::source::{functions, lines_before_tests};
use evenkeel_tidy::{Finding, assert_none, tree};

#[test]
fn files_and_functions_stay_short() {
    let sources: Vec<(PathBuf, String)> = tree::rust_files()
        .into_iter()
        .filter(|file| !is_generated(file))
        .map(|file| {
            let text = tree::text(&file).expect("Rust source is UTF-8");
            (file, text)
        })
        .collect();
    assert!(!sources.is_empty(), "the tree has Rust files");

    println!("{}", report(&sources));

    let findings: Vec<Finding> = sources.iter().flat_map(|(file, text)| too_long(file, text)).collect();
    assert_none("files and functions stay short: move a leaf out, keep the order of steps", &findings);
}

fn too_long(file: &Path, source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(Finding::new(file, 1, format!("{lines} lines, at most {FILE_LINES_MAX}")));
    }
    for function in functions(source).iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
        let what = format!("fn {}: {} lines, at most {FUNCTION_LINES_MAX}", function.name, function.lines);
        findings.push(Finding::new(file, function.line, what));
    }
    findings
}

/// The median of non-test code and the files that grow towards the limit.
fn report(sources: &[(PathBuf, String)]) -> String {
    let code = sources.iter().filter(|(file, _)| !is_test(file));
    let mut bare: Vec<usize> = code.map(|(_, text)| lines_before_tests(text)).collect();
    bare.sort_unstable();
    let median = bare.get(bare.len() / 2).copied().unwrap_or(0);
    let summary = format!("{} files of code, median {median} lines without tests (aim 100..150)", bare.len());
    let lengths = sources.iter().map(|(file, text)| (file, text.lines().count()));
    let growing = lengths
        .filter(|(_, lines)| *lines > FILE_LINES_NOTED)
        .map(|(file, lines)| format!("over {FILE_LINES_NOTED} lines: {} ({lines})", file.display()));
    std::iter::once(summary).chain(growing).collect::<Vec<_>>().join("\n")
}

fn is_test(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
}

fn is_generated(file: &Path) -> bool {
    file.parent().is_some_and(|folder| folder.components().any(|part| part.as_os_str() == "generated"))
}

const FILE_LINES_MAX: usize = 600;
const FILE_LINES_NOTED: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

fn function_of(lines: usize) -> String {
    format!("\nfn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

#[test]
fn a_function_of_71_lines_is_found_where_it_begins() {
    assert_eq!(too_long(Path::new("a.rs"), &function_of(70)), []);

    let findings = too_long(Path::new("a.rs"), &function_of(71));
    assert_eq!(findings, [Finding::new(Path::new("a.rs"), 2, "fn long: 71 lines, at most 70")]);
}

#[test]
fn a_file_of_601_lines_is_found() {
    assert_eq!(too_long(Path::new("a.rs"), &"//\n".repeat(600)), []);

    let findings = too_long(Path::new("a.rs"), &"//\n".repeat(601));
    assert_eq!(findings, [Finding::new(Path::new("a.rs"), 1, "601 lines, at most 600")]);
}

#[test]
fn the_report_counts_code_without_tests_and_lists_what_grows() {
    let sources = [
        (PathBuf::from("src/a.rs"), "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n".to_owned()),
        (PathBuf::from("src/b.rs"), "//\n".repeat(401)),
        (PathBuf::from("src/c.rs"), "//\n".repeat(7)),
        (PathBuf::from("tests/d.rs"), "//\n".repeat(300)),
    ];

    let report = report(&sources);

    let expected = "3 files of code, median 7 lines without tests (aim 100..150)\nover 400 lines: src/b.rs (401)";
    assert_eq!(report, expected);
}

#[test]
fn only_a_folder_called_generated_is_excepted() {
    assert!(is_generated(Path::new("crates/net/src/generated/orca.rs")));
    assert!(!is_generated(Path::new("crates/net/src/generated.rs")));
}
