//! `./bench overload`: what a server answers that is asked for too much, beside Envoy's answers to that.

use std::io;
use std::process::ExitCode;

use evenkeel_bench::figure::{Figure, table};
use evenkeel_bench::overload::{self, Envoy, Guard, Round, Scale};
use evenkeel_bench::report;
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    scale: Scale,
    json: bool,
    rounds: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = overload::run_role(&arguments) {
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
    let envoy = Envoy::find();
    if envoy.is_none() {
        eprintln!("EVENKEEL_ENVOY does not name Envoy's program: its rows are missing");
    }
    let guards = Guard::all(envoy.as_ref());
    let rounds: io::Result<Vec<Round>> =
        (1..=asked.rounds).map(|number| round(number, &asked, &guards, envoy.as_ref())).collect();
    match rounds {
        Ok(rounds) => show(&overload::figures(&guards, &rounds), &asked),
        Err(error) => {
            eprintln!("overload: {error}");
            return ExitCode::FAILURE;
        }
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn round(number: u32, asked: &Asked, guards: &[Guard], envoy: Option<&Envoy>) -> io::Result<Round> {
    let mut round = Round { capacity: overload::capacity(asked.scale)?, served: Vec::new() };
    for &guard in guards {
        for times in overload::LOADS {
            eprintln!("round {number} of {}: {} at {times}x", asked.rounds, guard.name());
            let served = overload::run(guard, round.capacity, times, asked.scale, envoy)?;
            round.served.push((guard, times, served));
        }
    }
    Ok(round)
}

fn show(figures: &[Figure], asked: &Asked) {
    if asked.json {
        let document = json!({
            "bench": "overload", "machine": report::machine(), "rounds": asked.rounds,
            "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
        });
        println!("{document:#}");
    } else {
        println!("{}", table(figures));
    }
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("overload: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { scale: overload::FULL, json: false, rounds: 3 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => (asked.scale, asked.rounds) = (overload::QUICK, 1),
            "--json" => asked.json = true,
            "--rounds" => {
                let value = arguments.next().and_then(|text| text.parse().ok()).filter(|&rounds| rounds > 0);
                asked.rounds = value.ok_or("--rounds wants a number from 1")?;
            }
            other => return Err(format!("no option {other}")),
        }
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: overload [--quick] [--json] [--rounds N]

What is answered within half a second when a server of one core is asked for 1 to 10 times what it can do (2 ms of CPU
each) by clients that keep their connections and heed nothing: unguarded, behind Envoy with admission_control and with
adaptive_concurrency, and with ours. Half of what it can do is critical, all the rest sheddable. Every run has
processes started afresh, 5 s to settle and 10 s that count. A round takes about 5 minutes.

  --quick      one round of short runs: its figures mean little
  --json       one JSON document on stdout
  --rounds N   3 by default";
