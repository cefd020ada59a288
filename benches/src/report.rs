//! What was measured, beside what was aimed at: a table for people, or one JSON document.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::rounds::Measured;

/// A figure to stay under. Missing one is a result, not a failure.
#[derive(Clone, Debug)]
pub struct Aim {
    pub question: String,
    pub most_ns: f64,
    pub median_ns: f64,
    /// The same on one thread, where the aim is about two.
    pub alone_ns: Option<f64>,
}

impl Aim {
    fn is_met(&self) -> bool {
        self.median_ns <= self.most_ns
    }
}

/// Rows in the order of the run, then the aims.
pub fn table(measured: &[Measured], aims: &[Aim]) -> String {
    let width = measured.iter().map(|row| row.question.len()).max().unwrap_or(0).max(TITLE.len());
    let mut out = format!("{:width$}  {:>10}  {:>10}  {:>10}\n", TITLE, "median", "least", "most");
    for row in measured {
        let Measured { question, note, median, least, most, .. } = row;
        let line = format!("{question:width$}  {median:>10.1}  {least:>10.1}  {most:>10.1}  {note}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let met = aims.iter().filter(|aim| aim.is_met()).count();
    write!(out, "\n{:width$}  {:>10}  {:>10}  {:>10}\n", "aims", "median", "at most", "of it").expect("a string grows");
    for aim in aims {
        let Aim { question, most_ns, median_ns, alone_ns } = aim;
        let verdict = if aim.is_met() { "met" } else { "MISSED" };
        write!(out, "{question:width$}  {median_ns:>10.1}  {most_ns:>10.0}  {:>9.2}x  {verdict}", median_ns / most_ns)
            .expect("a string grows");
        if let Some(alone) = alone_ns {
            write!(out, ", {:.1}x of one thread's {alone:.1}", median_ns / alone).expect("a string grows");
        }
        out.push('\n');
    }
    write!(out, "{met} of {} aims met", aims.len()).expect("a string grows");
    out
}

/// The same as one document.
pub fn document(bench: &str, machine: &str, rounds: u32, measured: &[Measured], aims: &[Aim]) -> Value {
    let rows = measured.iter().map(|row| {
        let Measured { question, note, median, least, most, rounds } = row;
        json!({
            "question": question, "note": note, "rounds": rounds,
            "median_ns": median, "least_ns": least, "most_ns": most,
        })
    });
    let aims = aims.iter().map(|aim| {
        let Aim { question, most_ns, median_ns, alone_ns } = aim;
        let one_thread = alone_ns.map(|alone| json!({ "median_ns": alone, "ratio": median_ns / alone }));
        json!({
            "question": question, "most_ns": most_ns, "median_ns": median_ns, "ratio": median_ns / most_ns,
            "met": aim.is_met(), "one_thread": one_thread,
        })
    });
    json!({
        "bench": bench, "machine": machine, "rounds": rounds,
        "measured": rows.collect::<Vec<_>>(), "aims": aims.collect::<Vec<_>>(),
    })
}

/// Model and number of cores, as the kernel tells them.
pub fn machine() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    format!("{}, {} cores", model.map_or("unknown processor", |(_, name)| name), crate::clock::cores().len())
}

const TITLE: &str = "ns of CPU per operation";
