//! What each picture of the demo shows, in a sentence with the numbers of this run.

use evenkeel_core::PolicyName;

use super::{PolicyRun, Subsetting};
use crate::draw::percent;

/// Who is how far above the mean.
pub(crate) fn subsetting(dealings: &[Subsetting]) -> String {
    let above = |dealing: &Subsetting| {
        format!("{} ({}, {})", percent(dealing.most / dealing.mean - 1.0), dealing.algorithm, dealing.size)
    };
    let above: Vec<String> = dealings.iter().map(above).collect();
    format!(
        "So: the most loaded backend decides how many machines a service needs. It is above the mean by {}.",
        above.join(", "),
    )
}

/// Which policy wastes the least, and which the most.
pub(crate) fn policies(policies: &[PolicyRun]) -> String {
    let by_waste = |a: &&PolicyRun, b: &&PolicyRun| a.wasted_cores.total_cmp(&b.wasted_cores);
    let (Some(best), Some(worst)) = (policies.iter().min_by(by_waste), policies.iter().max_by(by_waste)) else {
        return String::new();
    };
    let of = |run: &PolicyRun| {
        format!("{} wastes {:.1} cores with a p99 of {:.0} ms", run.policy, run.wasted_cores, run.latency_ms.p99)
    };
    format!(
        "So: {}, {}. Requests that differ and machines that differ are evened out by looking at load.",
        of(best),
        of(worst)
    )
}

/// What told failures do, and what hidden ones.
pub(crate) fn sinkhole(policies: &[PolicyRun]) -> String {
    let most =
        |share: fn(&PolicyRun) -> f64| policies.iter().filter(|run| !is_in_turn(run)).map(share).fold(0.0, f64::max);
    let (told, hidden) = (most(|run| run.sinkhole_share), most(|run| run.hidden_sinkhole_share));
    format!(
        "So: a policy that looks at load sends at most {:.1} % to a backend whose failures it is told, and up to \
         {:.1} % to one whose failures look like answers. Servers should say that they failed.",
        told * 100.0,
        hidden * 100.0,
    )
}

/// Whether the policy that gives each backend its turn sends the failing one noticeably more than its turn.
pub(crate) fn is_passed_over(policies: &[PolicyRun]) -> bool {
    policies.iter().any(|run| is_in_turn(run) && run.hidden_sinkhole_share > NOTICEABLE)
}

fn is_in_turn(run: &PolicyRun) -> bool {
    run.policy == PolicyName::RoundRobin.as_str()
}

/// Above an equal share of 10 % by what the pictures show.
const NOTICEABLE: f64 = 0.102;
