//! What is special about `weighted`: weights from reports, corrected by utilization, and when they do not count.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{Fixture, NOW, config, connect_all, id};
use evenkeel_core::client::pick::WeightedConfig;
use evenkeel_core::{Action, ClientConfig, LoadReport, Outcome, PolicyName, Readiness, Time};

/// Reports count at once and fully, and nothing but capability is looked at.
fn plain() -> WeightedConfig {
    WeightedConfig {
        blackout: Duration::ZERO,
        slow_start: Duration::ZERO,
        correction: 0.0,
        ..WeightedConfig::default()
    }
}

fn with(weighted: WeightedConfig) -> ClientConfig {
    let mut config = config(PolicyName::Weighted);
    config.pick.weighted = weighted;
    config
}

fn report(utilization: f64, qps: f64, eps: f64) -> LoadReport {
    let (fast, slow) = (Some(utilization), Some(utilization));
    LoadReport { utilization: fast, utilization_slow: slow, qps: Some(qps), eps: Some(eps), ..LoadReport::default() }
}

fn after(seconds: u64) -> Time {
    NOW + Duration::from_secs(seconds)
}

fn refit(fixture: &mut Fixture, now: Time) {
    fixture.client.handle_timeout(now);
    fixture.refresh();
}

fn shares(fixture: &mut Fixture, now: Time, requests: usize) -> Vec<usize> {
    let mut picked = vec![0; fixture.picker.len()];
    for _ in 0..requests {
        let ticket = fixture.begin(now).unwrap();
        picked[ticket.backend().0 as usize] += 1;
        fixture.picker.finish(now, ticket, Outcome::Served, None);
    }
    picked
}

fn weight_of(fixture: &Fixture, now: Time, number: u32) -> (f64, &'static str) {
    let snapshot = fixture.client.snapshot(now);
    let one = snapshot.backends.iter().find(|one| one.backend == id(number)).unwrap();
    (one.weight.unwrap(), one.why)
}

#[test]
fn requests_are_dealt_in_proportion_to_what_is_answered_for_what_is_used() {
    let mut fixture = Fixture::new(with(plain()), 3, 1);
    for (number, utilization) in [(0, 0.2), (1, 0.4), (2, 0.8)] {
        fixture.client.handle_report(NOW, id(number), &report(utilization, 100.0, 0.0));
    }
    refit(&mut fixture, after(1));

    let picked = shares(&mut fixture, after(1), 7_000);
    // A position is at most a turn or two off its share.
    assert!(picked.iter().zip([4_000, 2_000, 1_000]).all(|(n, want)| n.abs_diff(want) <= 3), "{picked:?}");
    let (weight, why) = weight_of(&fixture, after(1), 0);
    assert!((weight - 12.0 / 7.0).abs() < 1e-6, "{weight}");
    assert_eq!(why, "what it answers for what it uses");
}

#[test]
fn errors_are_no_success_and_count_as_use() {
    let mut fixture = Fixture::new(with(plain()), 2, 2);
    fixture.client.handle_report(NOW, id(0), &report(0.5, 100.0, 0.0));
    fixture.client.handle_report(NOW, id(1), &report(0.5, 100.0, 50.0));
    refit(&mut fixture, after(1));

    // 100 / 0.5 against 50 / (0.5 + 0.5).
    let (good, bad) = (weight_of(&fixture, after(1), 0).0, weight_of(&fixture, after(1), 1).0);
    assert!((good / bad - 4.0).abs() < 1e-4, "{good} and {bad}");
}

#[test]
fn one_that_failed_us_a_moment_ago_gets_less_and_says_so() {
    let mut fixture = Fixture::new(with(plain()), 4, 2);
    for _ in 0..40 {
        let ticket = fixture.begin(after(1)).unwrap();
        let outcome = if ticket.backend() == id(2) { Outcome::Failed } else { Outcome::Served };
        fixture.picker.finish(after(1), ticket, outcome, None);
    }
    refit(&mut fixture, after(1));

    let (weight, why) = weight_of(&fixture, after(1), 2);
    assert!(weight < 0.3 && why == "it failed a moment ago", "{weight} {why}");
}

