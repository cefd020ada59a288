//! `./bench admit`: what admission costs a request that is served, and one that is refused.

use std::process::ExitCode;

use evenkeel_bench::{admit, figure, report, rounds, rpc};
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    json: bool,
    rounds: u32,
    calls: u32,
    requests: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = rpc::run_role(&arguments) {
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
    let measured = rounds::measure(&mut admit::subjects(asked.requests), asked.rounds);
    let aims = admit::aims(&measured);
    let mut rows = admit::rows();
    for round in 1..=asked.rounds {
        rounds::progress(round, asked.rounds);
        for row in &mut rows {
            if let Err(error) = row.run(asked.calls) {
                eprintln!("admit: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let figures = admit::figures(&rows);
    if asked.json {
        let mut document = report::document("admit", &report::machine(), asked.rounds, &measured, &aims);
        document["figures"] = json!(figures.iter().map(figure::Figure::json).collect::<Vec<_>>());
        println!("{document:#}");
    } else {
        println!("{}\n\n{}", report::table(&measured, &aims), figure::table(&figures));
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("admit: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { json: false, rounds: 15, calls: 30_000, requests: admit::FULL };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => (asked.rounds, asked.calls, asked.requests) = (1, 4_000, admit::QUICK),
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
usage: admit [--quick] [--json] [--rounds N]

ns of CPU for the decisions about one request at a server: to serve it, with and without a quota, and to refuse it. Then
µs of CPU that whole servers need for a unary gRPC call of 100 bytes, 64 in flight: with admission and without, one that
refuses every call, hyper answering every call with the same few headers, and tonic's echo. Everything runs once a
round, the servers in processes started afresh; medians count, for ratios medians of those within each round.

  --quick      one round of few calls: its figures mean little
  --json       one JSON document on stdout
  --rounds N   15 by default";
