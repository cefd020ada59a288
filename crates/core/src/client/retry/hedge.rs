//! A second attempt beside one that takes long: after how long, and whether.
//!
//! Late is what one first attempt in twenty takes longer than, up to the head of its answer. The estimate moves a little
//! with each of them: up by nineteen parts if it took longer, down by one if not. It rests where one in twenty takes
//! longer, whatever their distribution is. One that was cut, because another attempt answered or nobody waits any more,
//! would have taken longer than it did: it can move the estimate up, and never down. Threads may lose a step to each other.
//!
//! A hedge is work that nobody may need, so there is none where the service shows any sign of having too much.

use std::time::Duration;

use super::{Cause, Picker, Stop, Tries};
use crate::client::backend::BackendId;
use crate::client::picker::{Local, Ticket};
use crate::sync::{AtomicU64, Ordering};
use crate::time::saturating_nanos;
use crate::{Mode, Outcome, RequestMeta, Rng, Time};

impl Picker {
    /// After how long without an answer a request that may run twice is to be tried elsewhere beside its first attempt;
    /// `None` where it is not, or while too little is known.
    #[inline]
    pub fn hedge_after(&self, now: Time, first: &RequestMeta) -> Option<Duration> {
        if self.retrying.hedge == Mode::Off {
            return None;
        }
        let after = self.slots.retries.hedge_after(&self.retrying)?;
        (now + after < first.deadline).then_some(after)
    }

    /// That time is over and there is no answer from `backend`: another attempt meanwhile, elsewhere and under the same
    /// budget as retries, if there may be one. The first answer of the two wins, and the other is [outrun](Picker::outrun).
    /// What is not made spends nothing, and takes no turn of the policy.
    pub fn hedge(
        &self,
        local: &mut Local,
        now: Time,
        first: &RequestMeta,
        tries: &mut Tries,
        backend: BackendId,
        rng: &mut Rng,
    ) -> Result<Ticket, Stop> {
        let (settings, retries, mode) = (&self.retrying, &self.slots.retries, self.retrying.hedge);
        let next = tries.after(backend, Cause::Slow);
        if mode == Mode::Off {
            return Err(Stop::Off);
        }
        if next.meta(first).attempt >= settings.attempts {
            return Err(Stop::Attempts);
        }
        if now >= first.deadline {
            return Err(Stop::TooLate);
        }
        if self.is_short(now, first) {
            return Err(Stop::ManyRefuse);
        }
        if !self.has_other(first, backend) {
            return Err(Stop::NoOther);
        }
        if mode != Mode::On {
            retries.may_take(settings, now, first.customer)?;
            retries.count(Cause::Slow, mode);
            return Err(Stop::Observed);
        }
        retries.take(settings, now, first.customer)?;
        let Ok(ticket) = self.decide(local, now, &next.meta(first), next.not, rng) else {
            retries.give_back(settings, now, first.customer);
            return Err(Stop::NoOther);
        };
        retries.count(Cause::Slow, mode);
        *tries = next;
        Ok(ticket)
    }

    /// Whether the service shows that it has too little: it refuses some of what this client sends, says that it does, or
    /// did until this client began to hold back.
    fn is_short(&self, now: Time, first: &RequestMeta) -> bool {
        let throttle = &self.slots.throttle;
        self.slots.retries.are_refused(&self.retrying, now, first.customer, REFUSED_MOST)
            || (self.throttling.hints != Mode::Off && throttle.hints.any(now))
            || throttle.thins(&self.throttling, now, first)
    }

    /// Whether anybody wants to know when an answer began ([`Picker::answered`]): saves a look at the clock.
    #[inline]
    pub fn times_answers(&self) -> bool {
        self.retrying.hedge != Mode::Off
    }

    /// The head of the answer to this attempt is there: what it takes to read the rest is not the backend's doing.
    #[inline]
    pub fn answered(&self, now: Time, ticket: &mut Ticket) {
        if self.times_answers()
            && let Some(took) = ticket.answer(now)
        {
            self.slots.retries.slowness.on_ended(Outcome::Served, took);
        }
    }

