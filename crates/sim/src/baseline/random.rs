//! Random: the baseline of baselines, and one of the nine policies of the Prequal paper (NSDI 2024, figure 7).

use evenkeel_core::client::pick::{Candidates, Policy};
use evenkeel_core::{Local, Rng, Time};

use super::Baseline;
use super::sample::any_with_room;

#[derive(Debug)]
pub(super) struct Random;

impl Policy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let drawn = rng.below(among.len() as u32) as usize;
        if among.has_room(drawn) { Some(drawn) } else { any_with_room(among, rng) }
    }
}

impl Baseline for Random {}
