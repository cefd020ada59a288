//! Adaptive throttling (B7) as a client does it: what backends said is heeded, and what was refused is not sent.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::{Fixture, NOW, config, id, meta};
use evenkeel_core::{
    BackendId, BackendList, BackendSpec, Criticality, CustomerId, Cutoff, HeldBack, Hint, Lot, Mode, Outcome,
    PolicyName, Refusal, RequestMeta, Rng, ThrottleConfig, Ticket, Time,
};

const TTL: Duration = Duration::from_millis(800);

fn hint(cutoff: f64) -> Hint {
    Hint { cutoff: Cutoff::new(cutoff), ttl: TTL }
}

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

fn sheddable(lot: u16) -> RequestMeta {
    RequestMeta { criticality: Criticality::Sheddable, lot: Lot(lot), ..RequestMeta::default() }
}

fn begin(fixture: &mut Fixture, now: Time, meta: &RequestMeta) -> Result<Ticket, Refusal> {
    fixture.picker.begin(&mut fixture.local, now, meta, &mut fixture.rng)
}

/// Each of these backends refuses this much from `now` on: said with answers to requests of the highest criticality.
fn tell(fixture: &mut Fixture, now: Time, backends: &[u32], hint: Hint) {
    let mut left: Vec<BackendId> = backends.iter().copied().map(id).collect();
    let meta = RequestMeta { criticality: Criticality::CriticalPlus, ..meta() };
    let mut tickets = Vec::new();
    while !left.is_empty() {
        let mut ticket = begin(fixture, now, &meta).unwrap();
        if let Some(place) = left.iter().position(|&backend| backend == ticket.backend()) {
            fixture.picker.heed(now, &mut ticket, hint);
            left.swap_remove(place);
        }
        tickets.push(ticket);
    }
    fixture.finish_all(tickets);
}

#[test]
fn of_two_backends_the_one_that_refuses_all_gets_nothing_and_the_other_everything() {
    for policy in PolicyName::ALL {
        let mut fixture = Fixture::new(config(policy), 2, 1);
        tell(&mut fixture, NOW, &[0], hint(4.0));

        for millis in 0..500 {
            let ticket = begin(&mut fixture, after(millis), &meta()).unwrap();
            assert_eq!(ticket.backend(), id(1), "{policy}");
            fixture.picker.finish(after(millis), ticket, Outcome::Served, None);
        }
        assert!(fixture.client.snapshot(after(500)).backends.iter().all(|backend| backend.active == 0));
    }
}

#[test]
fn slow_tasks_do_not_throttle_the_service() {
    for policy in PolicyName::ALL {
        let mut fixture = Fixture::new(config(policy), 20, 1);
        tell(&mut fixture, NOW, &[2, 3, 4], hint(2.0));

        let mut open = Vec::new();
        let refused =
            (0..1_500).filter(|_| begin(&mut fixture, after(1), &sheddable(9)).map(|t| open.push(t)).is_err());
        // All three picked are slow in less than 3/20 · 2/19 · 1/18 · 6 of the cases, were all picks drawn; the first may
        // always be slow.
        let refused = refused.count();
        assert!(refused <= 30, "{policy}: {refused}");
        assert!(open.iter().all(|ticket| ![id(2), id(3), id(4)].contains(&ticket.backend())), "{policy}");
        // What is diverted is spread: 1,500 over 17.
        let most = (0..20).map(|n| open.iter().filter(|ticket| ticket.backend() == id(n)).count()).max().unwrap();
        assert!(most <= 100, "{policy}: {most}");
        fixture.finish_all(open);
    }
}

#[test]
fn where_all_refuse_it_is_not_sent_and_told_to_the_first_picked() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 3, 1);
    tell(&mut fixture, NOW, &[0, 1, 2], hint(0.5));

    let refusals = [0, 0x7fff].map(|lot| begin(&mut fixture, after(1), &sheddable(lot)).unwrap_err());
    assert_eq!(refusals, [Refusal::Throttled; 2]);
    let snapshot = fixture.client.snapshot(after(1));
    assert_eq!((snapshot.refused.of(Refusal::Throttled), snapshot.throttled.hints), (2, [2, 0, 0, 0]));
    assert_eq!(snapshot.backends.iter().map(|backend| backend.held).sum::<u64>(), 2);
    assert!(snapshot.backends.iter().all(|backend| backend.cutoff == Some(Cutoff::new(0.5))));

    // The next requests say so, once; one that was not sent gives it back.
    let mut told = [0; 4];
    let mut unsent = 0;
    for _ in 0..30 {
        let ticket = begin(&mut fixture, after(2), &sheddable(0x8000)).unwrap();
        let counts = ticket.held().unwrap_or_default().counts;
        if counts != [0; 4] && unsent < 2 {
            unsent += 1;
            fixture.picker.finish(after(2), ticket, Outcome::Unsent, None);
            continue;
        }
        (0..4).for_each(|level| told[level] += counts[level]);
        fixture.picker.finish(after(2), ticket, Outcome::Served, None);
    }
    assert_eq!((told, unsent), ([2, 0, 0, 0], 2));
    assert!(fixture.client.snapshot(after(2)).backends.iter().all(|backend| backend.active == 0));
}

