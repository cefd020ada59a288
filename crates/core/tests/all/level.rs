//! What is special about `level`: it sees what others send, evens out CPU, and trusts neither old news nor failures.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{Fixture, NOW, backends, config, connect_all, id};
use evenkeel_core::{Action, ClientConfig, LoadReport, Outcome, PolicyName, Readiness, Ticket, Time};

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

/// What a backend of two cores says that has so many requests in flight and so much CPU in use.
fn said(in_flight: u32, utilization: f64) -> LoadReport {
    LoadReport {
        utilization: Some(utilization),
        utilization_slow: Some(utilization),
        qps: Some(100.0),
        eps: Some(0.0),
        in_flight: Some(in_flight),
        runnable: Some(f64::from(in_flight)),
        processors: Some(2.0),
        latency: Some(Duration::from_millis(10)),
    }
}

fn level(count: u32) -> Fixture {
    Fixture::new(config(PolicyName::Level), count, 1)
}

impl Fixture {
    /// Every quarter of a second backends say what `says` makes up, and the slow loop turns; until `until`.
    fn listen(&mut self, from: u64, until: u64, says: impl Fn(u32) -> Option<LoadReport>) {
        for millis in (from..=until).step_by(250) {
            for number in 0..self.picker.len() as u32 {
                if let Some(report) = says(number) {
                    self.client.handle_report(after(millis), id(number), &report);
                }
            }
            self.client.handle_timeout(after(millis));
            while self.client.poll_action().is_some() {}
            self.refresh();
        }
    }

    /// How often each is picked in so many requests that end at once without a report.
    fn picked(&mut self, now: Time, requests: usize) -> Vec<usize> {
        let mut picked = vec![0; self.picker.len()];
        for _ in 0..requests {
            let ticket = self.begin(now).unwrap();
            picked[ticket.backend().0 as usize] += 1;
            self.picker.finish(now, ticket, Outcome::Served, None);
        }
        picked
    }

    /// How many each holds of so many requests that do not end.
    fn held(&mut self, now: Time, requests: usize) -> Vec<usize> {
        let tickets: Vec<Ticket> = (0..requests).map(|_| self.begin(now).unwrap()).collect();
        let mut held = vec![0; self.picker.len()];
        for ticket in tickets {
            held[ticket.backend().0 as usize] += 1;
            self.picker.finish(now, ticket, Outcome::Cancelled, None);
        }
        held
    }
}

#[test]
fn without_reports_it_picks_as_least_loaded_does() {
    let mut both = [PolicyName::LeastLoaded, PolicyName::Level].map(|policy| Fixture::new(config(policy), 10, 7));
    let mut open: [Vec<Ticket>; 2] = [Vec::new(), Vec::new()];
    for step in 0..2_000u64 {
        let picks = [0, 1].map(|which| {
            let (fixture, open) = (&mut both[which], &mut open[which]);
            let ticket = fixture.begin(after(step)).unwrap();
            let picked = ticket.backend();
            open.push(ticket);
            if open.len() > 25 {
                let outcome = if step % 9 == 0 { Outcome::Failed } else { Outcome::Served };
                fixture.picker.finish(after(step), open.swap_remove((step * 7 % 25) as usize), outcome, None);
            }
            fixture.client.handle_timeout(after(step));
            fixture.refresh();
            picked
        });
        assert_eq!(picks[0], picks[1], "step {step}");
    }
}

#[test]
fn what_others_have_in_flight_counts_while_it_is_news() {
    let mut fixture = level(4);
    fixture.listen(0, 1_000, |number| Some(said(if number == 0 { 9 } else { 1 }, 0.5)));

    assert_eq!(fixture.picked(after(1_000), 100)[0], 0, "others keep it busy");

    // A second later nobody knows: requests of 10 ms have long ended.
    let later = fixture.picked(after(2_500), 100);
    assert!(later.iter().all(|&n| n == 25), "{later:?}");
}

