//! The local half by itself; what a client makes of both is in `tests/all/throttle.rs`.

use std::time::Duration;

use super::*;

const LEVEL: Criticality = Criticality::Critical;

struct Fixture {
    throttle: Throttle,
    settings: Settings,
    rng: Rng,
}

impl Fixture {
    fn new(config: &ThrottleConfig) -> Self {
        Fixture { throttle: Throttle::default(), settings: config.into(), rng: Rng::from_seed(1) }
    }

    fn admits(&mut self, now: Time, customer: u32) -> bool {
        let meta = RequestMeta { customer: CustomerId(customer), criticality: LEVEL, ..RequestMeta::PLAIN };
        self.throttle.admit(&self.settings, now, &meta, &mut self.rng).is_ok()
    }

    fn settle(&self, now: Time, customer: u32, outcome: Outcome) {
        self.throttle.settle(&self.settings, now, (CustomerId(customer), LEVEL), outcome, false);
    }

    /// How many of a hundred would be sent.
    fn sent(&mut self, now: Time, customer: u32) -> usize {
        (0..100).filter(|_| self.admits(now, customer)).count()
    }
}

fn at(millis: u64) -> Time {
    Time::from_secs(10_000) + Duration::from_millis(millis)
}

/// Rejects for each accept of a backend that takes 100 requests a second of 500, once the window has settled.
fn rejects_per_accept(k: f64) -> f64 {
    let mut fixture = Fixture::new(&ThrottleConfig { k, ..ThrottleConfig::default() });
    let (mut room, mut accepts, mut rejects) = (0, 0_u32, 0_u32);
    for millis in (0..6_600_000).step_by(2) {
        room = if millis % 1_000 == 0 { 100 } else { room };
        if !fixture.admits(at(millis), 0) {
            continue;
        }
        let accepted = room > 0;
        fixture.settle(at(millis), 0, if accepted { Outcome::Served } else { Outcome::Overloaded });
        room -= u32::from(accepted);
        if millis >= 600_000 {
            accepts += u32::from(accepted);
            rejects += u32::from(!accepted);
        }
    }
    f64::from(rejects) / f64::from(accepts)
}

#[test]
fn a_backend_sees_k_requests_for_each_it_takes() {
    let (two, less) = (rejects_per_accept(2.0), rejects_per_accept(1.1));
    // Sent at random, 660,000 of them with k = 1.1: chance moves their 60,000 rejects by 812, which is 1.4 %.
    assert!((0.9..=1.1).contains(&two), "{two} rejects for each accept");
    assert!((0.09..=0.11).contains(&less), "{less} rejects for each accept");
}

#[test]
fn rare_callers_send_everything_however_often_they_are_refused() {
    let mut fixture = Fixture::new(&ThrottleConfig::default());
    for minute in 0..600 {
        assert!(fixture.admits(at(minute * 60_000), 0));
        fixture.settle(at(minute * 60_000), 0, Outcome::DontRetry);
    }
    // One in six seconds is the most that is never thinned.
    for request in 0..600 {
        assert!(fixture.admits(at(40_000_000 + request * 6_400), 0), "{request}");
        fixture.settle(at(40_000_000 + request * 6_400), 0, Outcome::DontRetry);
    }
}

#[test]
fn a_cold_start_is_not_throttled_by_what_is_still_under_way() {
    let mut fixture = Fixture::new(&ThrottleConfig::default());
    assert_eq!(fixture.sent(at(0), 0), 100);
}

#[test]
fn customers_and_criticalities_are_thinned_apart() {
    let mut fixture = Fixture::new(&ThrottleConfig::default());
    for customer in [5, 63, 64] {
        (0..1_000).for_each(|_| fixture.settle(at(0), customer, Outcome::Overloaded));
    }

    let sent = [0, 4, 5, 63, 64, 7_000].map(|customer| fixture.sent(at(1), customer));
    assert_eq!([sent[0], sent[1]], [100, 100]);
    // Those above 63 share.
    assert!(sent[2..].iter().all(|&sent| sent <= 3), "{sent:?}");
    let other = RequestMeta { customer: CustomerId(5), criticality: Criticality::CriticalPlus, ..RequestMeta::PLAIN };
    assert!(fixture.throttle.admit(&fixture.settings, at(1), &other, &mut fixture.rng).is_ok());
    assert_eq!(fixture.throttle.counts().local, [0, 0, 400 - sent[2..].iter().sum::<usize>() as u64, 0]);
}

#[test]
fn each_end_counts_as_the_fate_it_is() {
    let thinned_by = |outcome, explained| {
        let mut fixture = Fixture::new(&ThrottleConfig::default());
        for _ in 0..1_000 {
            fixture.throttle.settle(&fixture.settings, at(0), (CustomerId(0), LEVEL), outcome, explained);
        }
        fixture.sent(at(1), 0) < 100
    };

    let thinning = Outcome::ALL.map(|outcome| thinned_by(outcome, false));
    assert_eq!(thinning, [false, false, true, true, true, true, false, false]);
    assert!(!thinned_by(Outcome::Overloaded, true) && !thinned_by(Outcome::DontRetry, true));
}

#[test]
fn observing_counts_and_refuses_nothing_and_off_does_not_count() {
    for (local, observed) in [(Mode::Observe, true), (Mode::Off, false)] {
        let mut fixture = Fixture::new(&ThrottleConfig { local, ..ThrottleConfig::default() });
        (0..1_000).for_each(|_| fixture.settle(at(0), 0, Outcome::Overloaded));

        assert_eq!(fixture.sent(at(1), 0), 100);
        let counts = fixture.throttle.counts();
        assert_eq!((counts.local, counts.local_observed[2] > 95), ([0; 4], observed));
    }
}

#[test]
fn it_is_over_when_the_window_is_and_when_the_clock_is_set() {
    let mut fixture = Fixture::new(&ThrottleConfig::default());
    (0..1_000).for_each(|_| fixture.settle(at(0), 0, Outcome::Overloaded));
    assert!(fixture.sent(at(1), 0) < 100);

    assert_eq!(fixture.sent(Time::from_secs(100), 0), 100);
    assert_eq!(fixture.sent(at(140_000), 0), 100);
    assert_eq!(fixture.sent(Time::NEVER, 0), 100);
}

#[test]
fn settings_that_cannot_be_are_refused_by_name() {
    let refused = |config: ThrottleConfig| config.check().unwrap_err().to_string();
    let plain = ThrottleConfig::default;
    assert_eq!(
        refused(ThrottleConfig { k: 1.0, ..plain() }),
        "throttle.k = 1.0 is not possible: must be from 1.01 to 100.0"
    );
    assert!(refused(ThrottleConfig { k: f64::NAN, ..plain() }).starts_with("throttle.k"));
    assert!(refused(ThrottleConfig { window: Duration::ZERO, ..plain() }).starts_with("throttle.window"));
    assert!(refused(ThrottleConfig { least: 0, ..plain() }).starts_with("throttle.least"));
}
