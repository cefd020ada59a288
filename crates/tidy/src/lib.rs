//! The rules of the tree, kept by tests instead of by memory.
//!
//! Each file in `tests/` is one rule: `arrows` (who may depend on whom), `purity` (what core may not touch), `size`
//! (how long a file and a function may be), `words` (what may not be written), `mechanisms` (every mechanism has a
//! file and a test), `defaults` (every default is documented as it is). This library holds what they share: the files of the tree, Rust source without its comments
//! and strings, and findings. Every rule is also run on a bad sample, so that it is known to be able to fail.

use std::fmt;
use std::path::{Path, PathBuf};

pub mod source;
pub mod tree;

/// One place that breaks a rule, printed as `file:line: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root of the tree.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl Finding {
    /// A finding at a line, counted from 1.
    pub fn new(file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Fails the calling test if there is any finding, listing all of them under the rule they break.
///
/// # Panics
/// When `findings` is not empty.
#[track_caller]
pub fn assert_none(rule: &str, findings: &[Finding]) {
    assert!(findings.is_empty(), "{}", listed(rule, findings));
}

fn listed(rule: &str, findings: &[Finding]) -> String {
    findings.iter().fold(rule.to_owned(), |list, finding| format!("{list}\n  {finding}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_file_line_and_what() {
        let finding = Finding::new(Path::new("crates/core/src/rng.rs"), 7, "a lock");

        assert_eq!(finding.to_string(), "crates/core/src/rng.rs:7: a lock");
    }

    #[test]
    fn every_finding_is_listed_under_its_rule() {
        let findings = [Finding::new(Path::new("a.rs"), 1, "a lock"), Finding::new(Path::new("b.rs"), 2, "a clock")];

        assert_eq!(listed("core is pure", &findings), "core is pure\n  a.rs:1: a lock\n  b.rs:2: a clock");
    }
}
