//! What happens next: events in order of time, then in the order they were made.
//!
//! A plain binary heap. A calendar queue was no faster with the rest of the world in the loop: the world's own cache
//! misses cost more than the queue.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::event::Event;

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    made: u64,
}

#[derive(Debug)]
struct Entry {
    /// Time, then number: one comparison.
    key: u128,
    event: Event,
}

impl Queue {
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.made += 1;
        let key = (u128::from(at) << 64) | u128::from(self.made);
        self.heap.push(Reverse(Entry { key, event }));
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let Reverse(entry) = self.heap.pop()?;
        Some(((entry.key >> 64) as u64, entry.event))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}
