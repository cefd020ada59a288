//! Reports that are possible and wrong: a minority of liars does not change how the others share the rest.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{Fixture, NOW, config, id};
use evenkeel_core::{LoadReport, Outcome, PolicyName, Ticket, Time};

const BACKENDS: u32 = 20;

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

/// An honest one. Every second machine has four cores instead of two, answers twice as much and is a little fuller.
fn honest(number: u32) -> LoadReport {
    let is_large = number % 2 == 1;
    let (cores, in_flight) = if is_large { (4.0, 5) } else { (2.0, 2) };
    let utilization = if is_large { 0.55 } else { 0.5 };
    LoadReport {
        utilization: Some(utilization),
        utilization_slow: Some(utilization),
        qps: Some(50.0 * cores),
        eps: Some(0.0),
        in_flight: Some(in_flight),
        runnable: Some(f64::from(in_flight) * 0.6),
        processors: Some(cores),
        latency: Some(Duration::from_millis(if is_large { 10 } else { 12 })),
    }
}

type Lie = fn(LoadReport) -> LoadReport;

/// What liars say instead of one thing or another.
fn lies() -> [(&'static str, Lie); 8] {
    [
        ("in flight", |report| LoadReport { in_flight: Some(1_000_000), ..report }),
        ("qps", |report| LoadReport { qps: Some(1e9), ..report }),
        ("idle", |report| LoadReport { utilization: Some(1e-4), utilization_slow: Some(1e-4), ..report }),
        ("busy", |report| LoadReport { utilization: Some(99.0), utilization_slow: Some(99.0), ..report }),
        ("runnable", |report| LoadReport { runnable: Some(1e9), ..report }),
        ("processors", |report| LoadReport { processors: Some(1e5), ..report }),
        ("no processors", |report| LoadReport { processors: None, ..report }),
        ("everything", |report| LoadReport {
            utilization: Some(99.0),
            utilization_slow: Some(0.06),
            qps: Some(1e9),
            in_flight: Some(4_000_000_000),
            runnable: Some(1e9),
            processors: Some(1e5),
            ..report
        }),
    ]
}

/// How requests that do not end are shared among the honest, with the first `liars` of all lying so.
fn held(policy: PolicyName, liars: u32, lie: Lie) -> Vec<f64> {
    let mut settings = config(policy);
    (settings.pick.prequal.uses_most, settings.pick.prequal.pool) = (16, BACKENDS);
    let mut fixture = Fixture::new(settings, BACKENDS, 3);
    let says = |number: u32| if number < liars { lie(honest(number)) } else { honest(number) };
    for millis in (0..=15_000).step_by(50) {
        for number in (0..BACKENDS).filter(|number| (millis / 50 + u64::from(*number)) % 5 == 0) {
            fixture.client.handle_report(after(millis), id(number), &says(number));
        }
        fixture.client.handle_timeout(after(millis));
        while fixture.client.poll_action().is_some() {}
        fixture.refresh();
    }
    let requests = match policy {
        // Exact after many rounds; fewer than 100 each.
        PolicyName::Weighted => 700,
        // Fewer than 16 each, after which it goes by its own requests.
        PolicyName::Prequal => 120,
        // More than the one and a half for each core that a liar is ahead by.
        _ => 240,
    };
    let tickets: Vec<Ticket> = (0..requests).map(|_| fixture.begin(after(15_000)).unwrap()).collect();
    let mut held = vec![0.0; BACKENDS as usize];
    for ticket in tickets {
        held[ticket.backend().0 as usize] += 1.0;
        fixture.picker.finish(after(15_000), ticket, Outcome::Cancelled, None);
    }
    held.split_off(liars as usize)
}

/// The mean of those of one kind, the first of which is `first` among the honest.
fn mean_of(held: &[f64], first: usize) -> f64 {
    let of_kind = held.iter().skip(first).step_by(2);
    of_kind.clone().sum::<f64>() / of_kind.count() as f64
}

#[test]
fn liars_do_not_change_how_the_others_share_the_rest() {
    for policy in [PolicyName::Level, PolicyName::Prequal, PolicyName::Weighted] {
        let without = held(policy, 0, |report| report);
        let usual = mean_of(&without, 1) / mean_of(&without, 0);
        for (liars, (what, lie)) in [1, 6, 9].into_iter().flat_map(|liars| lies().map(|lie| (liars, lie))) {
            let held = held(policy, liars, lie);
            let about = format!("{policy}, {liars} of {BACKENDS} lie about {what}: {held:?}, {usual} without");

            let (large, small) = if liars % 2 == 1 { (0, 1) } else { (1, 0) };
            let ratio = mean_of(&held, large) / mean_of(&held, small);
            // Each holds a few, and one more or less is whose turn it is.
            assert!((0.85..1.18).contains(&(ratio / usual)), "{ratio}; {about}");
            for kind in [0, 1] {
                let mean = mean_of(&held, kind);
                assert!(mean >= 2.0, "liars have it all: {about}");
                let of_kind = held.iter().skip(kind).step_by(2);
                assert!(of_kind.into_iter().all(|one| (one - mean).abs() <= 1.0 + 0.1 * mean), "{about}");
            }
        }
    }
}
