//! What one request has cost so far, wherever the work was done.
//!
//! Time is exclusive: what is timed inside of something that is being timed is charged once, to the inner account.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::factor::Factor;
use super::ledger;
use super::thread::{Timing, here};
use super::ticks::{cpu_now, nanos_of};

/// CPU time of one request: of its handler, of its children, and of its answer's body.
#[derive(Debug, Default)]
pub struct Account {
    ticks: AtomicU64,
    factor: Factor,
}

impl Account {
    /// An empty one, on a machine of this speed.
    pub fn new(factor: Factor) -> Self {
        Account { ticks: AtomicU64::new(0), factor }
    }

    /// CPU time so far, with what the caller has used since its own poll began; polls in progress on other threads count
    /// once they end.
    pub fn cpu(&self) -> Duration {
        let timing = here(|here| here.timing.get());
        let of_this_poll = if timing.account == self.identity() {
            cpu_now().since(timing.began).saturating_sub(timing.inside)
        } else {
            0
        };
        Duration::from_nanos(nanos_of(self.ticks.load(Ordering::Relaxed) + of_this_poll))
    }

    /// The same as the reference machine would have taken.
    pub fn cost(&self) -> Duration {
        self.factor.normalised(self.cpu())
    }

    /// Charges this account until the guard is dropped, on this thread.
    #[inline]
    pub(super) fn enter(&self) -> Entered<'_> {
        let timing = Timing { account: self.identity(), began: cpu_now(), inside: 0 };
        Entered { account: self, outer: here(|here| here.timing.replace(timing)) }
    }

    #[inline]
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Work for an account; ends also where it panics.
#[derive(Debug)]
pub(super) struct Entered<'a> {
    account: &'a Account,
    outer: Timing,
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        let now = cpu_now();
        here(|here| {
            let Timing { began, inside, .. } = here.timing.get();
            let passed = now.since(began);
            let own = passed.saturating_sub(inside);
            here.timing.set(Timing { inside: self.outer.inside + passed, ..self.outer });
            self.account.ticks.fetch_add(own, Ordering::Relaxed);
            ledger::charge(here, own);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn burn(millis: u64) {
        let begin = cpu_now();
        while cpu_now().nanos_since(begin) < millis * 1_000_000 {}
    }

    fn is_about(account: &Account, millis: u64) -> bool {
        let spent = account.cpu().as_secs_f64() * 1e3 - millis as f64;
        // What is charged twice is off by 20; a machine that is taken away for a while, by less.
        (0.0..10.0).contains(&spent)
    }

    #[test]
    fn what_is_charged_inside_is_not_charged_outside() {
        let (outer, inner) = (Account::default(), Account::default());
        {
            let _outer = outer.enter();
            burn(2);
            {
                let _inner = inner.enter();
                burn(20);
                let _again = outer.enter();
                burn(20);
            }
        }

        assert!(is_about(&outer, 22), "{outer:?}");
        assert!(is_about(&inner, 20), "{inner:?}");
    }

    #[test]
    fn a_panic_ends_the_charge_and_leaves_the_outer_one_running() {
        let (outer, inner) = (Account::default(), Account::default());
        {
            let _outer = outer.enter();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _inner = inner.enter();
                burn(20);
                std::panic::resume_unwind(Box::new("as a handler might"));
            }));
            assert!(panicked.is_err());
            burn(3);
        }

        assert!(is_about(&inner, 20) && is_about(&outer, 3), "{inner:?} {outer:?}");
        assert_eq!(here(|here| here.timing.get().account), 0, "nobody is charged after the end");
    }

    #[test]
    fn a_handler_sees_what_it_has_used_before_its_poll_ends() {
        let account = Account::new(Factor::new(2.0).unwrap());
        let _entered = account.enter();
        burn(2);

        assert!(is_about(&account, 2));
        assert!(account.cost() >= Duration::from_millis(4), "a machine twice as fast");
    }
}
