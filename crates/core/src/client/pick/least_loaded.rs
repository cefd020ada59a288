//! Least-loaded round robin (A14): in turn among those with the fewest requests in flight from this client.
//!
//! Recent errors count as requests in flight, so a backend that fails fast does not look idle (see
//! `client/errors.rs` for how they are forgotten). Among equals the turn decides, so an idle client goes round.
//!
//! Up to [`SCAN_MAX`] candidates all are looked at. Above that each pick looks at the next [`WINDOW`] in turn: best of
//! a window that moves on with every pick and passes over everybody. A backend without any load ends the search at
//! once, since none can have less.

use std::ops::Range;

use super::{Candidates, Policy, PolicyName, next_with_room};
use crate::client::picker::Local;
use crate::{Rng, Time};

/// Up to this many candidates a pick looks at all of them.
pub const SCAN_MAX: usize = 32;
/// How many of more than [`SCAN_MAX`] a pick looks at: every look may take a cache line from another thread.
pub const WINDOW: usize = 8;

/// Sees only this client's own requests; requests that mostly wait look like load.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastLoaded;

impl Policy for LeastLoaded {
    fn name(&self) -> &'static str {
        PolicyName::LeastLoaded.as_str()
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

/// The least loaded with room among the next in turn, the first of equals.
#[inline]
fn least_of_window(now: Time, among: &Candidates<'_>, start: usize) -> Option<usize> {
    let count = among.len();
    let length = if count <= SCAN_MAX { count } else { WINDOW };
    let end = (start + length).min(count);
    let least = least_of(now, among, start..end, Least::NONE);
    let rest = if least.load == 0 { 0 } else { length - (end - start) };
    let least = least_of(now, among, 0..rest, least);
    (least.load < FULL).then_some(least.position)
}

/// The least of `least` and the candidates at `positions`, which come after it in turn.
#[inline]
fn least_of(now: Time, among: &Candidates<'_>, positions: Range<usize>, mut least: Least) -> Least {
    for position in positions {
        let load = among.load(now, position).unwrap_or(FULL);
        // At once: a look further would take the next one's cache line from whichever thread uses it.
        if load == 0 {
            return Least { load, position };
        }
        // Written as a choice of values: a branch here is a coin toss that the processor loses.
        least = if load < least.load { Least { load, position } } else { least };
    }
    least
}

#[derive(Clone, Copy)]
struct Least {
    load: u32,
    position: usize,
}

impl Least {
    const NONE: Least = Least { load: FULL, position: 0 };
}

/// No load is as high: it counts as no room.
const FULL: u32 = u32::MAX;
