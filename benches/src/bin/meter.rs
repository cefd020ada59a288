//! `./bench meter`: ns of CPU that metering adds to polls and wakes, beside the clock of the thread.

use std::process::ExitCode;

use evenkeel_bench::{meter, report, rounds};

/// What was asked for on the command line.
#[derive(Default)]
struct Asked {
    quick: bool,
    json: bool,
    rounds: Option<u32>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("meter: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (polls, rounds) = if asked.quick { (meter::QUICK, 3) } else { (meter::FULL, 31) };
    let rounds = asked.rounds.unwrap_or(rounds);

    eprintln!("metered by {}", evenkeel::meter::source());
    let measured = rounds::measure(&mut meter::subjects(polls), rounds);
    let aims = meter::aims(&measured);
    if asked.json {
        println!("{:#}", report::document("meter", &report::machine(), rounds, &measured, &aims));
    } else {
        println!("{}", report::table(&measured, &aims));
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => asked.quick = true,
            "--json" => asked.json = true,
            "--rounds" => {
                let value = arguments.next().and_then(|text| text.parse().ok()).filter(|&rounds| rounds > 0);
                asked.rounds = Some(value.ok_or("--rounds wants a number from 1")?);
            }
            other => return Err(format!("no option {other}")),
        }
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: meter [--quick] [--json] [--rounds N]

ns of CPU for a poll that is metered and counted, alone and after a wake; a bare poll and the thread's clock beside.
Every subject runs once a round; the median over the rounds counts. EVENKEEL_METER=clock meters by the thread's clock.

  --quick      a smoke run of a second: its figures mean little
  --json       one JSON document on stdout
  --rounds N   31 by default, 3 with --quick";
