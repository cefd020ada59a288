//! A document for people: figures by variant, then goals.

use std::io::{self, Write};
use std::path::Path;

use evenkeel_sim::number::{figure, precise, readable};
use evenkeel_sim::scenario::Published;
use evenkeel_sim::{CheckResult, Document};

use crate::draw::{Paint, counted, entry, paragraph, table};
use crate::failure::Failure;

pub(crate) fn write(out: &mut impl Write, paint: Paint, document: &Document) -> io::Result<()> {
    let Document { scenario, about, seed, seeds, .. } = document;
    writeln!(out, "{}", paint.heading(scenario))?;
    write!(out, "{}", paragraph(about))?;
    let seeds = if *seeds == 1 { format!("seed {seed}") } else { format!("means of {seeds} seeds from {seed} on") };
    write!(out, "{}", paragraph(&seeds))?;
    let metrics = metrics_text(document);
    if !metrics.is_empty() {
        write!(out, "\n{}\n{metrics}", paint.heading("Figures"))?;
    }
    if !document.checks.is_empty() {
        let met = document.checks.iter().filter(|check| check.pass).count();
        writeln!(out, "\n{}", paint.heading(&format!("Goals: {met} of {} met", document.checks.len())))?;
        for check in &document.checks {
            write!(out, "{}", entry(if check.pass { "pass" } else { "miss" }, &measured_text(check)))?;
        }
    }
    let notes = document.notes();
    if document.checks.is_empty() && !notes.is_empty() {
        writeln!(out)?;
    }
    notes.iter().try_for_each(|note| write!(out, "{}", paragraph(note)))
}

/// A row for each variant; only columns that some variant has.
fn metrics_text(document: &Document) -> String {
    let variants = document.variants();
    let is_known = |metric: &str| variants.iter().any(|variant| document.metric(variant, metric).is_some());
    let columns: Vec<&(&str, &str, f64)> = METRICS.iter().filter(|(metric, _, _)| is_known(metric)).collect();
    if columns.is_empty() {
        return String::new();
    }
    let header: Vec<&str> = [""].into_iter().chain(columns.iter().map(|(_, name, _)| *name)).collect();
    let row = |variant: &String| -> Vec<String> {
        let cell = |&&(metric, _, times): &&(&str, &str, f64)| {
            document.metric(variant, metric).map_or("-".to_owned(), |value| figure(metric, value, times))
        };
        let name = document.title_of(variant).to_owned();
        [name].into_iter().chain(columns.iter().map(cell)).collect()
    };
    table(&header, &variants.iter().map(row).collect::<Vec<_>>())
}

/// What it is about, what came out, what was wanted, what others have.
pub(crate) fn measured_text(check: &CheckResult) -> String {
    let measured = check.measured.map_or("not measured".to_owned(), precise);
    let published = match &check.published {
        Some(Published::Number(value)) => format!(", published {}", readable(*value)),
        Some(Published::Words(words)) => format!(", published: {words}"),
        None => String::new(),
    };
    let what = if check.what.is_empty() { &check.id } else { &check.what };
    format!("{what}: {measured} (goal {}{published})", check.goal)
}

/// What was left in a folder.
pub(crate) fn written(folder: &Path, names: &[&str]) -> String {
    paragraph(&format!("Written to {}: {}", folder.display(), names.join(", ")))
}

/// For `--strict`: a missed goal is a failure of its own.
pub(crate) fn strict<'a>(documents: impl IntoIterator<Item = &'a Document>) -> Result<(), Failure> {
    let missed: Vec<String> = documents
        .into_iter()
        .flat_map(|document| document.checks.iter().map(move |check| (document, check)))
        .filter(|(_, check)| !check.pass)
        .map(|(document, check)| format!("{}/{}", document.scenario, check.id))
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    let count = u32::try_from(missed.len()).unwrap_or(u32::MAX);
    Err(Failure::Missed(format!("{} missed: {}", counted(count, "goal"), missed.join(", "))))
}

/// Name, heading, and what it is multiplied by for people.
const METRICS: [(&str, &str, f64); 10] = [
    ("served_share", "ok %", 100.0),
    ("p50_ms", "p50 ms", 1.0),
    ("p99_ms", "p99 ms", 1.0),
    ("utilization", "used %", 100.0),
    ("spread_1s", "max/min 1s", 1.0),
    ("spread_60s", "60s", 1.0),
    ("spread", "all", 1.0),
    ("connections_least", "least connections", 1.0),
    ("connections_mean", "mean", 1.0),
    ("connections_most", "most", 1.0),
];
