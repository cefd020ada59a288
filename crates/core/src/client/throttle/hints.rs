//! What backends said they admit (B7): kept for each backend, heeded before anything is sent there.
//!
//! A hint is one word and holds for its time to live. Then one request for each quarter of that time goes there to see
//! what has changed, while others are still held; drawn a quarter shorter or longer, so that clients do not come
//! together. After four times to live it is forgotten. Nothing is kept where no backend ever refused: cells are made with
//! the first hint, as many at once as there are slots in a block.

use std::sync::OnceLock;
use std::time::Duration;

use super::held::{Held, HeldBack};
use crate::client::slots::{BLOCKS, FIRST_BLOCK, address};
use crate::rng::hash2;
use crate::sync::{AtomicU64, Ordering};
use crate::time::{CLOCK_JUMP, saturating_nanos};
use crate::{Criticality, CustomerId, Cutoff, Hint, Priority, Time};

/// The hints of all backends of one client.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    blocks: [OnceLock<Box<[Heeded]>>; BLOCKS],
    /// When the last of them is forgotten, in nanoseconds: until then requests look for them.
    until: AtomicU64,
}

impl Hints {
    /// Whether any may be in force: one load for each request where there is none.
    #[inline]
    pub(crate) fn any(&self, now: Time) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > now.nanos() && until - now.nanos() <= UNTIL_MOST
    }

    /// A backend said so just now.
    pub(crate) fn heed(&self, now: Time, slot: u32, hint: Hint) {
        // Good news need no memory where there never was bad news.
        let cell = if hint.cutoff == Cutoff::NOTHING { self.get(slot) } else { self.make(slot) };
        let Some(cell) = cell else { return };
        let ttl = hint.ttl.clamp(Duration::from_millis(1), TTL_MOST);
        let word = Word::new(now, hint.cutoff, ttl);
        let before = Word(cell.word.swap(word.0, Ordering::Relaxed));
        if before.cutoff_at(now).is_none() {
            // Counted under a hint of long ago: not what was held of late.
            cell.held.clear();
        }
        let until = now.nanos().saturating_add(u64::from(FORGOTTEN_AFTER) * saturating_nanos(ttl));
        if self.until.load(Ordering::Relaxed).saturating_sub(now.nanos()) > UNTIL_MOST {
            self.until.store(until, Ordering::Relaxed);
        }
        self.until.fetch_max(until, Ordering::Relaxed);
    }

    /// Whether a request is not to go there; `client` makes draws of different clients differ. One that is let through to
    /// see what has changed uses up the turn.
    pub(crate) fn holds(&self, now: Time, client: u32, slot: u32, priority: Priority) -> bool {
        let Some(cell) = self.get(slot) else { return false };
        let word = Word(cell.word.load(Ordering::Relaxed));
        let Some(cutoff) = word.cutoff_at(now).filter(|cutoff| !cutoff.admits(priority)) else { return false };
        debug_assert!(cutoff > Cutoff::NOTHING, "nothing is below nothing");
        !(word.age_ms(now) >= word.trusted_ms(client, slot) && cell.may_probe(now, word.ttl_ms()))
    }

    /// A request was not sent at all, and would have gone there.
    pub(crate) fn hold(&self, slot: u32, customer: CustomerId, criticality: Criticality) {
        let Some(cell) = self.get(slot) else { return };
        cell.held_ever.fetch_add(1, Ordering::Relaxed);
        cell.held.add_one(customer, criticality);
    }

    /// What was held there since this was last asked.
    pub(crate) fn take_held(&self, slot: u32) -> HeldBack {
        self.get(slot).map_or(HeldBack::default(), |cell| cell.held.take())
    }

    /// What was taken is not told yet.
    pub(crate) fn keep_held(&self, slot: u32, held: HeldBack) {
        if let Some(cell) = self.get(slot) {
            cell.held.add(held);
        }
    }

    /// What a backend is believed to refuse, and how many requests were ever held there.
    pub(crate) fn told(&self, now: Time, slot: u32) -> (Option<Cutoff>, u64) {
        self.get(slot).map_or((None, 0), |cell| {
            let cutoff = Word(cell.word.load(Ordering::Relaxed)).cutoff_at(now);
            (cutoff.filter(|&cutoff| cutoff > Cutoff::NOTHING), cell.held_ever.load(Ordering::Relaxed))
        })
    }

    /// Another backend takes the slot.
    pub(crate) fn clear(&self, slot: u32) {
        if let Some(cell) = self.get(slot) {
            cell.clear();
            cell.held_ever.store(0, Ordering::Relaxed);
        }
    }

    /// The clock was set: none of them says when it was heard.
    pub(crate) fn forget_all(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.blocks.iter().filter_map(OnceLock::get).flatten().for_each(Heeded::clear);
    }

    fn get(&self, slot: u32) -> Option<&Heeded> {
        let (block, place) = address(slot);
        self.blocks.get(block)?.get()?.get(place)
    }

    fn make(&self, slot: u32) -> Option<&Heeded> {
        let (block, place) = address(slot);
        let make = || (0..FIRST_BLOCK << block).map(|_| Heeded::default()).collect();
        self.blocks.get(block)?.get_or_init(make).get(place)
    }
}

