//! The slow brain of a client: connections, states, stand-ins, absurd input.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support;
use crate::support::{Fixture, NOW, backends, config, connect_all};
use evenkeel_core::client::StateChange;
use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, BackendState, Client, ClientConfig, LoadReport, Outcome, PolicyName,
    Readiness, Refusal, Rng, Time,
};

fn client(config: ClientConfig) -> Client {
    Client::new(NOW, config, &mut Rng::from_seed(1)).unwrap()
}

fn actions(client: &mut Client) -> Vec<Action> {
    std::iter::from_fn(|| client.poll_action()).collect()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A client of 3 of 10 backends, all connected, most preferred first.
fn three_of_ten() -> (Client, Vec<BackendId>) {
    let mut settings = ClientConfig::default();
    settings.subset.size = 3;
    let mut client = client(settings);
    client.handle_backends(NOW, backends(10)).unwrap();
    connect_all(&mut client, NOW);
    let members = client.snapshot(NOW).backends.iter().map(|backend| backend.backend).collect();
    (client, members)
}

#[test]
fn a_service_no_larger_than_the_subset_is_used_whole() {
    let mut client = client(ClientConfig::default());
    client.handle_backends(NOW, backends(20)).unwrap();
    assert_eq!(actions(&mut client).len(), 20);
    client.handle_backends(NOW, backends(300)).unwrap();
    let snapshot = client.snapshot(NOW);
    assert_eq!((snapshot.subset_size, snapshot.backends_known, snapshot.algorithm), (20, 300, Algorithm::Random));
}

#[test]
fn even_is_chosen_where_both_sides_have_ordinals() {
    let mut settings = ClientConfig::default();
    settings.subset.client = Some(4);
    let mut client = client(settings);
    client.handle_backends(NOW, backends(300)).unwrap();
    assert_eq!(client.snapshot(NOW).algorithm, Algorithm::Even);
    let unnumbered = BackendList::new((0..300).map(|n| BackendSpec { id: BackendId(n), ordinal: None })).unwrap();
    client.handle_backends(NOW, unnumbered).unwrap();
    assert_eq!(client.snapshot(NOW).algorithm, Algorithm::Random);
}

#[test]
fn a_lost_backend_is_tried_again_and_another_stands_in_after_a_while() {
    let (mut client, members) = three_of_ten();
    client.handle_lost(NOW, members[0]);
    assert_eq!(actions(&mut client), [], "it may be back at once");

    let retry = client.poll_timeout().unwrap();
    assert!((NOW + Duration::from_millis(40)..=NOW + Duration::from_millis(60)).contains(&retry));
    client.handle_timeout(retry);
    assert_eq!(actions(&mut client), [Action::Connect(members[0])]);

    client.handle_timeout(NOW + seconds(1));
    let stand_in = match actions(&mut client)[..] {
        [Action::Connect(backend)] => backend,
        ref other => panic!("one stands in, not {other:?}"),
    };
    assert!(!members.contains(&stand_in));
    client.handle_connected(NOW + seconds(1), stand_in, Readiness::Ready);

    client.handle_connected(NOW + seconds(2), members[0], Readiness::Ready);
    assert_eq!(actions(&mut client), [Action::Disconnect(stand_in)], "and goes when it is back");
}

#[test]
fn a_lame_duck_is_replaced_at_once_and_never_picked() {
    let (mut client, members) = three_of_ten();
    let change = client.handle_readiness(NOW, members[1], Readiness::LameDuck).unwrap();
    let expected = StateChange { backend: members[1], from: BackendState::Healthy, to: BackendState::LameDuck };
    assert_eq!(change, expected);
    let stand_in = actions(&mut client)[0].backend();
    client.handle_connected(NOW, stand_in, Readiness::LameDuck);
    let second = actions(&mut client)[0].backend();
    client.handle_connected(NOW, second, Readiness::Ready);

    let picker = client.poll_picker().unwrap();
    let (mut local, mut rng) = (evenkeel_core::Local::default(), Rng::from_seed(2));
    for _ in 0..100 {
        let ticket = picker.begin(&mut local, NOW, &support::meta(), &mut rng).unwrap();
        assert!(![members[1], stand_in].contains(&ticket.backend()));
        picker.finish(NOW, ticket, Outcome::Served, None);
    }
    let changes = client.snapshot(NOW).state_changes;
    assert_eq!(changes[BackendState::Healthy as usize][BackendState::LameDuck as usize], 1);

    client.handle_readiness(NOW, members[1], Readiness::Ready);
    assert_eq!(actions(&mut client).len(), 2, "both stand-ins go");
}

#[test]
fn a_lame_duck_that_exits_or_a_clock_set_back_sends_no_stand_in_away() {
    let (mut client, members) = three_of_ten();
    client.handle_readiness(NOW, members[0], Readiness::LameDuck);
    connect_all(&mut client, NOW);
    client.handle_lost(NOW + seconds(1), members[0]);
    assert_eq!(actions(&mut client), [], "the usual end of a restart");
    client.handle_timeout(Time::from_secs(500));
    let moved = actions(&mut client);
    assert!(moved.iter().all(|action| *action == Action::Connect(members[0])), "{moved:?}");
    assert_eq!(client.poll_picker().map_or(3, |picker| picker.len()), 3);
}

#[test]
fn another_dealing_empties_no_picker() {
    let mut settings = ClientConfig::default();
    settings.subset.client = Some(3);
    let mut client = client(settings.clone());
    client.handle_backends(NOW, backends(3_000)).unwrap();
    assert_eq!(connect_all(&mut client, NOW).unwrap().len(), 20);

    settings.subset.algorithm = Some(Algorithm::Rounds);
    client.handle_config(NOW, settings).unwrap();
    let connects: Vec<Action> = actions(&mut client);
    assert!(connects.iter().all(|action| matches!(action, Action::Connect(_))), "nobody goes yet: {connects:?}");
    let mut dropped = 0;
    for action in &connects {
        client.handle_connected(NOW, action.backend(), Readiness::Ready);
        dropped += actions(&mut client).len();
        assert_eq!(client.poll_picker().unwrap().len(), 20, "one comes, one goes");
    }
    assert_eq!(dropped, connects.len());
}

#[test]
fn backends_that_left_the_list_go_at_once() {
    let (mut client, members) = three_of_ten();
    let others = backends(10).specs().iter().copied().filter(|spec| spec.id != members[0]).collect::<Vec<_>>();
    client.handle_backends(NOW, BackendList::new(others).unwrap()).unwrap();
    assert!(actions(&mut client).contains(&Action::Disconnect(members[0])));
}

#[test]
fn back_off_starts_over_after_a_day_up_even_if_it_ends_as_a_lame_duck() {
    let (mut client, members) = three_of_ten();
    let mut now = NOW;
    client.handle_lost(now, members[0]);
    for _ in 0..12 {
        now = now + seconds(10);
        client.handle_timeout(now);
        client.handle_lost(now, members[0]);
    }
    client.handle_connected(now, members[0], Readiness::Ready);
    now = now + seconds(86_400);
    client.handle_readiness(now, members[0], Readiness::LameDuck);
    client.handle_lost(now + seconds(2), members[0]);
    let snapshot = client.snapshot(now + seconds(2));
    let lost = snapshot.backends.iter().find(|backend| backend.backend == members[0]).unwrap();
    assert!(lost.retry_at.unwrap() < now + seconds(2) + Duration::from_millis(100));
}

#[test]
fn room_given_back_on_an_older_picker_with_a_higher_limit_is_found() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 1, 7);
    let ticket = fixture.begin(NOW).unwrap();
    let old = std::sync::Arc::clone(&fixture.picker);
    let mut lower = config(PolicyName::LeastLoaded);
    lower.flow.active_max = 1;
    fixture.client.handle_config(NOW, lower).unwrap();
    fixture.refresh();
    assert_eq!(fixture.begin(NOW).unwrap_err(), Refusal::AllFull);
    old.finish(NOW, ticket, Outcome::Served, None);
    assert!(fixture.begin(NOW + Duration::from_millis(10)).is_ok());
}

