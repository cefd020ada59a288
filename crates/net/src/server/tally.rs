//! What those who have a number have asked for and cost, so that the dearest are known by name.
//!
//! Two additions for each request that ends, one for each that is refused for a quota, without a lock; one row belongs to
//! everybody who has no number.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A row for each number.
#[derive(Debug)]
pub(crate) struct Tally {
    rows: Box<[Row]>,
}

/// A line of the cache for each, or methods that have nothing to do with each other would wait for each other.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    requests: AtomicU64,
    cpu_nanos: AtomicU64,
    refused: AtomicU64,
}

/// What one has asked for and cost since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) requests: u64,
    pub(crate) cpu: Duration,
    /// For its quota, and no part of `requests`.
    pub(crate) refused: u64,
}

impl Tally {
    /// For numbers from 0, which is everybody else's, up to and with `most`.
    pub(crate) fn up_to(most: usize) -> Self {
        Tally { rows: (0..=most).map(|_| Row::default()).collect() }
    }

    /// One more request has ended.
    pub(crate) fn add(&self, number: usize, cpu: Duration) {
        let row = self.row(number);
        row.requests.fetch_add(1, Ordering::Relaxed);
        row.cpu_nanos.fetch_add(cpu.as_nanos() as u64, Ordering::Relaxed);
    }

    /// One more request was refused for a quota.
    pub(crate) fn refuse(&self, number: usize) {
        self.row(number).refused.fetch_add(1, Ordering::Relaxed);
    }

    fn row(&self, number: usize) -> &Row {
        self.rows.get(number).unwrap_or(&self.rows[0])
    }

    /// All that anybody has asked for.
    pub(crate) fn total(&self) -> Spent {
        self.rows.iter().map(Row::read).fold(Spent::default(), |sum, one| Spent {
            requests: sum.requests + one.requests,
            cpu: sum.cpu + one.cpu,
            refused: sum.refused + one.refused,
        })
    }

    /// Those that cost most, dearest first, by number, and as many of the others that were refused most often; who has asked
    /// for nothing is not among them.
    pub(crate) fn dearest(&self, most: usize) -> Vec<(usize, Spent)> {
        let mut all: Vec<(usize, Spent)> = self.rows.iter().map(Row::read).enumerate().collect();
        all.retain(|(_, spent)| spent.requests > 0 || spent.refused > 0);
        all.sort_by_key(|(number, spent)| (Reverse(spent.cpu), *number));
        let mut others = all.split_off(most.min(all.len()));
        others.retain(|(_, spent)| spent.refused > 0);
        others.sort_by_key(|(number, spent)| (Reverse(spent.refused), *number));
        all.extend(others.into_iter().take(most));
        all
    }
}

impl Row {
    fn read(&self) -> Spent {
        let cpu = Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed));
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Spent { requests: count(&self.requests), cpu, refused: count(&self.refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_come_first_and_whoever_has_no_row_counts_with_the_others() {
        let (tally, millisecond) = (Tally::up_to(3), Duration::from_millis(1));
        for (number, cost) in [(1, 2), (2, 9), (1, 2), (700, 5)] {
            tally.add(number, cost * millisecond);
        }

        let spent = |requests, cost| Spent { requests, cpu: cost * millisecond, refused: 0 };
        assert_eq!(tally.dearest(2), [(2, spent(1, 9)), (0, spent(1, 5))]);
        assert_eq!(tally.dearest(9).len(), 3);
        assert_eq!(tally.total(), spent(4, 18));
    }

    #[test]
    fn whoever_is_refused_most_is_listed_though_it_costs_nothing() {
        let tally = Tally::up_to(9);
        (1..=4).for_each(|number| tally.add(number, Duration::from_millis(number as u64)));
        for (number, times) in [(4, 9), (6, 2), (7, 3), (8, 1), (700, 1)] {
            (0..times).for_each(|_| tally.refuse(number));
        }

        let listed: Vec<_> = tally.dearest(2).into_iter().map(|(number, spent)| (number, spent.refused)).collect();

        assert_eq!(listed, [(4, 9), (3, 0), (7, 3), (6, 2)]);
        assert_eq!(tally.total().refused, 16);
    }
}
