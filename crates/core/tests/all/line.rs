//! Who goes first in the line, and how long one may wait there, while there is a little too much and nothing is cut.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::NOW;
use evenkeel_core::server::{Called, Entry, GateLocal, Line, ServerRefusal, Spent, Usage};
use evenkeel_core::{Criticality, Lot, MethodId, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig, Time};

const MS: Duration = Duration::from_millis(1);
const COST: Duration = Duration::from_millis(4);

/// One processor. The cutoff is off, so that nothing is cut whatever is asked for.
fn server() -> Server {
    let mut config = ServerConfig::default();
    config.admission.modes.cutoff = Mode::Off;
    let mut server = Server::new(NOW, config).unwrap();
    server.handle_ready(NOW);
    server.handle_usage(NOW, usage());
    server
}

fn usage() -> Usage {
    Usage { processors: Some(1.0), ..Usage::default() }
}

fn admit(server: &Server, now: Time, criticality: Criticality, deadline: Duration) -> Entry {
    let meta = RequestMeta {
        criticality,
        lot: Lot(1 << 15),
        method: MethodId(1),
        deadline: now + deadline,
        ..RequestMeta::default()
    };
    server.gate().admit(&mut GateLocal::default(), now, &meta, &mut Rng::from_seed(1)).unwrap()
}

/// Sheddable requests of 4 ms for so many seconds, this much of what the processor can do.
fn under(load: f64, server: &mut Server, from: Time, seconds: u64) -> Time {
    let (mut now, mut tick) = (from, from);
    let mut spent: Duration = server.snapshot(now).admission.cpu.iter().sum();
    while now < from + Duration::from_secs(seconds) {
        now = now + COST.div_f64(load);
        let admission = admit(server, now, Criticality::Sheddable, 400 * MS).started().unwrap();
        server.gate().finish(now, admission, Outcome::Served, Some(COST));
        let _nobody_waits = server.gate().running().rests(0);
        spent += COST;
        if now.since(tick) > 10 * MS {
            tick = now;
            server.handle_usage(now, usage());
            server.handle_spent(Spent { handlers: Some(spent), process: Some(spent) });
            server.handle_timeout(now);
        }
    }
    now
}

/// Who is called when the processor rests this long after a sheddable and a critical request came, the first of which is more urgent;
/// and whether it starts.
fn first_called(server: &Server, now: Time, after: Duration) -> (&'static str, Result<(), ServerRefusal>) {
    let mut line = Line::new(server.gate().clone());
    let running = admit(server, now, Criticality::Critical, 400 * MS).started().unwrap();
    for (name, criticality, deadline) in
        [("sheddable", Criticality::Sheddable, 300 * MS), ("critical", Criticality::Critical, 400 * MS)]
    {
        let Entry::Wait(waiting) = admit(server, now, criticality, deadline) else { panic!("{name} runs") };
        line.enter(waiting, name);
    }
    server.gate().finish(now + after, running, Outcome::Served, Some(COST));
    assert!(server.gate().running().rests(0));
    let Called { payload, verdict } = line.next(now + after).unwrap();
    let verdict = verdict.map_err(|refused| refused.reason);
    let is_started = verdict.map(|admission| {
        server.gate().finish(now + after, admission, Outcome::Served, Some(COST));
        let _somebody_waits = server.gate().running().rests(0);
    });
    while let Some(Called { verdict, .. }) = line.next(now + after) {
        if let Ok(admission) = verdict {
            server.gate().finish(now + after, admission, Outcome::Served, Some(COST));
            let _somebody_waits = server.gate().running().rests(0);
        }
    }
    (payload, is_started)
}

#[test]
fn the_urgent_go_first_until_there_is_too_much_and_then_those_that_matter_and_back() {
    let mut server = server();

    let now = under(1.0, &mut server, NOW, 4);
    assert_eq!(first_called(&server, now, MS), ("sheddable", Ok(())), "all fits");
    let now = under(1.1, &mut server, now, 4);
    assert_eq!(first_called(&server, now, MS), ("critical", Ok(())));
    assert!(server.snapshot(now).admission.cutoff.value() == 0.0);
    let now = under(0.95, &mut server, now, 4);
    assert_eq!(first_called(&server, now, MS), ("sheddable", Ok(())));
}

#[test]
fn what_does_not_fit_waits_half_a_burst_while_there_is_too_much_and_half_of_its_time_otherwise() {
    let mut server = server();
    let waits = |server: &Server, now: Time, after: Duration| {
        let mut line = Line::new(server.gate().clone());
        let running = admit(server, now, Criticality::Critical, 400 * MS).started().unwrap();
        let Entry::Wait(waiting) = admit(server, now, Criticality::Sheddable, 400 * MS) else { panic!("it runs") };
        line.enter(waiting, ());
        server.gate().finish(now + after, running, Outcome::Served, Some(COST));
        assert!(server.gate().running().rests(0));
        let verdict = line.next(now + after).unwrap().verdict.map_err(|refused| refused.reason);
        verdict.map(|admission| {
            server.gate().finish(now + after, admission, Outcome::Served, Some(COST));
            let _nobody_waits = server.gate().running().rests(0);
        })
    };

    let now = under(1.0, &mut server, NOW, 4);
    assert_eq!(waits(&server, now, 199 * MS), Ok(()));
    assert_eq!(waits(&server, now, 201 * MS), Err(ServerRefusal::WaitedTooLong));

    let now = under(1.1, &mut server, now + 201 * MS, 8);
    assert_eq!(waits(&server, now, 59 * MS), Ok(()));
    assert_eq!(waits(&server, now, 61 * MS), Err(ServerRefusal::WaitedTooLong));
}
