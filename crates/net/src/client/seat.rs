//! What a thread keeps for itself between its requests on a channel: the picker's `Local` and a generator.
//!
//! Each channel has a number, and each thread a row of seats; no two threads ever touch the same seat.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_core::{Local, Rng};

/// The place of a channel in every thread's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeatNumber(u64);

struct Seat {
    local: Local,
    rng: Rng,
}

thread_local! {
    static SEATS: RefCell<Vec<(SeatNumber, Seat)>> = const { RefCell::new(Vec::new()) };
}

static CHANNELS: AtomicU64 = AtomicU64::new(0);
static THREADS: AtomicU64 = AtomicU64::new(0);

impl SeatNumber {
    /// A number no other channel of this process has.
    pub(crate) fn take() -> Self {
        SeatNumber(CHANNELS.fetch_add(1, Ordering::Relaxed))
    }

    /// Does `work` with this thread's seat; a first visit makes it, with a generator of its own.
    pub(crate) fn with<T>(self, seed: u64, work: impl FnOnce(&mut Local, &mut Rng) -> T) -> T {
        SEATS.with_borrow_mut(|seats| {
            // A thread serves few channels: looking through them is cheaper than a table.
            let place = seats.iter().position(|(number, _)| *number == self).unwrap_or_else(|| {
                let rng = Rng::for_stream(seed, THREADS.fetch_add(1, Ordering::Relaxed));
                seats.push((self, Seat { local: Local::default(), rng }));
                seats.len() - 1
            });
            let seat = &mut seats[place].1;
            work(&mut seat.local, &mut seat.rng)
        })
    }

    /// Gives this thread's seat up; other threads keep theirs until they end.
    pub(crate) fn leave(self) {
        let _ = SEATS.try_with(|seats| seats.borrow_mut().retain(|(number, _)| *number != self));
    }
}
