//! What the process spends on requests outside of their handlers (A18): framing, compression, system calls.
//!
//! Those tasks serve many requests at once, so no timing of polls can say whose work it is. What is left of the
//! process's CPU after all that was metered is explained by a price for each request and one for each KiB, found by
//! least squares over the last half minute or so.

use std::time::Duration;

/// What happened between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// CPU time the process used.
    pub process: Duration,
    /// Of it, what was charged to requests.
    pub metered: Duration,
    /// Requests that ended.
    pub requests: u64,
    /// KiB that went in and out.
    pub kib: f64,
}

/// The two prices. Never below zero; zero until there was something to learn from.
///
/// ```
/// use evenkeel::meter::{Interval, Remainder};
/// use std::time::Duration;
///
/// let mut remainder = Remainder::default();
/// let (process, metered) = (Duration::from_millis(700), Duration::from_millis(600));
/// remainder.sample(&Interval { process, metered, requests: 1000, kib: 0.0 });
/// assert!((remainder.seconds_per_request() - 100e-6).abs() < 1e-6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Remainder {
    /// Weighted sums of products: requests, KiB, and seconds left over.
    requests_requests: f64,
    requests_kib: f64,
    kib_kib: f64,
    requests_rest: f64,
    kib_rest: f64,
    seconds_per_request: f64,
    seconds_per_kib: f64,
}

impl Remainder {
    /// One more interval. What a process does while nobody asks is no request's fault: idle intervals say nothing.
    pub fn sample(&mut self, interval: &Interval) {
        let (requests, kib) = (interval.requests as f64, interval.kib);
        if interval.requests == 0 || !kib.is_finite() || kib < 0.0 {
            return;
        }
        // Below zero where long polls ended that ran in the interval before: on average it is right.
        let rest = interval.process.as_secs_f64() - interval.metered.as_secs_f64();
        let add = |sum: &mut f64, product: f64| *sum = *sum * KEPT + product;
        add(&mut self.requests_requests, requests * requests);
        add(&mut self.requests_kib, requests * kib);
        add(&mut self.kib_kib, kib * kib);
        add(&mut self.requests_rest, requests * rest);
        add(&mut self.kib_rest, kib * rest);
        self.solve();
    }

    /// CPU seconds of the process for each request beyond what was metered.
    pub fn seconds_per_request(&self) -> f64 {
        self.seconds_per_request
    }

    /// CPU seconds of the process for each KiB moved.
    pub fn seconds_per_kib(&self) -> f64 {
        self.seconds_per_kib
    }

    /// What a request that moved as much is to be charged on top of its own account.
    pub fn of_request(&self, kib: f64) -> Duration {
        Duration::try_from_secs_f64(self.seconds_per_request + self.seconds_per_kib * kib).unwrap_or_default()
    }

    /// Least squares in units in which both columns have length one, with a ridge: where all requests are of one size the
    /// two prices cannot be told apart, and each explains half, as far as a KiB can.
    fn solve(&mut self) {
        let (of_requests, of_kib) = (self.requests_requests.sqrt(), self.kib_kib.sqrt());
        let by_requests = self.requests_rest / of_requests;
        let alone = (by_requests / of_requests).max(0.0);
        if of_kib <= 0.0 {
            (self.seconds_per_request, self.seconds_per_kib) = (alone, 0.0);
            return;
        }
        let by_kib = self.kib_rest / of_kib;
        let cosine = self.requests_kib / (of_requests * of_kib);
        let (diagonal, determinant) = (1.0 + RIDGE, (1.0 + RIDGE) * (1.0 + RIDGE) - cosine * cosine);
        let per_request = (diagonal * by_requests - cosine * by_kib) / determinant / of_requests;
        let per_kib = (diagonal * by_kib - cosine * by_requests) / determinant / of_kib;
        // A price below zero is none: then the other explains all it can.
        (self.seconds_per_request, self.seconds_per_kib) = match (per_request < 0.0, per_kib < 0.0) {
            (false, false) => (per_request, per_kib),
            (true, _) => (0.0, (by_kib / of_kib).max(0.0)),
            (false, true) => (alone, 0.0),
        };
        if self.seconds_per_kib > KIB_MOST {
            self.seconds_per_kib = KIB_MOST;
            let of_requests = self.requests_rest - KIB_MOST * self.requests_kib;
            self.seconds_per_request = (of_requests / self.requests_requests).max(0.0);
        }
    }
}