/// What one backend said last, and what was held because of it.
#[derive(Debug, Default)]
#[repr(align(32))]
struct Heeded {
    word: AtomicU64,
    /// When a request last went there to see, in milliseconds.
    probed_ms: AtomicU64,
    /// Not told yet.
    held: Held,
    held_ever: AtomicU64,
}

impl Heeded {
    /// Whether it is this request's turn to see how the backend is; if so, the next is in a quarter of the time to live.
    fn may_probe(&self, now: Time, ttl_ms: u64) -> bool {
        let (last, now) = (self.probed_ms.load(Ordering::Relaxed), millis(now));
        let is_due = now.saturating_sub(last) >= (ttl_ms / 4).max(1) || last > now + JUMP_MS;
        is_due && self.probed_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn clear(&self) {
        self.word.store(0, Ordering::Relaxed);
        self.probed_ms.store(0, Ordering::Relaxed);
        self.held.clear();
    }
}

/// A hint as it is kept: cutoff, time to live in milliseconds (at least 1, so 0 is none), and when it was heard.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(now: Time, cutoff: Cutoff, ttl: Duration) -> Word {
        let ttl = (ttl.as_millis() as u64).clamp(1, TTL_MASK);
        Word(u64::from(cutoff.bits()) << CUTOFF_SHIFT | ttl << TTL_SHIFT | (millis(now) & HEARD_MASK))
    }

    /// What is refused as far as is known; `None` where that is nothing any more.
    fn cutoff_at(self, now: Time) -> Option<Cutoff> {
        let forgotten = self.0 == 0 || self.age_ms(now) >= u64::from(FORGOTTEN_AFTER) * self.ttl_ms();
        (!forgotten).then(|| Cutoff::from_bits((self.0 >> CUTOFF_SHIFT) as u32))
    }

    /// How long ago it was heard. Ahead by less than threads disagree is now; further is a clock that was set back.
    fn age_ms(self, now: Time) -> u64 {
        let age = millis(now).wrapping_sub(self.0) & HEARD_MASK;
        if HEARD_MASK - age < JUMP_MS { 0 } else { age }
    }

    fn ttl_ms(self) -> u64 {
        (self.0 >> TTL_SHIFT) & TTL_MASK
    }

    /// From three to five quarters of the time to live, drawn by all that makes this hint different from others.
    fn trusted_ms(self, client: u32, slot: u32) -> u64 {
        let drawn = hash2(self.0, u64::from(client) << 32 | u64::from(slot)) >> 54;
        self.ttl_ms() * (3 * 512 + drawn) / 2_048
    }
}

fn millis(now: Time) -> u64 {
    now.nanos() / 1_000_000
}