/// A thousand clients that know nothing of each other would else all go where CPU was least, and be there together.
#[test]
fn where_nothing_fresh_is_known_who_used_least_cpu_gets_more_and_not_everything() {
    let mut fixture = level(20);
    let uneven = |number| Some(said(2, if number == 0 { 0.5 } else { 0.7 }));
    fixture.listen(0, 1_000, uneven);

    let picked = fixture.picked(after(2_500), 2_000);

    let others: Vec<usize> = picked[1..].to_vec();
    // 0.2 of CPU at once, for which the others are passed over two times in five, and a little that has added up.
    assert!((130..400).contains(&picked[0]), "{picked:?}");
    assert!(others.iter().all(|picks| (60..120).contains(picks)), "{picked:?}");
}

/// A caller of a request a second hears of each of its backends every ten or twenty seconds.
#[test]
fn what_was_learned_of_a_backend_lasts_until_it_is_heard_of_again() {
    let mut fixture = level(4);
    let uneven = |number| Some(said(2, if number == 0 { 1.0 } else { 0.8 }));
    fixture.listen(0, 10_000, uneven);
    fixture.listen(10_250, 20_000, |_| None);
    let soon = fixture.picked(after(20_000), 400)[0];
    let why = |fixture: &Fixture, now| {
        let snapshot = fixture.client.snapshot(now);
        snapshot.backends.iter().find(|one| one.backend == id(0)).unwrap().why
    };
    assert_eq!(why(&fixture, after(20_000)), "no fresh report of CPU: as it was learned last");

    fixture.listen(20_250, 68_000, |_| None);
    let later = fixture.picked(after(68_000), 400)[0];
    fixture.listen(68_250, 130_000, |_| None);
    let silent = fixture.picked(after(130_000), 400)[0];

    assert!(soon < 60, "it was learned that this one needs less: {soon} of 100");
    assert_eq!(soon, later, "and nothing was heard against it for a minute");
    assert!(silent > 90, "but not for ever: {silent} of 100");
    assert_eq!(why(&fixture, after(130_000)), "no fresh report of CPU: taken for average");
}

/// CPU that is full looks the same whatever waits for it.
#[test]
fn a_long_line_counts_where_cpu_is_full() {
    let mut fixture = level(4);
    let lined = |number| Some(said(if number == 0 { 60 } else { 4 }, 1.0));
    fixture.listen(0, 5_000, lined);
    let snapshot = fixture.client.snapshot(after(5_000));
    let lined = snapshot.backends.iter().find(|one| one.backend == id(0)).unwrap();
    assert_eq!(lined.why, "less: a long line, which counts as CPU");

    // What others have in flight is no news any more; what was learned is.
    let picked = fixture.picked(after(9_000), 400);
    assert!(picked[0] < 60, "{picked:?}");
}

/// Queues of a moment are for the fast loop: what adds up is the line that stays.
#[test]
fn a_short_line_adds_nothing_up() {
    let mut fixture = level(4);
    let lined = |number| Some(said(if number == 0 { 10 } else { 2 }, 0.9));
    fixture.listen(0, 5_000, lined);

    let picked = fixture.picked(after(9_000), 400);

    assert!(picked.iter().all(|&picks| picks == 100), "{picked:?}");
}

#[test]
fn own_requests_are_known_at_every_moment() {
    let mut fixture = level(4);
    fixture.listen(0, 1_000, |_| Some(said(3, 0.5)));
    assert_eq!(fixture.held(after(1_000), 40), [10; 4]);
    assert_eq!(fixture.held(after(3_000), 40), [10; 4], "however old the reports");
}

#[test]
fn backends_with_more_cores_hold_more() {
    let mut fixture = level(2);
    let report = |cores: f64| LoadReport { processors: Some(cores), qps: Some(50.0 * cores), ..said(0, 0.5) };
    fixture.listen(0, 1_000, |number| Some(report(if number == 0 { 6.0 } else { 2.0 })));
    assert_eq!(fixture.held(after(1_000), 40), [30, 10]);
}

