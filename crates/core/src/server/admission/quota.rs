//! What each customer may use (B4, B6, B9), charged before its cost is known (DESIGN §5).
//!
//! A bucket is one number: the moment at which it will be full again. Using CPU moves it into the future, by as much time
//! as the quota needs to give that much back; refusing is comparing it with now. What a request is expected to cost is
//! taken when it is let in, the difference when it has ended, so a bucket may go into debt.
//!
//! Whoever is refused for its quota while capacity is short pays for the refusal: else it would be at the expense of others.
//!
//! What a customer asks for is counted apart, by what it is expected to cost. One that asks for no more than its quota and has
//! used more met dear requests by chance: it is over its quota much later, and in a line that is full its place is not taken
//! before those of others (B4: when there is too much only those beyond their quota may see errors).
//!
//! Beside the bucket of all it uses, a customer may have one for each criticality: whichever is empty refuses.

use std::sync::OnceLock;

use super::config::Quota;
use super::rules::{is_recent, note_now_and_then};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::saturating_nanos;
use crate::{Criticality, CustomerId, Time};

/// The buckets of all customers that have a number; whoever has none of its own shares the first.
#[derive(Debug)]
pub(crate) struct Buckets {
    each: Box<[Bucket]>,
    /// Nanoseconds of CPU that a customer may use at once where its quota does not say.
    at_once: AtomicU64,
    /// For each customer those of its criticalities; there once any has such a ceiling.
    ceilings: OnceLock<Box<[[Level; 4]]>>,
}

#[derive(Debug, Default)]
struct Bucket {
    total: Level,
    /// How far ahead of now the level of all may be, and whether the quota leaves that open.
    burst: AtomicU64,
    is_default: AtomicU32,
    hard: AtomicU32,
    /// When one of each criticality was last refused for it.
    refused_at: [AtomicU64; 4],
    /// When one of each criticality was last started, within a millisecond.
    started_at: [AtomicU64; 4],
    /// The level of what is asked for of each criticality and all above it, refused or not, by what that is expected to cost.
    asked_at: [AtomicU64; 4],
}

/// How much is in a bucket.
#[derive(Debug, Default)]
struct Level {
    /// Nanoseconds of time that a nanosecond of CPU stands for, in units of 2^-20; 0 for no limit.
    price: AtomicU64,
    full_at: AtomicU64,
    /// The same for what counts as demand: a customer that is always over its quota still asks for that much, less what refusing
    /// it takes.
    counted_at: AtomicU64,
}

/// How a customer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Within,
    /// Over its quota, which bites only while capacity is short.
    OverSoft,
    /// The same of a ceiling that its criticality has of its own, which nobody else of its customer is measured by.
    OverCeiling,
    OverHard,
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets {
            each: (0..CUSTOMERS).map(|_| Bucket::default()).collect(),
            at_once: AtomicU64::new(u64::MAX),
            ceilings: OnceLock::new(),
        }
    }
}

impl Buckets {
    /// Sets what one customer may use, or that it has no limit.
    pub(crate) fn set(&self, customer: CustomerId, quota: Option<Quota>) {
        let number = customer.0 as usize;
        let Some(bucket) = self.each.get(number) else { return };
        bucket.set(quota, self.at_once.load(Ordering::Relaxed));
        let by_criticality = quota.map(|quota| quota.by_criticality).unwrap_or_default();
        let ceilings = match self.ceilings.get() {
            None if by_criticality == [None; 4] => return,
            _ => self.ceilings.get_or_init(|| (0..CUSTOMERS).map(|_| Default::default()).collect()),
        };
        for (level, cpu) in ceilings[number].iter().zip(by_criticality) {
            level.set(cpu);
        }
    }

    /// So many nanoseconds of CPU are what a customer may use at once where its quota does not say.
    pub(crate) fn set_at_once(&self, nanos: u64) {
        if self.at_once.swap(nanos, Ordering::Relaxed) != nanos {
            self.each.iter().for_each(|bucket| bucket.set_default_burst(nanos));
        }
    }

    /// Whether a request of this criticality may use more.
    #[inline]
    pub(crate) fn standing(&self, now: Time, customer: CustomerId, class: Criticality) -> Standing {
        self.standing_without(now, customer, class, 0)
    }

