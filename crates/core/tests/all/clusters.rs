//! Clusters that spill (B19): what a client reads of each, which share each gets, and a service of many clients that all do
//! the same on old reports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use evenkeel_core::client::{ClusterSnapshot, ClustersConfig, Reading, SharesLocal, Spill};
use evenkeel_core::{Action, LoadReport, Mode, Outcome, PolicyName, Rng, Time};
use proptest::prelude::*;

use crate::clusters_fluid::Fluid;
use crate::support::{Fixture, NOW, config, id};

const PERIOD: Duration = Duration::from_millis(250);

fn reading(load: f64) -> Reading {
    Reading {
        usable: 20,
        wanted: 20,
        known: 30,
        load: Some(load),
        mean: Some(load),
        processors: Some(4.0),
        ..Reading::default()
    }
}

fn nobody() -> Reading {
    Reading { usable: 0, load: None, mean: None, ..reading(0.0) }
}

fn spill(clusters: usize) -> Spill {
    Spill::new(NOW, ClustersConfig::default(), clusters, &mut Rng::from_seed(1)).unwrap()
}

fn hold_once(spill: &mut Spill, now: &mut Time, readings: &[Reading]) {
    spill.handle_readings(*now, readings);
    spill.poll_shares();
    *now = *now + PERIOD;
}

/// The same readings for so many seconds.
fn hold(spill: &mut Spill, now: &mut Time, seconds: u32, readings: &[Reading]) -> Vec<f64> {
    for _ in 0..seconds * 4 {
        hold_once(spill, now, readings);
    }
    spill.snapshot().map(|cluster| cluster.share).collect()
}

#[test]
fn everything_stays_at_home_while_there_is_room() {
    let (mut spill, mut now) = (spill(3), NOW);
    assert_eq!(hold(&mut spill, &mut now, 5, &[reading(0.84), reading(0.1), reading(0.1)]), [1.0, 0.0, 0.0]);
    assert_eq!(spill.snapshot().next().unwrap().why, "nearest, and has room");
}

#[test]
fn what_is_too_much_goes_to_the_next_with_room_and_not_beyond_what_it_has() {
    let (mut spill, mut now) = (spill(3), NOW);
    hold(&mut spill, &mut now, 2, &[reading(0.6), reading(0.6), reading(0.6)]);

    // Half of the nearest is gone: 1.2 times what is left. Two shares decided on that, before anything can be seen of them.
    let lost = Reading { usable: 10, ..reading(0.6) };
    spill.handle_readings(now, &[lost, reading(0.6), reading(0.6)]);

    let shares: Vec<f64> = spill.snapshot().map(|cluster| cluster.share).collect();
    // To 0.825 of what is left, as far as the loss is seen: the next has room for that, a quarter of a cluster.
    assert!((0.65..0.8).contains(&shares[0]), "{shares:?}");
    assert!((0.2..=0.35).contains(&shares[1]) && shares[2] == 0.0, "{shares:?}");
    let shares = hold(&mut spill, &mut now, 1, &[lost, reading(0.84), reading(0.6)]);
    assert!(shares[1] < 0.3 && shares[2] > 0.05, "{shares:?}");
}

#[test]
fn a_full_next_cluster_is_passed_over_and_where_all_are_full_everything_stays_at_home() {
    let (mut one, mut now) = (spill(3), NOW);
    let shares = hold(&mut one, &mut now, 5, &[reading(1.0), reading(0.86), reading(0.3)]);
    assert!(shares[1] == 0.0 && shares[2] > 0.1, "{shares:?}");

    let (mut all, mut now) = (spill(3), NOW);
    let readings = [reading(1.0), reading(0.99), reading(0.98)];
    assert_eq!(hold(&mut all, &mut now, 10, &readings), [1.0, 0.0, 0.0]);
}

