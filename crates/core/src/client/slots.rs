//! One place for each backend in use, where all threads count (what survives a new picker).
//!
//! A slot never moves, so a ticket needs only its number: whichever picker the request began on, any later one can
//! finish it, and no request touches a reference count. Slots come in blocks of doubling size, made by the slow brain
//! when they are first needed; memory grows with the subset, not with the service.

use std::sync::{Arc, OnceLock};

use super::errors::RecentErrors;
use super::flow::InFlight;
use super::glance::Glance;
use super::refusal::Refusal;
use super::retry::Retries;
use super::throttle::Throttle;
use crate::report_cell::ReportCell;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{LoadReport, Outcome, Time};

/// What is counted for one backend. Two cache lines of its own: what policies look at, and what only answers write.
#[derive(Debug, Default)]
#[repr(C, align(64))] // in this order: the first line is what a pick touches
pub(crate) struct Slot {
    pub(crate) in_flight: InFlight,
    pub(crate) errors: RecentErrors,
    pub(crate) glance: Glance,
    pub(crate) report: ReportCell,
    /// Ended attempts by outcome.
    ended: [AtomicU64; Outcome::ALL.len()],
}

impl Slot {
    pub(crate) fn count_end(&self, outcome: Outcome) {
        self.ended[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> [u64; Outcome::ALL.len()] {
        std::array::from_fn(|index| self.ended[index].load(Ordering::Relaxed))
    }

    /// Attempts that ended: while nothing is in flight and this stands still, nobody used the backend.
    pub(crate) fn uses(&self) -> u64 {
        self.ended().iter().fold(0, |sum, &count| sum.wrapping_add(count))
    }

    /// The backend said this of its load, while `ending` of the requests in flight here had left it. Says how many fields
    /// of it are nonsense.
    pub(crate) fn hear(&self, now: Time, report: &LoadReport, ending: u32) -> u32 {
        if let Some(there) = report.in_flight {
            let (active, streams) = self.in_flight.counts();
            self.glance.keep(now, there, active.saturating_add(streams).saturating_sub(ending));
        }
        self.report.tell(now, report)
    }

    /// Makes it a fresh place for another backend. Only while nothing is in flight.
    pub(crate) fn clear(&self) {
        debug_assert_eq!(self.in_flight.counts(), (0, 0), "a slot in use was given away");
        self.in_flight.wake();
        self.errors.clear();
        self.glance.clear();
        self.report.clear();
        for count in &self.ended {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// All slots of one client, and what it counts for all backends together.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    blocks: [OnceLock<Box<[Arc<Slot>]>>; BLOCKS],
    /// Moves whenever a backend that was at its limit gets room again.
    room: AtomicU32,
    refused: [AtomicU64; Refusal::ALL.len()],
    nonsense: AtomicU64,
    woken: AtomicU64,
    pub(crate) throttle: Throttle,
    pub(crate) retries: Retries,
}

impl Slots {
    /// Slot `number`, which the slow brain must have made.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Slot>> {
        let (block, place) = address(number);
        self.blocks.get(block)?.get()?.get(place)
    }

    /// Makes sure slot `number` exists. `None` beyond what there can be.
    pub(crate) fn make(&self, number: u32) -> Option<&Arc<Slot>> {
        let (block, place) = address(number);
        let slots = self.blocks.get(block)?.get_or_init(|| (0..FIRST_BLOCK << block).map(|_| Arc::default()).collect());
        slots.get(place)
    }

    /// A number that changes when a full backend gets room.
    pub(crate) fn room(&self) -> u32 {
        self.room.load(Ordering::Acquire)
    }

    pub(crate) fn count_room(&self) {
        self.room.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.refused[refusal.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) -> [u64; Refusal::ALL.len()] {
        std::array::from_fn(|index| self.refused[index].load(Ordering::Relaxed))
    }

    pub(crate) fn count_nonsense(&self, fields: u32) {
        if fields > 0 {
            self.nonsense.fetch_add(u64::from(fields), Ordering::Relaxed);
        }
    }

    pub(crate) fn count_woken(&self) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    pub(crate) fn nonsense(&self) -> u64 {
        self.nonsense.load(Ordering::Relaxed)
    }
}

/// Block and place in it: blocks hold 32, 64, 128, … slots.
#[inline]
pub(crate) fn address(number: u32) -> (usize, usize) {
    let shifted = number as usize + FIRST_BLOCK;
    let block = (shifted.ilog2() - FIRST_BLOCK.ilog2()) as usize;
    (block, shifted - (FIRST_BLOCK << block))
}

/// Holds the default subset of 20 with room for stand-ins. The model checker explores every slot, so it gets few.
pub(crate) const FIRST_BLOCK: usize = if cfg!(loom) { 1 } else { 32 };
/// 32 · (2^15 − 1): more than a million backends.
pub(crate) const BLOCKS: usize = 15;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn addresses_fill_blocks_without_gap_or_overlap() {
        let mut expected = (0, 0);
        for number in 0..10_000 {
            assert_eq!(address(number), expected, "{number}");
            expected.1 += 1;
            if expected.1 == FIRST_BLOCK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn slots_exist_once_made_and_stay_where_they_are() {
        let slots = Slots::default();
        assert!(slots.get(40).is_none());
        let first = std::ptr::from_ref(slots.make(40).unwrap());
        assert!(slots.make(100_000).is_some());
        assert_eq!(std::ptr::from_ref(slots.get(40).unwrap()), first);
        assert!(slots.make(u32::MAX).is_none());
    }

    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!(size_of::<Slot>(), 128);
    }
}
