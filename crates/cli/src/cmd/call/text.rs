//! The figures of `call` as tables.

use std::io::{self, Write};

use super::figures::{Backend, Checks, Figures};
use crate::draw::{Paint, table};
use crate::load::{Percentiles, ms_text};

pub(super) fn write(out: &mut impl Write, paint: Paint, figures: &Figures) -> io::Result<()> {
    let Figures { seconds, per_second, requests, failures, latency_ms, retries, checks, backends } = figures;
    writeln!(out, "{} requests in {seconds:.1} s, {per_second:.0} answered a second", requests.asked)?;
    writeln!(out, "\n{}", paint.heading("Outcomes"))?;
    let mut outcomes = vec![("ok".to_owned(), requests.ok), ("degraded".to_owned(), requests.degraded)];
    outcomes.extend(failures.iter().map(|(why, &count)| (format!("failed: {why}"), count)));
    outcomes.extend(requests.refused.iter().map(|(why, &count)| (format!("refused: {why}"), count)));
    outcomes.push(("not sent: too many in flight".to_owned(), requests.not_sent));
    outcomes.push(("not waited for".to_owned(), requests.unfinished));
    let rows: Vec<Vec<String>> = (0..)
        .zip(outcomes)
        // How many went well is said even if none did.
        .filter(|(place, (_, count))| *place == 0 || *count > 0)
        .map(|(_, (name, count))| {
            let share = count as f64 / requests.asked.max(1) as f64;
            vec![name, count.to_string(), format!("{:.1} %", share * 100.0)]
        })
        .collect();
    write!(out, "{}", table(&["", "requests", "share"], &rows))?;
    if *retries > 0 {
        writeln!(out, "  {retries} were sent again: refused, failed, or not taken by a connection")?;
    }
    let Checks { sent, answered, pushes, visits, woken, .. } = checks;
    if sent + visits + woken > 0 {
        writeln!(
            out,
            "  checks by datagrams: {sent} sent, {answered} answered, {pushes} notices, {visits} visits, {woken} woken"
        )?;
    }
    writeln!(out, "\n{}", paint.heading("Latency of those answered, in ms"))?;
    write!(out, "{}", table(&header(""), &[latency_row("all", latency_ms)]))?;
    writeln!(out, "\n{}", paint.heading("Backends"))?;
    let rows: Vec<Vec<String>> = backends.iter().map(backend_row).collect();
    let names = ["", "state", "link", "served", "other", "p50", "p99", "max"];
    write!(out, "{}", table(&names, &rows))
}

fn header(first: &str) -> [&str; 6] {
    [first, "p50", "p90", "p99", "p99.9", "max"]
}

fn latency_row(name: &str, latency: &Percentiles) -> Vec<String> {
    let Percentiles { p50, p90, p99, p99_9, max } = *latency;
    std::iter::once(name.to_owned()).chain([p50, p90, p99, p99_9, max].map(ms_text)).collect()
}

fn backend_row(backend: &Backend) -> Vec<String> {
    let served = backend.ended.get("served").copied().unwrap_or(0);
    let other = backend.ended.values().sum::<u64>() - served;
    let Percentiles { p50, p99, max, .. } = backend.latency_ms;
    let counts = [backend.state.replace('_', " "), backend.link.to_owned(), served.to_string(), other.to_string()];
    std::iter::once(backend.name.clone()).chain(counts).chain([p50, p99, max].map(ms_text)).collect()
}
