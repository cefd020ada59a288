//! Retries that cannot explode (B12 to B15): whether a request whose attempt ended is tried again, and when.
//!
//! What a backend refused as too much never ran, so it is tried at once elsewhere, balanced like a new request. What
//! failed is tried again only where running it twice does no harm. Both at most `attempts` times a request, and for at
//! most a `share` of the requests of the last `window`, kept for each customer and for all together: in the worst case
//! load grows by that share. A verdict of *don't retry* ends it, and so does a client most of whose attempts are refused.
//!
//! A request that certainly never left is another matter: it costs nobody anything, so it has waits of its own and no
//! budget.

mod budget;
mod config;
mod hedge;

use std::sync::OnceLock;
use std::time::Duration;

use budget::{BUCKETS, Budget, Sums};
pub use config::{HedgeConfig, RetryConfig};
use hedge::Slowness;

use super::backend::BackendId;
use super::picker::Picker;
use super::throttle::CUSTOMERS_APART;
use crate::snapshot::RetryCounts;
use crate::sync::{AtomicU64, Ordering};
use crate::time::saturating_nanos;
use crate::{CustomerId, Mode, Outcome, RequestMeta, Rng, Time};

/// Whether an attempt that ended without an answer may be made once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Running it twice does no harm, or it certainly did not run.
    Safe,
    /// It may have run, and must not run twice.
    Unsafe,
    /// What was sent is not there any more: more of its body was read than is kept.
    Gone,
    /// The backend says that it is no use: what failed is behind it, and was tried again from there (B17).
    Useless,
}

/// How an attempt ended, as far as trying again goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Who had it.
    pub backend: BackendId,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether it may be made once more. One that a backend refused never ran, which is safe.
    pub repeat: Repeat,
    /// How long the backend asks to wait, if it does.
    pub pushback: Option<Duration>,
    /// Whether the next attempt may also go to another cluster that has somebody.
    pub elsewhere: bool,
}

/// The attempts of one request, kept by the driver from the first to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    retries: u8,
    /// Those of them that were for a failure.
    after_failures: u8,
    unsent: u8,
    /// Who refused or failed it last.
    pub(super) not: Option<BackendId>,
}

impl Tries {
    /// The next attempt of a request that began as `first`: the same, but for its number.
    pub fn meta(&self, first: &RequestMeta) -> RequestMeta {
        RequestMeta { attempt: first.attempt.saturating_add(self.retries), ..*first }
    }

    /// How often it was tried again after a backend had it.
    pub fn retries(&self) -> u8 {
        self.retries
    }

    /// How often it was sent again because it had certainly never left.
    pub fn unsent(&self) -> u8 {
        self.unsent
    }

    /// With one more attempt, after one at `backend` and for this cause.
    fn after(self, backend: BackendId, cause: Cause) -> Tries {
        let after_failures = self.after_failures.saturating_add(u8::from(cause == Cause::Failed));
        Tries { retries: self.retries.saturating_add(1), after_failures, not: Some(backend), ..self }
    }

    /// What whoever asked this process is to be told not to retry (B17), if anything, where the attempt that
    /// [`Picker::again`] allowed after one that ended so was not made: nobody took it, or its body is gone.
    pub fn bubbles_unmade(&self, outcome: Outcome) -> Option<Behind> {
        let made = Tries { after_failures: self.after_failures.saturating_sub(1), ..*self };
        Stop::NoOther.bubbles(outcome, &made)
    }

    /// Whether nothing was sent yet.
    pub fn is_first(&self) -> bool {
        self.retries == 0 && self.unsent == 0
    }
}

/// Why a further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A backend refused it as too much (B12).
    Overloaded,
    /// It failed, and running it twice does no harm.
    Failed,
    /// The first attempt takes long, and running it twice does no harm.
    Slow,
}

impl Cause {
    /// In the order of [`Cause::index`].
    pub const ALL: [Cause; 3] = [Cause::Overloaded, Cause::Failed, Cause::Slow];

    /// A place in an array.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Cause::Overloaded => "overloaded",
            Cause::Failed => "failed",
            Cause::Slow => "slow",
        }
    }
}

