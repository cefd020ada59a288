//! Flow control (A2): how many exchanges this client has open on one backend, and the limit.
//!
//! At the limit another backend is picked; nothing ever waits here unseen. Streams are counted apart, so that a few
//! that stay open for hours do not use up the room of short requests. Both counts share one word: one atomic
//! operation takes, one gives back, and a look at the load is one read. So do three marks. *Shut*: nothing may begin any
//! more (A4); a thread that still holds an old picker cannot begin on a backend whose notice has been handled. *Asleep*:
//! there is no connection (A8); policies see an idle backend, but nothing can begin before it is connected again.
//! *Wanted*: a request would have gone there.

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

/// Open exchanges on one backend: requests in the low half, streams in the high half, the marks in the highest bits.
#[derive(Debug, Default)]
pub(crate) struct InFlight(AtomicU64);

impl InFlight {
    /// Takes a place, unless all are taken or it is shut.
    pub(crate) fn try_start(&self, kind: Kind, limit: u32) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if !has_room(seen, kind, limit) || seen & ASLEEP != 0 {
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
        has_room(self.0.load(Ordering::Relaxed), kind, limit)
    }

    /// From when this returns nothing begins here, or may again.
    pub(crate) fn set_shut(&self, shut: bool) {
        if shut {
            self.0.fetch_or(SHUT, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!SHUT, Ordering::AcqRel);
        }
    }

    /// From when this returns `true` nothing begins here until [`InFlight::wake`]; `false` where something is open.
    pub(crate) fn try_sleep(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & !MARKS != 0 {
                return false;
            }
            // Whoever wanted it before had its connection.
            match self.0.compare_exchange_weak(seen, (seen & !WANTED) | ASLEEP, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Requests may begin again, as far as it is not shut.
    pub(crate) fn wake(&self) {
        self.0.fetch_and(!(ASLEEP | WANTED), Ordering::AcqRel);
    }

    /// A request would have gone here; says whether it is the first.
    pub(crate) fn want(&self) -> bool {
        // Read first: all requests that come before the connection does share it.
        !self.is_wanted() && self.0.fetch_or(WANTED, Ordering::AcqRel) & WANTED == 0
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Acquire) & WANTED != 0
    }

    /// Requests and streams open now, if there is room for one more of this kind.
    pub(crate) fn counts_with_room(&self, kind: Kind, limit: u32) -> Option<(u32, u32)> {
        let word = self.0.load(Ordering::Relaxed);
        has_room(word, kind, limit).then(|| (count(word, Kind::Unary), count(word, Kind::Stream)))
    }

    /// Requests and streams open now together, and whether there is room for one more of this kind.
    #[inline]
    pub(crate) fn look(&self, kind: Kind, limit: u32) -> (u32, bool) {
        let word = self.0.load(Ordering::Relaxed);
        (count(word, Kind::Unary) + count(word, Kind::Stream), has_room(word, kind, limit))
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
        Kind::Stream => ((word & !MARKS) >> 32) as u32,
    }
}

const fn has_room(word: u64, kind: Kind, limit: u32) -> bool {
    word & SHUT == 0 && count(word, kind) < limit
}

/// No count comes near them: a million is the most that can be set.
const SHUT: u64 = 1 << 63;
const ASLEEP: u64 = 1 << 62;
const WANTED: u64 = 1 << 61;
const MARKS: u64 = SHUT | ASLEEP | WANTED;

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

    #[test]
    fn nothing_begins_where_it_is_shut_and_what_has_begun_still_ends() {
        let open = InFlight::default();
        assert!(open.try_start(Kind::Stream, 9));

        open.set_shut(true);
        for kind in [Kind::Unary, Kind::Stream] {
            assert!(!open.try_start(kind, 9) && !open.has_room(kind, 9));
            assert_eq!(open.counts_with_room(kind, 9), None);
        }
        assert_eq!(open.counts(), (0, 1));
        assert_eq!(open.finish(Kind::Stream), 1);

        open.set_shut(false);
        assert!(open.try_start(Kind::Unary, 9));
        assert_eq!(open.counts_with_room(Kind::Unary, 9), Some((1, 0)));
    }

    #[test]
    fn it_falls_asleep_only_while_nothing_is_open_and_is_wanted_once() {
        let open = InFlight::default();
        assert!(open.try_start(Kind::Stream, 9));
        assert!(!open.try_sleep());

        open.finish(Kind::Stream);
        assert!(open.try_sleep());
        assert!(!open.try_start(Kind::Unary, 9));
        assert_eq!(open.counts_with_room(Kind::Unary, 9), Some((0, 0)), "policies see an idle backend");
        assert_eq!([open.want(), open.want(), open.is_wanted()], [true, false, true]);

        open.wake();
        assert!(open.try_start(Kind::Unary, 9) && !open.is_wanted());
        assert_eq!(open.counts(), (1, 0));
    }
}
