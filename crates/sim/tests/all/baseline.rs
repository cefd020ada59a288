//! One suite that every baseline must pass, and what defines each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, Client, ClientConfig, LoadReport, Local, Outcome, Picker, Readiness,
    Refusal, RequestMeta, Rng, Ticket, Time,
};
use evenkeel_sim::baseline::{Baseline, NAMES, build};

const NOW: Time = Time::from_secs(1_000);
const TEN: Duration = Duration::from_millis(10);

/// A client of one baseline with all its backends connected, told what a driver would tell.
struct Fixture {
    baseline: Arc<dyn Baseline>,
    client: Client,
    picker: Arc<Picker>,
    local: Local,
    rng: Rng,
}

fn id(number: u32) -> BackendId {
    BackendId(u64::from(number))
}

impl Fixture {
    fn new(name: &str, count: u32, active_max: u32, seed: u64) -> Self {
        let baseline = build(name, 10, seed).unwrap();
        let mut config = ClientConfig::default();
        config.subset.size = 1_000;
        config.flow.active_max = active_max;
        let mut rng = Rng::from_seed(seed);
        let mut client =
            Client::with_custom_policy(NOW, config, Arc::<dyn Baseline>::clone(&baseline), &mut rng).unwrap();
        let picker = connect(&mut client, count);
        Fixture { baseline, client, picker, local: Local::default(), rng }
    }

    fn resize(&mut self, count: u32) {
        self.picker = connect(&mut self.client, count);
    }

    fn begin(&mut self, now: Time) -> Result<Ticket, Refusal> {
        let ticket = self.picker.begin(&mut self.local, now, &RequestMeta::PLAIN, &mut self.rng)?;
        self.baseline.on_begin(now, ticket.backend());
        Ok(ticket)
    }

    fn finish(&self, now: Time, ticket: Ticket, latency: Duration, report: &LoadReport) {
        self.baseline.on_answer(now, ticket.backend(), latency, Outcome::Served, report);
        self.picker.finish(now, ticket, Outcome::Served, Some(report));
    }

    /// Whom the next request goes to; it is answered at once, and said to have taken 10 ms.
    fn next(&mut self, now: Time) -> usize {
        let ticket = self.begin(now).unwrap();
        let backend = ticket.backend().0 as usize;
        self.finish(now, ticket, TEN, &report(TEN, 0));
        backend
    }

    /// How often each of `count` is chosen.
    fn shares(&mut self, now: Time, count: usize, requests: usize) -> Vec<usize> {
        let mut shares = vec![0; count];
        for _ in 0..requests {
            shares[self.next(now)] += 1;
        }
        shares
    }

    /// Tickets of requests that stay open on this backend.
    fn hold(&mut self, backend: u32, requests: usize) -> Vec<Ticket> {
        let mut held = Vec::new();
        while held.len() < requests {
            let ticket = self.picker.begin(&mut self.local, NOW, &RequestMeta::PLAIN, &mut self.rng).unwrap();
            if ticket.backend() == id(backend) {
                held.push(ticket);
            } else {
                self.picker.finish(NOW, ticket, Outcome::Served, None);
            }
        }
        held
    }
}

fn connect(client: &mut Client, count: u32) -> Arc<Picker> {
    let specs = (0..count).map(|number| BackendSpec { id: id(number), ordinal: Some(number) });
    client.handle_backends(NOW, BackendList::new(specs).unwrap()).unwrap();
    while let Some(action) = client.poll_action() {
        if let Action::Connect(backend) = action {
            client.handle_connected(NOW, backend, Readiness::Ready);
        }
    }
    client.poll_picker().unwrap()
}

fn report(latency: Duration, in_flight: u32) -> LoadReport {
    LoadReport { latency: Some(latency), in_flight: Some(in_flight), ..LoadReport::default() }
}

fn for_each(check: impl Fn(&str)) {
    for (name, _) in NAMES {
        check(name);
    }
}

#[test]
fn names_are_built_and_nothing_else_is() {
    for_each(|name| assert_eq!(build(name, 10, 1).unwrap().name(), name));
    assert!(build("least_loaded", 10, 1).is_none());
    assert_eq!(NAMES.len(), 9);
}

