//! Adaptive throttling (B7): a client that keeps being refused sends less.
//!
//! *Local*: counts what the application asked for and what the service took over the last two minutes, for each customer
//! and criticality, and refuses by itself with probability `max(0, (requests - k · accepts) / (requests + 1))`. At `k = 2`
//! the service sees at most about two requests for each one it takes, however many the application makes. Needs nothing
//! from the service, and is slow: it takes a window to settle.
//!
//! *Hints*: where backends say what they admit, each is taken at its word (`hints.rs`). What a hint explains is not
//! counted for the local half, so nothing is thinned twice; a refusal without one, as for a quota, is.
//!
//! Whatever is not sent is told to a backend with the next request that is (`held.rs`), unless it is for a quota: a server
//! that saw only what comes would take a service that is asked for too much for one that is just full.

mod held;
mod hints;
mod tally;

use std::sync::OnceLock;
use std::time::Duration;

use held::Held;
pub use held::HeldBack;
pub(crate) use hints::Hints;
use tally::{BUCKETS, Tally};

use super::refusal::Refusal;
use crate::snapshot::ThrottleCounts;
use crate::sync::{AtomicU64, Ordering};
use crate::time::saturating_nanos;
use crate::{Criticality, CustomerId, InvalidConfig, Mode, Outcome, RequestMeta, Rng, Time};

/// How a client sends less to a service that refuses it (B7). Off with both modes off.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottleConfig {
    /// Refuses by what was accepted of late. Default on.
    pub local: Mode,
    /// Refuses by what backends said they admit. Default on.
    pub hints: Mode,
    /// Requests sent for each one accepted. Lower backs off sooner, and notices later that there is room again. Default 2.
    pub k: f64,
    /// How far back requests and accepts count. Shorter settles and recovers sooner, and swings more. Default 120 s.
    pub window: Duration,
    /// Requests in the window below which the local half refuses nothing: rare callers send all. Default 20.
    pub least: u32,
}

impl Default for ThrottleConfig {
    fn default() -> Self {
        ThrottleConfig { local: Mode::On, hints: Mode::On, k: 2.0, window: Duration::from_secs(120), least: 20 }
    }
}

impl ThrottleConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::unless_in_range("throttle.k", self.k, 1.01, 100.0)?;
        let (least, most) = (Duration::from_secs(1), Duration::from_secs(600));
        InvalidConfig::unless_in_range("throttle.window", self.window, least, most)?;
        InvalidConfig::unless_in_range("throttle.least", self.least, 1, 1_000_000)
    }
}

/// The settings as a picker uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    local: Mode,
    pub(crate) hints: Mode,
    k: f64,
    bucket_nanos: u64,
    least: f64,
}

impl From<&ThrottleConfig> for Settings {
    fn from(config: &ThrottleConfig) -> Self {
        let bucket_nanos = (saturating_nanos(config.window) / (BUCKETS as u64 - 1)).max(1);
        Settings { local: config.local, hints: config.hints, k: config.k, bucket_nanos, least: f64::from(config.least) }
    }
}

impl Settings {
    fn bucket(&self, now: Time) -> u64 {
        now.nanos() / self.bucket_nanos
    }
}

/// Which of the two refused, or would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Local,
    Hints,
}

/// What all pickers of a client count for its throttling.
#[derive(Debug)]
pub(crate) struct Throttle {
    pub(crate) hints: Hints,
    /// Requests for nobody in particular: most clients have no others.
    nobody: [Tally; LEVELS],
    /// Made with a customer's first request; at 0 is what all customers share that have no place of their own.
    customers: [OnceLock<Box<[Tally; LEVELS]>>; CUSTOMERS_APART as usize],
    /// By half, then by criticality.
    refused: [[AtomicU64; LEVELS]; 2],
    observed: [[AtomicU64; LEVELS]; 2],
    /// Refused by the local half for customers that were out of quota, which says nothing of the service.
    for_quota: AtomicU64,
    /// Refused by the local half for overload, or taken from a backend's hints and not sent after all: no backend has been told
    /// of them. And when the last came, in nanoseconds.
    held: Held,
    held_at: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle {
            hints: Hints::default(),
            nobody: Default::default(),
            customers: std::array::from_fn(|_| OnceLock::new()),
            refused: Default::default(),
            observed: Default::default(),
            for_quota: AtomicU64::new(0),
            held: Held::default(),
            held_at: AtomicU64::new(0),
        }
    }
}

impl Throttle {
    /// Refuses by what the service took of late from this customer at this criticality.
    #[inline]
    pub(crate) fn admit(
        &self,
        settings: &Settings,
        now: Time,
        meta: &RequestMeta,
        rng: &mut Rng,
    ) -> Result<(), Refusal> {
        if settings.local == Mode::Off {
            return Ok(());
        }
        match self.find(meta.customer).map(|levels| &levels[meta.criticality.index()]) {
            Some(tally) if tally.has_refused() => self.weigh(tally, settings, now, meta, rng),
            _ => Ok(()),
        }
    }

    /// Whether some of such requests are refused now, or would be.
    pub(crate) fn thins(&self, settings: &Settings, now: Time, meta: &RequestMeta) -> bool {
        let tally = self.find(meta.customer).map(|levels| &levels[meta.criticality.index()]);
        settings.local != Mode::Off
            && tally.is_some_and(|tally| tally.has_refused() && excess(tally, settings, now).is_some())
    }

