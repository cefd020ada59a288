//! `evenkeel demo`: subsetting and request policies in pictures, computed live by the decision core.

mod conclusions;
mod load;
mod machine;
mod pictures;
mod tally;
mod world;

use std::io::Write;

use evenkeel_core::PolicyName;
use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{Dealt, Shape};
use evenkeel_core::stats::Spread;
use serde::Serialize;

use crate::args::DemoArgs;
use crate::draw::Paint;
use crate::failure::Failure;
use crate::progress::Progress;
use world::{CORES, Scenario, Trouble, World};

/// Everything the demo shows, as plain data.
#[derive(Debug, Serialize)]
pub(crate) struct Demo {
    seed: u64,
    /// Simulated, of each world.
    seconds: u32,
    subsetting: Vec<Subsetting>,
    policies: Vec<PolicyRun>,
}

/// 300 clients of 300 backends, dealt one way.
#[derive(Debug, Serialize)]
struct Subsetting {
    algorithm: &'static str,
    size: u32,
    least: f64,
    mean: f64,
    most: f64,
    /// Connections of each backend, ascending.
    #[serde(skip)]
    connections: Vec<f64>,
}

/// What one policy made of the same requests.
#[derive(Debug, Serialize)]
struct PolicyRun {
    policy: &'static str,
    utilization: Vec<f64>,
    spread: Extent,
    wasted_cores: f64,
    latency_ms: Latency,
    requests: u64,
    /// Of the requests sent while the first backend failed all of its own, the share that went there.
    sinkhole_share: f64,
    /// The same where its failures look like answers, so that no policy can tell.
    hidden_sinkhole_share: f64,
}

#[derive(Debug, Serialize)]
struct Extent {
    least: f64,
    mean: f64,
    most: f64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

/// Computes everything, then prints it.
pub(crate) fn run(args: &DemoArgs, out: &mut impl Write) -> Result<(), Failure> {
    let progress = match args.seconds {
        ..=SECONDS_SHORT => Progress::hidden(),
        _ => Progress::bar("simulating", (PolicyName::BUILT.len() * TROUBLES.len()) as u64),
    };
    let run_policy = |policy| run_policy(policy, args, &progress);
    let demo = Demo {
        seed: args.seed,
        seconds: args.seconds,
        subsetting: DEALINGS.into_iter().map(|dealing| subsetting(dealing, args.seed)).collect::<Result<_, _>>()?,
        policies: PolicyName::BUILT.into_iter().map(run_policy).collect::<Result<_, _>>()?,
    };
    progress.finish();
    if args.json {
        serde_json::to_writer(&mut *out, &demo)?;
        return Ok(writeln!(out)?);
    }
    Ok(pictures::write(out, Paint::for_stdout(), &demo)?)
}

fn subsetting((algorithm, size): (Algorithm, u32), seed: u64) -> Result<Subsetting, Failure> {
    let dealt = Dealt::new(Shape { clients: TASKS, backends: TASKS, size }, algorithm, seed)?;
    let mut connections = dealt.connections();
    connections.sort_unstable();
    let Spread { least, mean, most, .. } = dealt.spread();
    let connections = connections.into_iter().map(f64::from).collect();
    Ok(Subsetting { algorithm: algorithm.versioned(), size, least, mean, most, connections })
}

fn run_policy(policy: PolicyName, args: &DemoArgs, progress: &Progress) -> Result<PolicyRun, Failure> {
    let of = |trouble| {
        let tally = World::run(Scenario { policy, seed: args.seed, seconds: args.seconds, trouble });
        progress.advance(1);
        tally
    };
    let [calm, told, hidden] = TROUBLES.map(of);
    let calm = calm?;
    let spread = Spread::of(calm.utilization().iter().copied());
    let Spread { least, mean, most, wasted, .. } = spread.expect("a world has backends");
    Ok(PolicyRun {
        policy: policy.as_str(),
        utilization: calm.utilization().to_vec(),
        spread: Extent { least, mean, most },
        wasted_cores: wasted * f64::from(CORES),
        latency_ms: Latency { p50: calm.latency_ms(0.5), p99: calm.latency_ms(0.99) },
        requests: calm.requests(),
        sinkhole_share: told?.share_late(0),
        hidden_sinkhole_share: hidden?.share_late(0),
    })
}

/// The worlds of each policy.
const TROUBLES: [Trouble; 3] = [Trouble::None, Trouble::Sinkhole, Trouble::HiddenSinkhole];
/// About two seconds of real time.
const SECONDS_SHORT: u32 = 60;
/// Clients, and backends: the size of the published pictures.
const TASKS: u32 = 300;
const DEALINGS: [(Algorithm, u32); 4] =
    [(Algorithm::Random, 90), (Algorithm::Random, 30), (Algorithm::Rounds, 10), (Algorithm::Even, 20)];