#[test]
fn only_those_with_room_are_picked_and_all_full_is_said_only_then() {
    for_each(|name| {
        for count in [1, 3, 40] {
            let mut fixture = Fixture::new(name, count, 2, 1);
            let mut tickets: Vec<Ticket> = (0..2 * count).map(|_| fixture.begin(NOW).unwrap()).collect();
            assert_eq!(fixture.begin(NOW).unwrap_err(), Refusal::AllFull, "{name}");
            let free = tickets.swap_remove(count as usize);
            let backend = free.backend();
            fixture.finish(NOW, free, TEN, &report(TEN, 0));
            assert_eq!(fixture.begin(NOW).unwrap().backend(), backend, "{name}: the only one with room");
        }
    });
}

#[test]
fn idle_backends_get_equal_shares() {
    for_each(|name| {
        for count in [1, 2, 10, 100] {
            let shares = Fixture::new(name, count, 100, 2).shares(NOW, count as usize, 1_000 * count as usize);
            // Six standard deviations of a binomial with mean 1,000, for those that draw.
            assert!(shares.iter().all(|&share| share.abs_diff(1_000) < 190), "{name} {count}: {shares:?}");
        }
    });
}

#[test]
fn a_seed_gives_one_sequence() {
    for_each(|name| {
        let sequence = |seed| {
            let mut fixture = Fixture::new(name, 20, 100, seed);
            let mut open: Vec<Ticket> = Vec::new();
            (0..500)
                .map(|step| {
                    let now = NOW + Duration::from_millis(step);
                    let ticket = fixture.begin(now).unwrap();
                    let backend = ticket.backend().0;
                    open.push(ticket);
                    if open.len() > 30 {
                        let ended = open.remove((step as usize * 7) % 30);
                        let latency = now.since(ended.began());
                        fixture.finish(now, ended, latency, &report(latency, step as u32 % 5));
                    }
                    backend
                })
                .collect::<Vec<u64>>()
        };
        assert_eq!(sequence(3), sequence(3), "{name}");
    });
}

#[test]
fn backends_that_join_and_leave_are_followed() {
    for_each(|name| {
        let mut fixture = Fixture::new(name, 5, 100, 4);
        fixture.shares(NOW, 5, 50);
        fixture.resize(9);
        assert!(fixture.shares(NOW, 9, 900).iter().all(|&share| share > 0), "{name}");
        fixture.resize(3);
        let left = fixture.shares(NOW, 9, 900);
        assert!(left[..3].iter().all(|&share| share > 150) && left[3..] == [0; 6], "{name}: {left:?}");
    });
}

#[test]
fn random_does_not_care() {
    let mut fixture = Fixture::new("random", 2, 100, 5);
    let _held = fixture.hold(0, 90);
    // Six standard deviations of a binomial(10,000, 1/2).
    assert!(fixture.shares(NOW, 2, 10_000)[0].abs_diff(5_000) < 300);
}

#[test]
fn envoy_draws_two_that_may_be_the_same() {
    let mut fixture = Fixture::new("envoy_least_request", 2, 100, 6);
    let _held = fixture.hold(0, 5);
    // The busy one is taken when it is drawn twice, a quarter of the time; six deviations of a binomial(10,000, 1/4).
    assert!(fixture.shares(NOW, 2, 10_000)[0].abs_diff(2_500) < 260);
}

#[test]
fn haproxy_takes_the_one_of_the_least_active_that_waited_longest() {
    let mut fixture = Fixture::new("haproxy_leastconn", 4, 100, 7);
    let mut open: Vec<Ticket> = (0..8).map(|_| fixture.begin(NOW).unwrap()).collect();
    let order: Vec<u64> = open.iter().map(|ticket| ticket.backend().0).collect();
    assert_eq!(order[..4], order[4..], "in turn");

    // The third ends first, then the first: both have one, and the third has had it for longer.
    let (first, third) = (order[0], order[2]);
    for backend in [third, first] {
        let place = open.iter().position(|ticket| ticket.backend().0 == backend).unwrap();
        fixture.finish(NOW, open.remove(place), TEN, &LoadReport::default());
    }
    open.extend([fixture.begin(NOW).unwrap(), fixture.begin(NOW).unwrap()]);
    assert_eq!(open[6..].iter().map(|ticket| ticket.backend().0).collect::<Vec<_>>(), [third, first]);
}

