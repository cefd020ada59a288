//! What is special about `prequal`: what backends said last of their requests in flight decides, while it is fresh.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{Fixture, NOW, backends, config, connect_all, id};
use evenkeel_core::client::pick::PrequalConfig;
use evenkeel_core::{Action, BackendId, ClientConfig, LoadReport, Outcome, PolicyName, Time};

fn with(prequal: PrequalConfig) -> ClientConfig {
    let mut config = config(PolicyName::Prequal);
    config.pick.prequal = prequal;
    config
}

fn report(in_flight: u32, latency_ms: u64) -> LoadReport {
    let latency = Some(Duration::from_millis(latency_ms));
    LoadReport { in_flight: Some(in_flight), latency, processors: Some(4.0), ..LoadReport::default() }
}

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

/// All have said so many requests in flight and such a latency at `now`, and a pool was made of that.
fn told(fixture: &mut Fixture, now: Time, said: &[(u32, u64)]) {
    for (number, &(in_flight, latency_ms)) in (0..).zip(said) {
        fixture.client.handle_report(now, id(number), &report(in_flight, latency_ms));
    }
    fixture.client.handle_timeout(now + Duration::from_millis(50));
    fixture.refresh();
}

/// Picks once, and gives it back without a report.
fn pick(fixture: &mut Fixture, now: Time) -> BackendId {
    let ticket = fixture.begin(now).unwrap();
    let backend = ticket.backend();
    fixture.picker.finish(now, ticket, Outcome::Served, None);
    backend
}

fn why(fixture: &Fixture, now: Time, number: u32) -> &'static str {
    let snapshot = fixture.client.snapshot(now);
    snapshot.backends.iter().find(|one| one.backend == id(number)).unwrap().why
}

#[test]
fn the_fewest_requests_in_flight_win_and_each_use_counts_as_one_more() {
    let settings = PrequalConfig { uses_most: 16, tie: 0.0, ..PrequalConfig::default() };
    let mut fixture = Fixture::new(with(settings), 4, 1);
    told(&mut fixture, after(0), &[(9, 10), (3, 10), (6, 10), (20, 10)]);

    let picked: Vec<u64> = (0..6).map(|_| pick(&mut fixture, after(60)).0).collect();

    // Three times until both have six, then in turn.
    assert_eq!(picked[..3], [1; 3]);
    assert!(picked[3..].contains(&1) && picked[3..].contains(&2), "{picked:?}");
    assert!(!picked.contains(&3) && !picked.contains(&0), "{picked:?}");
    assert_eq!(why(&fixture, after(60), 3), "hot: many requests in flight for what others have");
}

#[test]
fn of_near_equals_the_faster_wins_and_no_latency_outweighs_requests() {
    let settings = PrequalConfig { uses_most: 1, ..PrequalConfig::default() };
    let mut fixture = Fixture::new(with(settings), 5, 2);
    told(&mut fixture, after(0), &[(4, 80), (5, 20), (4, 60), (8, 1), (30, 1)]);

    // 4 and 5 of four processors are within a quarter; 8 is not, however fast it is.
    let picked: Vec<u64> = (0..4).map(|_| pick(&mut fixture, after(60)).0).collect();
    assert_eq!(picked, [1, 2, 0, 3]);
}

#[test]
fn at_quantile_zero_latency_is_not_looked_at() {
    let settings = PrequalConfig { hot_quantile: 0.0, uses_most: 1, ..PrequalConfig::default() };
    let mut fixture = Fixture::new(with(settings), 3, 3);
    told(&mut fixture, after(0), &[(5, 1), (4, 90), (6, 1)]);
    assert_eq!(pick(&mut fixture, after(60)), id(1));
}