#[test]
fn the_unknown_get_the_mean_of_the_known_and_say_why() {
    let settings = WeightedConfig { expiry: Duration::from_secs(30), blackout: Duration::from_secs(2), ..plain() };
    let mut fixture = Fixture::new(with(settings), 6, 3);
    let told = |fixture: &mut Fixture, now, numbers: &[u32]| {
        for &number in numbers {
            let utilization = if number == 0 { 0.3 } else { 0.6 };
            fixture.client.handle_report(now, id(number), &report(utilization, 90.0, 0.0));
        }
    };
    told(&mut fixture, NOW, &[0, 1, 5]);
    refit(&mut fixture, after(1));
    assert_eq!(weight_of(&fixture, after(1), 0), (1.0, "first reports: the mean of the others"));

    // Asked, and silent.
    shares(&mut fixture, after(2), 60);
    told(&mut fixture, after(35), &[0, 1, 2]);
    refit(&mut fixture, after(35));
    told(&mut fixture, after(38), &[0, 1, 2]);
    fixture.client.handle_report(after(38), id(3), &LoadReport::default());
    refit(&mut fixture, after(38));
    refit(&mut fixture, after(41));

    // Capabilities of 300, 150 and 150: the mean is 200.
    let expected = [
        (1.5, "what it answers for what it uses"),
        (0.75, "what it answers for what it uses"),
        (0.75, "what it answers for what it uses"),
        (1.0, "it does not say what it does: the mean of the others"),
        (1.0, "no report yet: the mean of the others"),
        (1.0, "no report for long: the mean of the others"),
    ];
    for (number, (weight, why)) in (0..).zip(expected) {
        let seen = weight_of(&fixture, after(41), number);
        assert!((seen.0 - weight).abs() < 1e-6 && seen.1 == why, "{number}: {seen:?}");
    }
}

#[test]
fn the_last_word_of_one_that_nobody_asked_since_counts_until_it_is_asked() {
    let mut fixture = Fixture::new(with(WeightedConfig { expiry: Duration::from_secs(30), ..plain() }), 2, 3);
    fixture.client.handle_report(NOW, id(0), &report(0.3, 90.0, 0.0));
    fixture.client.handle_report(NOW, id(1), &report(0.6, 90.0, 0.0));
    refit(&mut fixture, after(1));

    refit(&mut fixture, after(300));
    let (fast, slow) = (weight_of(&fixture, after(300), 0).0, weight_of(&fixture, after(300), 1).0);
    assert!((fast / slow - 2.0).abs() < 1e-4, "{fast} and {slow}");

    shares(&mut fixture, after(300), 20);
    refit(&mut fixture, after(301));
    assert_eq!(weight_of(&fixture, after(301), 1), (1.0, "no report for long: the mean of the others"));
    refit(&mut fixture, after(3_700));
    assert_eq!(weight_of(&fixture, after(3_700), 0), (1.0, "no report for long: the mean of the others"));
}

#[test]
fn a_long_line_is_still_there_less_what_has_passed() {
    let mut fixture = Fixture::new(with(plain()), 2, 3);
    let line = |runnable| LoadReport { runnable: Some(runnable), processors: Some(10.0), ..report(1.0, 100.0, 0.0) };
    // 1,200 that wait are 12 s of work.
    fixture.client.handle_report(NOW, id(0), &line(10.0));
    fixture.client.handle_report(NOW, id(1), &line(1_210.0));
    let mut ratio_after = |seconds| {
        refit(&mut fixture, after(seconds));
        weight_of(&fixture, after(seconds), 1).0 / weight_of(&fixture, after(seconds), 0).0
    };

    let seen = [1, 13, 15, 17].map(&mut ratio_after);
    // Half is the least; 4 s left over 4 s, 2 s left, and none.
    for (ratio, expected) in seen.into_iter().zip([0.5, 0.5, 1.0 / 1.5, 1.0]) {
        assert!((ratio - expected).abs() < 1e-4, "{seen:?}");
    }
}

#[test]
fn a_backend_that_is_hardly_used_is_not_believed_to_be_able_to_do_anything() {
    let mut fixture = Fixture::new(with(plain()), 2, 4);
    fixture.client.handle_report(NOW, id(0), &report(0.001, 100.0, 0.0));
    fixture.client.handle_report(NOW, id(1), &report(0.5, 100.0, 0.0));
    refit(&mut fixture, after(1));
    assert_eq!(weight_of(&fixture, after(1), 0), (1.0, "hardly used: the mean of the others"));
}

#[test]
fn work_that_waits_takes_weight_off_as_long_as_it_waits() {
    let mut fixture = Fixture::new(with(plain()), 2, 4);
    let told = |fixture: &mut Fixture, at, runnable| {
        for (number, runnable) in [(0, 4.0), (1, runnable)] {
            let said = LoadReport { runnable: Some(runnable), processors: Some(4.0), ..report(1.0, 100.0, 0.0) };
            fixture.client.handle_report(after(at), id(number), &said);
        }
        refit(fixture, after(at));
        weight_of(fixture, after(at), 1).0 / weight_of(fixture, after(at), 0).0
    };
    assert!((told(&mut fixture, 1, 4.0) - 1.0).abs() < 1e-6, "all that runs has a processor");
    // 100 requests at 100 a second are a second of all processors: a fifth less for four seconds.
    assert!((told(&mut fixture, 2, 104.0) - 0.8).abs() < 1e-4);
    assert_eq!(weight_of(&fixture, after(2), 1).1, "work waits there");
    assert!((told(&mut fixture, 3, 90_004.0) - 0.5).abs() < 1e-4, "never less than half");
    assert!((told(&mut fixture, 4, 4.0) - 1.0).abs() < 1e-6, "it is done");
}

