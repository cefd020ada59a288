//! `evenkeel sim replay`: a document run again, compared byte for byte.

use std::fs;
use std::io::Write;

use evenkeel_sim::Document;
use evenkeel_sim::lab;

use super::work;
use crate::args::ReplayArgs;
use crate::failure::Failure;

pub(crate) fn run(args: &ReplayArgs, out: &mut impl Write) -> Result<(), Failure> {
    let file = args.file.display();
    let mut kept = fs::read_to_string(&args.file)
        .map_err(|error| Failure::Usage(format!("cannot read the document {file}: {error}")))?;
    let document: Document = serde_json::from_str(&kept).map_err(|error| {
        Failure::Usage(format!("{file} is no document that `evenkeel sim run --out` or --json wrote: {error}"))
    })?;
    // Editors and shells drop the last newline, and it says nothing.
    if !kept.ends_with('\n') {
        kept.push('\n');
    }
    let bar = work::bar();
    let now = work::run(&lab::order_of(&document), args.threads, &bar, work::Part::ALL);
    bar.finish();
    let now = now?.to_json();

    let Some(difference) = lab::difference(&kept, &now) else {
        let (scenario, seed) = (&document.scenario, document.seed);
        return Ok(writeln!(out, "same: {scenario} with seed {seed} gives these {} bytes again", now.len())?);
    };
    Err(Failure::Run(format!(
        "{file} differs from line {} on: kept {}, now {}; another version of evenkeel may have written it",
        difference.line,
        quoted(&difference.kept),
        quoted(&difference.now)
    )))
}

/// The beginning of a line, as it would stand in JSON.
fn quoted(line: &str) -> String {
    let line = line.trim();
    if line.is_empty() {
        return "nothing".to_owned();
    }
    let short: String = line.chars().take(LINE_MOST).collect();
    if short.len() < line.len() { format!("`{short}…`") } else { format!("`{short}`") }
}

const LINE_MOST: usize = 100;
