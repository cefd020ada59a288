//! What all that clients like this one ask for takes, in processors.
//!
//! The part of it at home tells: what is used there, over the share that goes there. That fails when it is needed most: a
//! cluster at its capacity uses no more than that, and one that became slow more than another would. Then what was learned
//! holds on, for each request that this client makes: so a rush is still seen as one. While a part is elsewhere it is learned
//! slowly: what home needs for a request since it became slow is not what others need.

use std::time::Duration;

use super::PART_TOLD;
use super::memory::{Memory, REPORTED};
use super::room::ALL;
use crate::Time;
use crate::stats::{DecayingMean, decay};

/// Learned from the nearest cluster.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    processors: Option<f64>,
    /// The same for each request that this client makes in a second.
    each: Option<f64>,
    /// Requests of this client in a second: over the time that reports cover, and of late.
    rate_reported: DecayingMean,
    rate_lately: DecayingMean,
    counted: Option<Time>,
    /// For so long it was told.
    told_for: Duration,
}

impl Default for Demand {
    fn default() -> Self {
        Demand {
            processors: None,
            each: None,
            rate_reported: DecayingMean::new(REPORTED),
            rate_lately: DecayingMean::new(LATELY),
            counted: None,
            told_for: Duration::ZERO,
        }
    }
}

impl Demand {
    /// Processors that the requests of all clients like this one take, wherever they go.
    pub(super) fn processors(&self) -> Option<f64> {
        self.processors
    }

    /// This client began so many requests since the last time.
    pub(super) fn count(&mut self, now: Time, begun: u64) {
        let seconds = self.counted.map_or(0.0, |then| now.since(then).as_secs_f64());
        if seconds > 0.0 {
            let rate = begun as f64 / seconds;
            self.rate_reported.sample(now, rate);
            self.rate_lately.sample(now, rate);
        }
        self.counted = Some(now);
    }

    /// What home tells, so long after the last time.
    pub(super) fn learn(&mut self, passed: Duration, home: &Memory) {
        let share = home.share_reported();
        // Answers that fail cost little, and a small part says little of the whole.
        let is_told = share >= PART_TOLD && home.failed_share() + home.refused_share() < ERRORS_TOLD;
        // Also while it works off what came before, and is asked for less than it does. Reports that are too old for that still
        // tell of a cluster at its capacity.
        let mut lately = home.offered_lately().into_iter().chain(home.busy_lately().or(home.last.mean));
        let is_busy = self.processors.is_some() && lately.any(|busy| busy > BUSY);
        if let Some(used) = home.used().filter(|used| is_told && !is_busy && *used > 0.0) {
            self.told_for = self.told_for.saturating_add(passed);
            let told = used / share;
            // Not what was told when nearly nothing was known, for as long.
            let kept = if share >= ALL { 0.0 } else { decay(passed, SPILLED.min(self.told_for / 2)) };
            let processors = self.processors.map_or(told, |before| told + kept * (before - told));
            self.processors = Some(processors);
            self.each = self.rate_reported.mean().filter(|&rate| rate > RATE_LEAST).map(|rate| processors / rate);
        } else if let (Some(each), Some(rate)) = (self.each, self.rate_lately.mean()) {
            self.processors = Some(each * rate.max(RATE_LEAST));
        }
    }
}

