//! `./bench policies`: how evenly backends of unequal speed are used and how long answers take, beside peers.

use std::process::ExitCode;

use evenkeel_bench::figure::{Figure, table};
use evenkeel_bench::policies::{self, Balancer, Programs, Run, Scale};
use evenkeel_bench::report;
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    scale: Scale,
    json: bool,
    rounds: u32,
    /// Parts of names; empty for all.
    only: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = policies::run_role(&arguments) {
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
    let programs = match Programs::find() {
        Ok(programs) => programs,
        Err(missing) => return refuse(&missing),
    };
    let mut balancers = Balancer::all(&programs);
    balancers.retain(|balancer| asked.only.is_empty() || asked.only.iter().any(|part| balancer.name().contains(part)));
    if balancers.is_empty() {
        return refuse("--only leaves nobody");
    }
    match run(&asked, &balancers, &programs) {
        Ok(figures) => show(&figures, &asked),
        Err(error) => {
            eprintln!("policies: {error}");
            return ExitCode::FAILURE;
        }
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn run(asked: &Asked, balancers: &[Balancer], programs: &Programs) -> std::io::Result<Vec<Figure>> {
    let mut rounds: Vec<Vec<Run>> = Vec::new();
    for number in 1..=asked.rounds {
        let mut round = Vec::new();
        for &balancer in balancers {
            eprintln!("round {number} of {}: {}", asked.rounds, balancer.name());
            let ended = policies::run(balancer, asked.scale, number, programs)?;
            eprintln!("  {}", ended.summary());
            round.push(ended);
        }
        rounds.push(round);
    }
    Ok(policies::figures(balancers, &rounds))
}

fn show(figures: &[Figure], asked: &Asked) {
    if asked.json {
        let document = json!({
            "bench": "policies", "machine": report::machine(), "rounds": asked.rounds,
            "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
        });
        println!("{document:#}");
    } else {
        println!("{}", table(figures));
    }
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("policies: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { scale: policies::FULL, json: false, rounds: 3, only: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        let number = |text: String| text.parse().ok().filter(|&number: &u32| number > 0);
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => (asked.scale, asked.rounds) = (policies::QUICK, 1),
            "--json" => asked.json = true,
            "--rounds" => asked.rounds = number(value()?).ok_or("--rounds wants a number from 1")?,
            "--seconds" => {
                asked.scale = Scale { seconds: number(value()?).ok_or("--seconds wants a number from 1")? };
            }
            "--only" => asked.only = value()?.split(',').map(str::to_owned).collect(),
            other => return Err(format!("no option {other}")),
        }
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: policies [--quick] [--json] [--rounds N] [--seconds N] [--only PARTS]

Ten backends with two virtual processors each, half of them at half speed; 95 % of requests take 2 ms and 5 % take 40 ms,
at random, 75 % of what all can do. How evenly they are used, and how long answers take from when they were due: by each
policy of ours, by tower, Envoy, nginx and HAProxy. Processes are started afresh for each run; a quarter of it does not
count. A round takes a minute for each of them.

  --quick        one round of short runs: its figures mean little
  --json         one JSON document on stdout
  --rounds N     3 by default
  --seconds N    60 by default
  --only PARTS   only those with one of these in their name: level,nginx,tower";