#[test]
fn where_home_is_beyond_its_capacity_what_others_keep_for_themselves_is_used_up_to_one_level() {
    let mut spill = spill(3);
    // One decision: what it does cannot be seen yet.
    spill.handle_readings(NOW, &[reading(1.0), reading(0.95), reading(0.88)]);
    let shares: Vec<f64> = spill.snapshot().map(|cluster| cluster.share).collect();
    // Home and the last at 0.94 would be 0.06 of these requests; the next has as much as that already.
    assert!(shares[1] < 0.01 && (0.03..0.07).contains(&shares[2]), "{shares:?}");
    let why: Vec<&str> = spill.snapshot().map(|cluster| cluster.why).collect();
    assert_eq!(why[2], "has more room than the nearest, which is near its capacity or beyond it");
}

#[test]
fn a_backlog_at_home_that_is_being_worked_off_is_no_reason_to_leave() {
    let (mut spill, mut now) = (spill(2), NOW);
    let mut home = Reading { backlog: Some(9.0), begun: 5_000, in_flight: 5_000, ..reading(0.8) };
    for _ in 0..20 {
        (home.begun, home.in_flight) = (home.begun + 75, home.in_flight - 25);
        hold_once(&mut spill, &mut now, &[home, reading(0.3)]);
    }
    assert!(spill.snapshot().next().unwrap().share >= 1.0);
}

#[test]
fn where_work_piles_up_elsewhere_a_third_leaves_in_a_second_also_where_all_are_brought_to_one_level() {
    let (mut spill, mut now) = (spill(3), NOW);
    hold(&mut spill, &mut now, 2, &[reading(0.8), reading(0.8), reading(0.8)]);
    let lost = Reading { usable: 10, ..reading(0.8) };
    let calm = hold(&mut spill, &mut now, 1, &[lost, reading(0.9), reading(0.9)])[1];
    assert!(calm > 0.1, "{calm}");

    // Four decisions in a second, each with a quarter of 35 %, or down to the mean of late; less while it is worked off.
    let piled = |backlog| Reading { backlog: Some(backlog), ..reading(0.9) };
    hold_once(&mut spill, &mut now, &[lost, piled(3.0), reading(0.9)]);
    let grown = spill.snapshot().nth(1).unwrap().share;
    hold_once(&mut spill, &mut now, &[lost, piled(2.5), reading(0.9)]);
    let fallen = spill.snapshot().nth(1).unwrap().share;

    assert!((0.8..0.92).contains(&(grown / calm)), "{calm} {grown}");
    assert!((0.9..=1.0).contains(&(fallen / grown)), "{grown} {fallen}");
}

#[test]
fn a_cluster_is_full_sooner_for_others_unless_they_are_beyond_their_own_capacity() {
    for (home, next, spills) in [(0.86, 0.82, false), (0.89, 0.86, false), (1.0, 0.82, true), (1.0, 0.99, false)] {
        let (mut spill, mut now) = (spill(2), NOW);
        let shares = hold(&mut spill, &mut now, 3, &[reading(home), reading(next)]);
        assert_eq!(shares[1] > 0.0, spills, "{home} {next}: {shares:?}");
    }
}

#[test]
fn a_cluster_that_fails_fast_looks_idle_and_loses_its_share_all_the_same() {
    let (mut spill, mut now) = (spill(2), NOW);
    let mut failing = reading(0.5);
    hold(&mut spill, &mut now, 5, &[failing, reading(0.3)]);
    failing = reading(0.05);
    for _ in 0..40 {
        (failing.ended, failing.failed) = (failing.ended + 25, failing.failed + 25);
        spill.handle_readings(now, &[failing, reading(0.3)]);
        now = now + PERIOD;
        spill.poll_shares();
    }
    let home: ClusterSnapshot = spill.snapshot().next().unwrap();
    assert!(home.share < 0.4 && home.load > Some(1.0) && home.errors > 0.9, "{home:?}");

    // Not even where all it knows is what the tasks say of themselves.
    let (mut other, mut now) = (self::spill(2), NOW);
    let next = Reading { failing: Some(0.8), ..reading(0.1) };
    assert_eq!(hold(&mut other, &mut now, 5, &[reading(1.0), next]), [1.0, 0.0]);
}

