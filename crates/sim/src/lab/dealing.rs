//! Who is dealt whom (figures 20-3 to 20-5): the planner's dealing, without any request.

use std::collections::BTreeMap;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{Dealt, Shape, expected_extremes};

use crate::document::Series;
use crate::scenario::Scenario;
use crate::world::{Profile, RunResult};

/// Connections of every backend when each client is dealt its subset.
pub(super) fn run(scenario: &Scenario, seed: u64, progress: &mut dyn FnMut(f64)) -> RunResult {
    let shape =
        Shape { clients: scenario.clients.count, backends: scenario.backends.count, size: scenario.subset.size };
    let algorithm: Algorithm = scenario.subset.algorithm.parse().expect("a checked scenario has an algorithm");
    let dealt = Dealt::with_progress(shape, algorithm, seed, |clients| {
        if clients % PROGRESS_EVERY == 0 {
            progress(f64::from(clients) / f64::from(shape.clients));
        }
    })
    .expect("a checked scenario has a shape that can be dealt");
    let connections = dealt.connections();
    let spread = dealt.spread();
    let (least, most) = expected_extremes(shape.clients, shape.backends, shape.size);
    let mean = f64::from(shape.clients) * f64::from(shape.size.min(shape.backends)) / f64::from(shape.backends);
    let metrics = [
        ("connections_least", spread.least),
        ("connections_mean", spread.mean),
        ("connections_most", spread.most),
        ("least_to_mean", spread.least / spread.mean),
        ("most_to_mean", spread.most / spread.mean),
        ("expected_least_to_mean", least / mean),
        ("expected_most_to_mean", most / mean),
    ];
    let series = Series {
        unit: "connections".to_owned(),
        x: (0..shape.backends).map(f64::from).collect(),
        y: connections.iter().copied().map(f64::from).collect(),
    };
    RunResult {
        metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        series: BTreeMap::from([("connections_by_backend".to_owned(), series)]),
        profile: Profile::default(),
        trace: hash(dealt.rows.iter().flatten().copied()),
    }
}

/// FNV-1a over what was dealt, in order.
fn hash(numbers: impl Iterator<Item = u32>) -> u64 {
    let bytes = numbers.flat_map(u32::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Clients between two words about it.
const PROGRESS_EVERY: u32 = 256;
