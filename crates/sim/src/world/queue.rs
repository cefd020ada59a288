//! What happens next: events in order of time, then in the order they were made.
//!
//! A binary heap, and a lane beside it for messages: most travel equally long, so each arrives after those sent before
//! it and needs no sorting. Which of the two an event stands in changes nothing of the order.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::event::Event;

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    /// In order by itself.
    lane: VecDeque<Entry>,
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
        let entry = self.entry(at, event);
        self.heap.push(Reverse(entry));
    }

    /// The same for a message, which likely arrives after those sent before it.
    pub(crate) fn push_message(&mut self, at: u64, event: Event) {
        let entry = self.entry(at, event);
        if self.lane.back().is_none_or(|last| last.key < entry.key) {
            self.lane.push_back(entry);
        } else {
            self.heap.push(Reverse(entry));
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        let lane_is_first = match (self.lane.front(), self.heap.peek()) {
            (Some(message), Some(Reverse(other))) => message.key < other.key,
            (message, _) => message.is_some(),
        };
        let entry = if lane_is_first { self.lane.pop_front()? } else { self.heap.pop()?.0 };
        Some(((entry.key >> 64) as u64, entry.event))
    }

    fn entry(&mut self, at: u64, event: Event) -> Entry {
        self.made += 1;
        Entry { key: (u128::from(at) << 64) | u128::from(self.made), event }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_then_of_making_whichever_way_they_went_in() {
        let mut queue = Queue::default();
        queue.push_message(5, Event::Work(0));
        queue.push(5, Event::Work(1));
        queue.push_message(9, Event::Work(2));
        queue.push_message(5, Event::Work(3));
        queue.push(1, Event::Work(4));

        let order: Vec<(u64, Event)> = std::iter::from_fn(|| queue.pop()).collect();

        let expected = [(1, 4), (5, 0), (5, 1), (5, 3), (9, 2)].map(|(at, number)| (at, Event::Work(number)));
        assert_eq!(order, expected);
    }
}