/// Why no further attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// There is nothing to mend: it was answered, its time is up, or its caller went away.
    Final,
    /// Retries are off.
    Off,
    /// Retries only observe: it would have been tried again, or would not for a reason that is counted.
    Observed,
    /// The service said not to (B13).
    DontRetry,
    /// It was tried as often as a request may be (B14).
    Attempts,
    /// This client's retries are as many as they may be (B15).
    Budget,
    /// Most of what this client sends is refused (B13).
    ManyRefuse,
    /// It may have run, and must not run twice.
    Unsafe,
    /// Its body is not kept.
    Gone,
    /// Its deadline comes first.
    TooLate,
    /// It never left, however often it was sent.
    Unsent,
    /// Nobody else can be sent to.
    NoOther,
}

impl Stop {
    /// In the order of [`Stop::index`].
    pub const ALL: [Stop; 12] = [
        Stop::Final,
        Stop::Off,
        Stop::Observed,
        Stop::DontRetry,
        Stop::Attempts,
        Stop::Budget,
        Stop::ManyRefuse,
        Stop::Unsafe,
        Stop::Gone,
        Stop::TooLate,
        Stop::Unsent,
        Stop::NoOther,
    ];
    /// Those that are counted: the others are nothing to look at.
    pub const COUNTED: [Stop; 9] = [
        Stop::DontRetry,
        Stop::Attempts,
        Stop::Budget,
        Stop::ManyRefuse,
        Stop::Unsafe,
        Stop::Gone,
        Stop::TooLate,
        Stop::Unsent,
        Stop::NoOther,
    ];

    /// A place in an array.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stop::Final => "final",
            Stop::Off => "off",
            Stop::Observed => "observed",
            Stop::DontRetry => "dont_retry",
            Stop::Attempts => "attempts",
            Stop::Budget => "budget",
            Stop::ManyRefuse => "many_refuse",
            Stop::Unsafe => "unsafe",
            Stop::Gone => "body_gone",
            Stop::TooLate => "too_late",
            Stop::Unsent => "unsent",
            Stop::NoOther => "no_other",
        }
    }

    /// What whoever asked this process is to be told not to retry either (B17), if anything: the layer directly above a
    /// refusal or a failure has done what can be done after these `tries`, or was told that nothing can.
    ///
    /// What failed was tried again and failed once more, or so much fails that the budget is spent. Whoever could not try
    /// it again for a reason of its own leaves that to the layer above.
    pub fn bubbles(self, outcome: Outcome, tries: &Tries) -> Option<Behind> {
        let (behind, is_done) = match outcome {
            Outcome::DontRetry | Outcome::OutOfQuota => (Behind::TooMuch, true),
            Outcome::Overloaded => (Behind::TooMuch, !matches!(self, Stop::Off | Stop::Observed)),
            Outcome::Failed => {
                (Behind::Failed, tries.after_failures > 0 || matches!(self, Stop::Budget | Stop::DontRetry))
            }
            Outcome::Served | Outcome::Expired | Outcome::Cancelled | Outcome::Unsent => return None,
        };
        is_done.then_some(behind)
    }
}

/// What a call made for a request ran into, that is not to be tried again by whoever made the request (B17). Of several
/// the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Behind {
    /// It failed, and was tried again in vain or could not be for want of budget.
    Failed = 1,
    /// It was refused as too much.
    TooMuch = 2,
}

/// The settings as a picker uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    mode: Mode,
    attempts: u8,
    share: f64,
    bucket_nanos: u64,
    refused_most: f64,
    wait: Duration,
    hedge: Mode,
    hedge_after: Option<Duration>,
}

impl From<&RetryConfig> for Settings {
    fn from(config: &RetryConfig) -> Self {
        Settings {
            mode: config.mode,
            attempts: u8::try_from(config.attempts).unwrap_or(u8::MAX),
            share: config.share,
            bucket_nanos: (saturating_nanos(config.window) / (BUCKETS as u64 - 1)).max(1),
            refused_most: config.refused_most,
            wait: config.wait,
            hedge: config.hedge.mode.min(config.mode),
            hedge_after: config.hedge.after,
        }
    }
}

impl Settings {
    #[inline]
    fn bucket(&self, now: Time) -> u64 {
        now.nanos() / self.bucket_nanos
    }
}