#[test]
fn one_local_for_two_clients_confuses_neither() {
    let mut settings = config(PolicyName::LeastLoaded);
    settings.flow.active_max = 1;
    let (mut one, other) = (Fixture::new(settings.clone(), 1, 1), Fixture::new(settings, 1, 2));
    let _held = one.begin(NOW).unwrap();
    assert!(one.begin(NOW).is_err());
    assert!(other.picker.begin(&mut one.local, NOW, &support::meta(), &mut one.rng).is_ok());
}

#[test]
fn when_everything_is_lost_stand_ins_are_bounded_and_all_come_back() {
    let with_a_hole =
        backends(1_000).specs().iter().copied().filter(|spec| spec.ordinal != Some(17)).collect::<Vec<_>>();
    for (ordinal, list) in [(None, backends(1_000)), (Some(3), BackendList::new(with_a_hole).unwrap())] {
        let mut settings = ClientConfig::default();
        (settings.subset.size, settings.subset.client) = (5, ordinal);
        let mut client = client(settings);
        client.handle_backends(NOW, list).unwrap();
        lose_everything(&mut client);
    }
}

fn lose_everything(client: &mut Client) {
    let mut now = NOW;
    let mut tries = 0;
    for _ in 0..2_000 {
        for action in actions(client) {
            if let Action::Connect(backend) = action {
                tries += 1;
                client.handle_lost(now, backend);
            }
        }
        now = client.poll_timeout().unwrap();
        client.handle_timeout(now);
    }
    let known = client.snapshot(now).backends.len();
    assert!((5..=15).contains(&known), "a subset and its stand-ins, not the whole service: {known}");
    assert!(tries < 2_100, "each try waits for its time");

    let members: Vec<BackendId> = client.snapshot(now).backends.iter().map(|backend| backend.backend).collect();
    actions(client);
    for backend in members {
        client.handle_connected(now, backend, Readiness::Ready);
    }
    assert_eq!(client.snapshot(now).backends.len(), 5);
}

