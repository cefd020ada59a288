//! `./bench rpc`: CPU of one unary gRPC call over ten backends, client and server, beside tonic.

use std::io;
use std::process::ExitCode;

use evenkeel_bench::{report, rounds, rpc};
use serde_json::json;

/// What was asked for on the command line.
struct Asked {
    json: bool,
    rounds: u32,
    calls: u32,
    only: String,
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
    let mut pairs = rpc::pairs();
    pairs.retain(|pair| pair.name().contains(&asked.only));
    if pairs.is_empty() {
        return refuse(&format!("no pair's name contains {:?}", asked.only));
    }
    match measure(&pairs, &asked) {
        Ok(rows) => show(&rows, &asked),
        Err(error) => {
            eprintln!("rpc: {error}");
            return ExitCode::FAILURE;
        }
    }
    // An aim is no test: missing one is a result.
    ExitCode::SUCCESS
}

fn refuse(wrong: &str) -> ExitCode {
    eprintln!("rpc: {wrong}\n\n{USAGE}");
    ExitCode::from(2)
}

fn measure(pairs: &[rpc::Pair], asked: &Asked) -> io::Result<Vec<rpc::Row>> {
    let mut rows = rpc::rows(pairs);
    for round in 1..=asked.rounds {
        rounds::progress(round, asked.rounds);
        for row in &mut rows {
            row.costs.push(row.pair.run(asked.calls)?);
        }
    }
    Ok(rows)
}

fn show(rows: &[rpc::Row], asked: &Asked) {
    let judged = rpc::judge(rows);
    if asked.json {
        let document = json!({
            "bench": "rpc", "machine": report::machine(), "rounds": asked.rounds, "calls": asked.calls,
            "measured": rows.iter().map(rpc::Row::json).collect::<Vec<_>>(),
            "aims": judged.iter().map(rpc::Judged::json).collect::<Vec<_>>(),
        });
        println!("{document:#}");
        return;
    }
    println!("{:<52}  {:>22}  {:>22}", "µs of CPU a call, median (middle half)", "client", "server");
    for row in rows {
        let [client, server] = [row.client(), row.server()].map(|spread| spread.map_or_else(String::new, spell));
        println!("{:<52}  {client:>22}  {server:>22}", row.pair.name());
    }
    println!("\n{:<52}  {:>22}  {:>8}", "aims, ratios within a round", "median (middle half)", "at most");
    for aim in &judged {
        let verdict = if aim.is_met() { "met" } else { "MISSED" };
        println!("{:<52}  {:>22}  {:>8.2}  {verdict}", aim.question, spell(aim.ratio), aim.most);
    }
    println!("{} of {} aims met", judged.iter().filter(|aim| aim.is_met()).count(), judged.len());
}

fn spell(spread: rpc::Spread) -> String {
    let rpc::Spread { median, quarter, three_quarters } = spread;
    format!("{median:.2} ({quarter:.2}–{three_quarters:.2})")
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Asked>, String> {
    let mut asked = Asked { json: false, rounds: 15, calls: 30_000, only: String::new() };
    while let Some(argument) = arguments.next() {
        let mut number = |option: &str, least: u32| {
            let value = arguments.next().and_then(|text| text.parse().ok()).filter(|&number: &u32| number >= least);
            value.ok_or(format!("{option} wants a number from {least}"))
        };
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--quick" => (asked.rounds, asked.calls) = (1, 4_000),
            "--json" => asked.json = true,
            "--rounds" => asked.rounds = number("--rounds", 1)?,
            "--calls" => asked.calls = number("--calls", 1_000)?,
            "--only" => asked.only = arguments.next().ok_or("--only wants part of a pair's name")?,
            other => return Err(format!("no option {other}")),
        }
    }
    Ok(Some(asked))
}

const USAGE: &str = "\
usage: rpc [--quick] [--json] [--rounds N] [--calls N] [--only TEXT]

µs of CPU for one unary gRPC call of 100 bytes each way, 64 in flight, over ten backends: in the client's process and in
the backends', tonic's (Channel::balance_list, transport::Server) and evenkeel's. Every pair runs once a round, in
processes started afresh; medians over the rounds count, and for the aims medians of the ratios within each round.

  --quick      one round of few calls: its figures mean little
  --json       one JSON document on stdout
  --rounds N   15 by default
  --calls N    calls that count, 30,000 by default; a quarter as many before to warm up
  --only TEXT  only pairs whose name contains TEXT, such as tonic/1_thread";