    #[cold]
    fn weigh(
        &self,
        tally: &Tally,
        settings: &Settings,
        now: Time,
        meta: &RequestMeta,
        rng: &mut Rng,
    ) -> Result<(), Refusal> {
        match excess(tally, settings, now) {
            Some((requests, excess)) if rng.unit() * (requests + 1.0) < excess => {}
            _ => return Ok(()),
        }
        self.count(Half::Local, settings.local, meta.criticality);
        if settings.local != Mode::On {
            return Ok(());
        }
        if tally.has_overload_lately(settings.bucket(now)) {
            if settings.hints != Mode::Off {
                self.forget_old(now);
                self.held.add_one(meta.customer, meta.criticality);
            }
        } else {
            self.for_quota.fetch_add(1, Ordering::Relaxed);
        }
        // A local refusal counts as a request, or a throttled client forgets why it throttles.
        tally.add(settings.bucket(now), false);
        Err(Refusal::Throttled)
    }

    /// An attempt's fate is known. `explained`: a hint came with it, which says better what to send.
    #[inline]
    pub(crate) fn settle(
        &self,
        settings: &Settings,
        now: Time,
        (customer, level): (CustomerId, Criticality),
        outcome: Outcome,
        explained: bool,
    ) {
        if settings.local == Mode::Off {
            return;
        }
        let accepted = match outcome {
            Outcome::Served | Outcome::Failed => true,
            Outcome::Overloaded | Outcome::DontRetry if explained => return,
            Outcome::Overloaded | Outcome::DontRetry | Outcome::OutOfQuota | Outcome::Expired => false,
            // Nobody's refusal: the caller went away, or nobody was asked.
            Outcome::Cancelled | Outcome::Unsent => return,
        };
        let (tally, bucket) = (&self.make(customer)[level.index()], settings.bucket(now));
        tally.add(bucket, accepted);
        if !accepted && outcome != Outcome::OutOfQuota {
            tally.on_overload(bucket);
        }
    }

    /// What to tell a backend with a request that goes there: what was held back because of its hints, and what the local half
    /// has refused since any backend was told, where that is of the same customer; else the greater of the two. Nothing where
    /// hints are off: who listens to no backend tells none.
    #[inline]
    pub(crate) fn take_held(&self, settings: &Settings, now: Time, slot: u32) -> HeldBack {
        if settings.hints == Mode::Off {
            return HeldBack::default();
        }
        let is_old = now.nanos().saturating_sub(self.held_at.load(Ordering::Relaxed)) > HELD_FOR_NANOS;
        let own = if is_old { HeldBack::default() } else { self.held.take() };
        let hinted = if self.hints.any(now) { self.hints.take_held(slot) } else { HeldBack::default() };
        own.with(hinted).unwrap_or_else(|| {
            // The other grows until it is its turn.
            if own.sum() > hinted.sum() {
                self.hints.keep_held(slot, hinted);
                return own;
            }
            self.held.add(own);
            hinted
        })
    }

    /// What was taken was not told.
    pub(crate) fn return_held(&self, now: Time, held: HeldBack) {
        self.forget_old(now);
        self.held.add(held);
    }

    /// Something is held now: what was held long before it is no news any more.
    fn forget_old(&self, now: Time) {
        let last = self.held_at.swap(now.nanos(), Ordering::Relaxed);
        if now.nanos().saturating_sub(last) > HELD_FOR_NANOS {
            self.held.clear();
        }
    }

    /// One of the halves refused a request, or would have.
    pub(crate) fn count(&self, half: Half, mode: Mode, level: Criticality) {
        let counts = if mode == Mode::On { &self.refused } else { &self.observed };
        counts[half as usize][level.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that were not sent because their customer is out of quota.
    pub(crate) fn for_quota(&self) -> u64 {
        self.for_quota.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> ThrottleCounts {
        let read = |counts: &[AtomicU64; LEVELS]| std::array::from_fn(|index| counts[index].load(Ordering::Relaxed));
        let ([local, hints], [local_observed, hints_observed]) = (&self.refused, &self.observed);
        ThrottleCounts {
            local: read(local),
            hints: read(hints),
            local_observed: read(local_observed),
            hints_observed: read(hints_observed),
        }
    }

    /// Starts anew: the clock was set back, or the window has another length.
    pub(crate) fn forget(&self) {
        let made = self.customers.iter().filter_map(OnceLock::get).map(|levels| &**levels);
        made.chain([&self.nobody]).flatten().for_each(Tally::clear);
        self.held.clear();
    }

    fn find(&self, customer: CustomerId) -> Option<&[Tally; LEVELS]> {
        match customer {
            CustomerId(0) => Some(&self.nobody),
            other => self.customers[place(other)].get().map(|levels| &**levels),
        }
    }

    fn make(&self, customer: CustomerId) -> &[Tally; LEVELS] {
        match customer {
            CustomerId(0) => &self.nobody,
            other => self.customers[place(other)].get_or_init(Box::default),
        }
    }
}

/// Requests of the window, and how many of them are too many, if some are.
fn excess(tally: &Tally, settings: &Settings, now: Time) -> Option<(f64, f64)> {
    let bucket = settings.bucket(now);
    if !tally.has_refused_lately(bucket) {
        return None;
    }
    let into = (now.nanos() % settings.bucket_nanos) as f64 / settings.bucket_nanos as f64;
    let (requests, accepts) = tally.sums(bucket, into);
    let excess = requests - settings.k * accepts;
    (requests >= settings.least && excess > 0.0).then_some((requests, excess))
}

/// Of a customer that is somebody in particular.
fn place(CustomerId(number): CustomerId) -> usize {
    if number < CUSTOMERS_APART { number as usize } else { 0 }
}

const LEVELS: usize = Criticality::ALL.len();
/// Customers with smaller numbers have counts of their own, half a kilobyte each; all others share.
pub const CUSTOMERS_APART: u32 = 64;
/// How long what was held back is news.
const HELD_FOR_NANOS: u64 = 5_000_000_000;

#[cfg(all(test, not(loom)))]
mod tests;