#[test]
fn news_of_strangers_and_late_news_change_nothing() {
    let (mut client, members) = three_of_ten();
    let before = format!("{:?}", client.snapshot(NOW));
    assert_eq!(client.handle_connected(NOW, BackendId(77), Readiness::Ready), None);
    assert_eq!(client.handle_lost(NOW, BackendId(77)), None);
    assert_eq!(client.handle_readiness(NOW, BackendId(77), Readiness::LameDuck), None);
    client.handle_report(NOW, BackendId(77), &LoadReport::default());
    assert_eq!(format!("{:?}", client.snapshot(NOW)), before);

    client.handle_lost(NOW, members[0]);
    assert_eq!(client.handle_readiness(NOW, members[0], Readiness::Ready), None, "the connection is gone");
}

#[test]
fn zero_backends_and_a_hundred_thousand_have_an_answer() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 100_000, 3);
    assert_eq!(fixture.picker.len(), 100_000);
    let ticket = fixture.begin(NOW).unwrap();
    fixture.client.handle_backends(NOW, BackendList::empty()).unwrap();
    fixture.refresh();
    assert_eq!(fixture.begin(NOW).unwrap_err(), Refusal::NoneUsable);
    fixture.picker.finish(NOW, ticket, Outcome::Served, None);
}

#[test]
fn nonsense_reports_are_counted_and_the_rest_is_kept() {
    let mut fixture = Fixture::new(config(PolicyName::P2c), 1, 4);
    let ticket = fixture.begin(NOW).unwrap();
    let report = LoadReport { utilization: Some(f64::NAN), qps: Some(-3.0), eps: Some(0.0), ..LoadReport::default() };
    fixture.picker.finish(NOW, ticket, Outcome::Served, Some(&report));

    let snapshot = fixture.client.snapshot(NOW);
    let (_, kept) = snapshot.backends[0].report.unwrap();
    assert_eq!((snapshot.nonsense_reports, kept.utilization, kept.qps, kept.eps), (2, None, None, Some(0.0)));
}

#[test]
fn a_clock_set_back_makes_nobody_wait_for_it() {
    let (mut client, members) = three_of_ten();
    client.handle_lost(NOW, members[0]);
    let early = Time::from_secs(5);
    client.handle_timeout(early);
    let retry = client.poll_timeout().unwrap();
    assert!(retry <= early + seconds(1), "{retry:?}");
    client.handle_timeout(retry);
    assert_eq!(actions(&mut client), [Action::Connect(members[0])]);
}