#[test]
fn a_hint_that_grows_old_lets_few_through_and_good_news_all() {
    let mut fixture = Fixture::new(config(PolicyName::P2c), 1, 1);
    tell(&mut fixture, NOW, &[0], hint(3.0));

    let sent: Vec<u64> = (0..3_000).filter(|&n| is_sent(&mut fixture, after(n))).collect();
    assert!(sent[0] >= 600 && sent.len() <= 13 && sent.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{sent:?}");

    tell(&mut fixture, after(3_000), &[0], hint(0.0));
    assert!((3_001..3_100).all(|n| is_sent(&mut fixture, after(n))));
}

fn is_sent(fixture: &mut Fixture, now: Time) -> bool {
    let begun = begin(fixture, now, &meta());
    begun.map(|ticket| fixture.picker.finish(now, ticket, Outcome::Served, None)).is_ok()
}

#[test]
fn what_a_hint_explains_is_not_thinned_by_the_formula_too() {
    for (hints, thinned) in [(Mode::On, false), (Mode::Observe, true), (Mode::Off, true)] {
        let mut settings = config(PolicyName::RoundRobin);
        settings.throttle.hints = hints;
        let mut fixture = Fixture::new(settings, 1, 1);
        for _ in 0..100 {
            let mut ticket = match begin(&mut fixture, NOW, &sheddable(0xffff)) {
                Ok(ticket) => ticket,
                Err(refusal) => {
                    assert_eq!(refusal, Refusal::Throttled);
                    continue;
                }
            };
            fixture.picker.heed(NOW, &mut ticket, hint(1.0));
            fixture.picker.finish(NOW, ticket, Outcome::Overloaded, None);
        }
        assert_eq!(fixture.client.snapshot(NOW).throttled.local[0] > 0, thinned, "{hints}");
    }
}

#[test]
fn a_quota_refuses_without_a_hint_and_only_its_customer_is_thinned() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 20, 1);
    let (poor, rich) = (RequestMeta { customer: evenkeel_core::CustomerId(7), ..meta() }, meta());
    let mut sent = [0; 2];
    for millis in 0..5_000 {
        for (place, (meta, outcome)) in [(poor, Outcome::DontRetry), (rich, Outcome::Served)].into_iter().enumerate() {
            if let Ok(ticket) = begin(&mut fixture, after(millis), &meta) {
                sent[place] += 1;
                fixture.picker.finish(after(millis), ticket, outcome, None);
            }
        }
    }
    assert!(sent[0] < 100 && sent[1] == 5_000, "{sent:?}");
}

#[test]
fn what_the_formula_refuses_is_told_with_the_next_request_unless_it_was_for_a_quota() {
    let told = |outcome, hints| {
        let mut settings = config(PolicyName::LeastLoaded);
        settings.throttle.hints = hints;
        let mut fixture = Fixture::new(settings, 20, 1);
        let (mut refused, mut told) = (0, 0);
        // The last one matters most and was never refused, so it is sent and tells what is left.
        let last = RequestMeta { criticality: Criticality::CriticalPlus, ..meta() };
        for meta in (0..500).map(sheddable).chain([last]) {
            match begin(&mut fixture, NOW, &meta) {
                Ok(ticket) => {
                    told += ticket.held().unwrap_or_default().counts[0];
                    fixture.picker.finish(NOW, ticket, outcome, None);
                }
                Err(_) => refused += 1,
            }
        }
        (refused, told)
    };

    let (refused, heard) = told(Outcome::Overloaded, Mode::On);
    assert!(refused > 300 && heard == refused, "{heard} of {refused}");
    assert!(told_after(6_000).is_none() && told_after(1_000).is_some(), "what was held long ago is no news");
    assert_eq!(told(Outcome::Overloaded, Mode::Off).1, 0, "who listens to no backend tells none");
    let (refused, heard) = told(Outcome::OutOfQuota, Mode::On);
    assert!(refused > 300 && heard == 0, "{heard} of {refused}");
}

/// What a request says that comes so long after the last one that was not sent.
fn told_after(millis: u64) -> Option<[u16; 4]> {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 20, 1);
    while let Ok(ticket) = begin(&mut fixture, NOW, &sheddable(0)) {
        fixture.picker.finish(NOW, ticket, Outcome::Overloaded, None);
    }
    let last = RequestMeta { criticality: Criticality::CriticalPlus, ..meta() };
    let ticket = begin(&mut fixture, after(millis), &last).unwrap();
    let held = ticket.held().map(|held| held.counts);
    fixture.picker.finish(after(millis), ticket, Outcome::Served, None);
    held
}

