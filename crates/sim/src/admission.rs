//! What a client that keeps failing holds back by itself, as peers have it.
//!
//! `envoy` is the success rate controller of Envoy's `admission_control` filter. With n requests of the last 30 s, s of
//! them served, it refuses with probability ((n − s / 0.95) / (n + 1))^(1 / aggression), at most 0.8. What it refuses is
//! not counted, nor is what has not ended. The defaults are those of Envoy's v3 API: `sampling_window` 30 s in entries of
//! 1 s, `aggression` 1, `sr_threshold` 95 %, `rps_threshold` 0, `max_rejection_probability` 80 %.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use evenkeel_core::{Rng, Time};

/// Decides for one client, before it picks a backend.
pub trait Admission: fmt::Debug + Send {
    /// Whether the next request is sent.
    fn admit(&mut self, now: Time, rng: &mut Rng) -> bool;

    /// A request that was sent ended so.
    fn on_end(&mut self, now: Time, ok: bool);
}

/// The admission control of this name, for one client.
pub fn build(name: &str) -> Option<Box<dyn Admission>> {
    match name {
        "envoy" => Some(Box::new(Envoy::default())),
        _ => None,
    }
}

/// Name and what it is, of all that [`build`] builds.
pub const NAMES: &[(&str, &str)] = &[("envoy", "Envoy's admission control by success rate, with its defaults")];

#[derive(Debug, Default)]
struct Envoy {
    /// By the second, the oldest first: when it began, requests, successes.
    entries: VecDeque<(Time, f64, f64)>,
    requests: f64,
    successes: f64,
}

impl Envoy {
    fn forget(&mut self, now: Time) {
        while let Some(&(began, requests, successes)) = self.entries.front()
            && now.since(began) >= WINDOW
        {
            self.entries.pop_front();
            self.requests -= requests;
            self.successes -= successes;
        }
    }

    fn probability(&self) -> f64 {
        let missing = (self.requests - self.successes / SUCCESS_THRESHOLD) / (self.requests + 1.0);
        libm::pow(missing.max(0.0), 1.0 / AGGRESSION).min(REJECTION_MOST)
    }
}

impl Admission for Envoy {
    fn admit(&mut self, now: Time, rng: &mut Rng) -> bool {
        self.forget(now);
        // Always drawn, so that a refusal does not shift what follows.
        rng.unit() >= self.probability()
    }

    fn on_end(&mut self, now: Time, ok: bool) {
        self.forget(now);
        if self.entries.back().is_none_or(|&(began, ..)| now.since(began) >= GRANULARITY) {
            self.entries.push_back((now, 0.0, 0.0));
        }
        let success = f64::from(u8::from(ok));
        if let Some((_, requests, successes)) = self.entries.back_mut() {
            *requests += 1.0;
            *successes += success;
        }
        self.requests += 1.0;
        self.successes += success;
    }
}

const WINDOW: Duration = Duration::from_secs(30);
const GRANULARITY: Duration = Duration::from_secs(1);
const AGGRESSION: f64 = 1.0;
const SUCCESS_THRESHOLD: f64 = 0.95;
const REJECTION_MOST: f64 = 0.8;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ends: u32, served: u32) -> Envoy {
        let mut envoy = Envoy::default();
        for end in 0..ends {
            envoy.on_end(Time::from_secs(u64::from(end) / 100), end < served);
        }
        envoy
    }

    #[test]
    fn the_probability_is_the_published_one() {
        for (ends, served, expected) in [
            (0, 0, 0.0),
            (100, 100, 0.0),
            // At the threshold nothing is refused, and at half of it half of n / (n + 1).
            (1_000, 950, 0.0),
            (1_000, 475, 500.0 / 1_001.0),
            (1_000, 0, 0.8),
        ] {
            let probability = after(ends, served).probability();
            assert!((probability - expected).abs() < 1e-12, "{served} of {ends}: {probability}");
        }
    }

    #[test]
    fn it_refuses_as_often_as_it_says_and_forgets_after_the_window() {
        let (mut envoy, mut rng) = (after(1_000, 0), Rng::from_seed(1));
        let now = Time::from_secs(10);
        let sent = (0..10_000).filter(|_| envoy.admit(now, &mut rng)).count();
        // Six standard deviations of a binomial(10,000, 0.2).
        assert!(sent.abs_diff(2_000) < 240, "{sent}");

        // The entries of seconds 0 to 9 leave one by one.
        assert!((0..100).any(|_| !envoy.admit(Time::from_secs(38), &mut rng)));
        assert!((0..100).all(|_| envoy.admit(Time::from_secs(39), &mut rng)));
        assert!(envoy.requests == 0.0 && envoy.entries.is_empty());
    }

    #[test]
    fn names_are_built_and_nothing_else_is() {
        assert!(NAMES.iter().all(|(name, _)| build(name).is_some()));
        assert!(build("none").is_none());
    }
}
