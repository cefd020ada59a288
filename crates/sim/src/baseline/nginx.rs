//! nginx's `least_conn` with equal weights, as in `ngx_http_upstream_least_conn_module.c`: the fewest connections, and its
//! smooth round robin among equals.
//!
//! Each of the equals gains 1, the one with most is taken and pays what all of them gained. `max_fails` is left out: it
//! counts lost connections and timeouts, not answers with an error, and connections are core's matter here.

use std::sync::Mutex;

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{Local, Rng, Time};

use super::Baseline;
use super::table::{Table, lock};

#[derive(Debug, Default)]
pub(super) struct LeastConn {
    /// `current_weight` of each.
    weights: Mutex<Table<i64>>,
}

impl Policy for LeastConn {
    fn name(&self) -> &'static str {
        "nginx_least_conn"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, _rng: &mut Rng) -> Option<usize> {
        let least = (0..among.len()).filter_map(|position| among.in_flight(position)).min()?;
        let equals = || (0..among.len()).filter(|&position| among.in_flight(position) == Some(least));
        let mut weights = lock(&self.weights);
        let (mut total, mut best) = (0, None);
        if equals().nth(1).is_none() {
            return equals().next();
        }
        for position in equals() {
            let weight = weights.at(position, among.backend(position)?);
            *weight += 1;
            total += 1;
            if best.is_none_or(|(most, _)| *weight > most) {
                best = Some((*weight, position));
            }
        }
        let (_, position) = best?;
        *weights.at(position, among.backend(position)?) -= total;
        Some(position)
    }
}

impl Baseline for LeastConn {}
