//! What the rounds gave, beside what was aimed at.

use super::Balancer;
use super::load::Answered;
use crate::figure::{Aim, Figure};

/// What one balancer did.
pub struct Run {
    pub balancer: Balancer,
    pub answered: Answered,
    /// Virtual processor time of each backend.
    pub used: Vec<f64>,
}

impl Run {
    /// The most used over the least used.
    fn spread(&self) -> f64 {
        let most = self.used.iter().copied().fold(0.0, f64::max);
        most / self.used.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// In a line, for whoever waits for the others.
    pub fn summary(&self) -> String {
        let Answered { p50_ms, p99_ms, p999_ms, failed_share, .. } = self.answered;
        let spread = self.spread();
        format!(
            "max/min {spread:.3}, p50 {p50_ms:.1}, p99 {p99_ms:.1}, p99.9 {p999_ms:.1} ms, failed {failed_share:.4}"
        )
    }
}

/// Spread, latencies and failures of every balancer; then the aims of the one that is the default.
pub fn figures(balancers: &[Balancer], rounds: &[Vec<Run>]) -> Vec<Figure> {
    let default = Balancer::Evenkeel(evenkeel_core::PolicyName::default().as_str());
    let of = |balancer: Balancer, name: &str, unit, value: &dyn Fn(&Run) -> f64| {
        let runs = rounds.iter().flatten().filter(|run| run.balancer == balancer);
        Figure::new(format!("{}/{name}", balancer.name()), unit, runs.map(value).collect())
    };
    let mut figures = Vec::new();
    for &balancer in balancers {
        let spread = of(balancer, "max/min", "ratio", &Run::spread);
        figures.push(if balancer == default { spread.aimed(Aim::AtMost(1.05)) } else { spread });
        figures.push(of(balancer, "p50", "ms", &|run| run.answered.p50_ms));
        figures.push(of(balancer, "p99", "ms", &|run| run.answered.p99_ms));
        figures.push(of(balancer, "p999", "ms", &|run| run.answered.p999_ms));
        figures.push(of(balancer, "failed", "share", &|run| run.answered.failed_share));
    }
    let ratio = |runs: &Vec<Run>| {
        let own = runs.iter().find(|run| run.balancer == default)?.answered.p99_ms;
        let peers = runs.iter().filter(|run| run.balancer.is_least_loaded_peer()).map(|run| run.answered.p99_ms);
        Some(own / peers.min_by(f64::total_cmp)?)
    };
    let ratios: Vec<f64> = rounds.iter().filter_map(ratio).collect();
    if !ratios.is_empty() {
        let name = "p99 of the default beside the best least-loaded peer".to_owned();
        figures.push(Figure::new(name, "ratio", ratios).aimed(Aim::AtMost(1.0)));
    }
    figures
}
