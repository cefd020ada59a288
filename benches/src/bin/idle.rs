//! `./bench idle`: what an inactive backend costs, beside an idle HTTP/2 connection.

use std::process::ExitCode;

use evenkeel_bench::figure::{Figure, table};
use evenkeel_bench::{idle, report, rounds};
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    scale: idle::Scale,
    json: bool,
    rounds: u32,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = idle::run_role(&arguments) {
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
    let mut measured = Vec::new();
    for round in 1..=asked.rounds {
        rounds::progress(round, asked.rounds);
        match idle::round(asked.scale) {
            Ok(round) => measured.push(round),
            Err(error) => {
                eprintln!("idle: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let figures = idle::figures(asked.scale, &measured);
    if asked.json {
        let document = json!({
            "bench": "idle", "machine": report::machine(), "rounds": asked.rounds,
            "backends": asked.scale.kept, "asking": asked.scale.asking,
            "figures": figures.iter().map(Figure::json).collect::<Vec<_>>(),
        });
        println!("{document:#}");
    } else {
        println!("{}", table(&figures));
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("idle: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { scale: idle::FULL, json: false, rounds: 5 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => (asked.scale, asked.rounds) = (idle::QUICK, 1),
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
usage: idle [--quick] [--json] [--rounds N]

What a backend costs that nobody uses: the memory of one that is inactive, resident at its client and at itself, beside
that of an idle HTTP/2 connection; and the CPU of checks by datagrams, at both ends. Client and server are processes of
their own on loopback, started afresh for each measurement. The kernel's own memory is not in it.

  memory/idle_connection  bytes for one of 4,000 connections with their watch streams
  memory/inactive         the same once they are let go
  check/server_share      CPU of a server that 10,000 inactive clients ask every 10 s, all of its process
  check/1000_a_second     CPU of one such check, waking up for it included, what the process takes anyway left out
  check/10000_a_second    the same where they come so densely that waking up is shared
  echo                    what two bare sockets take for as many datagrams of the same size

  --quick     one round of few backends: its figures mean little
  --json      one JSON document on stdout
  --rounds N  5 by default, about two minutes each";