/// A second in which a cluster elsewhere ends four attempts of this client a period and refuses as many of them as given.
fn second_elsewhere(spill: &mut Spill, now: &mut Time, there: &mut Reading, refused: [u64; 4]) -> ClusterSnapshot {
    for count in refused {
        (there.ended, there.refused) = (there.ended + 4, there.refused + count);
        hold_once(spill, now, &[reading(0.9), *there]);
    }
    spill.snapshot().nth(1).unwrap()
}

#[test]
fn one_refusal_of_few_attempts_elsewhere_is_chance_and_a_third_of_them_is_not() {
    let (mut spill, mut now, mut there) = (spill(2), NOW, reading(0.6));
    let calm = second_elsewhere(&mut spill, &mut now, &mut there, [0; 4]);
    assert!(calm.share > 0.05, "{calm:?}");

    // Of the 10 attempts that are remembered chance refuses 0.2, and seldom more than 1.1. What is shown is all of it.
    let once = second_elsewhere(&mut spill, &mut now, &mut there, [0, 0, 0, 1]);
    assert!((once.load.unwrap() - 0.6).abs() < 1e-9 && once.errors > 0.05, "{once:?}");
    assert!(once.share >= calm.share, "{calm:?} {once:?}");

    // 3 to 4 of them are refused: two more than chance, which count as 120 % each.
    let often = second_elsewhere(&mut spill, &mut now, &mut there, [1, 2, 1, 2]);
    assert!(often.load > Some(0.8) && often.share < 0.9 * calm.share, "{calm:?} {often:?}");
}

#[test]
fn who_has_nobody_gets_nothing_and_the_others_share_by_what_they_can_do() {
    let (mut spill, mut now) = (spill(3), NOW);
    // So full that neither has room for anything.
    let large = Reading { known: 90, ..reading(2.0) };
    let shares = hold(&mut spill, &mut now, 1, &[nobody(), reading(2.0), large]);
    assert!((shares[1] - 0.25).abs() < 1e-6 && (shares[2] - 0.75).abs() < 1e-6, "{shares:?}");

    // Back, and idle: home again step by step.
    let soon = hold(&mut spill, &mut now, 1, &[reading(0.0), reading(0.5), large]);
    assert!(soon[0] > 0.05, "{soon:?}");
    let (mut spill, mut now) = (self::spill(2), NOW);
    hold(&mut spill, &mut now, 1, &[nobody(), reading(0.3)]);
    let soon = hold(&mut spill, &mut now, 3, &[reading(0.2), reading(0.3)]);
    assert!((0.2..0.5).contains(&soon[0]), "{soon:?}");
    assert_eq!(hold(&mut spill, &mut now, 10, &[reading(0.4), reading(0.3)]), [1.0, 0.0]);
}

#[test]
fn observing_shows_what_would_be_and_changes_nothing() {
    let config = ClustersConfig { mode: Mode::Observe, ..ClustersConfig::default() };
    let mut spill = Spill::new(NOW, config.clone(), 2, &mut Rng::from_seed(1)).unwrap();
    let mut now = NOW;
    let dealt: Vec<f64> = spill.poll_shares().unwrap().iter().collect();
    hold(&mut spill, &mut now, 3, &[reading(1.0), reading(0.2)]);
    let home = spill.snapshot().next().unwrap();
    assert_eq!((dealt, home.in_force), (vec![1.0, 0.0], 1.0));
    assert!(home.share < 0.9, "{home:?}");

    spill.handle_config(now, ClustersConfig { mode: Mode::On, ..config.clone() }).unwrap();
    assert!(spill.poll_shares().unwrap().iter().next().unwrap() < 0.9);
    spill.handle_config(now, ClustersConfig { mode: Mode::Off, ..config }).unwrap();
    assert_eq!(spill.poll_timeout(), None);
    assert!(spill.poll_shares().unwrap().iter().next().unwrap() >= 1.0);
}

