//! A count over the last so-and-so long, in buckets of a ring.
//!
//! The oldest bucket counts by the part of it that is still inside, so the sum moves smoothly and not by steps: over two
//! minutes in buckets of ten seconds a steady rate reads within 0.1 % (the tests hold it).

use std::cmp::Ordering;
use std::time::Duration;

use crate::Time;

/// A sliding sum over `span`, kept in `N` buckets (at least 2): the span is `N - 1` of them, and one is partly out.
///
/// ```
/// use evenkeel_core::{Time, stats::Window};
/// use std::time::Duration;
///
/// let mut errors: Window<11> = Window::new(Duration::from_secs(10));
/// errors.add(Time::from_secs(0), 3.0);
/// assert_eq!(errors.sum(Time::from_secs(5)), 3.0);
/// assert_eq!(errors.sum(Time::from_secs(20)), 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window<const N: usize> {
    bucket_nanos: u64,
    /// Number of the newest bucket since time zero.
    newest: u64,
    sums: [f64; N],
}

impl<const N: usize> Window<N> {
    /// Empty. A bucket is never shorter than a nanosecond.
    pub const fn new(span: Duration) -> Self {
        const { assert!(N >= 2, "a window needs at least two buckets") };
        let nanos = span.as_nanos() / (N as u128 - 1);
        let bucket_nanos = if nanos == 0 { 1 } else { nanos as u64 };
        Window { bucket_nanos, newest: 0, sums: [0.0; N] }
    }

    /// Counts `amount` now. After a clock was set back by more than a bucket, what was counted keeps its age.
    pub fn add(&mut self, now: Time, amount: f64) {
        let bucket = now.nanos() / self.bucket_nanos;
        if bucket + 1 < self.newest {
            let by_age: [f64; N] = std::array::from_fn(|age| self.sums[self.place(age as u64)]);
            self.newest = bucket;
            for (age, sum) in (0..).zip(by_age) {
                self.sums[self.place(age)] = sum;
            }
        }
        if bucket > self.newest {
            let passed = bucket - self.newest;
            for step in 1..=passed.min(N as u64) {
                self.sums[((self.newest + step) % N as u64) as usize] = 0.0;
            }
            self.newest = bucket;
        }
        self.sums[(self.newest % N as u64) as usize] += amount;
    }

    /// What was counted in the last span.
    pub fn sum(&self, now: Time) -> f64 {
        let bucket = now.nanos() / self.bucket_nanos;
        let into = (now.nanos() % self.bucket_nanos) as f64 / self.bucket_nanos as f64;
        let age_of_newest = bucket.saturating_sub(self.newest);
        let mut sum = 0.0;
        for age in 0..N as u64 {
            let share = match (age + age_of_newest).cmp(&(N as u64 - 1)) {
                Ordering::Less => 1.0,
                Ordering::Equal => 1.0 - into,
                Ordering::Greater => 0.0,
            };
            sum += share * self.sums[self.place(age)];
        }
        sum
    }

    /// Where the bucket that is so many older than the newest stands in the ring.
    fn place(&self, age: u64) -> usize {
        ((self.newest + N as u64 - age) % N as u64) as usize
    }

    /// The span it looks back over.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.bucket_nanos.saturating_mul(N as u64 - 1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "sums of powers of two are exact")]

    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn the_past_leaves_smoothly() {
        let mut window: Window<5> = Window::new(Duration::from_secs(4));
        window.add(at(500), 8.0);

        assert_eq!(window.sum(at(3_999)), 8.0);
        assert_eq!(window.sum(at(4_250)), 6.0);
        assert_eq!(window.sum(at(4_750)), 2.0);
        assert_eq!(window.sum(at(5_000)), 0.0);
    }

    #[test]
    fn a_steady_rate_reads_as_rate_times_span() {
        let mut window: Window<13> = Window::new(Duration::from_secs(120));
        for step in 0..4_000 {
            window.add(at(step * 100), 1.0);
            if step > 1_300 {
                let sum = window.sum(at(step * 100));
                assert!((sum - 1_200.0).abs() <= 1.0, "{step}: {sum}");
            }
        }
    }

    #[test]
    fn clocks_that_jump_lose_nothing_and_invent_nothing() {
        let mut window: Window<5> = Window::new(Duration::from_secs(4));
        window.add(at(100_000), 1.0);
        window.add(at(10), 1.0);
        assert_eq!(window.sum(at(10)), 2.0);
        assert_eq!(window.sum(at(9_000)), 0.0, "and nothing waits for the old clock");
        assert_eq!(window.sum(Time::NEVER), 0.0);
    }
}
