//! `./bench sim`: how fast the simulator is, and how large a world it holds.

use std::process::ExitCode;

use evenkeel_bench::figure::{Figure, table};
use evenkeel_bench::sim::{self, Measured, Part};
use evenkeel_bench::{clock, report};
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    quick: bool,
    json: bool,
    rounds: Option<u32>,
    parts: Vec<Part>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = sim::run_as_child(&arguments) {
        return ended.map_or_else(|wrong| refuse(&wrong), |()| ExitCode::SUCCESS);
    }
    let asked = match parse(arguments.into_iter()) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => return refuse(&wrong),
    };
    let (scale, rounds) = if asked.quick { (sim::QUICK, 1) } else { (sim::FULL, 7) };
    let rounds = asked.rounds.unwrap_or(rounds);
    match sim::measure(&asked.parts, scale, rounds) {
        Ok(measured) if asked.json => println!("{:#}", document(&measured, rounds)),
        Ok(measured) => println!("{}", table(&measured.figures)),
        Err(error) => {
            eprintln!("sim: {error}");
            return ExitCode::FAILURE;
        }
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("sim: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn document(measured: &Measured, rounds: u32) -> serde_json::Value {
    let report = measured.report.iter().map(|one| {
        let sim::Run { events, wall_s, cpu_s, peak_bytes } = one.run;
        json!({
            "scenario": one.scenario, "events": events, "wall_s": wall_s, "cpu_s": cpu_s, "peak_bytes": peak_bytes,
        })
    });
    json!({
        "bench": "sim", "machine": report::machine(), "rounds": rounds, "threads": clock::cores().len(),
        "figures": measured.figures.iter().map(Figure::json).collect::<Vec<_>>(),
        "report": report.collect::<Vec<_>>(),
    })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { quick: false, json: false, rounds: None, parts: Vec::new() };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => asked.quick = true,
            "--json" => asked.json = true,
            "--rounds" => {
                let value = arguments.next().and_then(|text| text.parse().ok()).filter(|&rounds| rounds > 0);
                asked.rounds = Some(value.ok_or("--rounds wants a number from 1")?);
            }
            name => {
                let part = Part::ALL.into_iter().find(|(known, _)| *known == name);
                asked.parts.push(part.ok_or_else(|| format!("no option or part {name}"))?.1);
            }
        }
    }
    if asked.parts.is_empty() {
        asked.parts.extend(Part::ALL.map(|(_, part)| part));
        // Scenarios cannot be cut short: their faults have times.
        asked.parts.retain(|&part| !(asked.quick && part == Part::Report));
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: sim [--quick] [--json] [--rounds N] [PART...]

How fast the simulator is, with core's decisions in the loop, and how much memory it takes. Each run is a process of its
own. All runs of a round follow each other; the median over the rounds counts. Requests cost 10 ms, exponential.

  events  events per second on one core: 100 clients, 100 backends of 8 cores, 70 % busy, 20 simulated seconds
  large   1,000 clients of 1,000 backends, 100,000 requests per second: simulated seconds per real second
  huge    10,000 clients of 10,000 backends, as many requests: memory; connected: built and ready for requests
  seeds   eight seeds on every core, beside the same on one thread
  report  every scenario that comes with it, once, on every core: how long all of them take

  --quick     one round of short worlds, without the report: its figures mean little
  --json      one JSON document on stdout
  --rounds N  7 by default, 1 with --quick
  PART        events, large, huge, seeds, report; all of them by default";