    /// The same for one that was charged so much already: its own is not held against it.
    pub(crate) fn standing_without(
        &self,
        now: Time,
        customer: CustomerId,
        class: Criticality,
        charged: u64,
    ) -> Standing {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return Standing::Within };
        let chance = if bucket.asks_for_more(now, class, charged) { 0 } else { bucket.chance() };
        let has_total = bucket.total.has_room(now, charged, bucket.share_of(class) + chance);
        let has_own = ceiling.is_none_or(|ceiling| ceiling.has_room(now, charged, self.whole_of(bucket, ceiling)));
        match (has_total, has_own) {
            (true, true) => Standing::Within,
            _ if bucket.hard.load(Ordering::Relaxed) != 0 => Standing::OverHard,
            (_, false) => Standing::OverCeiling,
            (false, true) => Standing::OverSoft,
        }
    }

    /// Whether a request that was charged so much is of a customer with a quota that asks for no more than that.
    pub(crate) fn is_entitled(&self, now: Time, customer: CustomerId, class: Criticality, charged: u64) -> bool {
        self.bucket(customer).is_some_and(|(_, bucket)| !bucket.asks_for_more(now, class, charged))
            && self.standing_without(now, customer, class, charged) == Standing::Within
    }

    /// A request is asked for, whatever becomes of it, that is expected to cost so many nanoseconds of CPU.
    #[inline]
    pub(crate) fn ask(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) {
        let Some((_, bucket)) = self.bucket(customer) else { return };
        let time = bucket.total.time_of(nanos);
        bucket.asked_at[..=class.index()].iter().for_each(|at| bucket.move_on(at, now, time));
    }

    /// One of this criticality was refused for its customer's quota, which took so many nanoseconds of CPU. They are part of what
    /// it uses: else one that asks for far too much would have its quota served, and be refused at the expense of others.
    pub(crate) fn note_refused(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return };
        bucket.refused_at[class.index()].store(now.nanos(), Ordering::Relaxed);
        let has_own = ceiling.is_none_or(|ceiling| ceiling.has_room(now, 0, self.whole_of(bucket, ceiling)));
        // One beyond the ceiling of its criticality takes nothing from those of its customer that matter more.
        if nanos == 0 || !has_own {
            return;
        }
        let time = bucket.total.time_of(nanos);
        bucket.pay(&bucket.total.full_at, now, time);
        bucket.pay(&bucket.total.counted_at, now, time);
    }

    /// Whether one of the same customer that matters more was refused for its quota a moment ago. Capacity that is short in
    /// one millisecond and not in the next would else serve by chance what matters less.
    pub(crate) fn refused_above(&self, now: Time, customer: CustomerId, class: Criticality) -> bool {
        let Some((_, bucket)) = self.bucket(customer) else { return false };
        bucket.refused_at[class.index() + 1..].iter().any(|at| is_recent(now, at))
    }

    /// One of this criticality begins.
    #[inline]
    pub(crate) fn note_started(&self, now: Time, customer: CustomerId, class: Criticality) {
        if let Some((_, bucket)) = self.bucket(customer) {
            note_now_and_then(now, &bucket.started_at[class.index()]);
        }
    }

    /// Whether one of the same customer that matters less was started a moment ago.
    pub(crate) fn started_below(&self, now: Time, customer: CustomerId, class: Criticality) -> bool {
        let Some((_, bucket)) = self.bucket(customer) else { return false };
        bucket.started_at[..class.index()].iter().any(|at| is_recent(now, at))
    }

    /// How many of so many requests of this cost each are part of what their customer may ask for. What is beyond is served while
    /// there is room, and is not for the others to make room for.
    pub(crate) fn demand_of(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64, count: u64) -> u64 {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return count };
        let of_ceiling = ceiling.map(|ceiling| (ceiling, self.whole_of(bucket, ceiling)));
        let levels = || std::iter::once((&bucket.total, bucket.share_of(class))).chain(of_ceiling);
        let counted = levels().map(|(level, most)| level.may_count(now, bucket, most, nanos)).min().unwrap_or(count);
        let counted = counted.min(count);
        if counted > 0 {
            levels().for_each(|(level, _)| level.count(now, bucket, nanos.saturating_mul(counted)));
        }
        counted
    }

    /// A request is let in that is expected to cost so many nanoseconds of CPU; says how many it was charged, which is what
    /// may be given back.
    #[inline]
    pub(crate) fn charge(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) -> u64 {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return 0 };
        for level in std::iter::once(&bucket.total).chain(ceiling) {
            bucket.move_on(&level.full_at, now, level.time_of(nanos));
        }
        nanos
    }

    /// One that was let in costs so much more than it was expected to: that is owed in full.
    pub(crate) fn charge_more(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return };
        for level in std::iter::once(&bucket.total).chain(ceiling) {
            let time = level.time_of(nanos);
            level.full_at.fetch_max(now.nanos(), Ordering::Relaxed);
            level.full_at.fetch_add(time, Ordering::Relaxed);
        }
    }

    /// Gives back what was charged beyond what was used.
    pub(crate) fn refund(&self, customer: CustomerId, class: Criticality, charged: u64, used: u64) {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return };
        for level in std::iter::once(&bucket.total).chain(ceiling) {
            let time = level.time_of(charged).saturating_sub(level.time_of(used));
            let less = |at: u64| Some(at.saturating_sub(time));
            let _always = level.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    pub(crate) fn is_limited(&self, customer: CustomerId) -> bool {
        self.bucket(customer).is_some()
    }

    /// Its bucket, and that of the criticality, where there are such limits.
    fn limited(&self, customer: CustomerId, class: Criticality) -> Option<(&Bucket, Option<&Level>)> {
        let (number, bucket) = self.bucket(customer)?;
        let ceiling = self.ceilings.get().map(|ceilings| &ceilings[number][class.index()]);
        Some((bucket, ceiling.filter(|ceiling| ceiling.is_limited())))
    }

    fn whole_of(&self, bucket: &Bucket, ceiling: &Level) -> u128 {
        bucket.whole_of(ceiling, self.at_once.load(Ordering::Relaxed))
    }

    fn bucket(&self, customer: CustomerId) -> Option<(usize, &Bucket)> {
        let own = customer.0 as usize;
        let number = if own < self.each.len() { own } else { 0 };
        let bucket = &self.each[number];
        bucket.total.is_limited().then_some((number, bucket))
    }
}

