//! What the brain has decided and every request obeys, on atomics that all threads read.

use super::config::Modes;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{Criticality, Cutoff, Hint, Mode, Time};
use std::time::Duration;

/// What can refuse, and each one's place in the word of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Deadline,
    Quota,
    Cutoff,
    Limit,
    Queue,
    Attempts,
    Degrade,
    Hints,
}

/// What may wait, in nanoseconds; `cut` and `burst` of CPU of all processors together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    /// How long one that is being cut may wait.
    pub(crate) age: u64,
    /// How much work of those that are being cut may wait.
    pub(crate) cut: u64,
    /// How much work may wait in good times.
    pub(crate) burst: u64,
    /// How long one that does not fit may wait while there is too much and nothing is cut.
    pub(crate) patience: u64,
}

impl Spans {
    /// From so much work in line on nobody is spared for the sake of others: who came first, or was promised room.
    pub(crate) fn far_too_long(&self) -> u64 {
        self.burst.saturating_mul(FAR_TOO_LONG)
    }
}

/// The last word of the brain.
#[derive(Debug)]
pub(crate) struct Rules {
    modes: AtomicU32,
    cutoff: AtomicU32,
    /// What the cutoff would be if it were on.
    cutoff_observed: AtomicU32,
    /// A bit for each criticality that does not fit, with all above it, into the capacity.
    over: AtomicU32,
    slots: AtomicU32,
    limit: AtomicU32,
    /// What is refused for it, were it on.
    limit_cutoff: AtomicU32,
    /// Whether more is asked for than can be done.
    too_much: AtomicU32,
    /// Whether something is cut, so that soft quotas bite.
    short: AtomicU32,
    dont_retry: AtomicU32,
    degrade: AtomicU32,
    /// What the level would be if it were on.
    degrade_observed: AtomicU32,
    hint_ttl: AtomicU32,
    age: AtomicU64,
    cut: AtomicU64,
    burst: AtomicU64,
    patience: AtomicU64,
    /// Work in line, as nanoseconds of CPU.
    queued: AtomicU64,
    /// What refusing one takes, as nanoseconds of CPU.
    refusal_cost: AtomicU64,
    /// When one of each criticality was last refused for overload, and last started.
    refused_at: [AtomicU64; 4],
    started_at: [AtomicU64; 4],
}