#[test]
fn who_uses_more_cpu_than_the_mean_gets_less_until_it_does_not() {
    let mut fixture = level(4);
    let uneven = |number| Some(said(2, if number == 0 { 0.9 } else { 0.4 }));
    fixture.listen(0, 1_000, uneven);
    let soon = fixture.held(after(1_000), 80)[0];
    fixture.listen(1_250, 8_000, uneven);
    let later = fixture.held(after(8_000), 80)[0];
    assert!(soon < 20 && later < soon, "of a fair 20 it holds {soon} after a second, {later} after eight");

    // Once it is even, what was learned stays: it is what makes it even.
    fixture.listen(8_250, 20_000, |_| Some(said(2, 0.57)));
    let even = fixture.held(after(20_000), 80)[0];
    assert!(even < 20, "{even}");
}

#[test]
fn a_backend_that_fails_is_not_rewarded_for_using_little() {
    // Nine of ten requests fail there and cost nothing, so it says that it idles.
    let failing = LoadReport { eps: Some(90.0), ..said(0, 0.05) };
    let mut fixture = level(4);
    fixture.listen(0, 10_000, |number| Some(if number == 0 { failing } else { said(2, 0.7) }));
    let snapshot = fixture.client.snapshot(after(10_000));
    let failing = snapshot.backends.iter().find(|one| one.backend == id(0)).unwrap();
    assert_eq!(failing.why, "less: it fails, which counts as CPU");

    // The same where reports are silent on errors but this client saw some.
    let mut fixture = level(4);
    let mut failed = 0;
    for turn in 0..40u64 {
        for _ in 0..4 {
            let ticket = fixture.begin(after(turn * 250)).unwrap();
            let is_bad = ticket.backend() == id(0);
            failed += u32::from(is_bad);
            let outcome = if is_bad { Outcome::Failed } else { Outcome::Served };
            let report = said(u32::from(!is_bad), if is_bad { 0.05 } else { 0.7 });
            fixture.picker.finish(after(turn * 250), ticket, outcome, Some(&report));
        }
        fixture.client.handle_timeout(after(turn * 250));
        fixture.refresh();
    }
    assert!(failed <= 30, "it got {failed} of 160, a fair share being 40");
}

#[test]
fn a_refusal_counts_as_a_request_in_flight_and_not_as_one_on_every_core() {
    let mut fixture = level(2);
    fixture.listen(0, 1_000, |_| Some(said(2, 0.6)));
    let now = after(1_000);
    let open: Vec<Ticket> = (0..20).map(|_| fixture.begin(now).unwrap()).collect();
    let mut refused = 0;
    for ticket in open {
        let is_refused = ticket.backend() == id(0) && refused < 6;
        refused += usize::from(is_refused);
        let outcome = if is_refused { Outcome::Overloaded } else { Outcome::Cancelled };
        fixture.picker.finish(now, ticket, outcome, None);
    }

    let held = fixture.held(now, 40);

    // Six in a row weigh as much as four requests: a quarter, a half, a whole one, and one more each.
    assert_eq!(held, [18, 22]);
}

#[test]
fn a_backend_that_was_just_started_is_not_flooded() {
    let mut fixture = level(4);
    fixture.listen(0, 2_000, |_| Some(said(2, 0.6)));
    fixture.client.handle_readiness(after(10_000), id(0), Readiness::LameDuck);
    fixture.client.handle_readiness(after(12_000), id(0), Readiness::Ready);
    fixture.refresh();
    fixture.listen(12_000, 13_000, |number| Some(if number == 0 { said(0, 0.0) } else { said(2, 0.6) }));

    let held = fixture.held(after(13_000), 80);

    assert!(held[0] <= 24, "a fair share is 20, and it lacks what others have: {held:?}");
}

