//! `leastconn` of `HAProxy` with equal weights, as in `lb_fwlc.c`: the fewest active, and among equals in turn.
//!
//! Servers stand in a tree by active connections. One that takes or ends a connection is put behind those that have as
//! many as it has now, and the first of the tree is taken: so of equals the one whose count has not changed for longest.

use std::sync::Mutex;
use std::time::Duration;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{BackendId, LoadReport, Local, Outcome, Rng, Time};

use super::Baseline;
use super::table::{Table, lock};

#[derive(Debug, Default)]
pub(super) struct LeastConn {
    tree: Mutex<Tree>,
}

#[derive(Debug, Default)]
struct Tree {
    /// When each was last put in its place, counted in moves.
    moved: Table<u64>,
    moves: u64,
}

impl Tree {
    fn reposition(&mut self, backend: BackendId) {
        self.moves += 1;
        *self.moved.of(backend) = self.moves;
    }
}

impl Policy for LeastConn {
    fn name(&self) -> &'static str {
        "haproxy_leastconn"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, _rng: &mut Rng) -> Option<usize> {
        let mut tree = lock(&self.tree);
        let keys = (0..among.len()).filter_map(|position| {
            let active = among.in_flight(position)?;
            Some((active, *tree.moved.at(position, among.backend(position)?), position))
        });
        keys.min().map(|(_, _, position)| position)
    }
}

impl Baseline for LeastConn {
    fn on_begin(&self, _now: Time, backend: BackendId) {
        lock(&self.tree).reposition(backend);
    }

    fn on_answer(&self, _now: Time, backend: BackendId, _latency: Duration, _outcome: Outcome, _report: &LoadReport) {
        lock(&self.tree).reposition(backend);
    }
}