#[test]
fn nginx_goes_round_among_the_least() {
    let mut fixture = Fixture::new("nginx_least_conn", 4, 100, 8);
    let around: Vec<usize> = (0..8).map(|_| fixture.next(NOW)).collect();
    assert_eq!(around[..4], around[4..]);

    let held = fixture.hold(2, 1);
    let shares = fixture.shares(NOW, 4, 300);
    assert!(shares[2] == 0 && [0, 1, 3].iter().all(|&equal| shares[equal].abs_diff(100) <= 1), "{held:?}: {shares:?}");
}

#[test]
fn peak_ewma_believes_a_slow_answer_at_once_and_forgives_it_slowly() {
    let mut fixture = Fixture::new("peak_ewma", 2, 100, 9);
    let answer = |fixture: &Fixture, now, backend, millis| {
        let latency = Duration::from_millis(millis);
        fixture.baseline.on_answer(now, id(backend), latency, Outcome::Served, &LoadReport::default());
    };
    // Without an answer that would teach it anything.
    let pick = |fixture: &mut Fixture, now| {
        let ticket = fixture.begin(now).unwrap();
        let backend = ticket.backend().0;
        fixture.picker.finish(now, ticket, Outcome::Served, None);
        backend
    };
    for (backend, millis) in [(0, 50), (0, 5_000), (0, 50), (1, 100)] {
        answer(&fixture, NOW, backend, millis);
    }
    // 5 s against 100 ms: the slow one is taken again when the other has 50 outstanding.
    let mut held = fixture.hold(1, 48);
    assert!((0..50).all(|_| pick(&mut fixture, NOW) == 1));
    held.extend(fixture.hold(1, 1));
    held.extend((0..20).map(|_| fixture.begin(NOW).unwrap()));
    assert!(held[49..].iter().any(|ticket| ticket.backend() == id(0)));
    for ticket in held {
        fixture.picker.finish(NOW, ticket, Outcome::Served, None);
    }

    // A time constant of 10 s: 5 s are 720 ms after two of them, 62 ms after six.
    for second in 1..=60 {
        let now = NOW + Duration::from_secs(second);
        answer(&fixture, now, 0, 50);
        answer(&fixture, now, 1, 100);
        if [20, 60].contains(&second) {
            assert!((0..50).all(|_| pick(&mut fixture, now) == u64::from(second == 20)), "after {second} s");
        }
    }
}

#[test]
fn yarp_believes_what_it_polled_and_nothing_else() {
    let mut fixture = Fixture::new("yarp", 2, 100, 10);
    assert_eq!(fixture.baseline.poll_every(), Some(Duration::from_millis(500)));
    fixture.baseline.on_report(NOW, id(0), &report(TEN, 5));
    fixture.baseline.on_report(NOW, id(1), &report(TEN, 3));
    let open: Vec<Ticket> = (0..60).map(|_| fixture.begin(NOW).unwrap()).collect();
    assert!(open.iter().all(|ticket| ticket.backend() == id(1)), "also with 59 of its own in flight there");

    fixture.baseline.on_report(NOW, id(1), &report(TEN, 63));
    assert_eq!(fixture.begin(NOW).unwrap().backend(), id(0));
}

#[test]
fn linear_weighs_latency_against_requests_in_flight() {
    let mut fixture = Fixture::new("linear", 2, 100, 11);
    fixture.baseline.on_report(NOW, id(0), &report(Duration::from_millis(100), 0));
    fixture.baseline.on_report(NOW, id(1), &report(TEN, 2));
    // 50 ms against 5 + 75 ms, then 50 + 37.5 against 80, then 87.5 against 117.5, 125 against 117.5.
    let order: Vec<u64> = (0..4).map(|_| fixture.begin(NOW).unwrap().backend().0).collect();
    assert_eq!(order, [0, 1, 0, 1]);
}