    /// Gives back the ticket of an attempt while another one was answered. It counts as cancelled; and as a recent error
    /// of its backend where that took longer than answers do, or one that hangs would look idle.
    pub fn outrun(&self, now: Time, ticket: Ticket) {
        let is_late =
            self.slots.retries.hedge_after(&self.retrying).is_some_and(|after| now.since(ticket.began()) >= after);
        self.finish_outrun(now, ticket, is_late);
    }
}

/// How long answers take, at the slow end.
#[derive(Debug, Default)]
pub(crate) struct Slowness {
    /// Nanoseconds; 0 before the first answer.
    estimate: AtomicU64,
    answers: AtomicU64,
}

impl Slowness {
    /// A first attempt ended so, or its answer began.
    pub(crate) fn on_ended(&self, outcome: Outcome, took: Duration) {
        match outcome {
            Outcome::Served => self.learn(took),
            Outcome::Cancelled | Outcome::Expired if self.is_longer(took) => self.learn(took),
            // A refusal or a failure is quick, and no answer; and one that was cut early says nothing.
            _ => {}
        }
    }

    fn is_longer(&self, took: Duration) -> bool {
        let estimate = self.estimate.load(Ordering::Relaxed);
        estimate > 0 && saturating_nanos(took) > estimate
    }

    fn learn(&self, took: Duration) {
        let took = saturating_nanos(took).max(1);
        let before = self.estimate.load(Ordering::Relaxed);
        let step = (before / STEP).max(1);
        let after = match before {
            0 => took,
            before if took > before => before.saturating_add(19 * step),
            before => before.saturating_sub(step).max(1),
        };
        self.estimate.store(after, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// What one in twenty takes longer than; nothing before there were enough to tell.
    pub(crate) fn estimate(&self) -> Option<Duration> {
        let is_known = self.answers.load(Ordering::Relaxed) >= ENOUGH;
        is_known.then(|| Duration::from_nanos(self.estimate.load(Ordering::Relaxed)))
    }
}

/// Refusals by chance: more of the attempts than this, and there is no room for work that nobody may need.
const REFUSED_MOST: f64 = 0.02;
/// A step down is one part in so many: a few per cent of noise, and a hundred answers to follow a change by half.
const STEP: u64 = 400;
/// From the first answer on it takes some steps to rise to where it belongs.
const ENOUGH: u64 = 200;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn one_answer_in_twenty_takes_longer_than_the_estimate() {
        let (slowness, mut rng) = (Slowness::default(), Rng::from_seed(3));
        // Mostly short, up to 100 ms.
        let mut draw = || Duration::from_secs_f64(0.1 * rng.unit() * rng.unit());
        (0..199).for_each(|_| slowness.learn(draw()));
        assert_eq!(slowness.estimate(), None);
        (0..5_000).for_each(|_| slowness.learn(draw()));
        let mut longer = 0;
        for _ in 0..20_000 {
            let took = draw();
            longer += u32::from(took > slowness.estimate().unwrap_or_default());
            slowness.learn(took);
        }
        assert!((900..1_100).contains(&longer), "{longer} of 20,000");
    }

    #[test]
    fn those_that_were_cut_took_at_least_as_long() {
        let (slowness, mut rng) = (Slowness::default(), Rng::from_seed(3));
        let mut draw = || Duration::from_secs_f64(0.1 * rng.unit() * rng.unit());
        let mut longer = 0;
        // Each that is late is cut after its hedge has answered, as all are that hang.
        for request in 0..30_000 {
            let (took, late) = (draw(), slowness.estimate().unwrap_or(Duration::MAX));
            if took <= late {
                slowness.on_ended(Outcome::Served, took);
                continue;
            }
            slowness.on_ended(Outcome::Cancelled, late + Duration::from_millis(1));
            longer += u32::from(request >= 10_000);
        }
        assert!((900..1_100).contains(&longer), "{longer} of 20,000");

        let before = slowness.estimate();
        (0..100).for_each(|_| slowness.on_ended(Outcome::Cancelled, Duration::from_micros(1)));
        (0..100).for_each(|_| slowness.on_ended(Outcome::Overloaded, Duration::from_secs(9)));
        assert_eq!(slowness.estimate(), before, "neither says how long answers take");
    }
}
