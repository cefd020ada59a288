//! Requests and retries of the last while, counted by all threads in one ring of words (B15).
//!
//! A bucket is one word: a stamp, first tries, retries and refusals. A retry is looked at and counted in one step, so
//! threads cannot spend the same place twice; two of which one is a bucket behind look again once they have counted. Whole buckets count, the one that is being filled included: looked at
//! backwards from any retry, windows do not overlap, so over any time there is no more than the share of all requests,
//! and one for each window in which there were too few for that.

use crate::sync::{AtomicU64, Ordering, fence};

/// What one customer asked for of late, and how often it was tried again.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Budget {
    buckets: [AtomicU64; BUCKETS],
}

/// What is in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    /// Attempts that a backend refused as too much.
    pub(crate) refused: u64,
}

impl Sums {
    /// Retries that may be in the window: the share of its requests, and one for whoever asks too rarely for that.
    pub(crate) fn most(self, share: f64) -> u64 {
        self.whole(share).max(1)
    }

    /// Retries that its requests are worth.
    pub(crate) fn whole(self, share: f64) -> u64 {
        (share * self.requests as f64) as u64
    }

    /// The same of two together.
    pub(crate) fn and(self, other: Sums) -> Sums {
        Sums {
            requests: self.requests + other.requests,
            retries: self.retries + other.retries,
            refused: self.refused + other.refused,
        }
    }

    /// How many more there may be.
    pub(crate) fn left(self, share: f64) -> u64 {
        self.most(share).saturating_sub(self.retries)
    }

    /// Whether more than this share of the attempts was refused, and of enough to tell (B13). Never more than all: an
    /// attempt may have left the window before its refusal does.
    pub(crate) fn are_refused(self, share: f64) -> bool {
        let attempts = self.requests + self.retries;
        share < 1.0 && attempts >= ENOUGH && self.refused as f64 > share * attempts as f64
    }
}

impl Budget {
    /// A request is sent for the first time.
    #[inline]
    pub(crate) fn on_request(&self, bucket: u64) {
        self.add(bucket, REQUEST);
    }

    /// A backend refused an attempt.
    pub(crate) fn on_refused(&self, bucket: u64) {
        self.add(bucket, REFUSED);
    }