#[test]
fn in_force_is_what_is_dealt_also_where_a_cluster_has_nobody() {
    let in_force = |spill: &Spill| spill.snapshot().map(|cluster| cluster.in_force).collect::<Vec<f64>>();
    let observing = ClustersConfig { mode: Mode::Observe, ..ClustersConfig::default() };
    let (mut spill, mut now) = (Spill::new(NOW, observing, 3, &mut Rng::from_seed(1)).unwrap(), NOW);
    assert_eq!(in_force(&spill), [1.0, 0.0, 0.0], "nothing is known yet");

    hold(&mut spill, &mut now, 1, &[nobody(), nobody(), reading(0.3)]);
    assert_eq!(in_force(&spill), [0.0, 0.0, 1.0], "passed over for the nearest that has somebody, in any mode");
    hold(&mut spill, &mut now, 1, &[nobody(), nobody(), nobody()]);
    assert_eq!(in_force(&spill), [1.0, 0.0, 0.0], "the nearest says why it cannot");
    hold(&mut spill, &mut now, 1, &[reading(0.3), nobody(), reading(0.3)]);
    assert_eq!(in_force(&spill), [1.0, 0.0, 0.0]);

    // While it is off nothing is decided, and who looks reads who is usable.
    spill.handle_config(now, ClustersConfig { mode: Mode::Off, ..ClustersConfig::default() }).unwrap();
    spill.handle_readings(now, &[nobody(), reading(1.0), reading(0.3)]);
    assert_eq!(in_force(&spill), [0.0, 1.0, 0.0]);
    assert!(spill.snapshot().all(|cluster| cluster.why == "spilling is off"));
}

#[test]
fn what_a_client_has_no_place_for_goes_where_nothing_says_that_it_is_full() {
    let (mut spill, mut now) = (spill(4), NOW);
    let silent = Reading { load: None, mean: None, ..reading(0.0) };
    for (next, after_it, expected) in [(reading(0.3), reading(0.82), [1, 3]), (nobody(), reading(0.7), [2, 3])] {
        spill.handle_readings(now, &[reading(0.1), next, after_it, silent]);
        now = now + PERIOD;
        assert_eq!(spill.poll_shares().unwrap().others(0).collect::<Vec<_>>(), expected);
    }

    let observing = ClustersConfig { mode: Mode::Observe, ..ClustersConfig::default() };
    spill.handle_config(now, observing).unwrap();
    assert_eq!(spill.poll_shares().unwrap().others(0).next(), None, "observing moves nothing");
}

#[test]
fn one_that_is_switched_on_again_knows_nothing_of_before() {
    let (mut spill, mut now) = (spill(2), NOW);
    let before = hold(&mut spill, &mut now, 10, &[reading(1.3), reading(0.2)]);
    assert!(before[1] > 0.2, "{before:?}");
    spill.handle_config(now, ClustersConfig { mode: Mode::Off, ..ClustersConfig::default() }).unwrap();
    spill.poll_shares();

    now = now + Duration::from_secs(3_600);
    spill.handle_config(now, ClustersConfig::default()).unwrap();

    assert_eq!(spill.poll_timeout(), Some(now), "it looks at once");
    assert!(spill.poll_shares().is_none_or(|shares| shares.iter().next() == Some(1.0)));
    assert_eq!(hold(&mut spill, &mut now, 1, &[reading(0.5), reading(0.2)]), [1.0, 0.0]);
}

#[test]
fn after_a_pause_requests_come_home_a_step_at_a_time() {
    let (mut spill, mut now) = (spill(2), NOW);
    let before = hold(&mut spill, &mut now, 10, &[reading(1.5), reading(0.1)])[0];
    assert!(before < 0.6, "{before}");

    now = now + Duration::from_secs(600);
    spill.handle_readings(now, &[reading(0.3), reading(0.1)]);

    let home = spill.snapshot().next().unwrap().share;
    assert!(home <= before + 0.1 + 1e-9, "{before} and {home}");
}

#[test]
fn what_is_refused_for_a_quota_is_no_load_of_the_cluster() {
    let mut settings = config(PolicyName::LeastLoaded);
    settings.throttle.least = 1;
    let mut fixture = Fixture::new(settings, 5, 1);
    let mut end_with = |outcome, count| {
        let mut refused = 0;
        for _ in 0..count {
            match fixture.begin(NOW) {
                Ok(ticket) => fixture.picker.finish(NOW, ticket, outcome, None),
                Err(_) => refused += 1,
            }
        }
        let reading = fixture.client.reading(NOW);
        (reading.ended, reading.refused, refused)
    };
    assert_eq!(end_with(Outcome::Served, 10), (10, 0, 0));

    let (ended, refused, held_back) = end_with(Outcome::OutOfQuota, 200);
    assert!((ended, refused) == (10, 0) && held_back > 50, "{ended} {refused} {held_back}");

    let (_, refused, held_back) = end_with(Outcome::Overloaded, 200);
    assert!(refused >= 190 && held_back > 50, "{refused} {held_back}");
}

