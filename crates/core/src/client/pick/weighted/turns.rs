//! Dealing by weight: each comes by in every round, and takes its turn in as many rounds as its weight says.
//!
//! The largest weight takes every turn, one of half of it every second or so, evenly spread: turn `n` of one with share `s`
//! is taken when point `n` of a sequence that fills the unit interval evenly lies below `s`. So there is no state but the
//! round, which each thread counts for itself, and a weight that changes a little changes few turns. A pick takes as many
//! looks as the largest weight is above the mean one.

/// The share of its turns that each position takes.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// In parts of 2^32.
    shares: Box<[u32]>,
}

impl Turns {
    /// In proportion to these weights, of which at least one is above 0.
    pub(super) fn new(weights: impl ExactSizeIterator<Item = f64> + Clone) -> Self {
        let most = weights.clone().fold(0.0, f64::max);
        let share = |weight: f64| if most > 0.0 { (weight / most * WHOLE) as u32 } else { u32::MAX };
        Turns { shares: weights.map(share).collect() }
    }

    /// The next of `count` positions whose turn it is and that `suits`, from `turn` on, and the round it is in. `None`
    /// where none does in two rounds, or where these are turns of others.
    #[inline]
    pub(super) fn next(
        &self,
        (start, round): (usize, u32),
        count: usize,
        suits: impl Fn(usize) -> bool,
    ) -> Option<(usize, u32)> {
        let shares = self.shares.get(..count)?;
        let (mut position, mut round) = (start, round);
        for _ in 0..2 * count {
            if takes(shares[position], round, position) && suits(position) {
                return Some((position, round));
            }
            position += 1;
            if position == count {
                (position, round) = (0, round.wrapping_add(1));
            }
        }
        None
    }
}

/// Whether the point of this round and position lies below the share.
#[inline]
fn takes(share: u32, round: u32, position: usize) -> bool {
    round.wrapping_mul(BY_ROUND).wrapping_add((position as u32).wrapping_mul(BY_POSITION)) < share
}

/// The largest share: all turns but one in 2^32.
const WHOLE: f64 = u32::MAX as f64;
/// 2^32 over the plastic number and over its square: multiples of both fill the unit interval evenly, along either and
/// along both, so equal weights do not take their turns in the same rounds.
const BY_ROUND: u32 = 0xc13f_a9a9;
const BY_POSITION: u32 = 0x91e1_0da6;

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each is picked in a number of picks, and the most picks between two of the first.
    fn dealt(weights: &[f64], picks: usize) -> (Vec<usize>, usize) {
        let turns = Turns::new(weights.iter().copied());
        let (mut picked, mut turn) = (vec![0; weights.len()], (0, 12_345));
        let (mut last, mut gap) = (0, 0);
        for pick in 0..picks {
            let (position, round) = turns.next(turn, weights.len(), |_| true).unwrap();
            picked[position] += 1;
            if position == 0 {
                (last, gap) = (pick, gap.max(pick - last));
            }
            turn = if position + 1 == weights.len() { (0, round + 1) } else { (position + 1, round) };
        }
        (picked, gap)
    }

    #[test]
    fn shares_are_exact_and_turns_evenly_spread() {
        let (picked, gap) = dealt(&[1.0, 2.0, 4.0, 1.0], 8_000);
        // A position is at most one turn off what its share says.
        for (count, expected) in picked.iter().zip([1_000, 2_000, 4_000, 1_000]) {
            assert!(count.abs_diff(expected) <= 2, "{picked:?}");
        }
        assert!(gap <= 10, "one in eight, and never more than {gap} apart");
    }

    #[test]
    fn equal_weights_go_round_and_tiny_ones_still_have_turns() {
        assert_eq!(dealt(&[3.0; 5], 100), (vec![20; 5], 5));
        let (picked, _) = dealt(&[0.01, 1.0], 10_100);
        assert!(picked[0].abs_diff(100) <= 2, "{picked:?}");
    }

    #[test]
    fn whoever_does_not_suit_is_passed_over_and_turns_of_others_are_none() {
        let turns = Turns::new([1.0, 5.0, 1.0].into_iter());
        for round in 0..20 {
            let (position, _) = turns.next((0, round), 3, |position| position != 1).unwrap_or((0, 0));
            assert_ne!(position, 1);
        }
        assert_eq!(turns.next((0, 0), 3, |_| false), None);
        assert_eq!(turns.next((0, 0), 4, |_| true), None, "there are four now");
        assert!(turns.next((0, 0), 2, |_| true).is_some_and(|(position, _)| position < 2), "the last one sleeps");
    }
}
