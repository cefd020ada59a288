//! Flow control (A2): how many exchanges this client has open on one backend, and the limit.
//!
//! At the limit another backend is picked; nothing ever waits here unseen. Streams are counted apart, so that a few
//! that stay open for hours do not use up the room of short requests. Both counts share one word: one atomic
//! operation takes, one gives back, and a look at the load is one read.

use crate::Kind;
use crate::sync::{AtomicU64, Ordering};

/// How many exchanges of each kind may be open on one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) active_max: u32,
    pub(crate) streams_max: u32,
}

impl Limits {
    pub(crate) const fn of(self, kind: Kind) -> u32 {
        match kind {
            Kind::Unary => self.active_max,
            Kind::Stream => self.streams_max,
        }
    }
}

/// Open exchanges on one backend: requests in the low half, streams in the high half.
#[derive(Debug, Default)]
pub(crate) struct InFlight(AtomicU64);

impl InFlight {
    /// Takes a place, unless all are taken.
    pub(crate) fn try_start(&self, kind: Kind, limit: u32) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if count(seen, kind) >= limit {
                return false;
            }
            // Never add first and look after: a second thread would see a place taken that is given right back.
            match self.0.compare_exchange_weak(seen, seen + unit(kind), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Gives a place back; says how many of its kind there were before.
    pub(crate) fn finish(&self, kind: Kind) -> u32 {
        let before = count(self.0.fetch_sub(unit(kind), Ordering::AcqRel), kind);
        debug_assert!(before > 0, "a place was given back twice");
        before
    }

    pub(crate) fn has_room(&self, kind: Kind, limit: u32) -> bool {
        count(self.0.load(Ordering::Relaxed), kind) < limit
    }

    /// Requests and streams open now.
    pub(crate) fn counts(&self) -> (u32, u32) {
        // Acquires what was written before the last place was given back, so that a slot at zero can be cleared.
        let word = self.0.load(Ordering::Acquire);
        (count(word, Kind::Unary), count(word, Kind::Stream))
    }
}

const fn unit(kind: Kind) -> u64 {
    match kind {
        Kind::Unary => 1,
        Kind::Stream => 1 << 32,
    }
}

const fn count(word: u64, kind: Kind) -> u32 {
    match kind {
        Kind::Unary => word as u32,
        Kind::Stream => (word >> 32) as u32,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn requests_and_streams_have_limits_of_their_own() {
        let open = InFlight::default();
        assert!(open.try_start(Kind::Unary, 1));
        assert!(!open.try_start(Kind::Unary, 1));
        assert!(open.try_start(Kind::Stream, 1));
        assert_eq!(open.counts(), (1, 1));

        assert_eq!(open.finish(Kind::Unary), 1);
        assert_eq!(open.counts(), (0, 1));
        assert!(open.has_room(Kind::Unary, 1));
        assert!(!open.has_room(Kind::Stream, 1));
    }
}