#[test]
fn a_fresh_or_restarted_backend_comes_to_its_weight_in_a_straight_line() {
    let settings = WeightedConfig { slow_start: Duration::from_secs(10), ..plain() };
    let mut fixture = Fixture::new(with(settings), 4, 5);
    refit(&mut fixture, after(20));
    assert_eq!(weight_of(&fixture, after(20), 3), (1.0, "no report yet: the mean of the others"));

    fixture.client.handle_lost(after(20), id(3));
    while fixture.client.poll_action().is_some() {}
    fixture.client.handle_timeout(after(25));
    fixture.picker = connect_all(&mut fixture.client, after(25)).unwrap();
    let mut relative = |seconds| {
        refit(&mut fixture, after(seconds));
        weight_of(&fixture, after(seconds), 3).0 / weight_of(&fixture, after(seconds), 0).0
    };

    // A tenth at first, then what share of the ten seconds has passed.
    for (seconds, share) in [(25, 0.1), (26, 0.1), (28, 0.3), (30, 0.5), (34, 0.9), (35, 1.0), (60, 1.0)] {
        assert!((relative(seconds) - share).abs() < 1e-6, "at {seconds}: {}", relative(seconds));
    }
    refit(&mut fixture, after(28));
}

#[test]
fn a_client_that_starts_with_all_its_backends_favours_none() {
    let mut fixture = Fixture::new(with(WeightedConfig::default()), 5, 6);
    refit(&mut fixture, after(3));
    assert_eq!(shares(&mut fixture, after(3), 500), [100; 5]);
    assert_eq!(weight_of(&fixture, after(3), 0), (1.0, "slow start"));
}

#[test]
fn one_that_was_not_heard_of_lately_is_checked_as_far_as_requests_pay_for_it() {
    let mut fixture = Fixture::new(with(plain()), 6, 7);
    fixture.client.handle_timeout(after(1));
    for number in 0..6 {
        fixture.client.handle_report(after(u64::from(number)), id(number), &report(0.5, 100.0, 0.0));
    }
    shares(&mut fixture, after(6), 4);
    fixture.client.handle_timeout(after(6));

    let checks: Vec<Action> = std::iter::from_fn(|| fixture.client.poll_action()).collect();
    assert_eq!(checks, [Action::Check(id(0)), Action::Check(id(1))], "the oldest news first, half as many as requests");
}

/// Backends of unequal speed that others use too, as a fluid: utilization follows what they get, as a mean over 2 s.
struct Fluid {
    fixture: Fixture,
    now: Time,
    /// Utilization that a whole share of the client's requests makes, and what others make.
    backends: Vec<(f64, f64)>,
    utilization: Vec<f64>,
}

impl Fluid {
    fn new(settings: WeightedConfig, backends: &[(f64, f64)]) -> Fluid {
        let fixture = Fixture::new(with(settings), backends.len() as u32, 8);
        Fluid { fixture, now: NOW, backends: backends.to_vec(), utilization: vec![0.5; backends.len()] }
    }

    /// Runs for so many seconds; says max/min of utilization at the end of each.
    fn run(&mut self, seconds: u32) -> Vec<f64> {
        let mut spreads = Vec::new();
        for _ in 0..seconds {
            for _ in 0..10 {
                self.step();
            }
            let most = self.utilization.iter().copied().fold(0.0, f64::max);
            spreads.push(most / self.utilization.iter().copied().fold(f64::INFINITY, f64::min));
        }
        spreads
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_millis(100);
        let snapshot = self.fixture.client.snapshot(self.now);
        let weight = |number: usize| {
            let one = snapshot.backends.iter().find(|one| one.backend == id(number as u32)).unwrap();
            one.weight.unwrap()
        };
        let sum: f64 = (0..self.backends.len()).map(weight).sum();
        for (number, &(own, others)) in self.backends.iter().enumerate() {
            let share = weight(number) / sum;
            let now = (own * share + others).min(1.0);
            // A tenth of a second in a mean over two.
            self.utilization[number] += (now - self.utilization[number]) * 0.05;
            // Requests of the others cost what ours do.
            let qps = 100.0 * (share + others / own);
            self.fixture.client.handle_report(self.now, id(number as u32), &report(self.utilization[number], qps, 0.0));
        }
        refit(&mut self.fixture, self.now);
    }
}

