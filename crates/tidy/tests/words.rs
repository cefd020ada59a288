//! What may not be written: paths of somebody's machine, hosts of package registries, notes of unfinished work.
//!
//! The needles are put together from halves, so that this file passes its own rule.

use std::path::{Path, PathBuf};

use evenkeel_tidy::source::find_words;
use evenkeel_tidy::{Finding, assert_none, tree};

#[test]
fn the_tree_speaks_of_itself_alone() {
    let files: Vec<PathBuf> = tree::files().into_iter().filter(|file| !file.ends_with(LOCKFILE)).collect();
    assert!(files.len() > 10, "the tree has files");

    let findings: Vec<Finding> =
        files.iter().filter_map(|file| Some(unwanted(file, &tree::text(file)?))).flatten().collect();

    assert_none("no machine paths, no registry hosts, no notes of unfinished work", &findings);
}

#[test]
fn the_lock_file_names_no_mirror() {
    let text = tree::text(Path::new(LOCKFILE)).expect("the lock file is committed and UTF-8");

    assert_none("every locked package comes from the public index", &foreign_sources(&text));
}

fn unwanted(file: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for path in MACHINE_PATHS.iter().filter(|path| has_path(line, path)) {
            findings.push(Finding::new(file, number, format!("path of a machine: {path}")));
        }
        for host in REGISTRY_HOSTS.iter().filter(|host| line.contains(*host)) {
            findings.push(Finding::new(file, number, format!("host of a registry: {host}")));
        }
        for note in NOTES.iter().filter(|note| find_words(line, note).is_some()) {
            findings.push(Finding::new(file, number, format!("note of unfinished work: {note}")));
        }
    }
    findings
}

/// Whether an absolute path begins with `path`: not when it is the tail of another path, nor the head of a longer name.
/// What is also asked for over HTTP is a folder of a machine only if something in it is named.
fn has_path(line: &str, path: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        !before.is_some_and(|c| is_name(c) || matches!(c, '/' | '}' | ')' | '*'))
            && !after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
            && (after == Some('/') || !ALSO_HTTP.contains(&path))
    })
}

fn foreign_sources(lockfile: &str) -> Vec<Finding> {
    let lines = (1..).zip(lockfile.lines());
    let sources = lines.filter_map(|(number, line)| Some((number, line.strip_prefix("source = ")?.trim_matches('"'))));
    sources
        .filter(|(_, source)| *source != PUBLIC_INDEX)
        .map(|(number, source)| Finding::new(Path::new(LOCKFILE), number, source))
        .collect()
}

const LOCKFILE: &str = "Cargo.lock";

const PUBLIC_INDEX: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk"), concat!("/ro", "ot"), concat!("/ho", "me"), concat!("/Us", "ers")];

/// `evenkeel backend` answers there.
const ALSO_HTTP: &[&str] = &[MACHINE_PATHS[0]];

const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
];

const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

fn found(line: &str) -> usize {
    unwanted(Path::new("sample.md"), line).len()
}

#[test]
fn every_unwanted_word_is_found() {
    for needle in MACHINE_PATHS.iter().filter(|path| !ALSO_HTTP.contains(path)).chain(REGISTRY_HOSTS).chain(NOTES) {
        assert_eq!(found(&format!("see {needle} here")), 1, "{needle}");
        assert_eq!(found(&format!("`{needle}`: x")), 1, "{needle}");
    }
    for folder in MACHINE_PATHS {
        assert_eq!(found(&format!("\"{folder}/main\"")), 1, "{folder}");
        assert_eq!(found(&format!("cd {folder}/")), 1, "{folder}");
    }
}

#[test]
fn a_path_that_is_asked_for_over_http_is_fine_and_its_folder_is_not() {
    let work = ALSO_HTTP[0];
    for line in [format!("GET {work} HTTP/1.1"), format!("\"{work}?cpu_us=1\""), format!("(path {work})")] {
        assert_eq!(found(&line), 0, "{line}");
    }
    assert_eq!(found(&format!("GET {work}/shared HTTP/1.1")), 1);
}

#[test]
fn words_that_merely_look_like_one_are_fine() {
    let [work, root] = [MACHINE_PATHS[0], MACHINE_PATHS[1]];
    for line in [
        format!("the {work}space"),
        format!("src{work}/mod.rs"),
        format!("https://example.com{root}"),
        format!("$dir{root}").replace("$dir", "${dir}"),
        format!("{}S", NOTES[0]),
    ] {
        assert_eq!(found(&line), 0, "{line}");
    }
}

#[test]
fn findings_name_file_and_line() {
    let findings = unwanted(Path::new("sample.md"), &format!("fine\n{} later\n", NOTES[0]));

    assert_eq!(findings, [Finding::new(Path::new("sample.md"), 2, format!("note of unfinished work: {}", NOTES[0]))]);
}

#[test]
fn a_mirror_in_the_lock_file_is_found() {
    let lockfile =
        format!("name = \"a\"\nsource = \"{PUBLIC_INDEX}\"\n\nsource = \"registry+https://mirror.example/\"\n");

    let findings = foreign_sources(&lockfile);

    assert_eq!(findings, [Finding::new(Path::new(LOCKFILE), 4, "registry+https://mirror.example/")]);
}