const CUTOFF_SHIFT: u32 = 45;
const TTL_SHIFT: u32 = 29;
const TTL_MASK: u64 = (1 << 16) - 1;
/// Comes round after six days.
const HEARD_MASK: u64 = (1 << TTL_SHIFT) - 1;
/// Longer cannot be meant, and is not believed.
const TTL_MOST: Duration = Duration::from_secs(5);
/// Times to live after which a hint that nothing has renewed is forgotten.
const FORGOTTEN_AFTER: u32 = 4;
/// No hint is kept for longer: a clock that was set back by more has left this behind.
const UNTIL_MOST: u64 = FORGOTTEN_AFTER as u64 * TTL_MOST.as_nanos() as u64 + CLOCK_JUMP.as_nanos() as u64;
const JUMP_MS: u64 = CLOCK_JUMP.as_millis() as u64;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Lot;

    const NOW: Time = Time::from_secs(1_000);
    const TTL: Duration = Duration::from_millis(800);

    fn after(millis: u64) -> Time {
        NOW + Duration::from_millis(millis)
    }

    fn hint(cutoff: f64) -> Hint {
        Hint { cutoff: Cutoff::new(cutoff), ttl: TTL }
    }

    fn priority(level: Criticality) -> Priority {
        Priority::new(level, Lot(1 << 15))
    }

    fn holds(hints: &Hints, now: Time) -> bool {
        hints.any(now) && hints.holds(now, 1, 40, priority(Criticality::Sheddable))
    }

    #[test]
    fn a_hint_is_kept_for_its_backend_and_what_is_above_it_passes() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(1.25));

        let held = Criticality::ALL.map(|level| hints.holds(after(1), 1, 40, priority(level)));
        assert_eq!(held, [true, false, false, false]);
        assert!(!hints.holds(after(1), 1, 41, priority(Criticality::Sheddable)));
        assert_eq!(hints.told(after(1), 40), (Some(Cutoff::new(1.25)), 0));

        hints.heed(after(2), 40, hint(0.0));
        assert!(!holds(&hints, after(3)) && hints.told(after(3), 40).0.is_none());
    }

    #[test]
    fn an_old_hint_lets_one_through_for_each_quarter_and_is_forgotten_in_the_end() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(4.0));

        let passed: Vec<u64> = (0..3_300).filter(|&millis| !holds(&hints, after(millis))).collect();
        let (first, probes) = (passed[0], passed.iter().filter(|&&millis| millis < 3_200).count());
        assert!((600..1_000).contains(&first), "{first}");
        assert!(passed[..probes].windows(2).all(|pair| pair[1] - pair[0] == 200), "{:?}", &passed[..probes]);
        assert_eq!(passed.len() - probes, 100, "all of them once it is forgotten");
    }

    #[test]
    fn clients_do_not_come_back_together() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(4.0));
        let word = Word(hints.get(40).unwrap().word.load(Ordering::Relaxed));
        let trusted: Vec<u64> = (0..1_000).map(|client| word.trusted_ms(client, 40)).collect();

        let mean = trusted.iter().sum::<u64>() / 1_000;
        assert!(trusted.iter().all(|trusted| (600..1_000).contains(trusted)));
        // Uniform over 400 ms: the mean of 1,000 is within 12 ms of 800 ms with three standard deviations.
        assert!(mean.abs_diff(800) <= 12, "{mean}");
    }

    #[test]
    fn what_was_held_is_told_once_and_remembered() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(2.0));
        (0..3).for_each(|_| hints.hold(40, CustomerId(1), Criticality::Sheddable));
        hints.hold(40, CustomerId(1), Criticality::SheddablePlus);

        assert_eq!([0; 2].map(|_| hints.take_held(40).counts), [[3, 1, 0, 0], [0; 4]]);
        assert_eq!(hints.told(NOW, 40).1, 4);
    }

    #[test]
    fn what_was_held_long_ago_is_not_told_with_a_new_hint() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(2.0));
        hints.hold(40, CustomerId(1), Criticality::Sheddable);
        hints.heed(after(100), 40, hint(2.1));
        assert_eq!(hints.take_held(40).counts, [1, 0, 0, 0]);

        hints.hold(40, CustomerId(1), Criticality::Sheddable);
        hints.heed(after(60_000), 40, hint(2.0));
        assert!(hints.take_held(40).is_none());
    }

    #[test]
    fn a_clock_that_is_set_forgets() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(4.0));
        assert!(holds(&hints, Time::from_millis(999_500)), "two threads, half a second apart");

        assert!(!holds(&hints, Time::from_secs(10)) && !holds(&hints, Time::NEVER));
        hints.heed(Time::from_secs(10), 40, hint(4.0));
        assert!(holds(&hints, Time::from_secs(10)));
        hints.forget_all();
        assert!(!hints.any(Time::from_secs(10)) && !holds(&hints, Time::from_secs(10)));
    }

    #[test]
    fn good_news_alone_make_no_cells() {
        let hints = Hints::default();
        hints.heed(NOW, 40, hint(0.0));
        assert!(hints.get(40).is_none() && !hints.any(NOW));
    }
}