#[test]
fn one_that_was_used_often_is_left_until_it_is_heard_of_again() {
    let mut fixture = Fixture::new(with(PrequalConfig { uses_most: 2, ..PrequalConfig::default() }), 3, 4);
    told(&mut fixture, after(0), &[(0, 5), (50, 5), (60, 5)]);
    let picked: Vec<u64> = (0..4).map(|_| pick(&mut fixture, after(60)).0).collect();
    assert_eq!(picked, [0, 0, 1, 1]);
    assert_eq!(why(&fixture, after(60), 0), "used since it was heard of");

    // Its answer is news.
    fixture.client.handle_report(after(61), id(0), &report(0, 5));
    assert_eq!(pick(&mut fixture, after(61)), id(0));
}

#[test]
fn uses_are_remembered_when_the_pool_is_remade_and_backends_come() {
    let mut fixture = Fixture::new(with(PrequalConfig { uses_most: 2, ..PrequalConfig::default() }), 3, 5);
    told(&mut fixture, after(0), &[(0, 5), (50, 5), (60, 5)]);
    assert_eq!([pick(&mut fixture, after(60)), pick(&mut fixture, after(60))], [id(0), id(0)]);

    fixture.client.handle_backends(after(70), backends(6)).unwrap();
    fixture.picker = connect_all(&mut fixture.client, after(70)).unwrap();
    fixture.client.handle_timeout(after(120));
    fixture.refresh();
    assert_eq!(pick(&mut fixture, after(120)), id(1));
}

#[test]
fn what_has_expired_is_not_believed_and_its_own_requests_decide() {
    let mut fixture = Fixture::new(with(PrequalConfig::default()), 4, 6);
    told(&mut fixture, after(0), &[(0, 5), (50, 5), (60, 5), (70, 5)]);
    let tickets: Vec<_> = (0..8).map(|_| fixture.begin(after(10_500)).unwrap()).collect();
    let mut counts = [0; 4];
    for ticket in &tickets {
        counts[ticket.backend().0 as usize] += 1;
    }
    assert_eq!(counts, [2; 4], "in turn, as nobody was heard of");
    fixture.finish_all(tickets);
}

/// A caller of a request a second rarely has two fresh words, and its own requests in flight tell it nothing.
#[test]
fn old_news_count_where_less_than_two_are_fresh() {
    let mut fixture = Fixture::new(with(PrequalConfig::default()), 4, 6);
    told(&mut fixture, after(0), &[(60, 5), (50, 5), (0, 5), (10, 5)]);
    fixture.client.handle_report(after(5_000), id(0), &report(60, 5));
    fixture.client.handle_timeout(after(5_050));
    fixture.refresh();
    assert_eq!(why(&fixture, after(5_100), 2), "old news: for want of newer ones");

    let picked: Vec<u64> = (0..3).map(|_| pick(&mut fixture, after(5_100)).0).collect();

    assert_eq!(picked, [2, 3, 1], "the full one is the last, though nothing newer is known");
    // With two fresh ones the old are left alone again.
    told(&mut fixture, after(6_000), &[(60, 5), (50, 5)]);
    assert_eq!(pick(&mut fixture, after(6_100)), id(1));
}

#[test]
fn what_it_has_there_itself_is_there_whatever_was_said() {
    let mut fixture = Fixture::new(with(PrequalConfig { uses_most: 16, ..PrequalConfig::default() }), 2, 7);
    told(&mut fixture, after(0), &[(0, 5), (1, 5)]);
    let held: Vec<_> = (0..10).map(|_| fixture.begin(after(60)).unwrap()).collect();
    // Both say again that they have nothing, which cannot be.
    told(&mut fixture, after(100), &[(0, 5), (0, 5)]);
    let more: Vec<_> = (0..10).map(|_| fixture.begin(after(160)).unwrap()).collect();
    let on_first = held.iter().chain(&more).filter(|ticket| ticket.backend() == id(0)).count();
    assert!((8..=12).contains(&on_first), "{on_first} of 20");
    fixture.finish_all(held.into_iter().chain(more));
}

