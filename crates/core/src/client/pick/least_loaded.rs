//! Least-loaded round robin (A14): in turn among those with the fewest requests in flight from this client.
//!
//! Recent errors count as requests in flight, so a backend that fails fast does not look idle (see
//! `client/errors.rs` for how they are forgotten). Among equals the turn decides, so an idle client goes round.
//!
//! Up to [`SCAN_MAX`] candidates all are looked at. Above that each pick looks at the next `SCAN_MAX` in turn: best of
//! a window that moves on with every pick and passes over everybody. A backend without any load ends the search at
//! once, since none can have less.

use super::{Candidates, Policy, PolicyName, next_with_room};
use crate::client::picker::Local;
use crate::{Rng, Time};

/// Above this many candidates a pick looks at this many of them.
pub const SCAN_MAX: usize = 32;

/// Sees only this client's own requests; requests that mostly wait look like load.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded;

impl Policy for LeastLoaded {
    fn name(&self) -> PolicyName {
        PolicyName::LeastLoaded
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let start = local.cursor(among.len(), rng);
        let position = least_of_window(now, among, start).or_else(|| next_with_room(among, start))?;
        local.advance_past(position);
        Some(position)
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        match among.load(now, position) {
            Some(load) => (1.0 / (1.0 + f64::from(load)), "fewer requests in flight and recent errors come first"),
            None => (0.0, "at its limit of requests in flight"),
        }
    }
}

/// The least loaded with room among the next `SCAN_MAX` from `start`, the first of equals.
#[inline]
fn least_of_window(now: Time, among: &Candidates<'_>, start: usize) -> Option<usize> {
    let count = among.len();
    let mut least: Option<(u32, usize)> = None;
    let mut position = start;
    for _ in 0..count.min(SCAN_MAX) {
        if let Some(load) = among.load(now, position) {
            if load == 0 {
                return Some(position);
            }
            if least.is_none_or(|(so_far, _)| load < so_far) {
                least = Some((load, position));
            }
        }
        position += 1;
        if position == count {
            position = 0;
        }
    }
    least.map(|(_, position)| position)
}