impl Bucket {
    /// What is used is told last, so that nobody meets a price without its burst.
    fn set(&self, quota: Option<Quota>, at_once: u64) {
        let burst = quota.and_then(|quota| quota.burst);
        let price = price_of(quota.map(|quota| quota.cpu));
        self.is_default.store(u32::from(quota.is_some() && burst.is_none()), Ordering::Relaxed);
        self.burst.store(burst.map_or(default_burst(price, at_once), saturating_nanos), Ordering::Relaxed);
        self.hard.store(u32::from(quota.is_some_and(|quota| quota.hard)), Ordering::Relaxed);
        self.total.price.store(price, Ordering::Relaxed);
    }

    fn set_default_burst(&self, at_once: u64) {
        if self.is_default.load(Ordering::Relaxed) != 0 {
            let price = self.total.price.load(Ordering::Relaxed);
            self.burst.store(default_burst(price, at_once), Ordering::Relaxed);
        }
    }

    /// How far ahead the level of one criticality may be: by default as much CPU at once as all of them have.
    fn whole_of(&self, ceiling: &Level, at_once: u64) -> u128 {
        if self.is_default.load(Ordering::Relaxed) == 0 {
            return self.whole();
        }
        default_burst(ceiling.price.load(Ordering::Relaxed), at_once).into()
    }

    /// The more it matters, the further the bucket may be emptied: the lowest is out first.
    fn share_of(&self, class: Criticality) -> u128 {
        self.whole() * (class.index() as u128 + 1) / 4
    }

    /// Whether what is asked for of this criticality and above is more than its quota, but for what was charged.
    fn asks_for_more(&self, now: Time, class: Criticality, charged: u64) -> bool {
        let ahead = self.asked_at[class.index()].load(Ordering::Relaxed).saturating_sub(now.nanos());
        u128::from(ahead.saturating_sub(self.total.time_of(charged))) >= self.whole()
    }

    /// How much further the bucket may be emptied by one that asks for no more than its quota: then its requests are dear by
    /// chance, and it is not the one that others are to be kept from. A burst that was set holds as it is, and so does a hard
    /// quota.
    fn chance(&self) -> u128 {
        let is_strict = self.is_default.load(Ordering::Relaxed) == 0 || self.hard.load(Ordering::Relaxed) != 0;
        if is_strict { 0 } else { self.whole() * CHANCE }
    }

