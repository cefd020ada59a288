//! What a thread keeps for itself between its requests on a channel: the picker's `Local` and a generator.
//!
//! Each channel has a number, and each thread a row of seats; no two threads ever touch the same seat.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use evenkeel_core::client::SharesLocal;
use evenkeel_core::{Local, Rng};

use super::Shared;

/// The place of a channel in every thread's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeatNumber(u64);

struct Seat {
    local: Local,
    rng: Rng,
    /// Of the clusters whose nearest the channel is.
    shares: SharesLocal,
    /// Gone when the channel is.
    channel: Weak<Shared>,
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

    /// Does `work` with this thread's seat; a first visit makes it, with a generator of its own, and clears those of
    /// channels that are gone.
    pub(crate) fn with<T>(self, channel: &Arc<Shared>, work: impl FnOnce(&mut Local, &mut Rng) -> T) -> T {
        self.seated(channel, |seat| work(&mut seat.local, &mut seat.rng))
    }

    /// The same with what the thread keeps of the clusters whose nearest this is.
    pub(crate) fn with_shares<T>(self, channel: &Arc<Shared>, work: impl FnOnce(&mut SharesLocal, &mut Rng) -> T) -> T {
        self.seated(channel, |seat| work(&mut seat.shares, &mut seat.rng))
    }

    fn seated<T>(self, channel: &Arc<Shared>, work: impl FnOnce(&mut Seat) -> T) -> T {
        SEATS.with_borrow_mut(|seats| {
            // A thread serves few channels: looking through them is cheaper than a table.
            let place = seats.iter().position(|(number, _)| *number == self).unwrap_or_else(|| {
                seats.retain(|(_, seat)| seat.channel.strong_count() > 0);
                let rng = Rng::for_stream(channel.seed, THREADS.fetch_add(1, Ordering::Relaxed));
                let (local, shares) = (Local::default(), SharesLocal::default());
                seats.push((self, Seat { local, rng, shares, channel: Arc::downgrade(channel) }));
                seats.len() - 1
            });
            work(&mut seats[place].1)
        })
    }
}