#[test]
fn the_pool_is_those_heard_of_last() {
    let mut fixture = Fixture::new(with(PrequalConfig { pool: 8, uses_most: 16, ..PrequalConfig::default() }), 11, 8);
    for (number, at) in (0..11).map(|number| (number, 3 * u64::from(number))) {
        // The older the news, the better they are.
        fixture.client.handle_report(after(at), id(number), &report(number, 5));
    }
    fixture.client.handle_timeout(after(50));
    fixture.refresh();
    let picked: Vec<u64> = (0..6).map(|_| pick(&mut fixture, after(55)).0).collect();
    assert!(picked.iter().all(|&one| one >= 3), "{picked:?}");
    assert_eq!(why(&fixture, after(55), 0), "others were heard of later");
}

#[test]
fn processors_count_where_all_say_how_many_they_have() {
    let mut fixture = Fixture::new(with(PrequalConfig { tie: 0.0, ..PrequalConfig::default() }), 2, 9);
    let said = |in_flight, processors| LoadReport { in_flight: Some(in_flight), processors, ..LoadReport::default() };
    fixture.client.handle_report(after(0), id(0), &said(4, Some(8.0)));
    fixture.client.handle_report(after(0), id(1), &said(3, Some(2.0)));
    fixture.client.handle_timeout(after(50));
    fixture.refresh();
    assert_eq!(pick(&mut fixture, after(50)), id(0), "a half for each processor against one and a half");

    fixture.client.handle_report(after(60), id(0), &said(4, Some(8.0)));
    fixture.client.handle_report(after(60), id(1), &said(3, None));
    fixture.client.handle_timeout(after(100));
    fixture.refresh();
    assert_eq!(pick(&mut fixture, after(100)), id(1), "four against three");
}

#[test]
fn a_backend_that_fails_fast_and_says_it_is_idle_draws_no_traffic() {
    let mut fixture = Fixture::new(with(PrequalConfig::default()), 10, 10);
    let mut failed = 0;
    for step in 0..4_000 {
        let now = after(step);
        fixture.client.handle_timeout(now);
        fixture.refresh();
        let ticket = fixture.begin(now).unwrap();
        let is_bad = ticket.backend() == id(0);
        failed += u32::from(is_bad);
        let (outcome, said) = if is_bad { (Outcome::Failed, report(0, 0)) } else { (Outcome::Served, report(5, 50)) };
        fixture.picker.finish(now, ticket, outcome, Some(&said));
    }
    // A tenth is its fair share. One more than the others need, in flight and for a second, keeps it at about five.
    assert!(failed <= 100, "{failed} of 4000");
}

#[test]
fn probes_go_to_those_not_just_heard_of_as_far_as_requests_pay_for_it() {
    let mut fixture = Fixture::new(with(PrequalConfig::default()), 10, 11);
    for _ in 0..8 {
        pick(&mut fixture, after(0));
    }
    fixture.client.handle_timeout(after(100));
    for number in 0..5 {
        fixture.client.handle_report(after(190), id(number), &report(1, 5));
    }
    fixture.client.handle_timeout(after(200));

    let mut asked: Vec<BackendId> = std::iter::from_fn(|| fixture.client.poll_action())
        .map(|action| match action {
            Action::Check(backend) => backend,
            other => panic!("{other:?}"),
        })
        .collect();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 4, "half as many as requests, all different");
    assert!(asked.iter().all(|backend| backend.0 >= 5), "{asked:?}");
}

#[test]
fn bad_settings_are_refused_by_name() {
    let refused = |change: fn(&mut PrequalConfig)| {
        let mut settings = with(PrequalConfig::default());
        change(&mut settings.pick.prequal);
        settings.check().unwrap_err().to_string()
    };
    assert_eq!(refused(|one| one.pool = 7), "pick.prequal.pool = 7 is not possible: must be from 8 to 32");
    assert!(refused(|one| one.every = Duration::ZERO).starts_with("pick.prequal.every"));
    assert!(refused(|one| one.expiry = Duration::ZERO).starts_with("pick.prequal.expiry"));
    assert!(refused(|one| one.uses_most = 0).starts_with("pick.prequal.uses_most"));
    assert!(refused(|one| one.hot_quantile = 1.0).starts_with("pick.prequal.hot_quantile"));
    assert!(refused(|one| one.tie = -0.1).starts_with("pick.prequal.tie"));
}
