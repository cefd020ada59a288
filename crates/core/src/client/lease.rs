//! Who has which slot: numbers are lent to backends in use and lent again once nobody can touch them any more.
//!
//! A backend that left may still have requests in flight, and threads may hold an old picker that still picks it. Each
//! picker holds its slots by reference, so a slot that nobody else refers to and that has nothing in flight is free.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::slots::Slots;
use crate::Time;

/// The slots of a client, lent and free.
#[derive(Debug, Default)]
pub(crate) struct SlotLease {
    slots: Arc<Slots>,
    free: Vec<u32>,
    /// Given back, and perhaps still referred to.
    resting: Vec<u32>,
    look_at: Option<Time>,
    made: u32,
}

impl SlotLease {
    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// A slot for another backend; `None` if there are more backends than there can be slots.
    pub(crate) fn take(&mut self, now: Time) -> Option<u32> {
        if self.free.is_empty() {
            self.free_rested(now);
        }
        let number = self.free.pop().unwrap_or(self.made);
        self.slots.make(number)?;
        self.made = self.made.max(number + 1);
        Some(number)
    }

    pub(crate) fn give_back(&mut self, now: Time, number: u32) {
        self.resting.push(number);
        self.look_at.get_or_insert(now + LOOK_EVERY);
    }

    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.look_at = self.look_at.map(|at| at.moved(before, now));
    }

    /// Looks which of the slots given back are free by now.
    pub(crate) fn free_rested(&mut self, now: Time) {
        let (slots, free) = (&self.slots, &mut self.free);
        self.resting.retain(|&number| {
            let Some(slot) = slots.get(number).filter(|slot| Arc::strong_count(slot) == 1) else { return true };
            // The last picker to let go did so after everything it did with the slot.
            fence(Ordering::Acquire);
            if slot.in_flight.counts() != (0, 0) {
                return true;
            }
            slot.clear();
            slots.throttle.hints.clear(number);
            free.push(number);
            false
        });
        self.look_at = (!self.resting.is_empty()).then(|| now + LOOK_EVERY);
    }

    /// When to look again.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.look_at
    }
}

/// Slots given back cost memory and nothing else: there is no hurry.
const LOOK_EVERY: Duration = Duration::from_secs(10);
