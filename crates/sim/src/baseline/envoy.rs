//! Envoy's `LEAST_REQUEST` with equal weights, as in `least_request_lb.cc`: of two hosts the one with fewer active requests.
//!
//! `choice_count` 2, its default. Both are drawn from all, so they may be the same one; the second wins only if it has
//! strictly fewer. Errors count for nothing: a host that fails fast looks idle (outlier detection is another extension,
//! off by default).

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{Local, Rng, Time};

use super::Baseline;
use super::sample::lower_of_two;

#[derive(Debug)]
pub(super) struct LeastRequest;

impl Policy for LeastRequest {
    fn name(&self) -> &'static str {
        "envoy_least_request"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let count = among.len() as u32;
        let drawn = (rng.below(count) as usize, rng.below(count) as usize);
        lower_of_two(among, drawn, rng, |position| among.in_flight(position))
    }
}

impl Baseline for LeastRequest {}
