//! How much is done well from moment to moment while there is too much.
//!
//! A window of one run has much of chance in it: run by run the last one below 95 % was seconds after the onset, wherever the
//! run had settled. So figures of windows are of the mean over seeds, moment by moment, and depend on how many there are.

use std::collections::BTreeMap;

/// Share of the cores' CPU that was spent well, by bins of 50 ms from the beginning of an overload to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Bins at the beginning that the steady goodput leaves out.
    pub(crate) skip: usize,
    pub(crate) shares: Vec<f64>,
}

impl Profile {
    /// The mean of some, moment by moment; nothing where there are none.
    pub(crate) fn mean_of<'a>(profiles: impl Iterator<Item = &'a Profile>) -> Profile {
        let mut mean = Profile::default();
        let mut count = 0.0;
        for profile in profiles {
            count += 1.0;
            mean.skip = profile.skip;
            mean.shares.resize(profile.shares.len(), 0.0);
            for (sum, share) in mean.shares.iter_mut().zip(&profile.shares) {
                *sum += share;
            }
        }
        mean.shares.iter_mut().for_each(|sum| *sum /= count);
        mean
    }

    /// Adds its figures, if it is of anything.
    pub(crate) fn put_into(&self, metrics: &mut BTreeMap<String, f64>, named: impl Fn(&str) -> String) {
        let steady: Vec<f64> = self.shares.iter().skip(self.skip).copied().collect();
        if steady.is_empty() {
            return;
        }
        let steady = steady.iter().sum::<f64>() / steady.len() as f64;
        let below = self.windows(SETTLE_BINS).enumerate().filter(|&(_, share)| share < SETTLED * steady);
        // Until the end of the last one that is well below what comes out in the end.
        let settled = below.last().map_or(0.0, |(begin, _)| (begin + SETTLE_BINS) as f64 * BIN_SECONDS);
        metrics.insert(named("settle_s"), settled);
        metrics.insert(named("worst_100ms"), self.windows(WORST_BINS).fold(f64::INFINITY, f64::min));
    }

    /// Means of all windows of so many bins.
    fn windows(&self, bins: usize) -> impl Iterator<Item = f64> {
        self.shares.windows(bins).map(move |window| window.iter().sum::<f64>() / bins as f64)
    }
}

const BIN_SECONDS: f64 = 0.05;
/// 200 ms.
const SETTLE_BINS: usize = 4;
const SETTLED: f64 = 0.95;
/// 100 ms.
const WORST_BINS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_settles_at_the_end_of_the_last_window_below_and_the_worst_is_the_lowest() {
        let mut shares = vec![1.0; 100];
        shares[0] = 0.0;
        shares[10] = 0.5;
        let profile = Profile { skip: 20, shares };

        let mut found = BTreeMap::new();
        profile.put_into(&mut found, str::to_owned);

        // The window that begins with bin 10 is the last with it, and lasts to the end of bin 13.
        assert!((found["settle_s"] - 0.7).abs() < 1e-9);
        assert!((found["worst_100ms"] - 0.5).abs() < 1e-9);
    }

    #[test]
    fn of_several_the_mean_counts_moment_by_moment() {
        let one = Profile { skip: 1, shares: vec![0.0, 1.0, 1.0] };
        let other = Profile { skip: 1, shares: vec![1.0, 1.0, 0.5] };

        assert_eq!(Profile::mean_of([&one, &other].into_iter()).shares, [0.5, 1.0, 0.75]);
        assert!(Profile::mean_of(std::iter::empty()).shares.is_empty());
    }
}
