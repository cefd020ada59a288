//! `evenkeel sim swarm`: random worlds, each event looked at.

use std::io::Write;

use evenkeel_sim::swarm;
use evenkeel_sim::world::Broken;
use serde_json::json;

use crate::args::SwarmArgs;
use crate::failure::Failure;
use crate::progress::Progress;

pub(crate) fn run(args: &SwarmArgs, out: &mut impl Write) -> Result<(), Failure> {
    let bar = Progress::bar("worlds", args.seeds);
    let mut broken: Vec<Broken> = Vec::new();
    let (mut events, mut requests) = (0_u64, 0_u64);
    for later in 0..args.seeds {
        match swarm::run(args.seed.wrapping_add(later)) {
            Ok(result) => {
                let count = |name: &str| result.metrics.get(name).map_or(0, |&count| count as u64);
                events += count("events");
                requests += count("requests");
            }
            Err(found) => {
                bar.say(&found.to_string());
                broken.push(found);
            }
        }
        bar.advance(1);
    }
    bar.finish();

    if args.json {
        let entry = |one: &Broken| json!({"seed": one.seed, "event": one.events, "at_s": one.at as f64 / 1e9, "what": one.what});
        let listed: Vec<serde_json::Value> = broken.iter().map(entry).collect();
        let document = json!({
            "seed": args.seed, "seeds": args.seeds, "events": events, "requests": requests, "broken": listed,
        });
        writeln!(out, "{document:#}")?;
    } else if broken.is_empty() {
        writeln!(out, "every invariant held after every one of {events} events, {requests} requests")?;
    }
    match broken.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(Failure::Run(format!(
            "{} of {} worlds broke; the first is {first}; `evenkeel sim swarm --seed {}` shows it again",
            broken.len(),
            args.seeds,
            first.seed
        ))),
    }
}
