//! `./bench subset`: how often each way of dealing meets the four goals of subsetting.

use std::io::IsTerminal;
use std::process::ExitCode;

use evenkeel_bench::subset::{GOALS, Scheme, Score, grid, judge, triples};
use serde_json::{Value, json};

/// What was asked for on the command line.
struct Asked {
    seed: u64,
    triples: u32,
    pairs: u64,
    json: bool,
    schemes: Vec<(&'static str, Scheme)>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("subset: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let sets = [("grid", grid()), ("triples", triples(asked.triples, asked.seed))];
    let mut rows: Vec<(&str, &str, Score)> = Vec::new();
    for &(name, scheme) in &asked.schemes {
        for (set, cases) in &sets {
            let progress = |done: usize| {
                if std::io::stderr().is_terminal() {
                    eprint!("\r{name} {set}: {done} of {} numbers of backends ", cases.len());
                }
            };
            rows.push((name, set, judge(scheme, cases, asked.pairs, asked.seed, progress)));
            eprintln!("\r{name} {set}: judged                              ");
        }
    }
    if asked.json {
        println!("{:#}", document(&asked, &rows));
    } else {
        println!("{}", table(&rows));
    }
    ExitCode::SUCCESS
}

fn table(rows: &[(&str, &str, Score)]) -> String {
    let header = format!("{:<22}{}", "% that meet it", GOALS.map(|goal| format!("{goal:>9}")).concat());
    let lines = rows.iter().map(|(name, set, score)| {
        let percents = score.percent().map(|percent| format!("{percent:>9.1}")).concat();
        format!("{:<22}{percents}", format!("{name} {set}"))
    });
    std::iter::once(header).chain(lines).collect::<Vec<_>>().join("\n")
}

fn document(asked: &Asked, rows: &[(&str, &str, Score)]) -> Value {
    let rows = rows.iter().map(|(name, set, score)| {
        let percents: serde_json::Map<String, Value> =
            GOALS.iter().zip(score.percent()).map(|(goal, percent)| ((*goal).to_owned(), json!(percent))).collect();
        json!({ "scheme": name, "shapes": set, "percent_that_meet": percents })
    });
    json!({ "bench": "subset", "seed": asked.seed, "triples": asked.triples, "rows": rows.collect::<Vec<_>>() })
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { seed: 101, triples: 2_000, pairs: 2_000, json: false, schemes: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = |option: &str| {
            arguments.next().and_then(|text| text.parse::<u32>().ok()).ok_or(format!("{option} wants a number"))
        };
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => asked.json = true,
            "--quick" => asked.triples = 100,
            "--seed" => asked.seed = number("--seed")?.into(),
            "--triples" => asked.triples = number("--triples")?,
            name => {
                let scheme = Scheme::ALL.into_iter().find(|(known, _)| *known == name);
                asked.schemes.push(scheme.ok_or_else(|| format!("no option or scheme {name}"))?);
            }
        }
    }
    if asked.schemes.is_empty() {
        asked.schemes = Scheme::ALL.to_vec();
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: subset [--seed N] [--triples N] [--quick] [--json] [SCHEME...]

Share of (clients, backends, size) shapes on which a way of dealing meets each goal, on a grid of 550 and on shapes drawn
log-uniform: balance (every backend within max(2, 2 %) of the mean), churn (at most 1.1 times the least possible loss, for
each change), restart (a tenth of consecutive ids takes at most a fifth of any subset), overlap (99th percentile of two
clients' no larger than random's).

  --seed N     101 by default
  --triples N  drawn shapes, 2,000 by default
  --quick      100 drawn shapes
  --json       one JSON document on stdout
  SCHEME       even, sieve-rank, rounds, random, random-again; all of them by default";
