//! `evenkeel calibrate`: how fast this machine is beside the reference machine (A18).

use std::io::Write;
use std::time::Duration;

use evenkeel::meter::{Calibration, calibrate};
use serde::Serialize;

use crate::args::CalibrateArgs;
use crate::draw::{Paint, paragraph};
use crate::failure::Failure;

#[derive(Debug, Serialize)]
struct Figures {
    factor: f64,
    rounds: u32,
    median_ms: f64,
    least_ms: f64,
    most_ms: f64,
    /// What the reference machine takes.
    reference_ms: f64,
    processor: Option<String>,
    /// Figures of a build without optimisation compare with nothing.
    optimised: bool,
}

pub(crate) fn run(args: &CalibrateArgs, out: &mut impl Write) -> Result<(), Failure> {
    let figures = Figures::new(args.rounds, calibrate(args.rounds)?);
    if args.json {
        serde_json::to_writer(&mut *out, &figures)?;
        return Ok(writeln!(out)?);
    }
    Ok(write(out, Paint::for_stdout(), &figures)?)
}

impl Figures {
    fn new(rounds: u32, found: Calibration) -> Self {
        let millis = |span: Duration| span.as_secs_f64() * 1e3;
        Figures {
            // Three digits behind the point are more than a machine repeats.
            factor: (found.factor.value() * 1e3).round() / 1e3,
            rounds,
            median_ms: millis(found.median),
            least_ms: millis(found.least),
            most_ms: millis(found.most),
            reference_ms: (millis(found.median) * found.factor.value() * 1e3).round() / 1e3,
            processor: processor(),
            optimised: !cfg!(debug_assertions),
        }
    }
}

fn write(out: &mut impl Write, paint: Paint, figures: &Figures) -> std::io::Result<()> {
    let Figures { factor, rounds, median_ms, least_ms, most_ms, reference_ms, processor, optimised } = figures;
    writeln!(out, "{}", paint.heading(&format!("factor {factor}")))?;
    let processor = processor.as_deref().unwrap_or("a processor that does not say its name");
    let how = format!(
        "{processor}: the reference work takes {median_ms:.2} ms of CPU, the median of {rounds} ({least_ms:.2} to \
         {most_ms:.2} ms). On the reference machine it takes {reference_ms:.2} ms, which is factor 1."
    );
    write!(out, "{}", paragraph(&how))?;
    writeln!(out)?;
    writeln!(out, "  evenkeel::Server::new().with_cpu_factor({factor})")?;
    if median_ms > &(least_ms * NOISY) {
        writeln!(out)?;
        let noisy = "Half of the rounds took more than a twentieth longer than the shortest: the machine is busy or its clock rate \
                     changes. Run it again while it is idle, with more --rounds.";
        write!(out, "{}", paragraph(noisy))?;
    }
    if !optimised {
        writeln!(out)?;
        write!(out, "{}", paragraph("This build is not optimised: its factor compares with nothing."))?;
    }
    Ok(())
}

/// The median over the least of an idle machine is below this.
const NOISY: f64 = 1.05;

/// As Linux tells it.
fn processor() -> Option<String> {
    let known = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "))?.1;
    Some(name.trim().to_owned())
}