#[test]
fn c3_is_cubic_in_the_queue_and_in_its_own_requests() {
    let mut fixture = Fixture::new("c3", 3, 100, 12);
    for (backend, in_flight) in [(0, 0), (1, 3), (2, 13)] {
        let report = report(TEN, in_flight);
        fixture.baseline.on_answer(NOW, id(backend), Duration::from_millis(20), Outcome::Served, &report);
    }
    // Queues of 1, 4 and 14 to the third; each own request counts for ten clients: 11, then 14 and 21.
    let order: Vec<u64> = (0..4).map(|_| fixture.begin(NOW).unwrap().backend().0).collect();
    assert_eq!(order[..2], [0, 1]);
    assert_eq!(order[2], 0, "11 below 14 and 14");

    // A server slower by a factor of 100 outweighs a queue of 4.
    let mut fixture = Fixture::new("c3", 2, 100, 12);
    for (backend, millis, in_flight) in [(0, 1_000, 0), (1, 10, 3)] {
        let latency = Duration::from_millis(millis);
        fixture.baseline.on_answer(NOW, id(backend), latency, Outcome::Served, &report(latency, in_flight));
    }
    assert_eq!(fixture.begin(NOW).unwrap().backend(), id(1));
}

/// Answers from three backends every second up to `seconds`, with these weights to report.
fn reported(reports: [(f64, f64, f64); 3], seconds: u64) -> (Fixture, Time) {
    let mut fixture = Fixture::new("grpc_weighted", 3, 100, 13);
    fixture.next(NOW);
    for second in 0..=seconds {
        let now = NOW + Duration::from_secs(second);
        for (backend, (qps, utilization, eps)) in (0..).zip(reports) {
            let known =
                LoadReport { qps: Some(qps), utilization: Some(utilization), eps: Some(eps), ..LoadReport::default() };
            fixture.baseline.on_answer(now, id(backend), TEN, Outcome::Served, &known);
        }
    }
    (fixture, NOW + Duration::from_secs(seconds))
}

/// Shares of 6,000 requests, of which each may be off by a round.
fn near(shares: &[usize], expected: [usize; 3]) -> bool {
    shares.iter().zip(expected).all(|(&share, expected)| share.abs_diff(expected) <= 2)
}

#[test]
fn grpc_goes_by_requests_per_utilization_after_its_blackout() {
    let reports = [(100.0, 0.5, 0.0), (100.0, 1.0, 0.0), (60.0, 0.2, 0.0)];
    let (mut early, now) = reported(reports, 9);
    assert!(near(&early.shares(now, 3, 6_000), [2_000; 3]), "blackout: all take turns");
    let (mut late, now) = reported(reports, 11);
    // 200, 100 and 300.
    let shares = late.shares(now, 3, 6_000);
    assert!(near(&shares, [2_000, 1_000, 3_000]), "{shares:?}");

    // Without a report for three minutes they take turns again.
    assert!(near(&late.shares(now + Duration::from_secs(180), 3, 6_000), [2_000; 3]));
}

#[test]
fn grpc_counts_errors_as_utilization_and_unknown_as_the_mean() {
    // 100 / (0.5 + 50 / 100) = 100 against 200; the third never reports and gets their mean.
    let (mut fixture, now) = reported([(100.0, 0.5, 50.0), (100.0, 0.5, 0.0), (0.0, 0.0, 0.0)], 11);
    let shares = fixture.shares(now, 3, 6_000);
    assert!(near(&shares, [1_333, 2_667, 2_000]), "{shares:?}");

    let (mut fixture, now) = reported([(100.0, 0.5, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)], 11);
    assert!(near(&fixture.shares(now, 3, 6_000), [2_000; 3]), "one weight is none");

    // A weight of more than ten times the mean cannot be with three; a hundredth of it is the least.
    let (mut fixture, now) = reported([(1.0, 1.0, 0.0), (1e6, 1.0, 0.0), (1e6, 1.0, 0.0)], 11);
    let least = fixture.shares(now, 3, 60_000)[0];
    assert!((195..=205).contains(&least), "{least} of 60,000: a hundredth of two thirds, of 2");
}
