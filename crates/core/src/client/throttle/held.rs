//! How many requests were not sent, by criticality, until a backend is told of them: to it they are demand all the same.
//!
//! With them goes whose they are, since what a customer asks for beyond its quota is nobody's demand. One word has room for one
//! customer: that of the first since a backend was last told. So each customer is named as often as its share of what is held
//! back, and on average is held to account for just that.

use crate::sync::{AtomicU64, Ordering};
use crate::{Criticality, CustomerId};

/// Requests that a client did not send, and whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// The customer of the first of them.
    pub customer: CustomerId,
    /// In the order of [`Criticality::ALL`].
    pub counts: [u16; 4],
}

impl HeldBack {
    pub(crate) fn is_none(&self) -> bool {
        self.counts == [0; 4]
    }

    /// Both as one, unless they are of different customers.
    pub(crate) fn with(self, more: HeldBack) -> Option<HeldBack> {
        if self.is_none() || more.is_none() {
            return Some(if self.is_none() { more } else { self });
        }
        let counts = sums(self.counts, more.counts);
        (self.customer == more.customer).then_some(HeldBack { counts, ..self })
    }

    pub(crate) fn sum(&self) -> u32 {
        self.counts.iter().copied().map(u32::from).sum()
    }
}

/// Four counts and a customer in one word; counts stop at their most.
#[derive(Debug, Default)]
pub(crate) struct Held(AtomicU64);

impl Held {
    pub(crate) fn add_one(&self, customer: CustomerId, criticality: Criticality) {
        let mut counts = [0; 4];
        counts[criticality.index()] = 1;
        self.add(HeldBack { customer, counts });
    }

    pub(crate) fn add(&self, more: HeldBack) {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let before = unpacked(seen);
            let customer = if before.is_none() { more.customer } else { before.customer };
            let sum = packed(HeldBack { customer, counts: sums(before.counts, more.counts) });
            match self.0.compare_exchange_weak(seen, sum, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// All that was counted since this was last asked; only read where that is nothing.
    #[inline]
    pub(crate) fn take(&self) -> HeldBack {
        if self.0.load(Ordering::Relaxed) == 0 {
            return HeldBack::default();
        }
        unpacked(self.0.swap(0, Ordering::Relaxed))
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

fn sums(one: [u16; 4], other: [u16; 4]) -> [u16; 4] {
    std::array::from_fn(|class| one[class].saturating_add(other[class]))
}

fn packed(HeldBack { customer, counts }: HeldBack) -> u64 {
    let customer = u64::from(customer.0.min(CUSTOMER_MOST));
    counts.into_iter().rev().fold(customer, |word, count| word << COUNT_BITS | u64::from(count.min(COUNT_MOST)))
}

fn unpacked(word: u64) -> HeldBack {
    let count = |place: u32| (word >> (place * COUNT_BITS)) as u16 & COUNT_MOST;
    HeldBack { customer: CustomerId((word >> (4 * COUNT_BITS)) as u32), counts: [0, 1, 2, 3].map(count) }
}

/// A server believes no more than a thousand of a criticality with one request.
const COUNT_BITS: u32 = 11;
const COUNT_MOST: u16 = (1 << COUNT_BITS) - 1;
/// Customers with greater numbers are told as this one.
const CUSTOMER_MOST: u32 = (1 << (64 - 4 * COUNT_BITS)) - 1;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MAIL: CustomerId = CustomerId(3);
    const MAPS: CustomerId = CustomerId(70_000);

    #[test]
    fn counts_are_told_once_stop_at_their_most_and_come_back_untold() {
        let held = Held::default();
        held.add_one(MAIL, Criticality::SheddablePlus);
        held.add(HeldBack { customer: MAIL, counts: [u16::MAX, 0, 0, 0] });
        held.add_one(MAIL, Criticality::Sheddable);

        let taken = held.take();
        assert_eq!((taken.counts, held.take()), ([COUNT_MOST, 1, 0, 0], HeldBack::default()));

        held.add(HeldBack { customer: MAIL, counts: [3, 1, 0, 0] });
        held.add_one(MAIL, Criticality::SheddablePlus);
        assert_eq!(held.take().counts, [3, 2, 0, 0]);
    }

    #[test]
    fn they_are_told_as_those_of_the_first_since_the_last_time() {
        let held = Held::default();
        for (first, second) in [(MAIL, MAPS), (MAPS, MAIL), (CustomerId(0), MAIL)] {
            held.add_one(first, Criticality::Critical);
            held.add_one(second, Criticality::CriticalPlus);
            assert_eq!(held.take(), HeldBack { customer: first, counts: [0, 0, 1, 1] });
        }
        held.add_one(CustomerId(u32::MAX), Criticality::Critical);
        assert_eq!(held.take().customer, CustomerId(CUSTOMER_MOST));
    }
}
