//! Requests and accepts of the last while, counted by all threads in one ring of words.
//!
//! A bucket is one word, stamp and both counts, so that whoever finds an old one empties and uses it in one step; the
//! oldest counts by the part of it that is still inside. Reads as [`stats::Window`](crate::stats::Window) does, which the
//! tests hold it against.

use crate::sync::{AtomicU64, Ordering};

/// What one customer asked for at one criticality, and what of it was taken.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Tally {
    /// Number of the bucket, from 1, in which something was refused last; 0 for never.
    refused_in: AtomicU64,
    /// The same of what was refused for another reason than a quota.
    overload_in: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Tally {
    /// A request whose fate is known.
    pub(crate) fn add(&self, bucket: u64, accepted: bool) {
        if !accepted && self.refused_in.load(Ordering::Relaxed) != bucket + 1 {
            self.refused_in.store(bucket + 1, Ordering::Relaxed);
        }
        let place = &self.buckets[(bucket % BUCKETS as u64) as usize];
        let one = if accepted { REQUEST + ACCEPT } else { REQUEST };
        let mut seen = place.load(Ordering::Relaxed);
        loop {
            if stamp_of(seen) == bucket & STAMP_MOST {
                // More than a bucket holds is not counted: both counts stop, so their ratio stays.
                if requests_of(seen) < COUNT_MOST {
                    place.fetch_add(one, Ordering::Relaxed);
                }
                return;
            }
            let fresh = (bucket & STAMP_MOST) << STAMP_SHIFT | one;
            match place.compare_exchange_weak(seen, fresh, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// What was refused was too much for the service, not for its customer.
    pub(crate) fn on_overload(&self, bucket: u64) {
        if self.overload_in.load(Ordering::Relaxed) != bucket + 1 {
            self.overload_in.store(bucket + 1, Ordering::Relaxed);
        }
    }

    /// Whether anything was ever refused: costs a load where nothing was, which is nearly always.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        self.refused_in.load(Ordering::Relaxed) != 0
    }

    /// Whether something was refused inside the window that ends in this bucket.
    pub(crate) fn has_refused_lately(&self, bucket: u64) -> bool {
        is_lately(&self.refused_in, bucket)
    }

    /// The same without what was refused for a quota.
    pub(crate) fn has_overload_lately(&self, bucket: u64) -> bool {
        is_lately(&self.overload_in, bucket)
    }

    /// Requests and accepts of the last window, of which the last bucket is `into` over.
    pub(crate) fn sums(&self, bucket: u64, into: f64) -> (f64, f64) {
        let (mut requests, mut accepts) = (0.0, 0.0);
        for (place, word) in (0..).zip(&self.buckets) {
            let word = word.load(Ordering::Relaxed);
            let age = (bucket & STAMP_MOST).wrapping_sub(stamp_of(word)) & STAMP_MOST;
            let share = match age {
                // The last of them by a thread whose clock is a little ahead.
                0..LAST | STAMP_MOST => 1.0,
                LAST => 1.0 - into,
                _ => continue,
            };
            // A stamp that has come round stands in another place of the ring.
            let stood = if age == STAMP_MOST { bucket.wrapping_add(1) } else { bucket.wrapping_sub(age) };
            if stood % BUCKETS as u64 == place {
                requests += share * requests_of(word) as f64;
                accepts += share * accepts_of(word) as f64;
            }
        }
        (requests, accepts)
    }

    /// Forgets everything: the clock was set, or the window has another length.
    pub(crate) fn clear(&self) {
        self.refused_in.store(0, Ordering::Relaxed);
        self.overload_in.store(0, Ordering::Relaxed);
        for word in &self.buckets {
            word.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether the bucket that stands there is inside the window that ends in this one.
fn is_lately(last: &AtomicU64, bucket: u64) -> bool {
    let last = last.load(Ordering::Relaxed);
    // Threads read the clock a little apart; a bucket further ahead was stamped by a clock that was set back.
    last != 0 && last <= bucket + 2 && bucket + 1 < last + BUCKETS as u64
}

const fn stamp_of(word: u64) -> u64 {
    word >> STAMP_SHIFT
}

const fn requests_of(word: u64) -> u64 {
    (word >> REQUEST_SHIFT) & ((1 << REQUEST_SHIFT) - 1)
}

const fn accepts_of(word: u64) -> u64 {
    word & ((1 << REQUEST_SHIFT) - 1)
}

/// Twelve whole ones make the window, and one is partly out.
pub(crate) const BUCKETS: usize = 13;
const LAST: u64 = BUCKETS as u64 - 1;
const REQUEST_SHIFT: u32 = 22;
const STAMP_SHIFT: u32 = 44;
const STAMP_MOST: u64 = (1 << 20) - 1;
const REQUEST: u64 = 1 << REQUEST_SHIFT;
const ACCEPT: u64 = 1;
/// Four million in a bucket, less what threads may add that have looked before: 400,000 a second with buckets of 10 s.
const COUNT_MOST: u64 = (1 << REQUEST_SHIFT) - (1 << 12);

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::stats::Window;
    use crate::{Rng, Time};

    const BUCKET_NANOS: u64 = 10_000_000_000;

    fn sums(tally: &Tally, now: Time) -> (f64, f64) {
        let into = (now.nanos() % BUCKET_NANOS) as f64 / BUCKET_NANOS as f64;
        tally.sums(now.nanos() / BUCKET_NANOS, into)
    }

    #[test]
    fn it_reads_as_the_window_of_stats_does() {
        let (tally, mut rng) = (Tally::default(), Rng::from_seed(1));
        let mut windows = [Window::<BUCKETS>::new(Duration::from_secs(120)); 2];
        let mut now = Time::ZERO;
        for _ in 0..20_000 {
            // Sometimes dense, sometimes with pauses that skip buckets or the whole window.
            let most = [100, 3_000, 40_000, 300_000][rng.below(100).saturating_sub(96) as usize];
            now = now + Duration::from_millis(u64::from(rng.below(most)));
            let accepted = rng.below(3) == 0;
            tally.add(now.nanos() / BUCKET_NANOS, accepted);
            windows[0].add(now, 1.0);
            windows[1].add(now, f64::from(u8::from(accepted)));

            let (requests, accepts) = sums(&tally, now);
            assert!((requests - windows[0].sum(now)).abs() < 1e-6 && (accepts - windows[1].sum(now)).abs() < 1e-6);
        }
    }

    #[test]
    fn what_a_clock_that_was_set_back_counted_does_not_stay() {
        let tally = Tally::default();
        (0..100).for_each(|_| tally.add(1_000, false));
        assert!(tally.has_refused_lately(1_000) && tally.has_refused_lately(999));

        assert!(!tally.has_refused_lately(500));
        assert_eq!(tally.sums(500, 0.5), (0.0, 0.0));
        tally.add(500, false);
        assert_eq!(tally.sums(500, 0.5), (1.0, 0.0));
        // A stamp that comes round after 2^20 buckets is not taken for a new one.
        assert_eq!(tally.sums(1_000 + (1 << 20), 0.0), (0.0, 0.0));
        assert!(!tally.has_refused_lately(u64::MAX - 20));
    }

    #[test]
    fn a_bucket_that_is_full_keeps_the_ratio() {
        let tally = Tally::default();
        (0..9_000_000).for_each(|count| tally.add(7, count % 2 == 0));

        let (requests, accepts) = tally.sums(7, 0.0);
        assert!(requests > 4e6 && (accepts / requests - 0.5).abs() < 1e-3, "{requests} {accepts}");
    }
}
