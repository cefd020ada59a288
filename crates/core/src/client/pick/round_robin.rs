//! Round robin (A13): each usable backend in turn.
//!
//! Blind to load: with requests of unequal cost and machines of unequal speed the most loaded task may use twice the
//! CPU of the least loaded.

use super::{Candidates, Policy, PolicyName, next_with_room};
use crate::client::picker::Local;
use crate::{Rng, Time};

/// Each thread goes round by itself, from a place of its own: no two threads write the same word.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        PolicyName::RoundRobin.as_str()
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let position = next_with_room(among, local.cursor(among.len(), rng))?;
        local.advance_past(position);
        Some(position)
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        match among.load(now, position) {
            Some(_) => (1.0, "all equal"),
            None => (0.0, "at its limit of requests in flight"),
        }
    }
}
