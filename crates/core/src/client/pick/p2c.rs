//! Power of two choices: of two backends drawn at random, the one with less in flight.
//!
//! Close to the least loaded of all at the price of two looks, whatever the number of backends; recent errors count
//! as requests in flight.

use super::{Candidates, LeastLoaded, Policy, PolicyName, next_with_room};
use crate::client::picker::Local;
use crate::{Rng, Time};

/// Never looks at more than two candidates while one of them has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct PowerOfTwo;

impl Policy for PowerOfTwo {
    fn name(&self) -> &'static str {
        PolicyName::P2c.as_str()
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, _local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let count = among.len() as u32;
        let first = rng.below(count);
        // Drawn among the others: two different ones, all pairs equally likely.
        let step = 1 + rng.below(count.saturating_sub(1));
        let second = if count > 1 { (first + step) % count } else { first };
        let (first, second) = (first as usize, second as usize);
        match (among.load(now, first), among.load(now, second)) {
            (Some(one), Some(other)) => Some(if other < one { second } else { first }),
            (Some(_), None) => Some(first),
            (None, Some(_)) => Some(second),
            (None, None) => next_with_room(among, first),
        }
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        LeastLoaded.weight(now, among, position)
    }
}
