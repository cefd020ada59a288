//! The demo's pictures: profiles of connections, bars of utilization, the sinkhole.

use std::io::{self, Write};

use evenkeel_core::PolicyName;

use super::conclusions;
use super::world::{BACKENDS, speed_of};
use super::{Demo, PolicyRun, Subsetting};
use crate::draw::{Paint, bar, paragraph, percent, profile};

pub(crate) fn write(out: &mut impl Write, paint: Paint, demo: &Demo) -> io::Result<()> {
    let seed = demo.seed;
    writeln!(out, "A simulation that drives the decision core: no process, no socket, seed {seed}.")?;
    writeln!(out, "\n{}", paint.heading("1. Who talks to whom: 300 clients, 300 backends"))?;
    write!(out, "{}", paragraph(SUBSETTING))?;
    write_subsetting(out, paint, &demo.subsetting)?;
    write!(out, "\n{}", paragraph(&conclusions::subsetting(&demo.subsetting)))?;
    writeln!(out, "\n{}", paint.heading("2. Who gets the next request: utilization of 10 backends"))?;
    write!(out, "{}", paragraph(&world_text(demo)))?;
    for side_by_side in demo.policies.chunks(POLICIES_ABREAST) {
        writeln!(out)?;
        write_policies(out, paint, side_by_side)?;
    }
    write!(out, "\n{}", paragraph(WASTED))?;
    write!(out, "{}", paragraph(&conclusions::policies(&demo.policies)))?;
    write!(out, "{}", paragraph(&format!("The default is {}.", PolicyName::default())))?;
    writeln!(out, "\n{}", paint.heading("3. The sinkhole: a backend that fails fast looks idle"))?;
    write!(out, "{}", paragraph(SINKHOLE))?;
    write_sinkhole(out, paint, &demo.policies)?;
    writeln!(out)?;
    if conclusions::is_passed_over(&demo.policies) {
        write!(out, "{}", paragraph(PASSED_OVER))?;
    }
    write!(out, "{}", paragraph(&conclusions::sinkhole(&demo.policies)))?;
    writeln!(out, "\nNext: evenkeel plan --help, for a service of your own size, and ./test.")
}

fn write_subsetting(out: &mut impl Write, paint: Paint, dealings: &[Subsetting]) -> io::Result<()> {
    for dealing in dealings {
        let Subsetting { algorithm, size, least, mean, most, connections } = dealing;
        let [above, below] = profile(connections, *mean, PROFILE_WIDTH).map(|line| paint.picture(&line));
        let name = format!("{algorithm}, {size} of 300");
        let counts = format!("least {least}, mean {mean}, most {most}");
        let range = format!("{} to {} of the mean", percent(least / mean), percent(most / mean));
        writeln!(out, "\n  {name:<LABEL_WIDTH$}{above}  {counts}")?;
        writeln!(out, "  {:<LABEL_WIDTH$}{below}  {range}", "")?;
    }
    Ok(())
}

fn world_text(demo: &Demo) -> String {
    let requests = demo.policies.first().map_or(0, |policy| policy.requests);
    format!(
        "Each has 2 cores; 5 to 9 run at half speed. {} s of Poisson arrivals at 75 % of capacity, the same {requests} \
         requests for every policy: 95 % cost 2 ms, 5 % cost 40 ms.",
        demo.seconds,
    )
}

fn write_policies(out: &mut impl Write, paint: Paint, policies: &[PolicyRun]) -> io::Result<()> {
    let mut row = |name: &str, cell: &dyn Fn(&PolicyRun) -> String| {
        let cells: Vec<String> = policies.iter().map(cell).collect();
        writeln!(out, "{}", format!("  {name:<NAME_WIDTH$}{}", cells.join("  ")).trim_end())
    };
    row("", &|policy| format!("{:<CELL_WIDTH$}", policy.policy))?;
    for number in 0..BACKENDS {
        let name = format!("{number} {}", if speed_of(number) < 1.0 { "half" } else { "full" });
        row(&name, &|policy| {
            let utilization = policy.utilization[number];
            let bar = paint.picture(&bar(utilization, CELL_WIDTH - 6));
            format!("{bar}{:>6}", percent(utilization))
        })?;
    }
    row("most", &|policy| format!("{:>CELL_WIDTH$}", percent(policy.spread.most)))?;
    row("mean", &|policy| format!("{:>CELL_WIDTH$}", percent(policy.spread.mean)))?;
    row("least", &|policy| format!("{:>CELL_WIDTH$}", percent(policy.spread.least)))?;
    row("wasted cores", &|policy| format!("{:>CELL_WIDTH$.1}", policy.wasted_cores))?;
    row("p50", &|policy| format!("{:>1$}", format!("{:.1} ms", policy.latency_ms.p50), CELL_WIDTH))?;
    row("p99", &|policy| format!("{:>1$}", format!("{:.1} ms", policy.latency_ms.p99), CELL_WIDTH))
}

fn write_sinkhole(out: &mut impl Write, paint: Paint, policies: &[PolicyRun]) -> io::Result<()> {
    let shares = policies.iter().flat_map(|policy| [policy.sinkhole_share, policy.hidden_sinkhole_share]);
    let largest = shares.fold(0.0, f64::max);
    let cell = |share: f64| {
        let bar = bar(share / largest, SINKHOLE_WIDTH);
        format!("{:>4.1} %  {bar}", share * 100.0)
    };
    let width = cell(0.0).chars().count() + 2;
    writeln!(out, "\n  {:<NAME_WIDTH$}{:<width$}failures look like answers", "", "failures are told")?;
    for policy in policies {
        let (told, hidden) = (cell(policy.sinkhole_share), cell(policy.hidden_sinkhole_share));
        let line = paint.picture(format!("{told}  {hidden}").trim_end());
        writeln!(out, "  {:<NAME_WIDTH$}{line}", policy.policy)?;
    }
    Ok(())
}

const SUBSETTING: &str = "Connections of each backend, sorted. The lower half of a picture is full at the mean; the \
                          upper half is what is above it.";
const WASTED: &str = "Wasted cores: what the others leave unused when the service is sized for its busiest backend.";
const SINKHOLE: &str = "From halfway, backend 0 fails every request after 0.1 ms. Its share of the requests from then \
                        on; an equal one is 10 %. Policies that look at load count recent errors as requests in \
                        flight.";
const PASSED_OVER: &str = "round_robin gives it slightly more than 10 %: it is never at its limit of requests in \
                           flight, while slow ones are and are passed over.";
const PROFILE_WIDTH: usize = 25;
const LABEL_WIDTH: usize = 20;
const POLICIES_ABREAST: usize = 3;
const NAME_WIDTH: usize = 13;
const CELL_WIDTH: usize = 20;
const SINKHOLE_WIDTH: usize = 20;
