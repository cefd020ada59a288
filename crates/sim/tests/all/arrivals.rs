//! The trace: rates, shares and rhythms come out as written, and pinned values show a change of the maths.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;

use evenkeel_core::{Criticality, Rng, Time};
use evenkeel_sim::model::{Arrival, Arrivals, exponential, standard_normal};
use evenkeel_sim::scenario::{Distribution, Method, Rhythm, Scenario, Span};

fn mix(shares: &[(&str, f64)]) -> BTreeMap<String, f64> {
    shares.iter().map(|&(name, share)| (name.to_owned(), share)).collect()
}

/// Two methods, three customers, two criticalities, unequal clients.
fn mixed() -> Scenario {
    let mut scenario = Scenario::default();
    scenario.clients.rate = Some(1_000.0);
    scenario.clients.count = 50;
    scenario.clients.zipf = 1.0;
    scenario.methods = vec![
        Method { share: 3.0, ..Method::default() },
        Method {
            share: 1.0,
            cpu: Distribution::Exponential { mean: Span::from_millis(40), cut: None },
            wait: Some(Distribution::Fixed { mean: Span::from_millis(7) }),
            ..Method::default()
        },
    ];
    scenario.criticality = mix(&[("CRITICAL", 1.0), ("SHEDDABLE", 4.0)]);
    scenario.customers = mix(&[("anna", 1.0), ("bert", 2.0), ("carl", 5.0)]);
    scenario
}

fn take(scenario: &Scenario, seed: u64, count: usize) -> Vec<Arrival> {
    let mut arrivals = Arrivals::new(scenario, seed);
    (0..count).map(|_| arrivals.next()).collect()
}

fn share(trace: &[Arrival], which: impl Fn(&Arrival) -> bool) -> f64 {
    trace.iter().filter(|&arrival| which(arrival)).count() as f64 / trace.len() as f64
}

/// Six standard deviations of a share drawn 200,000 times.
fn near(measured: f64, expected: f64) -> bool {
    (measured - expected).abs() < 6.0 * (expected * (1.0 - expected) / 200_000.0).sqrt() + 1e-12
}

#[test]
fn everything_comes_in_its_share() {
    let trace = take(&mixed(), 1, 200_000);

    assert!(near(share(&trace, |arrival| arrival.method == 1), 0.25));
    assert!(near(share(&trace, |arrival| arrival.criticality == Criticality::Sheddable), 0.8));
    assert!(near(share(&trace, |arrival| arrival.customer == 2), 0.625), "carl is last in name order");
    let harmonic: f64 = (1..=50).map(|client| 1.0 / f64::from(client)).sum();
    for client in [0, 1, 7, 49] {
        let expected = 1.0 / (f64::from(client) + 1.0) / harmonic;
        assert!(near(share(&trace, |arrival| arrival.client == client), expected), "client {client}");
    }
    assert!(trace.iter().all(|arrival| (arrival.method == 0) == (arrival.wait == 0.0)));
    assert!(trace.windows(2).all(|pair| pair[0].at <= pair[1].at && pair[0].number + 1 == pair[1].number));
    // The time of the 200,000th arrival at 1,000 a second: 200 s, with a deviation of √200,000 ms = 0.45 s.
    assert!((trace.last().unwrap().at.nanos() as f64 / 1e9 - 200.0).abs() < 2.7);
}

#[test]
fn the_rate_follows_from_the_load() {
    let mut scenario = mixed();
    scenario.clients.rate = None;
    scenario.clients.load = 0.5;
    // 100 tasks of 8 cores, and 0.75 · 10 ms + 0.25 · 40 ms = 17.5 ms a request.
    let rate = Arrivals::new(&scenario, 1).rate();
    assert!((rate - 0.5 * 800.0 / 0.0175).abs() < 1e-6, "{rate}");

    scenario.methods.clear();
    assert!((Arrivals::new(&scenario, 1).rate() - 0.5 * 800.0 / 0.010).abs() < 1e-6);
}