/// Speeds 1 to 2, and other clients on half of them.
const UNEVEN: [(f64, f64); 4] = [(1.0, 0.0), (2.0, 0.0), (1.0, 0.2), (2.0, 0.3)];

#[test]
fn utilization_is_evened_out_where_capability_alone_cannot() {
    let mut capability = Fluid::new(plain(), &UNEVEN);
    let uneven = *capability.run(120).last().unwrap();
    assert!(uneven > 1.4, "capability alone: {uneven}");

    let mut corrected = Fluid::new(WeightedConfig::default(), &UNEVEN);
    let even = *corrected.run(120).last().unwrap();
    assert!(even < 1.02, "corrected: {even}");
}

#[test]
fn no_setting_makes_corrections_swing() {
    for correction in [0.05, 0.2, 0.5] {
        for every in [100, 1_000, 10_000].map(Duration::from_millis) {
            let mut fluid = Fluid::new(WeightedConfig { correction, every, ..WeightedConfig::default() }, &UNEVEN);
            let spreads = fluid.run(400);
            // It may overshoot while it learns; what is left must be less with every minute, and end in next to nothing.
            let most_of = |range: std::ops::Range<usize>| spreads[range].iter().copied().fold(0.0, f64::max);
            let (early, late, last) = (most_of(60..120), most_of(120..240), most_of(340..400));
            assert!(late <= early + 0.005 && last <= late + 0.005, "{correction} {every:?}: {early} {late} {last}");
            assert!(last < 1.03, "{correction} {every:?}: {last}");
        }
    }
}

#[test]
fn a_step_of_speed_is_followed_within_half_a_minute() {
    let mut fluid = Fluid::new(WeightedConfig::default(), &UNEVEN);
    fluid.run(120);
    fluid.backends[0].0 = 1.6;
    let spreads = fluid.run(60);
    assert!(spreads[2] > 1.1, "it is seen: {}", spreads[2]);
    assert!(spreads[30..].iter().all(|&spread| spread < 1.05), "{spreads:?}");
}

#[test]
fn a_backend_that_says_to_use_half_of_what_it_does_gets_some_times_its_share_and_not_everything() {
    let mut fixture = Fixture::new(with(WeightedConfig::default()), 20, 5);
    for second in 0..300 {
        for number in 0..20 {
            let says = if number == 0 { 0.35 } else { 0.7 };
            fixture.client.handle_report(after(second), id(number), &report(says, 100.0, 0.0));
        }
        refit(&mut fixture, after(second));
    }

    let weights: Vec<f64> = (0..20).map(|number| weight_of(&fixture, after(300), number).0).collect();
    let share = weights[0] / weights.iter().sum::<f64>();
    // Twice as able by its word, corrected four times: 8 beside 19 of 0.84.
    assert!((0.2..0.4).contains(&share), "{share}: {weights:?}");
}

#[test]
fn a_backend_that_comes_back_as_a_lame_duck_and_ready_again_starts_slowly() {
    let mut fixture = Fixture::new(with(WeightedConfig { slow_start: Duration::from_secs(10), ..plain() }), 3, 9);
    fixture.client.handle_readiness(after(50), id(1), Readiness::LameDuck);
    fixture.client.handle_readiness(after(51), id(1), Readiness::Ready);
    fixture.refresh();
    refit(&mut fixture, after(52));
    assert_eq!(weight_of(&fixture, after(52), 1).1, "slow start");
    assert_ne!(weight_of(&fixture, after(52), 0).1, "slow start");
}

#[test]
fn bad_settings_are_refused_by_name() {
    let refused = |change: fn(&mut WeightedConfig)| {
        let mut settings = with(WeightedConfig::default());
        change(&mut settings.pick.weighted);
        settings.check().unwrap_err().to_string()
    };
    assert_eq!(
        refused(|one| one.correction = 0.6),
        "pick.weighted.correction = 0.6 is not possible: must be from 0.0 to 0.5"
    );
    assert!(refused(|one| one.every = Duration::ZERO).starts_with("pick.weighted.every = 0ns"));
    assert!(refused(|one| one.blackout = Duration::from_secs(11)).starts_with("pick.weighted.blackout"));
    assert!(refused(|one| one.expiry = Duration::from_secs(29)).starts_with("pick.weighted.expiry"));
    assert!(refused(|one| one.error_penalty = f64::NAN).starts_with("pick.weighted.error_penalty"));
    assert!(refused(|one| one.error_penalty = 1.1).starts_with("pick.weighted.error_penalty"));
    assert!(refused(|one| one.slow_start = Duration::from_secs(301)).starts_with("pick.weighted.slow_start"));
}
