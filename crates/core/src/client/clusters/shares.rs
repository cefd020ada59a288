//! The fast half: which cluster gets this request.
//!
//! Dealt and not drawn: of a hundred requests with a share of 0.05 five go there, spaced evenly, on every thread.

use crate::Rng;

/// The share of each cluster, nearest first; immutable, read by all threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    parts: [f32; CLUSTERS_MOST],
    count: usize,
    /// Whether it takes what another one's limits leave no place for.
    has_spare: [bool; CLUSTERS_MOST],
}

impl Shares {
    /// These, nearest first; beyond [`CLUSTERS_MOST`] there is none. Nothing is checked: they add up to 1.
    // Public for the laboratory alone, whose `ideal` deals by shares that no `Spill` decided on.
    #[doc(hidden)]
    pub fn new(shares: impl IntoIterator<Item = f64>) -> Self {
        let mut dealt = Shares { parts: [0.0; CLUSTERS_MOST], count: 0, has_spare: [false; CLUSTERS_MOST] };
        for (place, share) in dealt.parts.iter_mut().zip(shares) {
            *place = share as f32;
            dealt.count += 1;
        }
        dealt
    }

    /// The same where some have room to spare, nearest first.
    pub(super) fn with_spare(mut self, has_spare: impl IntoIterator<Item = bool>) -> Self {
        self.has_spare.iter_mut().zip(has_spare).for_each(|(place, has)| *place = has);
        self
    }

    /// Where else to send a request that this client has no place for in its cluster, since all backends there are at their
    /// limits: those with room to spare, nearest first. It certainly never left, so it is no retry.
    pub fn others(&self, than: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(move |&cluster| cluster != than && self.has_spare[cluster])
    }

    /// The cluster for the next request of this thread: the one whose turn it is, or the nearest usable one where that
    /// has nobody to send to. `None` where no cluster has.
    ///
    /// A cluster that refuses is not passed over: that is for whoever retries.
    #[inline]
    pub fn pick(&self, local: &mut SharesLocal, is_usable: impl Fn(usize) -> bool, rng: &mut Rng) -> Option<usize> {
        let turn = if self.parts[0] >= 1.0 { 0 } else { local.next(self, rng) };
        if is_usable(turn) {
            return Some(turn);
        }
        (0..self.count).find(|&cluster| is_usable(cluster))
    }

    /// What each gets, nearest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.parts[..self.count].iter().map(|&share| f64::from(share))
    }
}

/// What one thread remembers between its requests: how far each cluster is behind its share.
#[derive(Clone, Debug, Default)]
pub struct SharesLocal {
    owed: [f32; CLUSTERS_MOST],
    has_begun: bool,
}

impl SharesLocal {
    fn next(&mut self, shares: &Shares, rng: &mut Rng) -> usize {
        if !self.has_begun {
            // Somewhere in the round, so that threads and clients do not spill in step.
            self.has_begun = true;
            let into = rng.unit() as f32;
            self.owed.iter_mut().zip(&shares.parts).skip(1).for_each(|(owed, share)| {
                *owed = if *share > 0.0 { into } else { 0.0 };
            });
        }
        let mut turn = 0;
        for cluster in 0..shares.count {
            let share = shares.parts[cluster];
            if share <= 0.0 {
                // What it is behind is not made up for later.
                self.owed[cluster] = 0.0;
                continue;
            }
            self.owed[cluster] = (self.owed[cluster] + share).min(OWED_MOST);
            if shares.parts[turn] <= 0.0 || self.owed[cluster] > self.owed[turn] {
                turn = cluster;
            }
        }
        self.owed[turn] -= 1.0;
        turn
    }
}

/// More clusters than a client has use for; what a thread keeps is one cache line and a bit.
pub const CLUSTERS_MOST: usize = 16;
/// Shares that change leave some behind by more than a request; nobody makes up for more than two at once.
const OWED_MOST: f32 = 2.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    fn dealt(shares: &Shares, requests: usize, usable: impl Fn(usize) -> bool) -> Vec<usize> {
        let (mut local, mut rng) = (SharesLocal::default(), Rng::from_seed(5));
        let mut counts = vec![0; shares.count];
        for _ in 0..requests {
            counts[shares.pick(&mut local, &usable, &mut rng).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn each_gets_its_share_to_the_request() {
        let counts = dealt(&Shares::new([0.7, 0.25, 0.05]), 1000, |_| true);
        for (count, expected) in counts.iter().zip([700, 250, 50]) {
            assert!(count.abs_diff(expected) <= 1, "{counts:?}");
        }
    }

    #[test]
    fn a_small_share_is_spaced_evenly() {
        let shares = Shares::new([0.9, 0.1]);
        let (mut local, mut rng) = (SharesLocal::default(), Rng::from_seed(5));
        let picks: Vec<_> = (0..100).map(|_| shares.pick(&mut local, |_| true, &mut rng).unwrap()).collect();
        let far: Vec<_> = picks.iter().enumerate().filter(|(_, cluster)| **cluster == 1).map(|(at, _)| at).collect();
        assert!(far.windows(2).all(|pair| (9..=11).contains(&(pair[1] - pair[0]))), "{far:?}");
    }

    #[test]
    fn who_has_nobody_is_passed_over_for_the_nearest_who_has() {
        assert_eq!(dealt(&Shares::new([1.0, 0.0, 0.0]), 10, |cluster| cluster == 2), [0, 0, 10]);
        let shares = Shares::new([0.5, 0.5]);
        assert_eq!(shares.pick(&mut SharesLocal::default(), |_| false, &mut Rng::from_seed(1)), None);
    }

    #[test]
    fn what_has_no_place_goes_to_the_nearest_with_room_to_spare() {
        let shares = Shares::new([0.7, 0.3, 0.0, 0.0]).with_spare([true, false, true, true]);
        assert_eq!(shares.others(0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(shares.others(1).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(Shares::new([1.0, 0.0]).others(0).next(), None);
    }

    #[test]
    fn a_cluster_without_a_share_gets_nothing_even_if_it_was_owed() {
        let (mut local, mut rng) = (SharesLocal::default(), Rng::from_seed(5));
        let before = Shares::new([0.1, 0.9]);
        assert!((0..7).all(|_| before.pick(&mut local, |_| true, &mut rng).is_some()));
        let after = Shares::new([0.5, 0.0, 0.5]);
        assert!((0..50).all(|_| after.pick(&mut local, |_| true, &mut rng) != Some(1)));
    }
}
