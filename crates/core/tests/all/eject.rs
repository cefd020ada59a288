//! Backends that fail are left out, and never too many of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{Fixture, NOW, config, id};
use evenkeel_core::client::EjectConfig;
use evenkeel_core::{BackendState, ClientConfig, Mode, Outcome, PolicyName, Time};

fn settings(mode: Mode) -> ClientConfig {
    let mut settings = config(PolicyName::RoundRobin);
    settings.eject = EjectConfig { mode, ..EjectConfig::default() };
    settings
}

/// Ten requests for each backend over half a second, and the look that follows; how many each got.
fn run(fixture: &mut Fixture, now: Time, fails: impl Fn(u32) -> bool) -> [u32; 10] {
    let mut got = [0; 10];
    for millis in (0..500).step_by(5) {
        let now = now + Duration::from_millis(millis);
        let ticket = fixture.begin(now).unwrap();
        let backend = ticket.backend().0 as u32;
        got[backend as usize] += 1;
        let outcome = if fails(backend) { Outcome::Failed } else { Outcome::Served };
        fixture.picker.finish(now, ticket, outcome, None);
    }
    fixture.client.handle_timeout(now + Duration::from_millis(500));
    fixture.refresh();
    got
}

fn halves(count: u32) -> impl Iterator<Item = Time> {
    (0..count).map(|half| NOW + Duration::from_millis(500) * half)
}

#[test]
fn a_failing_backend_is_left_out_and_comes_back() {
    let mut fixture = Fixture::new(settings(Mode::On), 10, 1);
    let failing: u32 = halves(20).map(|now| run(&mut fixture, now, |backend| backend == 7)[7]).sum();
    // In for half a second after 1, 2 and 4 seconds out, instead of all the time; the first look only begins to count.
    assert_eq!(failing, 50, "of 200");

    let out = fixture.client.snapshot(NOW + Duration::from_millis(9_900));
    let seen = out.backends.iter().find(|backend| backend.backend == id(7)).unwrap();
    assert_eq!((seen.state, seen.weight), (BackendState::Healthy, None));
    assert!(seen.out_until.is_some() && seen.why.starts_with("left out"), "{seen:?}");
    assert_eq!((out.ejected.ejected, out.ejected.panics), (4, 0));

    let healed = NOW + Duration::from_secs(10);
    let got: Vec<u32> = halves(20).map(|now| run(&mut fixture, now + healed.since(NOW), |_| false)[7]).collect();
    assert!(got.iter().position(|&count| count == 10).unwrap() <= 8, "{got:?}");
    assert_eq!(got[9..], [10; 11]);
}

#[test]
fn where_too_few_are_left_nobody_is_left_out() {
    let mut fixture = Fixture::new(settings(Mode::On), 10, 1);
    assert!(halves(2).all(|now| run(&mut fixture, now, |backend| backend < 3) == [10; 10]));
    let now = NOW + Duration::from_secs(1);
    assert_eq!(run(&mut fixture, now, |_| false)[..3], [0; 3]);

    // Five more go away: two of five usable ones would be left.
    let now = NOW + Duration::from_millis(1_500);
    for backend in 3..8 {
        fixture.client.handle_lost(now, id(backend));
    }
    fixture.refresh();
    let got = run(&mut fixture, now, |_| false);
    assert_eq!(got, [20, 20, 20, 0, 0, 0, 0, 0, 20, 20]);
    assert_eq!(fixture.client.snapshot(now).ejected.panics, 1);
}

#[test]
fn observing_leaves_all_in_and_counts() {
    let mut fixture = Fixture::new(settings(Mode::Observe), 10, 1);
    assert!(halves(10).all(|now| run(&mut fixture, now, |backend| backend == 7) == [10; 10]));
    let counts = fixture.client.snapshot(NOW + Duration::from_secs(5)).ejected;
    assert_eq!((counts.ejected, counts.panics), (0, 0));
    assert!(counts.observed >= 2, "{counts:?}");

    fixture.client.handle_config(NOW + Duration::from_secs(5), settings(Mode::Off)).unwrap();
    let before = fixture.client.snapshot(NOW + Duration::from_secs(5)).ejected;
    run(&mut fixture, NOW + Duration::from_secs(6), |backend| backend == 7);
    assert_eq!(fixture.client.snapshot(NOW + Duration::from_secs(7)).ejected, before);
}