#[test]
fn bad_settings_leave_everything_as_it_was() {
    let mut spill = spill(2);
    let bad = ClustersConfig { full: 0.0, ..ClustersConfig::default() };
    assert_eq!(spill.handle_config(NOW, bad).unwrap_err().field, "clusters.full");
    assert!(spill.poll_timeout().is_some());
    for clusters in [0, 17] {
        assert!(Spill::new(NOW, ClustersConfig::default(), clusters, &mut Rng::from_seed(1)).is_err());
    }
}

#[test]
fn a_client_reads_its_most_loaded_tasks_what_it_lost_and_what_was_refused() {
    let mut fixture = Fixture::new(config(PolicyName::RoundRobin), 20, 3);
    assert_eq!(fixture.client.reading(NOW).load, None);
    for number in 0..20 {
        let utilization = if number < 2 { 0.95 } else { 0.4 };
        let report = LoadReport {
            utilization: Some(utilization),
            processors: Some(4.0),
            runnable: Some(if number == 0 { 44.0 } else { 1.0 }),
            qps: (number >= 10).then_some(16.0),
            ..LoadReport::default()
        };
        fixture.client.handle_report(NOW, id(number), &report);
    }
    for outcome in [Outcome::Served, Outcome::Overloaded, Outcome::Failed] {
        let ticket = fixture.begin(NOW).unwrap();
        fixture.picker.finish(NOW, ticket, outcome, None);
    }
    let running = fixture.begin(NOW).unwrap();

    let reading = fixture.client.reading(NOW);

    // Of twenty the third: one in ten may be fuller.
    assert!((reading.load.unwrap() - 0.4).abs() < 1e-6, "{reading:?}");
    assert!((reading.mean.unwrap() - 0.455).abs() < 1e-6 && (reading.backlog.unwrap() - 0.5).abs() < 1e-6);
    // What an answer takes: a tenth of a second, by those that say how many they give.
    assert!((reading.work.unwrap() / reading.answers.unwrap() - 0.1).abs() < 1e-6, "{reading:?}");
    assert_eq!((reading.usable, reading.wanted, reading.known), (20, 20, 20));
    assert_eq!((reading.ended, reading.refused, reading.failed), (3, 1, 1));
    assert_eq!((reading.begun, reading.in_flight), (4, 1));
    assert!((reading.capacity() - 80.0).abs() < 1e-6);

    fixture.picker.finish(NOW, running, Outcome::Served, None);
    for number in 0..10 {
        fixture.client.handle_lost(NOW, id(number));
    }
    assert!((fixture.client.reading(NOW).capacity() - 40.0).abs() < 1e-6);
    let later = NOW + Duration::from_secs(60);
    assert_eq!(fixture.client.reading(later).load, None, "what is old says nothing");
}