/// What all pickers of a client count for its retries.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// Of requests for nobody in particular: most clients have no others.
    nobody: Budget,
    /// Made with the first request for a customer; at 0 is what all share that have no place of their own.
    customers: OnceLock<Box<[Budget]>>,
    slowness: Slowness,
    made: [AtomicU64; Cause::ALL.len()],
    observed: [AtomicU64; Cause::ALL.len()],
    stopped: [AtomicU64; Stop::ALL.len()],
}

impl Retries {
    /// A request was begun on a backend.
    #[inline]
    pub(super) fn on_begun(&self, settings: &Settings, now: Time, meta: &RequestMeta) {
        if settings.mode != Mode::Off && meta.attempt == 0 {
            self.budget(meta.customer).on_request(settings.bucket(now));
        }
    }

    /// An attempt ended so; `unanswered` is how long it took, of a first one of whose answer nobody was told before.
    #[inline]
    pub(super) fn on_ended(
        &self,
        settings: &Settings,
        now: Time,
        customer: CustomerId,
        outcome: Outcome,
        unanswered: Option<Duration>,
    ) {
        if matches!(outcome, Outcome::Overloaded | Outcome::DontRetry) && settings.mode != Mode::Off {
            self.budget(customer).on_refused(settings.bucket(now));
        } else if let Some(took) = unanswered.filter(|_| settings.hedge != Mode::Off) {
            self.slowness.on_ended(outcome, took);
        }
    }

    fn budget(&self, customer: CustomerId) -> &Budget {
        match customer {
            CustomerId(0) => &self.nobody,
            CustomerId(number) => {
                let places = || (0..CUSTOMERS_APART).map(|_| Budget::default()).collect();
                let place = if number < CUSTOMERS_APART { number as usize } else { 0 };
                &self.customers.get_or_init(places)[place]
            }
        }
    }

    fn budgets(&self) -> impl Iterator<Item = &Budget> {
        std::iter::once(&self.nobody).chain(self.customers.get().into_iter().flatten())
    }

    /// Takes one from the budget of the customer and of all. What is not made after that is to be given back.
    fn take(&self, settings: &Settings, now: Time, customer: CustomerId) -> Result<(), Stop> {
        let (budget, bucket) = (self.budget(customer), settings.bucket(now));
        if !budget.take(bucket, settings.share) {
            return Err(Stop::Budget);
        }
        if self.customers.get().is_some() && self.is_over(budget.sums(bucket), bucket, settings.share) {
            budget.give_back(bucket);
            return Err(Stop::Budget);
        }
        Ok(())
    }

    /// Whether all customers together have more retries than they may, with one of `own` that was just counted in.
    ///
    /// Each rare caller has one in a window, as far as all rare callers together have asked often enough for that, or it is the
    /// only one. Takes some 700 looks, at a retry and only where there are customers.
    #[cold]
    fn is_over(&self, own: Sums, bucket: u64, share: f64) -> bool {
        let (mut all, mut rare) = (Sums::default(), Sums::default());
        for sums in self.budgets().map(|budget| budget.sums(bucket)) {
            all = all.and(sums);
            rare = if sums.whole(share) == 0 { rare.and(sums) } else { rare };
        }
        all.retries > all.whole(share) + 1 || (own.whole(share) == 0 && rare.retries > rare.most(share))
    }

    /// Whether there may be one, which only observes and takes nothing from those that are made.
    fn may_take(&self, settings: &Settings, now: Time, customer: CustomerId) -> Result<(), Stop> {
        let sums = self.budget(customer).sums(settings.bucket(now));
        if sums.left(settings.share) > 0 { Ok(()) } else { Err(Stop::Budget) }
    }

    fn are_refused(&self, settings: &Settings, now: Time, customer: CustomerId, share: f64) -> bool {
        self.budget(customer).sums(settings.bucket(now)).are_refused(share)
    }

    fn give_back(&self, settings: &Settings, now: Time, customer: CustomerId) {
        self.budget(customer).give_back(settings.bucket(now));
    }

    /// One is made, or would have been.
    fn count(&self, cause: Cause, mode: Mode) {
        let counts = if mode == Mode::On { &self.made } else { &self.observed };
        counts[cause.index()].fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self, stop: Stop) -> Stop {
        self.stopped[stop.index()].fetch_add(1, Ordering::Relaxed);
        stop
    }