impl Rules {
    pub(crate) fn new(modes: &Modes) -> Self {
        let rules = Rules {
            modes: AtomicU32::new(0),
            cutoff: AtomicU32::new(0),
            cutoff_observed: AtomicU32::new(0),
            over: AtomicU32::new(0),
            slots: AtomicU32::new(u32::MAX),
            limit: AtomicU32::new(u32::MAX),
            limit_cutoff: AtomicU32::new(0),
            too_much: AtomicU32::new(0),
            short: AtomicU32::new(0),
            dont_retry: AtomicU32::new(0),
            degrade: AtomicU32::new(0),
            degrade_observed: AtomicU32::new(0),
            hint_ttl: AtomicU32::new(0),
            age: AtomicU64::new(u64::MAX),
            cut: AtomicU64::new(u64::MAX),
            burst: AtomicU64::new(u64::MAX),
            patience: AtomicU64::new(u64::MAX),
            queued: AtomicU64::new(0),
            refusal_cost: AtomicU64::new(0),
            refused_at: std::array::from_fn(|_| AtomicU64::new(0)),
            started_at: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        rules.set_modes(modes);
        rules
    }

    pub(crate) fn set_modes(&self, modes: &Modes) {
        let Modes { all, deadline, quota, cutoff, limit, queue, attempts, degrade, hints } = *modes;
        let each = [deadline, quota, cutoff, limit, queue, attempts, degrade, hints];
        let word =
            each.iter().enumerate().fold(0, |word, (place, mode)| word | (((*mode).min(all) as u32) << (2 * place)));
        self.modes.store(word, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn mode(&self, of: Mechanism) -> Mode {
        match (self.modes.load(Ordering::Relaxed) >> (2 * of as u32)) & 3 {
            0 => Mode::Off,
            1 => Mode::Observe,
            _ => Mode::On,
        }
    }

    pub(crate) fn is_on(&self, of: Mechanism) -> bool {
        self.mode(of) == Mode::On
    }

    /// What is refused now: nothing unless the mechanism is on.
    #[inline]
    pub(crate) fn cutoff(&self) -> Cutoff {
        Cutoff::from_bits(self.cutoff.load(Ordering::Relaxed))
    }

    pub(crate) fn cutoff_observed(&self) -> Cutoff {
        Cutoff::from_bits(self.cutoff_observed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_cutoff(&self, cutoff: Cutoff) {
        let on = if self.is_on(Mechanism::Cutoff) { cutoff } else { Cutoff::NOTHING };
        self.cutoff.store(on.bits(), Ordering::Relaxed);
        self.cutoff_observed.store(cutoff.bits(), Ordering::Relaxed);
    }

    /// Whether this criticality, with all above it, is more than there is capacity for.
    #[inline]
    pub(crate) fn is_over(&self, class: Criticality) -> bool {
        self.over.load(Ordering::Relaxed) & (1 << class.index()) != 0
    }

    pub(crate) fn set_over(&self, over: [bool; 4]) {
        let bits = over.iter().enumerate().fold(0, |bits, (place, over)| bits | (u32::from(*over) << place));
        self.over.store(bits, Ordering::Relaxed);
    }

    /// Whether more is asked for than can be done, though nothing may be cut yet.
    pub(crate) fn is_too_much(&self) -> bool {
        self.too_much.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_too_much(&self, too_much: bool) {
        self.too_much.store(u32::from(too_much), Ordering::Relaxed);
    }

    /// Whether, at this cutoff, the highest criticality goes first in the line, and not the earliest deadline.
    pub(crate) fn goes_by_criticality(&self, cutoff: Cutoff) -> bool {
        cutoff.bits() != 0 || self.is_too_much()
    }

    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slots(&self, slots: u32) {
        self.slots.store(slots.max(1), Ordering::Relaxed);
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, limit: u32, cutoff: Cutoff) {
        self.limit.store(limit.max(1), Ordering::Relaxed);
        self.limit_cutoff.store(cutoff.bits(), Ordering::Relaxed);
    }

    /// What is refused for the limit: nothing unless it is on.
    pub(crate) fn limit_cutoff(&self) -> Cutoff {
        if self.is_on(Mechanism::Limit) { self.limit_cutoff_observed() } else { Cutoff::NOTHING }
    }

    #[inline]
    pub(crate) fn limit_cutoff_observed(&self) -> Cutoff {
        Cutoff::from_bits(self.limit_cutoff.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        let Spans { cut, burst, .. } = self.spans();
        self.short.load(Ordering::Relaxed) != 0 || self.queued() > cut.min(burst / SHORT_PART)
    }

    pub(crate) fn set_short(&self, short: bool) {
        self.short.store(u32::from(short), Ordering::Relaxed);
    }

    pub(crate) fn dont_retry(&self) -> bool {
        self.dont_retry_observed() && self.is_on(Mechanism::Attempts)
    }

    /// What would be, if that were on.
    pub(crate) fn dont_retry_observed(&self) -> bool {
        self.dont_retry.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn set_dont_retry(&self, dont: bool) {
        self.dont_retry.store(u32::from(dont), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn degrade(&self) -> u8 {
        self.degrade.load(Ordering::Relaxed) as u8
    }

    pub(crate) fn degrade_observed(&self) -> u8 {
        self.degrade_observed.load(Ordering::Relaxed) as u8
    }

    pub(crate) fn set_degrade(&self, level: u8) {
        let on = if self.is_on(Mechanism::Degrade) { level } else { 0 };
        self.degrade.store(u32::from(on), Ordering::Relaxed);
        self.degrade_observed.store(u32::from(level), Ordering::Relaxed);
    }

    /// What clients may be told; nothing while hints are off.
    pub(crate) fn hint(&self) -> Option<Hint> {
        let ttl = Duration::from_millis(u64::from(self.hint_ttl.load(Ordering::Relaxed)));
        self.is_on(Mechanism::Hints).then(|| Hint { cutoff: self.cutoff().max(self.limit_cutoff()), ttl })
    }

    pub(crate) fn set_hint_ttl(&self, ttl: Duration) {
        self.hint_ttl.store(u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn spans(&self) -> Spans {
        let each = [&self.age, &self.cut, &self.burst, &self.patience];
        let [age, cut, burst, patience] = each.map(|span| span.load(Ordering::Relaxed));
        Spans { age, cut, burst, patience }
    }

    pub(crate) fn set_spans(&self, spans: Spans) {
        self.age.store(spans.age, Ordering::Relaxed);
        self.cut.store(spans.cut, Ordering::Relaxed);
        self.burst.store(spans.burst, Ordering::Relaxed);
        self.patience.store(spans.patience, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    pub(crate) fn set_queued(&self, nanos: u64) {
        self.queued.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn refusal_cost(&self) -> u64 {
        self.refusal_cost.load(Ordering::Relaxed)
    }

    pub(crate) fn set_refusal_cost(&self, nanos: u64) {
        self.refusal_cost.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn note_refused(&self, now: Time, class: Criticality) {
        self.refused_at[class.index()].store(now.nanos(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn note_started(&self, now: Time, class: Criticality) {
        note_now_and_then(now, &self.started_at[class.index()]);
    }

    /// Whether one that matters more was refused a moment ago.
    pub(crate) fn refused_above(&self, now: Time, class: Criticality) -> bool {
        self.refused_at[class.index() + 1..].iter().any(|at| is_recent(now, at))
    }

    /// Whether one that matters less was started a moment ago.
    pub(crate) fn started_below(&self, now: Time, class: Criticality) -> bool {
        self.started_at[..class.index()].iter().any(|at| is_recent(now, at))
    }
}

/// Notes that it is now, but not every time: else all threads would write one line all the time.
#[inline]
pub(crate) fn note_now_and_then(now: Time, at: &AtomicU64) {
    if now.since(Time::from_nanos(at.load(Ordering::Relaxed))) > NOTED_EVERY {
        at.store(now.nanos(), Ordering::Relaxed);
    }
}

/// Within the moment in which nobody is served who matters less than one that was refused.
pub(crate) fn is_recent(now: Time, at: &AtomicU64) -> bool {
    let at = at.load(Ordering::Relaxed);
    // A clock that was set back leaves moments in the future, which are not recent.
    at != 0 && at <= now.nanos() && now.since(Time::from_nanos(at)) < MOMENT
}

/// Work in line, as a part of what a burst may bring, from which on capacity is short; or what may wait of those that are cut, where
/// that is less: whoever is within its quota hardly waits for those beyond.
const SHORT_PART: u64 = 4;
/// Bursts of work: 360 ms for each processor by default, about as long as callers wait that are in a hurry. With two, customers within
/// their quotas had 0.2 % errors on two processors with very unequal costs (`scenarios/one-customer.toml`).
const FAR_TOO_LONG: u64 = 3;
const NOTED_EVERY: Duration = Duration::from_millis(1);
/// Within this long one that matters less is not started after one that matters more was refused, nor the other way
/// round.
const MOMENT: Duration = Duration::from_micros(11_500);
/// How often the cutoff moves. Longer than the 10 ms within which an order of mercy is looked at.
pub(crate) const TICK: Duration = Duration::from_micros(10_500);