#[test]
fn a_client_asks_those_of_whom_it_heard_nothing_for_longest() {
    let mut fixture = Fixture::new(config(PolicyName::RoundRobin), 4, 3);
    let at = |millis: u64| NOW + Duration::from_millis(millis);
    for number in 0..3 {
        fixture.client.handle_report(at(u64::from(number)), id(number), &LoadReport::default());
    }
    let asked = |fixture: &mut Fixture, now: Time| {
        fixture.client.freshen(now);
        let actions: Vec<Action> = std::iter::from_fn(|| fixture.client.poll_action()).collect();
        actions
    };
    assert_eq!(asked(&mut fixture, at(500)), [Action::Check(id(3))], "the others are fresh");
    assert_eq!(asked(&mut fixture, at(2_000)), [Action::Check(id(3)), Action::Check(id(0))]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Whatever is read in whatever order: shares are finite, add up to 1, and nobody unusable gets any while another
    /// is usable; and what is dealt is never nobody.
    #[test]
    fn shares_add_up_and_nobody_unusable_gets_any(
        rounds in prop::collection::vec((0..3_000_u64, prop::collection::vec(any_reading(), 4)), 1..40),
        seed in any::<u64>(),
    ) {
        let (mut spill, mut now, mut rng) = (self::spill(4), NOW, Rng::from_seed(seed));
        let (mut local, mut dealt) = (SharesLocal::default(), spill.poll_shares().unwrap());
        for (millis, readings) in rounds {
            now = now + Duration::from_millis(millis);
            spill.handle_readings(now, &readings);
            dealt = spill.poll_shares().unwrap_or(dealt);

            let shares: Vec<f64> = spill.snapshot().map(|cluster| cluster.share).collect();
            prop_assert!(shares.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)), "{shares:?}");
            prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
            let usable: Vec<bool> = readings.iter().map(|reading| reading.usable > 0).collect();
            if usable.contains(&true) {
                prop_assert!(shares.iter().zip(&usable).all(|(share, usable)| *usable || *share == 0.0), "{shares:?}");
            }
            let picked = dealt.pick(&mut local, |cluster| usable[cluster], &mut rng);
            prop_assert_eq!(picked.is_some(), usable.contains(&true));
            prop_assert!(picked.is_none_or(|cluster| usable[cluster]));
        }
    }
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let load = || proptest::option::of(prop_oneof![Just(0.0), 0.0..1.2_f64, 0.0..100.0_f64]);
    let counts = (0..40_u32, 0..40_u32, 0..400_u32);
    let sums = (0..1_000_u64, 0..1_000_u64, 0..1_000_u64, 0..2_000_u64, 0..1_000_u64);
    let age = || proptest::option::of(0.0..3.0_f64);
    let others =
        (proptest::option::of(0.01..1e5_f64), proptest::option::of(0.0..=1.0_f64), load(), load(), load(), age());
    (counts, load(), load(), sums, others).prop_map(|((usable, wanted, known), load, mean, sums, others)| Reading {
        usable,
        wanted,
        known,
        load,
        mean,
        backlog: others.2,
        work: others.3,
        answers: others.4,
        age_s: others.5,
        processors: others.0,
        failing: others.1,
        ended: sums.0,
        refused: sums.1,
        failed: sums.2,
        begun: sums.3,
        in_flight: sums.4,
    })
}

fn most(steps: &[Vec<f64>]) -> f64 {
    steps.iter().flatten().fold(0.0, |most: f64, &one| most.max(one))
}

/// From the least to the most that one cluster is asked for.
fn swing(steps: &[Vec<f64>], cluster: usize) -> f64 {
    let of = steps.iter().map(|step| step[cluster]);
    of.clone().fold(0.0, f64::max) - of.fold(f64::INFINITY, f64::min)
}

#[test]
fn many_clients_that_all_answer_at_once_overload_nobody_and_come_home() {
    let mut fluid = Fluid::new(&[0.6; 3], 300, &ClustersConfig::default());
    let before = fluid.run(10);
    assert!((most(&before) - 0.6).abs() < 1e-6);

    fluid.lost[0] = 0.5;
    fluid.run(2);
    let during = fluid.run(20);
    assert!(most(&during) <= 1.05, "{}", most(&during));
    assert!((0..3).all(|cluster| swing(&during[200..], cluster) < 0.06));

    fluid.lost[0] = 0.0;
    fluid.run(10);
    assert!((most(&fluid.run(5)) - 0.6).abs() < 1e-6, "all are home");
}