    #[inline]
    fn add(&self, bucket: u64, one: u64) {
        let place = &self.buckets[(bucket % BUCKETS as u64) as usize];
        let mut seen = place.load(Ordering::Relaxed);
        loop {
            if is_of(seen, bucket) {
                // More than a bucket holds is not counted: fewer requests allow fewer retries.
                if !is_full(seen) {
                    place.fetch_add(one, Ordering::Relaxed);
                }
                return;
            }
            if is_late(seen, bucket) {
                return;
            }
            let fresh = stamp(bucket) | one;
            match place.compare_exchange_weak(seen, fresh, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Counts a retry in, if there may be one more.
    pub(crate) fn take(&self, bucket: u64, share: f64) -> bool {
        let place = &self.buckets[(bucket % BUCKETS as u64) as usize];
        let mut seen = place.load(Ordering::Relaxed);
        loop {
            let own = if is_of(seen, bucket) { seen } else { stamp(bucket) };
            if is_late(seen, bucket) || self.sums_with(bucket, own).left(share) == 0 || is_full(own) {
                return false;
            }
            match place.compare_exchange_weak(seen, own + RETRY, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        // One whose clock is a moment behind counts in another word. Of two that took the last place so, at least one
        // sees both after this.
        fence(Ordering::SeqCst);
        let sums = self.sums(bucket);
        if sums.retries > sums.most(share) {
            self.give_back(bucket);
            return false;
        }
        true
    }

    /// A retry that was counted in is not made.
    pub(crate) fn give_back(&self, bucket: u64) {
        let place = &self.buckets[(bucket % BUCKETS as u64) as usize];
        let mut seen = place.load(Ordering::Relaxed);
        while is_of(seen, bucket) && (seen >> RETRY_SHIFT) & RETRY_MOST > 0 {
            match place.compare_exchange_weak(seen, seen - RETRY, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    pub(crate) fn sums(&self, bucket: u64) -> Sums {
        let own = self.buckets[(bucket % BUCKETS as u64) as usize].load(Ordering::Relaxed);
        self.sums_with(bucket, if is_of(own, bucket) { own } else { 0 })
    }

    /// With this word in the place of the last bucket.
    fn sums_with(&self, bucket: u64, own: u64) -> Sums {
        let mut sums = Sums::default();
        let mut count = |word: u64| {
            sums.requests += (word >> REQUEST_SHIFT) & REQUEST_MOST;
            sums.retries += (word >> RETRY_SHIFT) & RETRY_MOST;
            sums.refused += word & REFUSED_MOST;
        };
        count(own);
        // What threads have counted whose clock is a little ahead, in the place of what has just left the window.
        let next = self.buckets[((bucket + 1) % BUCKETS as u64) as usize].load(Ordering::Relaxed);
        if is_of(next, bucket + 1) {
            count(next);
        }
        for age in 1..(BUCKETS as u64).min(bucket + 1) {
            let word = self.buckets[((bucket - age) % BUCKETS as u64) as usize].load(Ordering::Relaxed);
            if is_of(word, bucket - age) {
                count(word);
            }
        }
        sums
    }

    /// Forgets everything: the clock was set, or the window has another length.
    pub(crate) fn clear(&self) {
        for word in &self.buckets {
            word.store(0, Ordering::Relaxed);
        }
    }
}

fn stamp(bucket: u64) -> u64 {
    // From 1: a word of zeros is of no bucket.
    (bucket % (STAMP_MOST - 1) + 1) << STAMP_SHIFT
}

/// Whether the word counts what is in this bucket.
#[inline]
fn is_of(word: u64, bucket: u64) -> bool {
    word >> STAMP_SHIFT == stamp(bucket) >> STAMP_SHIFT
}

/// Whether the word counts what came after this bucket: its place was taken while a thread stood still that had looked at
/// the clock before. It counts nothing then, and is allowed nothing: what was counted since must not be lost.
///
/// Looked at by whole turns of the ring, as far as a thread may stand still: a client that was idle for most of the time in
/// which stamps come round would else be taken for late, for long.
fn is_late(word: u64, bucket: u64) -> bool {
    (1..=TURNS_LATE).any(|turns| is_of(word, bucket + turns * BUCKETS as u64))
}

/// Whether a count may run into the next one, with some room for threads that have looked before.
#[inline]
fn is_full(word: u64) -> bool {
    let near = |count: u64, most: u64| count & most > most - SLACK;
    near(word >> REQUEST_SHIFT, REQUEST_MOST) || near(word >> RETRY_SHIFT, RETRY_MOST) || near(word, REFUSED_MOST)
}

/// Ten whole ones make the window, and one is being filled.
pub(crate) const BUCKETS: usize = if cfg!(loom) { 2 } else { 11 };
/// A minute of standing still, with buckets of a second.
const TURNS_LATE: u64 = 6;
/// A client without a retry in ten requests has nothing to tell from one that is refused by chance.
const ENOUGH: u64 = 10;
const REFUSED_MOST: u64 = (1 << 18) - 1;
const RETRY_SHIFT: u32 = 18;
const RETRY_MOST: u64 = (1 << 16) - 1;
const REQUEST_SHIFT: u32 = 34;
/// 262,000 in a bucket of a second.
const REQUEST_MOST: u64 = (1 << 18) - 1;
const STAMP_SHIFT: u32 = 52;
const STAMP_MOST: u64 = 1 << 12;
const REFUSED: u64 = 1;
const RETRY: u64 = 1 << RETRY_SHIFT;
const REQUEST: u64 = 1 << REQUEST_SHIFT;
const SLACK: u64 = 1 << 10;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn a_tenth_of_the_requests_and_one_for_rare_callers() {
        let budget = Budget::default();
        assert!(budget.take(5, 0.1), "nobody has asked, and one is allowed all the same");
        assert!(!budget.take(5, 0.1));
        (0..29).for_each(|_| budget.on_request(7));
        assert!(budget.take(8, 0.1) && !budget.take(8, 0.1), "two of 29");
        budget.on_request(8);
        assert!(budget.take(9, 0.1) && !budget.take(9, 0.1), "three of 30");

        assert_eq!(budget.sums(9), Sums { requests: 30, retries: 3, refused: 0 });
        assert_eq!(budget.sums(18), Sums { requests: 1, retries: 2, refused: 0 });
        assert_eq!(budget.sums(40), Sums::default());
        assert!(budget.take(40, 0.1) && !budget.take(50, 0.1) && budget.take(51, 0.1), "one in each window");
    }

    #[test]
    fn a_thread_that_is_a_moment_behind_sees_what_the_others_took() {
        let budget = Budget::default();
        (0..10).for_each(|_| budget.on_request(7));
        assert!(budget.take(8, 0.1) && !budget.take(7, 0.1) && !budget.take(8, 0.1));

        budget.give_back(8);
        assert!(budget.take(7, 0.1) && !budget.take(8, 0.1));
        budget.give_back(8);
        assert_eq!(budget.sums(8).retries, 1, "nothing was taken there");
    }

    #[test]
    fn a_thread_that_stood_still_for_a_window_or_more_loses_nothing_of_the_others_counts() {
        for turns in 1..=TURNS_LATE {
            let budget = Budget::default();
            let (late, now) = (20, 20 + turns * BUCKETS as u64);
            (0..30).for_each(|_| budget.on_request(now));
            assert!(budget.take(now, 0.1));
            let before = budget.sums(now);

            budget.on_request(late);
            budget.on_refused(late);
            assert!(!budget.take(late, 0.1), "its view of the window is of another time");

            assert_eq!(budget.sums(now), before, "{turns} turns late");
        }
        // One that was idle for long is not late: its old words are overwritten.
        for idle in 1..4_000 {
            let budget = Budget::default();
            budget.on_request(20);
            budget.on_request(20 + idle);
            assert_eq!(budget.sums(20 + idle).requests, if idle < BUCKETS as u64 { 2 } else { 1 }, "{idle}");
        }
    }

    /// Any sequence, any share: in no window more than the share or one, and in all time the share and one for each window
    /// that fits.
    #[test]
    fn retries_stay_below_the_share_whatever_comes() {
        for seed in 0..200 {
            let mut rng = Rng::from_seed(seed);
            let share = [0.0, 0.05, 0.1, 0.5, 1.0][rng.below(5) as usize];
            let (budget, window) = (Budget::default(), BUCKETS as u64);
            let (mut bucket, mut taken, mut asked) = (u64::from(rng.below(100)), Vec::new(), Vec::new());
            let first = bucket;
            for _ in 0..2_000 {
                // Dense, with pauses, sometimes longer than the window.
                bucket += match rng.below(40) {
                    0 => u64::from(rng.below(30)),
                    1..=6 => 1,
                    _ => 0,
                };
                if rng.below(3) == 0 {
                    if budget.take(bucket, share) {
                        taken.push(bucket);
                    }
                } else {
                    budget.on_request(bucket);
                    asked.push(bucket);
                }
            }
            let within = |times: &[u64], last: u64| {
                times.iter().filter(|&&one| one <= last && one + window > last).count() as f64
            };
            for &last in &taken {
                let (retries, requests) = (within(&taken, last), within(&asked, last));
                assert!(retries <= (share * requests).max(1.0), "seed {seed}: {retries} of {requests}");
            }
            let windows = ((bucket - first) / window + 1) as f64;
            assert!(taken.len() as f64 <= share * asked.len() as f64 + windows, "seed {seed}");
        }
    }

    #[test]
    fn many_refusals_are_told_from_few_attempts() {
        let budget = Budget::default();
        (0..9).for_each(|_| {
            budget.on_request(3);
            budget.on_refused(3);
        });
        assert!(!budget.sums(3).are_refused(0.5), "nine are too few to tell");
        budget.on_request(4);
        assert!(budget.sums(4).are_refused(0.5) && !budget.sums(4).are_refused(0.9));
        (0..9).for_each(|_| budget.on_refused(4));
        assert!(budget.sums(4).are_refused(0.9) && !budget.sums(4).are_refused(1.0), "all is not more than all");
    }

    #[test]
    fn a_bucket_that_is_full_allows_no_more_and_spoils_no_neighbour() {
        let budget = Budget::default();
        (0..300_000).for_each(|_| budget.on_request(7));
        (0..300_000).for_each(|_| budget.on_refused(8));
        let Sums { requests, retries, refused } = budget.sums(8);
        assert!((261_000..262_144).contains(&requests) && (261_000..262_144).contains(&refused) && retries == 0);
        assert!(budget.take(9, 0.1));
        assert_eq!(budget.sums(9).retries, 1);
    }
}