#[test]
fn what_is_not_sent_is_told_as_of_the_customer_that_asked_for_it() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 1, 1);
    tell(&mut fixture, NOW, &[0], hint(1.0));
    let (mail, maps) = (CustomerId(1), CustomerId(2));
    for customer in [mail, maps] {
        for _ in 0..3 {
            let meta = RequestMeta { customer, ..sheddable(9) };
            assert!(begin(&mut fixture, after(1), &meta).is_err());
        }

        let other = RequestMeta { customer: CustomerId(3), criticality: Criticality::Critical, ..meta() };
        let ticket = begin(&mut fixture, after(1), &other).unwrap();
        assert_eq!(ticket.held(), Some(HeldBack { customer, counts: [3, 0, 0, 0] }));
        fixture.picker.finish(after(1), ticket, Outcome::Served, None);
    }
}

#[test]
fn modes_change_while_it_runs_and_off_is_off() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 2, 1);
    tell(&mut fixture, NOW, &[0, 1], hint(4.0));
    assert_eq!(begin(&mut fixture, after(1), &meta()).unwrap_err(), Refusal::Throttled);

    for mode in [Mode::Observe, Mode::Off] {
        let mut settings = config(PolicyName::LeastLoaded);
        settings.throttle = ThrottleConfig { local: mode, hints: mode, ..settings.throttle };
        fixture.client.handle_config(after(1), settings).unwrap();
        fixture.refresh();
        let tickets: Vec<_> = (0..50).map(|_| begin(&mut fixture, after(2), &meta()).unwrap()).collect();
        fixture.finish_all(tickets);
    }
    let throttled = fixture.client.snapshot(after(3)).throttled;
    assert_eq!((throttled.hints, throttled.hints_observed), ([0, 0, 1, 0], [0, 0, 50, 0]));
}

#[test]
fn a_clock_that_is_set_back_and_a_backend_that_left_take_their_hints_along() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 2, 1);
    tell(&mut fixture, NOW, &[0, 1], hint(4.0));
    let early = Time::from_secs(10);
    assert!(is_sent(&mut fixture, early));

    fixture.client.handle_timeout(NOW);
    fixture.client.handle_timeout(early);
    assert!(fixture.client.snapshot(early).backends.iter().all(|backend| backend.cutoff.is_none()));
    assert!(is_sent(&mut fixture, NOW), "also when it comes to that time again");

    tell(&mut fixture, NOW, &[0, 1], hint(3.0));
    let others = (5..7).map(|number| BackendSpec { id: id(number), ordinal: Some(number) });
    fixture.client.handle_backends(NOW, BackendList::new(others).unwrap()).unwrap();
    fixture.picker = support::connect_all(&mut fixture.client, NOW).unwrap();
    fixture.client.handle_timeout(after(11_000));
    let last = (7..9).map(|number| BackendSpec { id: id(number), ordinal: Some(number) });
    fixture.client.handle_backends(after(11_000), BackendList::new(last).unwrap()).unwrap();
    assert!(
        fixture.client.snapshot(NOW).backends.iter().all(|backend| backend.cutoff.is_none()),
        "slots are lent anew"
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn threads_that_heed_hold_and_begin_leave_nothing_in_flight() {
    let fixture = Fixture::new(config(PolicyName::LeastLoaded), 4, 1);
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let picker = Arc::clone(&fixture.picker);
            std::thread::spawn(move || {
                let (mut local, mut rng) = (evenkeel_core::Local::default(), Rng::from_seed(seed));
                let (mut throttled, mut told) = (0, 0);
                for _ in 0..20_000 {
                    let meta = sheddable(rng.below(65_536) as u16);
                    match picker.begin(&mut local, NOW, &meta, &mut rng) {
                        Ok(mut ticket) => {
                            let cutoff = f64::from(rng.below(100)) / 100.0;
                            picker.heed(NOW, &mut ticket, hint(cutoff));
                            let counts = ticket.held().unwrap_or_default().counts;
                            told += counts.iter().copied().map(u64::from).sum::<u64>();
                            picker.finish(NOW, ticket, Outcome::Served, None);
                        }
                        Err(refusal) => throttled += u64::from(refusal == Refusal::Throttled),
                    }
                }
                (throttled, told)
            })
        })
        .collect();
    let sums = threads.into_iter().map(|thread| thread.join().unwrap());
    let (throttled, mut told) = sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // What is left is told with the next ones.
    let (mut local, mut rng) = (evenkeel_core::Local::default(), Rng::from_seed(9));
    for _ in 0..200 {
        let ticket = fixture.picker.begin(&mut local, NOW, &sheddable(0xffff), &mut rng).unwrap();
        told += ticket.held().unwrap_or_default().counts.iter().copied().map(u64::from).sum::<u64>();
        fixture.picker.finish(NOW, ticket, Outcome::Served, None);
    }

    let snapshot = fixture.client.snapshot(NOW);
    assert!(snapshot.backends.iter().all(|backend| backend.active == 0));
    assert_eq!(snapshot.throttled.hints[0], throttled);
    assert_eq!(snapshot.backends.iter().map(|backend| backend.held).sum::<u64>(), throttled);
    assert!(throttled > 1_000 && told == throttled, "{throttled} held, {told} told");
}