/// Of an interval's weight, what remains one later: half after 23.
const KEPT: f64 = 0.97;
/// Small beside what two kinds of requests differ by, large beside what sums of a second round to.
const RIDGE: f64 = 1e-4;
/// Seconds that a KiB costs at most: twenty times what moving, checking and encrypting one takes. What seems to cost more is small
/// requests of one size, whose price is one for each request.
const KIB_MOST: f64 = 20e-6;

#[cfg(test)]
mod tests {
    use evenkeel_core::Rng;

    use super::*;

    fn interval(requests: u64, kib: f64, rest: f64) -> Interval {
        let metered = Duration::from_millis(300);
        Interval { process: Duration::from_secs_f64(0.3 + rest), metered, requests, kib }
    }

    fn is_near(value: f64, wanted: f64, share: f64) -> bool {
        (value - wanted).abs() <= wanted * share
    }

    #[test]
    fn two_prices_are_found_through_noise_and_idle_intervals() {
        let (mut remainder, mut rng) = (Remainder::default(), Rng::from_seed(11));
        for second in 0..120 {
            let (requests, each) = (200 + u64::from(rng.below(2_000)), f64::from(rng.below(64)));
            let kib = requests as f64 * each;
            let noise = 0.9 + f64::from(rng.below(200)) / 1_000.0;
            remainder.sample(&interval(requests, kib, (requests as f64 * 40e-6 + kib * 2e-6) * noise));
            if second % 3 == 0 {
                remainder.sample(&Interval { process: Duration::from_millis(20), ..Interval::default() });
            }
        }

        // Noise of a tenth over some thirty intervals.
        assert!(is_near(remainder.seconds_per_request(), 40e-6, 0.25), "{remainder:?}");
        assert!(is_near(remainder.seconds_per_kib(), 2e-6, 0.1), "{remainder:?}");
    }

    #[test]
    fn requests_of_one_size_are_charged_right_though_the_prices_cannot_be_told_apart() {
        let mut remainder = Remainder::default();
        for second in 1..60 {
            let requests = 100 * second;
            remainder.sample(&interval(requests, requests as f64 * 3.0, requests as f64 * 50e-6));
        }

        assert!(is_near(remainder.of_request(3.0).as_secs_f64(), 50e-6, 0.01), "{remainder:?}");
    }

    #[test]
    fn small_requests_of_one_size_are_priced_by_the_request() {
        let mut remainder = Remainder::default();
        for second in 1..60 {
            let requests = 100 * second;
            remainder.sample(&interval(requests, requests as f64 * 0.03, requests as f64 * 50e-6));
        }

        assert!(is_near(remainder.seconds_per_request(), 50e-6, 0.02), "{remainder:?}");
        assert!(remainder.seconds_per_kib() <= KIB_MOST, "{remainder:?}");
    }

    #[test]
    fn a_new_price_is_learned_within_two_minutes() {
        let mut remainder = Remainder::default();
        for price in [50e-6, 20e-6] {
            for _ in 0..120 {
                remainder.sample(&interval(1_000, 0.0, 1_000.0 * price));
            }
        }

        assert!(is_near(remainder.seconds_per_request(), 20e-6, 0.05), "{remainder:?}");
    }

    #[test]
    fn no_price_is_below_zero_or_no_number() {
        let mut remainder = Remainder::default();
        remainder.sample(&Interval::default());
        assert_eq!(remainder.of_request(5.0), Duration::ZERO);
        // Larger intervals cost less: the fit would like a price below zero for KiB.
        for (requests, kib, rest) in [(100, 1.0, 0.02), (100, 900.0, 0.01), (100, 5_000.0, 0.001), (1, f64::NAN, 0.1)] {
            remainder.sample(&interval(requests, kib, rest));
            assert!(remainder.seconds_per_request() >= 0.0 && remainder.seconds_per_kib() >= 0.0, "{remainder:?}");
        }
        let less = Interval { metered: Duration::from_secs(9), requests: 5, kib: 5.0, ..Interval::default() };
        for _ in 0..100 {
            remainder.sample(&less);
        }
        assert_eq!(remainder.of_request(5.0), Duration::ZERO, "more was metered than used");
    }
}