    pub(super) fn counts(&self, settings: &Settings, now: Time) -> RetryCounts {
        let read =
            |counts: &[AtomicU64; Cause::ALL.len()]| std::array::from_fn(|index| counts[index].load(Ordering::Relaxed));
        let sums = self.budgets().map(|budget| budget.sums(settings.bucket(now)));
        // A customer that has asked nothing of late could have one too, and is not looked at.
        let (mut left, mut all) = (0, Sums::default());
        for sums in sums.filter(|sums| sums.requests > 0) {
            (left, all) = (left + sums.left(settings.share), all.and(sums));
        }
        let left = left.min((all.whole(settings.share) + 1).saturating_sub(all.retries));
        RetryCounts {
            made: read(&self.made),
            observed: read(&self.observed),
            stopped: Stop::COUNTED.map(|stop| self.stopped[stop.index()].load(Ordering::Relaxed)),
            left,
            hedge_after: (settings.hedge != Mode::Off).then(|| self.hedge_after(settings)).flatten(),
        }
    }

    /// Starts anew: the clock was set back, or the window has another length.
    pub(super) fn forget(&self) {
        self.budgets().for_each(Budget::clear);
    }

    fn hedge_after(&self, settings: &Settings) -> Option<Duration> {
        settings.hedge_after.or_else(|| self.slowness.estimate())
    }
}

impl Picker {
    /// An attempt of the request that began as `first` ended so: how long to wait before the next, or why there is none.
    /// To be asked after [`Picker::finish`]; where the answer is a wait, [`Picker::begin_again`] comes after it.
    pub fn again(
        &self,
        now: Time,
        first: &RequestMeta,
        tries: &mut Tries,
        fate: &Fate,
        rng: &mut Rng,
    ) -> Result<Duration, Stop> {
        let (settings, retries) = (&self.retrying, &self.slots.retries);
        let cause = match fate.outcome {
            Outcome::Unsent => return self.again_unsent(now, first, tries),
            Outcome::Overloaded => Cause::Overloaded,
            Outcome::Failed if fate.repeat == Repeat::Useless => return Err(self.told_not_to()),
            Outcome::Failed => Cause::Failed,
            verdict if verdict.forbids_retries() && settings.mode != Mode::Off => {
                return Err(retries.stop(Stop::DontRetry));
            }
            Outcome::DontRetry | Outcome::OutOfQuota | Outcome::Served | Outcome::Expired | Outcome::Cancelled => {
                return Err(Stop::Final);
            }
        };
        if settings.mode == Mode::Off {
            return Err(Stop::Off);
        }
        self.judge(now, first, tries, cause, fate, rng).map_err(|stop| {
            if stop != Stop::Observed {
                retries.stop(stop);
            }
            // Whoever only looks on has done nothing, whatever it would have been stopped by.
            if settings.mode == Mode::On { stop } else { Stop::Observed }
        })
    }

    /// Said in any mode, since a layer above is to hear it too, and counted unless retries are off.
    fn told_not_to(&self) -> Stop {
        match self.retrying.mode {
            Mode::Off => Stop::DontRetry,
            Mode::Observe | Mode::On => self.slots.retries.stop(Stop::DontRetry),
        }
    }

    fn judge(
        &self,
        now: Time,
        first: &RequestMeta,
        tries: &mut Tries,
        cause: Cause,
        fate: &Fate,
        rng: &mut Rng,
    ) -> Result<Duration, Stop> {
        let settings = &self.retrying;
        let attempt = tries.meta(first).attempt;
        if attempt.saturating_add(1) >= settings.attempts {
            return Err(Stop::Attempts);
        }
        match fate.repeat {
            Repeat::Safe => {}
            Repeat::Unsafe => return Err(Stop::Unsafe),
            Repeat::Gone => return Err(Stop::Gone),
            Repeat::Useless => return Err(Stop::DontRetry),
        }
        // A backend that asks for nothing but another attempt does not say where.
        let wait = match (fate.pushback.filter(|asked| !asked.is_zero()), cause) {
            (Some(asked), _) if asked > PUSHBACK_MOST => return Err(Stop::TooLate),
            (Some(asked), _) => asked,
            // With nobody else it is the service that has too much (B13).
            (None, Cause::Overloaded) if !fate.elsewhere && !self.has_other(first, fate.backend) => {
                return Err(Stop::NoOther);
            }
            (None, Cause::Overloaded | Cause::Slow) => Duration::ZERO,
            (None, Cause::Failed) => {
                let doubled = settings.wait.saturating_mul(1 << tries.retries.min(DOUBLINGS_MOST));
                doubled.mul_f64(0.5 + rng.unit())
            }
        };
        if now + wait >= first.deadline {
            return Err(Stop::TooLate);
        }
        let retries = &self.slots.retries;
        if cause == Cause::Overloaded && retries.are_refused(settings, now, first.customer, settings.refused_most) {
            return Err(Stop::ManyRefuse);
        }
        retries.take(settings, now, first.customer)?;
        retries.count(cause, settings.mode);
        if settings.mode != Mode::On {
            return Err(Stop::Observed);
        }
        *tries = tries.after(fate.backend, cause);
        Ok(wait)
    }