#[test]
fn none_is_beyond_its_capacity_whatever_the_load_that_is_left_room_for() {
    for clients in [60, 300] {
        for demand in [[0.5; 3], [0.7; 3], [0.75; 3], [0.8; 3], [0.9, 0.6, 0.6], [0.6, 0.9, 0.6], [0.6, 0.6, 0.9]] {
            for is_slow in [false, true] {
                let mut fluid = Fluid::new(&demand, clients, &ClustersConfig::default());
                let before = fluid.run(10);
                assert!(most(&before) <= 1.0, "{demand:?}: {}", most(&before));

                // Half of the tasks, or half of the speed: nothing but load tells of that.
                let (speed, lost) = if is_slow { (0.5, 0.0) } else { (1.0, 0.5) };
                (fluid.speed[0], fluid.lost[0]) = (speed, lost);
                fluid.run(1);
                let soon = fluid.run(1);
                assert!(most(&soon) <= 1.1, "{demand:?} {is_slow}: {} in the second second", most(&soon));
                let during = fluid.run(20);
                assert!(most(&during) <= 1.05, "{demand:?} {is_slow}: {}", most(&during));
                let swing = (0..3).map(|cluster| swing(&during[200..], cluster)).fold(0.0, f64::max);
                assert!(swing < 0.1, "{demand:?} {is_slow}: swings by {swing}");

                (fluid.speed[0], fluid.lost[0]) = (1.0, 0.0);
                let after = fluid.run(20);
                assert!(most(&after) <= 1.05, "{demand:?} {is_slow}: {}", most(&after));
                let home: f64 = fluid.clients.iter().filter_map(|one| one.shares.iter().next()).sum::<f64>();
                let home = home / clients as f64;
                assert!(home > 0.97 || demand.contains(&0.9), "{demand:?} {is_slow}: {home} at home");
            }
        }
    }
}

#[test]
fn a_rush_of_one_clusters_clients_overfills_nobody_else() {
    let mut fluid = Fluid::new(&[0.5; 3], 60, &ClustersConfig::default());
    fluid.run(10);

    fluid.demand[0] = 1.3;
    let first = fluid.run(2);
    let later = fluid.run(10);

    assert!((1..3).all(|cluster| first.iter().all(|step| step[cluster] < 1.0)));
    assert!(most(&later) <= 1.0, "{}", most(&later));
}

#[test]
fn two_that_lose_half_at_once_divide_the_room_of_the_third() {
    for demand in [0.5, 0.6] {
        let mut fluid = Fluid::new(&[demand; 3], 60, &ClustersConfig::default());
        fluid.run(10);

        (fluid.lost[0], fluid.speed[1]) = (0.5, 0.5);
        fluid.run(2);
        let during = fluid.run(20);

        assert!(most(&during) <= 1.05, "{demand}: {}", most(&during));
    }
}

#[test]
fn many_clusters_that_are_full_at_once_overfill_the_last_with_room_for_seconds_at_most() {
    let mut fluid = Fluid::new(&[0.6; 6], 300, &ClustersConfig::default());
    fluid.run(10);

    // Five of six lose half: 1.2 times what they have left, and all see the same room in the sixth.
    (0..5).for_each(|cluster| fluid.lost[cluster] = 0.5);
    let first: Vec<f64> = fluid.run(4).iter().map(|step| step[5]).collect();
    let later: Vec<f64> = fluid.run(20).iter().map(|step| step[5]).collect();

    let most = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
    assert!(most(&first) < 1.3 && most(&later) <= 1.05, "{} {}", most(&first), most(&later));
}

#[test]
fn clusters_that_are_both_nearly_full_trade_nothing_whatever_the_settings() {
    for full in [0.5, 0.85, 1.0] {
        for margin in [0.0, 0.05, 0.2] {
            for period in [50, 250, 1_000] {
                let period = Duration::from_millis(period);
                let config = ClustersConfig { full, margin, period, ..ClustersConfig::default() };
                for demand in [[full, full], [full * 1.3, full * 1.3], [full * 1.2, full * 0.7]] {
                    let mut fluid = Fluid::new(&demand, 40, &config);
                    fluid.run(30);
                    let later = fluid.run(10);
                    let swing = swing(&later, 0).max(swing(&later, 1));
                    assert!(swing < 0.1, "{config:?} {demand:?}: swings by {swing}");
                    let worst = most(&later) / demand[0].max(demand[1]);
                    assert!(worst < 1.03, "{config:?} {demand:?}: {worst} of what it has by itself");
                }
            }
        }
    }
}