    /// For a refusal: no further ahead than a few bursts, or one that asks for far too much would be kept out long after it asks
    /// for less; and what is owed already stays.
    fn pay(&self, at: &AtomicU64, now: Time, time: u64) {
        let most = self.most(now);
        let paid = |before: u64| (before < most).then(|| before.max(now.nanos()).saturating_add(time).min(most));
        let _owed_already = at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }

    fn move_on(&self, at: &AtomicU64, now: Time, time: u64) {
        // One that was let in though its customer owes more than a few bursts was let in because there is room: what was
        // once used is not held against it for ever.
        let most = self.most(now);
        let moved = |before: u64| Some(before.clamp(now.nanos(), most).saturating_add(time));
        let _always = at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }

    fn most(&self, now: Time) -> u64 {
        now.nanos().saturating_add(self.burst.load(Ordering::Relaxed).saturating_mul(DEBT_MOST))
    }

    fn whole(&self) -> u128 {
        u128::from(self.burst.load(Ordering::Relaxed))
    }
}

impl Level {
    /// So many CPU seconds in a second, or no limit.
    fn set(&self, cpu: Option<f64>) {
        self.price.store(price_of(cpu), Ordering::Relaxed);
    }

    fn is_limited(&self) -> bool {
        self.price.load(Ordering::Relaxed) != 0
    }

    fn has_room(&self, now: Time, charged: u64, most: u128) -> bool {
        let ahead = self.full_at.load(Ordering::Relaxed).saturating_sub(now.nanos());
        u128::from(ahead.saturating_sub(self.time_of(charged))) < most
    }

    /// How many of this cost there is room for: the last may be more than fits.
    fn may_count(&self, now: Time, bucket: &Bucket, most: u128, nanos: u64) -> u64 {
        let room = most.saturating_sub(u128::from(self.counted(now, bucket) - now.nanos()));
        u64::try_from(room.div_ceil(u128::from(self.time_of(nanos).max(1)))).unwrap_or(u64::MAX)
    }

    fn count(&self, now: Time, bucket: &Bucket, nanos: u64) {
        // Two threads may both find room: demand is an estimate.
        let time = self.time_of(nanos);
        self.counted_at.store(self.counted(now, bucket).saturating_add(time), Ordering::Relaxed);
    }

    /// Up to when demand was counted, never before now.
    fn counted(&self, now: Time, bucket: &Bucket) -> u64 {
        // Further ahead than anything counts: the clock was set back.
        let most = bucket.most(now).saturating_add(CHARGE_MOST_NANOS);
        let at = self.counted_at.load(Ordering::Relaxed);
        if at > most { now.nanos() } else { at.max(now.nanos()) }
    }

    /// What one charge of so much CPU stands for.
    fn time_of(&self, nanos: u64) -> u64 {
        time_at(self.price.load(Ordering::Relaxed), nanos)
    }
}

fn price_of(cpu: Option<f64>) -> u64 {
    cpu.map_or(0, |cpu| ((PRICE_UNIT as f64 / cpu) as u64).max(1))
}

fn time_at(price: u64, nanos: u64) -> u64 {
    let time = u128::from(nanos) * u128::from(price) / u128::from(PRICE_UNIT);
    u64::try_from(time).unwrap_or(CHARGE_MOST_NANOS).min(CHARGE_MOST_NANOS)
}

fn default_burst(price: u64, at_once: u64) -> u64 {
    time_at(price, at_once).min(BURST_MOST_NANOS)
}

/// Customers with a bucket of their own.
pub(crate) const CUSTOMERS: usize = if cfg!(loom) { 2 } else { 4_096 };
const PRICE_UNIT: u64 = 1 << 20;
const DEBT_MOST: u64 = 4;
/// Bursts that a customer may be further ahead whose requests are dear by chance. On two processors a customer with a tenth of them
/// that uses four fifths of it has costs of 2 and 40 ms a burst ahead for 6 % of the time, and four bursts for less than 0.01 %.
const CHANCE: u128 = 3;
/// How long a customer may use twice its quota where that does not say.
const BURST_MOST_NANOS: u64 = 1_000_000_000;
/// For how long, at the rate of its quota, a customer can owe for one charge: what costs more was read wrong, or is beyond
/// what keeping it out would mend.
const CHARGE_MOST_NANOS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests;
