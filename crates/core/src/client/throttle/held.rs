//! How many requests were not sent, by criticality, until a backend is told of them: to it they are demand all the same.

use crate::Criticality;
use crate::sync::{AtomicU64, Ordering};

/// Four counts in one word; they stop at their most.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    pub(crate) fn add_one(&self, criticality: Criticality) {
        let mut counts = [0; 4];
        counts[criticality.index()] = 1;
        self.add(counts);
    }

    pub(crate) fn add(&self, counts: [u16; 4]) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let before = unpacked(seen);
            let sums: [u16; 4] = std::array::from_fn(|index| before[index].saturating_add(counts[index]));
            match self.0.compare_exchange_weak(seen, packed(sums), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// All that was counted since this was last asked; only read where that is nothing.
    #[inline]
    pub(crate) fn take(&self) -> [u16; 4] {
        if self.0.load(Ordering::Relaxed) == 0 {
            return [0; 4];
        }
        unpacked(self.0.swap(0, Ordering::Relaxed))
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

fn packed(counts: [u16; 4]) -> u64 {
    counts.into_iter().rev().fold(0, |word, count| word << 16 | u64::from(count))
}

fn unpacked(word: u64) -> [u16; 4] {
    [0, 16, 32, 48].map(|shift| (word >> shift) as u16)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_are_told_once_stop_at_their_most_and_come_back_untold() {
        let held = Held::default();
        held.add_one(Criticality::SheddablePlus);
        held.add([u16::MAX, 0, 0, 0]);
        held.add_one(Criticality::Sheddable);

        let taken = held.take();
        assert_eq!((taken, held.take()), ([u16::MAX, 1, 0, 0], [0; 4]));

        held.add([3, 1, 0, 0]);
        held.add_one(Criticality::SheddablePlus);
        assert_eq!(held.take(), [3, 2, 0, 0]);
    }
}
