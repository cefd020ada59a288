//! What each customer may use (B4, B6, B9), charged before its cost is known (DESIGN §5).
//!
//! A bucket is one number: the moment at which it will be full again. Using CPU moves it into the future, by as much time
//! as the quota needs to give that much back; refusing is comparing it with now. What a request is expected to cost is
//! taken when it is let in, the difference when it has ended, so a bucket may go into debt.
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
    /// The same for what counts as demand, which is never in debt: a customer that is always over its quota still asks for that
    /// much.
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
        let times = if bucket.asks_for_more(now, class, charged) { 1 } else { bucket.chance() };
        let has_total = bucket.total.has_room(now, charged, bucket.share_of(class) * times);
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

    /// One of this criticality was refused for its customer's quota.
    pub(crate) fn note_refused(&self, now: Time, customer: CustomerId, class: Criticality) {
        if let Some((_, bucket)) = self.bucket(customer) {
            bucket.refused_at[class.index()].store(now.nanos(), Ordering::Relaxed);
        }
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

    /// Whether a request that is expected to cost so much is part of what its customer may ask for. What is beyond is served while
    /// there is room, and is not for the others to make room for.
    pub(crate) fn is_demand(&self, now: Time, customer: CustomerId, class: Criticality, nanos: u64) -> bool {
        let Some((bucket, ceiling)) = self.limited(customer, class) else { return true };
        let counts = bucket.total.may_count(now, bucket, bucket.share_of(class))
            && ceiling.is_none_or(|ceiling| ceiling.may_count(now, bucket, self.whole_of(bucket, ceiling)));
        if counts {
            for level in std::iter::once(&bucket.total).chain(ceiling) {
                level.count(now, bucket, nanos);
            }
        }
        counts
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
        u128::from(ahead.saturating_sub(self.total.time_of(charged))) >= self.share_of(class)
    }

    /// How much further the bucket may be emptied by one that asks for no more than its quota: then its requests are dear by
    /// chance, and it is not the one that others are to be kept from. A burst that was set holds as it is, and so does a hard
    /// quota.
    fn chance(&self) -> u128 {
        let is_strict = self.is_default.load(Ordering::Relaxed) == 0 || self.hard.load(Ordering::Relaxed) != 0;
        if is_strict { 1 } else { CHANCE }
    }

    fn move_on(&self, at: &AtomicU64, now: Time, time: u64) {
        // One that was let in though its customer owes more than a few bursts was let in because there is room: what was
        // once used is not held against it for ever.
        let most = now.nanos().saturating_add(self.burst.load(Ordering::Relaxed).saturating_mul(DEBT_MOST));
        let moved = |before: u64| Some(before.clamp(now.nanos(), most).saturating_add(time));
        let _always = at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
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

    fn may_count(&self, now: Time, bucket: &Bucket, most: u128) -> bool {
        u128::from(self.counted(now, bucket) - now.nanos()) < most
    }

    fn count(&self, now: Time, bucket: &Bucket, nanos: u64) {
        // Two threads may both find room: demand is an estimate.
        let time = self.time_of(nanos);
        self.counted_at.store(self.counted(now, bucket).saturating_add(time), Ordering::Relaxed);
    }

    /// Up to when demand was counted, never before now.
    fn counted(&self, now: Time, bucket: &Bucket) -> u64 {
        // Further ahead than anything counts: the clock was set back.
        let most = now.nanos().saturating_add(bucket.burst.load(Ordering::Relaxed)).saturating_add(CHARGE_MOST_NANOS);
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
/// Bursts that a customer may be ahead whose requests are dear by chance. On two processors a customer with a tenth of them that uses
/// four fifths of it has costs of 2 and 40 ms a burst ahead for 6 % of the time, and four bursts for less than 0.01 %.
const CHANCE: u128 = 4;
/// How long a customer may use twice its quota where that does not say.
const BURST_MOST_NANOS: u64 = 1_000_000_000;
/// For how long, at the rate of its quota, a customer can owe for one charge: what costs more was read wrong, or is beyond
/// what keeping it out would mend.
const CHARGE_MOST_NANOS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::admission::rules::Spans;
    use crate::server::gate::{Gate, GateLocal};
    use crate::{RequestMeta, Rng};

    const MS: u64 = 1_000_000;

    fn buckets(hard: bool) -> Buckets {
        let buckets = Buckets::default();
        let quota = Quota { hard, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
        buckets.set(CustomerId(7), Some(quota));
        buckets
    }

    #[test]
    fn what_matters_less_is_refused_for_a_moment_after_what_matters_more_though_there_is_room_again() {
        let (gate, now, search) = (Gate::default(), Time::from_secs(10), CustomerId(7));
        gate.buckets().set(search, Some(Quota { burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) }));
        gate.buckets().charge_more(now, search, Criticality::Critical, 5_000 * MS);
        let refused = |now: Time, criticality, customer| {
            let meta = RequestMeta { criticality, customer, ..RequestMeta::default() };
            gate.admit(&mut GateLocal::default(), now, &meta, &mut Rng::from_seed(7)).is_err()
        };
        assert!(!refused(now, Criticality::Sheddable, search), "over its quota, and there is room");
        let now = now + Duration::from_millis(20);
        gate.rules().set_short(true);
        assert!(refused(now, Criticality::Critical, search));
        gate.rules().set_short(false);

        let soon = now + Duration::from_millis(5);
        assert!(refused(soon, Criticality::Sheddable, search));
        assert!(
            !refused(soon, Criticality::CriticalPlus, search) && !refused(soon, Criticality::Sheddable, CustomerId(8))
        );
        assert!(!refused(now + Duration::from_millis(20), Criticality::Sheddable, search));
    }

    #[test]
    fn what_matters_more_is_refused_for_a_quota_only_a_moment_after_what_matters_less_was_let_in() {
        for (own, queued, expected) in [(None, 0, false), (Some(0.1), 0, true), (None, 300 * MS, true)] {
            let (gate, now, search) = (Gate::default(), Time::from_secs(10), CustomerId(7));
            let by_criticality = [None, None, own, None];
            let quota = Quota { by_criticality, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
            gate.buckets().set(search, Some(quota));
            gate.buckets().charge_more(now, search, Criticality::Critical, 5_000 * MS);
            gate.rules().set_spans(Spans { burst: 100 * MS, ..gate.rules().spans() });
            let refused = |after: u64, criticality| {
                let meta = RequestMeta { criticality, customer: search, ..RequestMeta::default() };
                let now = now + Duration::from_millis(after);
                gate.admit(&mut GateLocal::default(), now, &meta, &mut Rng::from_seed(7)).is_err()
            };
            assert!(!refused(0, Criticality::Sheddable), "over its quota, and there is room");

            gate.rules().set_short(true);
            gate.rules().set_queued(queued);

            // Neither its own ceiling nor a line that is far too long waits for those below.
            assert_eq!(refused(5, Criticality::Critical), expected, "{own:?} {queued}");
            assert!(refused(5, Criticality::Sheddable));
            assert!(refused(20, Criticality::Critical));
        }
    }

    #[test]
    fn who_asks_for_no_more_than_its_quota_is_not_over_it_for_what_costs_much_by_chance() {
        let (now, class) = (Time::from_secs(10), Criticality::Critical);
        let quota = Quota::of_cpu(0.2);
        let set = Quota { burst: Some(Duration::from_millis(900)), ..quota };
        // On two processors three quarters of 180 ms are a burst of this criticality; 40 requests of 4 ms are 0.8 of the quota.
        for (asked, used, quota, expected) in [
            (40, 160, quota, Standing::Within),
            (400, 160, quota, Standing::OverSoft),
            (40, 900, quota, Standing::OverSoft),
            (40, 160, set, Standing::OverSoft),
        ] {
            let (buckets, search) = (Buckets::default(), CustomerId(7));
            buckets.set_at_once(180 * MS);
            buckets.set(search, Some(quota));
            let at = |request: u64| now + Duration::from_micros(request * 1_000_000 / asked);

            (0..asked).for_each(|request| buckets.ask(at(request), search, class, 4 * MS));
            buckets.charge_more(at(asked), search, class, used * MS);

            assert_eq!(buckets.standing(at(asked), search, class), expected, "{asked} {used}");
            assert_eq!(buckets.is_entitled(at(asked), search, class, 0), expected == Standing::Within);
        }
    }

    #[test]
    fn what_matters_less_and_is_asked_for_often_takes_nothing_from_what_matters_more() {
        let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
        buckets.set_at_once(180 * MS);
        buckets.set(search, Some(Quota::of_cpu(0.2)));

        (0..1_000).for_each(|_| buckets.ask(now, search, Criticality::Sheddable, 4 * MS));

        assert!(!buckets.is_entitled(now, search, Criticality::Sheddable, 0));
        assert!(buckets.is_entitled(now, search, Criticality::Critical, 0));
        assert!(!buckets.is_entitled(now, CustomerId(8), Criticality::Critical, 0), "nobody promised it anything");
    }

    #[test]
    fn the_lowest_criticality_is_out_first_and_others_are_not_touched() {
        let (buckets, now, search) = (buckets(false), Time::from_secs(10), CustomerId(7));
        // Half a CPU second fills the burst of a second at half a CPU.
        for (used, out) in [(0, 0), (130, 1), (130, 2), (130, 3), (130, 4)] {
            buckets.charge(now, search, Criticality::Critical, used * MS);
            let over = Criticality::ALL.map(|class| buckets.standing(now, search, class) == Standing::OverSoft);
            assert_eq!(over.iter().filter(|over| **over).count(), out, "{used}");
            assert!(over.is_sorted_by(|lower, higher| lower >= higher));
        }
        assert_eq!(buckets.standing(now, CustomerId(8), Criticality::Sheddable), Standing::Within);
        assert_eq!(buckets.standing(now + Duration::from_secs(2), search, Criticality::Sheddable), Standing::Within);
    }

    #[test]
    fn what_was_taken_too_much_comes_back_and_debt_has_an_end() {
        let (buckets, now, search) = (buckets(true), Time::from_secs(10), CustomerId(7));
        buckets.charge(now, search, Criticality::Critical, 600 * MS);
        assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
        buckets.refund(search, Criticality::Critical, 600 * MS, 10 * MS);
        assert_eq!(buckets.standing(now, search, Criticality::Sheddable), Standing::Within);

        buckets.charge(now, search, Criticality::Critical, u64::MAX);
        assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
        let later = now + Duration::from_secs(65);
        assert_eq!(buckets.standing(later, search, Criticality::CriticalPlus), Standing::Within);
    }

    #[test]
    fn what_is_kept_of_a_charge_beyond_the_most_is_what_was_used() {
        let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
        let (class, quota) = (Criticality::CriticalPlus, Quota::of_cpu(0.001));
        buckets.set(search, Some(Quota { hard: true, burst: Some(Duration::from_secs(1)), ..quota }));
        // A minute is charged for a hundred seconds of that quota, and fifty were used.
        buckets.charge(now, search, class, 100 * MS);
        assert_eq!(buckets.standing_without(now, search, class, 100 * MS), Standing::Within);

        buckets.refund(search, class, 100 * MS, 50 * MS);

        let standing = [48, 50].map(|after| buckets.standing(now + Duration::from_secs(after), search, class));
        assert_eq!(standing, [Standing::OverHard, Standing::Within]);
    }

    #[test]
    fn requests_dearer_than_the_burst_are_paid_for_all_the_same() {
        let (buckets, search) = (buckets(true), CustomerId(7));
        // Ten CPU seconds each, of half a CPU: one in twenty seconds.
        let asked = (0..600).map(|second| Time::from_secs(1_000 + second));
        let let_in = asked.filter(|&now| {
            let may = buckets.standing(now, search, Criticality::CriticalPlus) == Standing::Within;
            may && buckets.charge(now, search, Criticality::Critical, 10_000 * MS) == 10_000 * MS
        });
        let count = let_in.count();
        assert!((29..=32).contains(&count), "{count}");
    }

    #[test]
    fn a_customer_that_is_always_over_its_quota_still_asks_for_that_much() {
        let (buckets, search) = (buckets(false), CustomerId(7));
        // Two CPUs asked for in requests of 10 ms, for ten seconds; half a CPU is its quota.
        let counted = (0..2_000).filter(|&request| {
            let now = Time::from_millis(10_000 + request * 5);
            buckets.charge(now, search, Criticality::Critical, 10 * MS);
            buckets.is_demand(now, search, Criticality::Critical, 10 * MS)
        });
        // 5 CPU seconds in ten seconds, and what the burst had besides.
        let count = counted.count();
        assert!((500..=540).contains(&count), "{count}");
        assert_eq!(buckets.standing(Time::from_secs(20), search, Criticality::Critical), Standing::OverSoft);
    }

    #[test]
    fn nothing_is_given_back_that_was_not_taken() {
        let (buckets, now, free) = (Buckets::default(), Time::from_secs(10), CustomerId(9));
        assert_eq!(buckets.charge(now, free, Criticality::Critical, 500 * MS), 0);
    }

    #[test]
    fn a_criticality_has_a_ceiling_of_its_own_within_that_of_its_customer() {
        let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
        let by_criticality = [Some(0.1), None, None, None];
        let quota = Quota { by_criticality, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
        buckets.set(search, Some(quota));
        let is_within = |class| buckets.standing(now, search, class) == Standing::Within;
        let (batch, most) = (Criticality::Sheddable, Criticality::CriticalPlus);
        // A tenth of a CPU second fills the burst of its ceiling, and a fifth of that of the customer.
        assert_eq!(buckets.charge(now, search, batch, 99 * MS), 99 * MS);
        assert!(is_within(batch) && buckets.is_demand(now, search, batch, 99 * MS));
        buckets.charge(now, search, batch, MS);
        buckets.is_demand(now, search, batch, MS);
        assert!(!is_within(batch) && !buckets.is_demand(now, search, batch, MS));
        assert!(is_within(Criticality::SheddablePlus) && buckets.is_demand(now, search, most, MS));

        buckets.refund(search, batch, 50 * MS, 0);
        assert!(is_within(batch));
        buckets.charge_more(now, search, most, 480 * MS);
        assert!(Criticality::ALL.into_iter().all(|class| !is_within(class)), "the customer as a whole is out");

        buckets.set(search, Some(Quota { burst: Some(Duration::from_secs(10)), ..Quota::of_cpu(5.0) }));
        assert!(is_within(batch), "a ceiling that is gone holds nobody back");
        assert_eq!(buckets.standing(now, CustomerId(8), batch), Standing::Within);
    }

    #[test]
    fn a_burst_that_is_left_open_is_what_may_be_used_at_once_and_a_second_at_most() {
        let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
        let by_criticality = [None, None, Some(0.1), None];
        buckets.set_at_once(40 * MS);
        buckets.set(search, Some(Quota { by_criticality, hard: true, ..Quota::of_cpu(0.5) }));
        let stands = |class| buckets.standing(now, search, class);

        // 40 ms of CPU are 80 ms of half a processor, and 400 ms of a tenth of one.
        buckets.charge(now, search, Criticality::Critical, 25 * MS);
        assert_eq!(stands(Criticality::Critical), Standing::Within);
        buckets.charge(now, search, Criticality::CriticalPlus, 10 * MS);
        assert_eq!(stands(Criticality::CriticalPlus), Standing::Within);
        buckets.charge(now, search, Criticality::CriticalPlus, 10 * MS);
        assert_eq!(stands(Criticality::CriticalPlus), Standing::OverHard);

        // More processors were found; however many, what is owed is given back within a second.
        buckets.set_at_once(80 * MS);
        assert_eq!(stands(Criticality::CriticalPlus), Standing::Within);
        buckets.set_at_once(u64::MAX);
        buckets.charge(now, search, Criticality::CriticalPlus, 500 * MS);
        assert_eq!(stands(Criticality::CriticalPlus), Standing::OverHard);
    }
}