#[test]
fn equal_clients_get_equal_shares_and_their_number_can_change() {
    let mut scenario = mixed();
    scenario.clients.zipf = 0.0;
    let mut arrivals = Arrivals::new(&scenario, 3);
    let trace: Vec<Arrival> = (0..200_000).map(|_| arrivals.next()).collect();
    assert!((0..50).all(|client| near(share(&trace, |arrival| arrival.client == client), 0.02)));

    arrivals.set_clients(3);
    assert!((0..1_000).all(|_| arrivals.next().client < 3));
    assert!((arrivals.rate() - 1_000.0).abs() < 1e-9);
}

#[test]
fn the_rhythm_thins_to_the_rate_of_the_moment() {
    let mut scenario = mixed();
    scenario.duration = Span::from_secs(100);
    scenario.clients.rhythm = vec![
        Rhythm::Step { at: Span::from_secs(50), lasts: None, times: 3.0 },
        Rhythm::Burst { every: Span::from_secs(10), lasts: Span::from_secs(1), times: 2.0 },
    ];
    let trace = take(&scenario, 2, 300_000);
    let within = |from: u64, to: u64| {
        trace.iter().filter(|a| (Time::from_secs(from)..Time::from_secs(to)).contains(&a.at)).count() as f64
    };

    // Six standard deviations of a Poisson count.
    for (from, to, expected) in [(0, 1, 2_000.0), (1, 10, 9_000.0), (50, 51, 6_000.0), (51, 60, 27_000.0)] {
        assert!((within(from, to) - expected).abs() < 6.0 * f64::sqrt(expected), "{from}: {}", within(from, to));
    }
}

#[test]
fn a_rate_of_nothing_ends() {
    let mut scenario = mixed();
    scenario.clients.rhythm = vec![Rhythm::Step { at: Span::ZERO, lasts: None, times: 0.0 }];
    assert!(take(&scenario, 1, 1)[0].at >= Time::from_secs(60));
    scenario.clients.rate = Some(0.0);
    assert_eq!(take(&scenario, 1, 1)[0].at, Time::NEVER);
}

#[test]
fn contents_do_not_depend_on_the_rate() {
    let (slow, mut fast) = (mixed(), mixed());
    fast.clients.rate = Some(9_999.0);
    fast.clients.rhythm = vec![Rhythm::Diurnal { period: Span::from_secs(1), swing: 0.5 }];

    for (one, other) in take(&slow, 5, 1_000).into_iter().zip(take(&fast, 5, 1_000)) {
        assert_eq!(Arrival { at: other.at, ..one }, other);
    }
}

#[test]
fn golden_vectors_of_what_is_drawn() {
    let mut rng = Rng::from_seed(7);
    let ten = Span::from_millis(10);
    let drawn = [
        exponential(1.0, &mut rng),
        standard_normal(&mut rng),
        Distribution::Exponential { mean: ten, cut: None }.draw(&mut rng),
        Distribution::Normal { centre: ten, deviation: ten }.draw(&mut rng),
        Distribution::Lognormal { mean: ten, sigma: 1.5, cut: None }.draw(&mut rng),
        Distribution::Pareto { least: ten, range: 1e3, alpha: 1.1 }.draw(&mut rng),
    ];
    let pinned = [
        0.056_951_838_508_101_524,
        -0.815_569_000_688_067_9,
        0.005_572_358_061_004_89,
        0.015_378_981_681_989_656,
        0.019_875_294_422_387_908,
        0.382_306_466_499_178_43,
    ];
    assert_eq!(drawn.map(f64::to_bits), pinned.map(f64::to_bits), "{drawn:?}");
}

#[test]
fn golden_vectors_of_the_trace() {
    let mut scenario = mixed();
    scenario.clients.rhythm = vec![Rhythm::Diurnal { period: Span::from_secs(1), swing: 0.5 }];
    let trace = take(&scenario, 7, 1_000);
    let print = |a: &Arrival| (a.at.nanos(), a.client, a.method, a.cpu.to_bits(), a.criticality.index(), a.customer);
    assert_eq!(print(&trace[0]), (915_513, 9, 1, 4_579_298_353_436_178_092, 0, 2));
    assert_eq!(print(&trace[999]), (1_036_380_648, 3, 1, 4_584_362_671_997_229_887, 0, 2));
}