    /// Whether anybody else stands ready with room.
    fn has_other(&self, request: &RequestMeta, not: BackendId) -> bool {
        let ready = self.candidates_for(request).first(self.awake);
        (0..ready.len()).any(|place| ready.backend(place) != Some(not) && ready.has_room(place))
    }

    /// It certainly never left: the news of a connection that ended is a moment behind it, and whoever is picked next
    /// knows of it.
    fn again_unsent(&self, now: Time, first: &RequestMeta, tries: &mut Tries) -> Result<Duration, Stop> {
        let retries = &self.slots.retries;
        let wait = *UNSENT_WAITS.get(usize::from(tries.unsent)).ok_or_else(|| retries.stop(Stop::Unsent))?;
        if now + wait >= first.deadline {
            return Err(retries.stop(Stop::TooLate));
        }
        tries.unsent += 1;
        Ok(wait)
    }
}

/// Before each further try of a request that never left.
pub const UNSENT_WAITS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(5)];
/// Whoever asks to wait for longer does not want it again.
const PUSHBACK_MOST: Duration = Duration::from_secs(10);
/// More attempts than there may be.
const DOUBLINGS_MOST: u8 = 8;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_all() {
        assert!(Cause::ALL.into_iter().enumerate().all(|(place, cause)| cause.index() == place));
        assert!(Stop::ALL.into_iter().enumerate().all(|(place, stop)| stop.index() == place));
    }

    #[test]
    fn a_refusal_goes_up_as_dont_retry_once_this_layer_is_done_with_it() {
        let first = Tries::default();
        for stop in Stop::ALL {
            for verdict in [Outcome::DontRetry, Outcome::OutOfQuota] {
                assert_eq!(stop.bubbles(verdict, &first), Some(Behind::TooMuch));
            }
            // Whoever does not retry, or only looks, leaves it to the layer above, which is then the first that does.
            let told = (!matches!(stop, Stop::Off | Stop::Observed)).then_some(Behind::TooMuch);
            assert_eq!(stop.bubbles(Outcome::Overloaded, &first), told);
            for outcome in [Outcome::Served, Outcome::Expired, Outcome::Cancelled, Outcome::Unsent] {
                let second = first.after(BackendId(1), Cause::Failed);
                assert_eq!(stop.bubbles(outcome, &second), None, "{stop:?} {outcome:?}");
            }
        }
    }

    #[test]
    fn a_failure_goes_up_as_dont_retry_once_it_failed_again_or_the_budget_is_spent() {
        let (first, after) = (Tries::default(), |cause| Tries::default().after(BackendId(1), cause));
        let again = after(Cause::Failed);
        for stop in Stop::ALL {
            let told = matches!(stop, Stop::Budget | Stop::DontRetry).then_some(Behind::Failed);
            assert_eq!(stop.bubbles(Outcome::Failed, &first), told, "{stop:?}");
            // Refused or slow elsewhere before, it has failed once.
            for cause in [Cause::Overloaded, Cause::Slow] {
                assert_eq!(stop.bubbles(Outcome::Failed, &after(cause)), told, "{stop:?} {cause:?}");
            }
            assert_eq!(stop.bubbles(Outcome::Failed, &again), Some(Behind::Failed), "{stop:?}");
        }

        // One that was allowed and not made has not failed.
        assert_eq!(again.bubbles_unmade(Outcome::Failed), None);
        assert_eq!(after(Cause::Overloaded).bubbles_unmade(Outcome::Overloaded), Some(Behind::TooMuch));
        assert_eq!(again.after(BackendId(2), Cause::Failed).bubbles_unmade(Outcome::Failed), Some(Behind::Failed));
    }
}
