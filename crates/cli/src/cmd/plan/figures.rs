//! Everything `plan` has to say, as plain data: printed as JSON, and the source of the text.

use std::collections::BTreeMap;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{Advice, Change, Churn, Dealt, expected_extremes};
use serde::Serialize;

use crate::args::PlanArgs;

#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) clients: u32,
    pub(crate) backends: u32,
    /// As asked for, or as recommended; all backends are used where there are no more.
    pub(crate) size: u32,
    /// How far the busiest client bursts above its mean rate.
    pub(crate) burst: f64,
    /// With its version.
    pub(crate) algorithm: &'static str,
    pub(crate) seed: u64,
    pub(crate) advice: Advised,
    pub(crate) balance: Balance,
    /// What drawing at random is expected to give for this shape, whichever algorithm dealt.
    pub(crate) expected_random: Extremes,
    pub(crate) published: Option<Published>,
    /// Every algorithm on this shape; empty where that would take long.
    pub(crate) compared: Vec<Compared>,
    /// Where requests follow connections.
    pub(crate) extra_machines: u32,
    /// Backends that a rolling restart takes at a time: a tenth, consecutive by number.
    pub(crate) restart_window: u32,
    /// The largest share of a subset that is in such a window.
    pub(crate) restart_share: f64,
    pub(crate) churn: Vec<Changed>,
    /// Usual changes that this shape does not allow.
    pub(crate) changes_not_possible: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Advised {
    pub(crate) size: u32,
    pub(crate) reasons: Vec<String>,
    pub(crate) random_size: u32,
}

/// Connections of a backend, and sizes of subsets.
#[derive(Debug, Serialize)]
pub(crate) struct Balance {
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) most: f64,
    pub(crate) least_to_mean: f64,
    pub(crate) most_to_mean: f64,
    /// What the others have less than the most loaded, summed.
    pub(crate) wasted_connections: f64,
    pub(crate) subset_least: usize,
    pub(crate) subset_most: usize,
    /// Connections, and how many backends have so many.
    pub(crate) histogram: Vec<(u32, u32)>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Extremes {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// The extremes of a published draw, in percent of the mean.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Published {
    pub(crate) least_percent: u32,
    pub(crate) most_percent: u32,
}

/// How even one of the algorithms is.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) algorithm: &'static str,
    pub(crate) most_to_mean: f64,
}

impl Compared {
    pub(crate) fn of(algorithm: Algorithm, dealt: &Dealt) -> Self {
        Compared { algorithm: algorithm.versioned(), most_to_mean: dealt.spread().most_to_mean() }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    pub(crate) change: String,
    pub(crate) before: u64,
    pub(crate) lost: u64,
    pub(crate) least: f64,
    /// Lost over least; none where something was lost and nothing had to be.
    pub(crate) ratio: Option<f64>,
    pub(crate) worst_client: u64,
}

impl Figures {
    pub(crate) fn new(args: &PlanArgs, advice: Advice, dealt: &Dealt, churn: &[(Change, Churn)]) -> Self {
        let shape = dealt.shape;
        let (least, most) = expected_extremes(shape.clients, shape.backends, shape.size);
        Figures {
            clients: shape.clients,
            backends: shape.backends,
            size: shape.size,
            burst: args.burst,
            algorithm: args.algorithm.versioned(),
            seed: args.seed,
            advice: Advised { size: advice.size, reasons: advice.reasons, random_size: advice.random_size },
            balance: Balance::of(dealt),
            expected_random: Extremes { least, most },
            published: published(args.algorithm, shape.clients, shape.backends, shape.size),
            compared: Vec::new(),
            extra_machines: dealt.extra_machines(),
            restart_window: dealt.restart_window(RESTARTED),
            restart_share: dealt.restart_share(RESTARTED),
            churn: churn.iter().map(Changed::of).collect(),
            changes_not_possible: Vec::new(),
        }
    }
}

impl Balance {
    fn of(dealt: &Dealt) -> Self {
        let spread = dealt.spread();
        let (subset_least, subset_most) = dealt.sizes();
        let mut histogram = BTreeMap::new();
        for connections in dealt.connections() {
            *histogram.entry(connections).or_default() += 1;
        }
        Balance {
            least: spread.least,
            mean: spread.mean,
            most: spread.most,
            // A shape has clients and a size, so some backend has connections.
            least_to_mean: spread.least / spread.mean,
            most_to_mean: spread.most_to_mean(),
            wasted_connections: spread.wasted,
            subset_least,
            subset_most,
            histogram: histogram.into_iter().collect(),
        }
    }
}

impl Changed {
    fn of((change, churn): &(Change, Churn)) -> Self {
        Changed {
            change: change.to_string(),
            before: churn.before,
            lost: churn.lost,
            least: churn.least,
            ratio: Some(churn.to_least()).filter(|ratio| ratio.is_finite()),
            worst_client: churn.worst_client,
        }
    }
}

/// The two draws of Site Reliability Engineering, chapter 20: 300 clients of 300 backends, 30 % and 10 % of them.
fn published(algorithm: Algorithm, clients: u32, backends: u32, size: u32) -> Option<Published> {
    match (algorithm, clients, backends, size) {
        (Algorithm::Random, 300, 300, 90) => Some(Published { least_percent: 63, most_percent: 121 }),
        (Algorithm::Random, 300, 300, 30) => Some(Published { least_percent: 50, most_percent: 150 }),
        _ => None,
    }
}

/// The share of backends that a rolling restart takes at once.
const RESTARTED: f64 = 0.1;
