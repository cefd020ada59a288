//! The demo's summary as bars and sentences.

use std::io::{self, Write};

use super::summary::{Backend, Summary};
use crate::draw::{Paint, bar, paragraph, percent};
use crate::load::ms_text;

pub(super) fn write(out: &mut impl Write, paint: Paint, summary: &Summary) -> io::Result<()> {
    let Summary { spread, wasted, latency_ms, requests, retries, backends } = summary;
    writeln!(out, "\n{}", paint.heading("Utilization of each backend over the run"))?;
    writeln!(out, "  {:<NAME_WIDTH$}  speed  {:<UTILIZATION_WIDTH$}  answered  p99 ms", "backend", "utilization")?;
    for backend in backends {
        writeln!(out, "{}", line(paint, backend).trim_end())?;
    }
    let [least, mean, most] = [spread.min, spread.mean, spread.max].map(percent);
    let even = format!(
        "Least {least}, mean {mean}, most {most}. Sized for its busiest backend, the service wastes {wasted:.1} of {} \
         processors.",
        backends.iter().map(|backend| backend.cores).sum::<u32>(),
    );
    write!(out, "\n{}", paragraph(&even))?;
    let refused: u64 = requests.refused.values().sum();
    let outcomes = format!(
        "Of the requests {} were answered, {} of them degraded; {} failed, {refused} were refused, {retries} were sent \
         again. Half took at most {} ms, 99 % at most {} ms.",
        requests.ok + requests.degraded,
        requests.degraded,
        requests.failed,
        ms_text(latency_ms.p50),
        ms_text(latency_ms.p99),
    );
    write!(out, "{}", paragraph(&outcomes))?;
    for reason in requests.refused.iter().map(|(reason, count)| format!("refused: {reason} {count} times")) {
        write!(out, "{}", paragraph(&reason))?;
    }
    for backend in backends.iter().filter(|backend| backend.restarts > 0) {
        let (name, away_s) = (&backend.name, backend.away_s);
        let said = format!("{name} was restarted by SIGTERM under load and was away for {away_s:.1} s.");
        write!(out, "{}", paragraph(&said))?;
    }
    Ok(())
}

fn line(paint: Paint, backend: &Backend) -> String {
    let Backend { name, speed, utilization, requests, latency_ms, restarts, .. } = backend;
    let (bar, share) = (paint.picture(&bar(*utilization, BAR_WIDTH)), percent(*utilization));
    let p99 = ms_text(latency_ms.p99);
    let note = if *restarts > 0 { "restarted" } else { "" };
    format!("  {name:<NAME_WIDTH$}  {speed:>5.1}  {bar}{share:>6}  {requests:>8}  {p99:>6}  {note}")
}

const NAME_WIDTH: usize = 15;
const BAR_WIDTH: usize = 20;
/// The bar and its figure.
const UTILIZATION_WIDTH: usize = BAR_WIDTH + 6;