/// Half-life of the rate that a demand is scaled by.
const LATELY: Duration = Duration::from_millis(700);
/// Half-life of a demand while a part of it is elsewhere: about twice that of what a report covers, so that shares have settled
/// before it changes. Chosen: without it too much came home at once (1.06 of a capacity in one of 60 worlds), 10 s are no better.
const SPILLED: Duration = Duration::from_secs(3);
/// Who asks less often than once in a second knows nothing of a rate.
const RATE_LEAST: f64 = 1.0;
/// With more errors than this, what is used says little of what is asked for.
const ERRORS_TOLD: f64 = 0.05;
/// At its capacity, or so near that chance takes it there.
const BUSY: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::super::Reading;
    use super::*;

    const PERIOD: Duration = Duration::from_millis(250);

    /// Ten seconds at one load with so many requests in each period.
    fn hold(demand: &mut Demand, home: &mut Memory, now: &mut Time, load: f64, begun: u64) {
        for _ in 0..40 {
            *now = *now + PERIOD;
            // What is at its capacity has work waiting.
            let backlog = Some(if load < 1.0 { 0.0 } else { 5.0 });
            let reading = Reading { usable: 20, wanted: 20, known: 30, processors: Some(4.0), ..Reading::default() };
            home.observe(*now, Reading { load: Some(load), mean: Some(load), backlog, ..reading }, 1.0);
            demand.count(*now, begun);
            demand.learn(PERIOD, home);
        }
    }

    #[test]
    fn a_cluster_at_its_capacity_says_nothing_and_a_rush_is_seen_all_the_same() {
        for (load, begun, expected) in [(0.5, 10, 60.0), (0.8, 16, 96.0), (1.0, 10, 60.0), (1.0, 30, 180.0)] {
            let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
            hold(&mut demand, &mut home, &mut now, 0.5, 10);
            hold(&mut demand, &mut home, &mut now, load, begun);
            let processors = demand.processors().unwrap_or(0.0);
            assert!((processors / expected - 1.0).abs() < 0.05, "{load} {begun}: {processors}");
        }
    }

    #[test]
    fn a_cluster_that_works_off_what_waited_says_nothing_though_it_is_asked_for_less() {
        let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
        hold(&mut demand, &mut home, &mut now, 0.5, 10);
        hold(&mut demand, &mut home, &mut now, 1.0, 10);
        let there = Reading { usable: 20, wanted: 20, known: 30, processors: Some(4.0), ..Reading::default() };
        let mut last = Reading { load: Some(1.0), mean: Some(1.0), begun: 5_000, in_flight: 5_000, ..there };

        // Its line becomes shorter: 9 are begun for each 10 that are completed, and all processors are in use.
        for _ in 0..40 {
            now = now + PERIOD;
            (last.begun, last.in_flight) = (last.begun + 90, last.in_flight - 10);
            home.observe(now, last, 0.6);
            demand.count(now, 10);
            demand.learn(PERIOD, &home);
        }

        let processors = demand.processors().unwrap_or(0.0);
        assert!((processors / 60.0 - 1.0).abs() < 0.05, "{processors}");
    }

    #[test]
    fn a_cluster_at_its_capacity_says_nothing_by_old_reports_either() {
        let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
        hold(&mut demand, &mut home, &mut now, 0.5, 10);
        let there = Reading { usable: 20, wanted: 20, known: 30, processors: Some(4.0), ..Reading::default() };

        for _ in 0..40 {
            now = now + PERIOD;
            home.observe(now, Reading { load: Some(1.0), mean: Some(1.0), age_s: Some(3.0), ..there }, 1.0);
            demand.count(now, 10);
            demand.learn(PERIOD, &home);
        }

        let processors = demand.processors().unwrap_or(0.0);
        assert!((processors / 60.0 - 1.0).abs() < 0.05, "{processors}");
    }

    #[test]
    fn what_a_home_that_became_slow_needs_is_not_what_others_need() {
        let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
        hold(&mut demand, &mut home, &mut now, 0.5, 10);
        let there = Reading { usable: 20, wanted: 20, known: 30, processors: Some(4.0), ..Reading::default() };

        // Half of the requests stay, and take twice what they took: after three seconds a fifth of that is believed.
        for _ in 0..12 {
            now = now + PERIOD;
            home.observe(now, Reading { load: Some(0.5), mean: Some(0.5), backlog: Some(0.0), ..there }, 0.5);
            demand.count(now, 10);
            demand.learn(PERIOD, &home);
        }

        let processors = demand.processors().unwrap_or(0.0);
        assert!((60.0..80.0).contains(&processors), "{processors}");
    }

    #[test]
    fn one_that_spills_from_the_start_forgets_how_little_it_was_at_first() {
        let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
        let there = Reading { usable: 20, wanted: 20, known: 30, processors: Some(4.0), ..Reading::default() };
        let mut mean = DecayingMean::new(REPORTED);
        mean.sample(now, 0.0);

        // The mean of reports begins at nothing.
        for _ in 0..40 {
            now = now + PERIOD;
            mean.sample(now, 0.9);
            home.observe(now, Reading { load: mean.mean(), mean: mean.mean(), ..there }, 0.9);
            demand.count(now, 10);
            demand.learn(PERIOD, &home);
        }

        let processors = demand.processors().unwrap_or(0.0);
        assert!((105.0..121.0).contains(&processors), "0.9 of 120 processors with a share of 0.9: {processors}");
    }

    #[test]
    fn one_that_never_saw_it_calm_takes_what_it_sees() {
        let (mut demand, mut home, mut now) = (Demand::default(), Memory::new(true), Time::from_secs(1));
        hold(&mut demand, &mut home, &mut now, 1.0, 10);
        assert!((demand.processors().unwrap_or(0.0) - 120.0).abs() < 1e-6);
    }
}