#[test]
fn slots_of_backends_that_left_are_used_again_only_when_nothing_is_in_flight() {
    let mut fixture = Fixture::new(config(PolicyName::RoundRobin), 3, 5);
    let ticket = fixture.begin(NOW).unwrap();
    let kept = ticket.backend();
    for round in 1..50u64 {
        let now = NOW + seconds(20 * round);
        let names = (0..3).map(|n| BackendSpec { id: BackendId(1_000 * round + n), ordinal: None });
        fixture.client.handle_backends(now, BackendList::new(names).unwrap()).unwrap();
        fixture.picker = connect_all(&mut fixture.client, now).unwrap();
        fixture.client.handle_timeout(now + seconds(11));
        let snapshot = fixture.client.snapshot(now);
        assert!(snapshot.backends.iter().all(|backend| backend.active == 0), "{kept:?} counts nobody else's");
    }
    fixture.picker.finish(NOW, ticket, Outcome::Served, None);
}

#[test]
fn a_client_whose_ordinal_is_taken_away_draws_at_random_again() {
    let mut settings = ClientConfig::default();
    settings.subset.client = Some(3);
    let mut client = client(settings);
    client.handle_backends(NOW, backends(300)).unwrap();
    client.handle_config(NOW, ClientConfig::default()).unwrap();
    assert_eq!(client.snapshot(NOW).algorithm, Algorithm::Random);
}

#[test]
fn a_custom_policy_stays_whatever_the_settings_name() {
    let policy = std::sync::Arc::new(evenkeel_core::client::pick::RoundRobin);
    let named_otherwise = ClientConfig { policy: PolicyName::Weighted, ..ClientConfig::default() };
    let mut client = Client::with_custom_policy(NOW, named_otherwise, policy, &mut Rng::from_seed(1)).unwrap();
    client.handle_config(NOW, config(PolicyName::P2c)).unwrap();
    assert_eq!(client.snapshot(NOW).policy, "round_robin");
}

#[test]
fn settings_change_at_run_time_and_bad_ones_leave_everything_as_it_was() {
    let mut fixture = Fixture::new(config(PolicyName::RoundRobin), 4, 6);
    let ticket = fixture.begin(NOW).unwrap();
    let mut other = config(PolicyName::LeastLoaded);
    other.flow.active_max = 1;
    fixture.client.handle_config(NOW, other.clone()).unwrap();
    assert_eq!(actions(&mut fixture.client), [], "no connection is lost");
    fixture.refresh();
    let rest: Vec<_> = (0..3).map(|_| fixture.begin(NOW).unwrap()).collect();
    assert_eq!(fixture.begin(NOW).unwrap_err(), Refusal::AllFull, "and no count");

    other.policy = PolicyName::Level;
    other.pick.level.gain = -1.0;
    let error = fixture.client.handle_config(NOW, other).unwrap_err();
    assert_eq!(error.field, "pick.level.gain");
    assert_eq!(fixture.client.snapshot(NOW).policy, "least_loaded");
    fixture.finish_all(rest.into_iter().chain([ticket]));
}

#[test]
fn every_bad_value_is_refused_with_its_field() {
    type Spoil = fn(&mut ClientConfig);
    let bad: [(&str, Spoil); 9] = [
        ("subset.size", |c| c.subset.size = 0),
        ("subset.replace_after", |c| c.subset.replace_after = Duration::MAX),
        ("subset.client", |c| c.subset.algorithm = Some(Algorithm::Even)),
        ("flow.active_max", |c| c.flow.active_max = 0),
        ("flow.streams_max", |c| c.flow.streams_max = u32::MAX),
        ("errors.half_life", |c| c.errors.half_life = Duration::ZERO),
        ("backoff.first", |c| c.backoff.first = Duration::ZERO),
        ("backoff.most", |c| c.backoff.most = Duration::from_millis(1)),
        ("backoff.jitter", |c| c.backoff.jitter = f64::NAN),
    ];
    for (field, spoil) in bad {
        let mut config = ClientConfig::default();
        spoil(&mut config);
        let error = Client::new(NOW, config, &mut Rng::from_seed(1)).unwrap_err();
        assert_eq!(error.field, field);
        assert!(error.to_string().contains("is not possible"), "{error}");
    }
}