#[test]
fn what_was_learned_of_a_backend_outlives_its_restart() {
    let mut fixture = level(4);
    fixture.listen(0, 8_000, |number| Some(said(2, if number == 0 { 0.9 } else { 0.4 })));
    let slow = fixture.held(after(8_000), 80)[0];

    fixture.client.handle_lost(after(8_000), id(0));
    fixture.client.handle_timeout(after(8_100));
    fixture.refresh();
    fixture.client.handle_connected(after(9_000), id(0), Readiness::Ready);
    fixture.picker = connect_all(&mut fixture.client, after(9_000)).unwrap();

    let back = fixture.held(after(9_000), 80)[0];
    assert!(slow <= 18 && back <= 19, "of a fair 20 it held {slow} before, {back} after");
}

#[test]
fn what_was_learned_fades_where_nobody_reports_any_more() {
    let mut fixture = level(4);
    fixture.listen(0, 8_000, |number| Some(said(2, if number == 0 { 0.9 } else { 0.4 })));
    assert_eq!(fixture.picked(after(8_000), 100)[0], 0, "one at a time: the others are ahead");

    fixture.listen(8_250, 600_000, |_| None);
    let picked = fixture.picked(after(600_000), 400);
    assert!(picked.iter().all(|&n| n == 100), "{picked:?}");
}

#[test]
fn the_stalest_are_asked_first() {
    let mut fixture = level(4);
    fixture.listen(0, 250, |_| Some(said(1, 0.5)));
    for (millis, number) in [(500, 2), (1_000, 0), (1_400, 3)] {
        fixture.client.handle_report(after(millis), id(number), &said(1, 0.5));
    }
    // Four requests pay for two probes.
    let tickets: Vec<Ticket> = (0..4).map(|_| fixture.begin(after(1_400)).unwrap()).collect();
    fixture.finish_all(tickets);
    fixture.client.handle_timeout(after(1_500));
    let asked: Vec<Action> = std::iter::from_fn(|| fixture.client.poll_action()).collect();
    assert_eq!(asked, [Action::Check(id(1)), Action::Check(id(2))]);
}

#[test]
fn nonsense_and_silence_are_survived() {
    let odd = [
        LoadReport::default(),
        LoadReport {
            utilization: Some(0.0),
            processors: Some(0.01),
            in_flight: Some(u32::MAX),
            ..LoadReport::default()
        },
        LoadReport { utilization: Some(f64::NAN), runnable: Some(1e9), in_flight: Some(0), ..LoadReport::default() },
        LoadReport { qps: Some(0.0), eps: Some(1e9), latency: Some(Duration::MAX), ..said(0, 100.0) },
    ];
    let mut fixture = level(4);
    for millis in (0..60_000).step_by(100) {
        let report = &odd[(millis / 300) as usize % 4];
        let ticket = fixture.begin(after(millis)).unwrap();
        fixture.picker.finish(after(millis), ticket, Outcome::Served, Some(report));
        fixture.client.handle_timeout(after(millis));
        fixture.refresh();
    }
    let weights = fixture.client.snapshot(after(60_000)).backends;
    assert!(weights.iter().all(|one| one.weight.is_some_and(f64::is_finite)), "{weights:?}");
    fixture.client.handle_backends(after(60_000), backends(2)).unwrap();
    fixture.picker = connect_all(&mut fixture.client, after(60_000)).unwrap();
    assert_eq!(fixture.picked(after(70_000), 100).iter().sum::<usize>(), 100);
}

#[test]
fn gain_has_its_range() {
    for (gain, is_possible) in [(0.05, true), (0.5, true), (0.6, false), (0.0, false), (f64::NAN, false)] {
        let mut config = ClientConfig { policy: PolicyName::Level, ..ClientConfig::default() };
        config.pick.level.gain = gain;
        assert_eq!(config.check().is_ok(), is_possible, "{gain}");
    }
}
