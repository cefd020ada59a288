//! `./bench decide`: ns of CPU for the decisions about one request, beside tower and Pingora.

use std::process::ExitCode;

use evenkeel_bench::{decide, report, rounds};

/// What was asked for on the command line.
#[derive(Default)]
struct Asked {
    quick: bool,
    json: bool,
    rounds: Option<u32>,
    only: String,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("decide: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (scale, rounds) = if asked.quick { (decide::QUICK, 3) } else { (decide::FULL, 31) };
    let rounds = asked.rounds.unwrap_or(rounds);

    eprintln!("preparing");
    let mut subjects = decide::subjects(scale, &asked.only);
    if subjects.is_empty() {
        eprintln!("decide: no question contains {:?}", asked.only);
        return ExitCode::from(2);
    }
    let measured = rounds::measure(&mut subjects, rounds);
    let aims = decide::aims(&measured);
    if asked.json {
        println!("{:#}", report::document("decide", &report::machine(), rounds, &measured, &aims));
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
            "--only" => asked.only = arguments.next().ok_or("--only wants part of a question's name")?,
            other => return Err(format!("no option {other}")),
        }
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: decide [--quick] [--json] [--rounds N] [--only TEXT]

ns of CPU for begin and finish of one request, for refusals and for dealing a subset; tower and Pingora beside.
Every subject runs once a round; the median over the rounds counts.

  --quick      a smoke run of a few seconds: its figures mean little
  --json       one JSON document on stdout
  --rounds N   31 by default, 3 with --quick
  --only TEXT  only questions whose name contains TEXT";
