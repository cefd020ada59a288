//! The life of a server task: ready, lame duck, drained, gone; what it reports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::{NOW, meta};
use evenkeel_core::server::{Clients, GateLocal, Phase, ServerAction, ServerRefusal, Usage};
use evenkeel_core::{Outcome, Readiness, RequestMeta, Rng, Server, ServerConfig, Time};

fn server() -> Server {
    Server::new(NOW, ServerConfig::default()).unwrap()
}

fn actions(server: &mut Server) -> Vec<ServerAction> {
    std::iter::from_fn(|| server.poll_action()).collect()
}

fn admit(server: &Server, now: Time) -> Result<evenkeel_core::server::Admission, ServerRefusal> {
    let entry = server.gate().admit(&mut GateLocal::default(), now, &meta(), &mut Rng::from_seed(1));
    entry.map(|entry| entry.started().unwrap()).map_err(|refused| refused.reason)
}

fn finish(server: &Server, now: Time, admission: evenkeel_core::server::Admission, outcome: Outcome) {
    assert!(!server.gate().running().rests(0), "nobody waits");
    server.gate().finish(now, admission, outcome, None);
}

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

#[test]
fn it_serves_while_it_starts_and_says_when_it_is_ready() {
    let mut server = server();
    assert_eq!(server.readiness(), Readiness::LameDuck);
    let early = admit(&server, NOW).expect("what arrives is served");
    finish(&server, NOW, early, Outcome::Served);

    server.handle_ready(NOW);
    server.handle_ready(NOW);
    assert_eq!(actions(&mut server), [ServerAction::Announce(Readiness::Ready)], "once");
    server.handle_lame_duck(NOW);
    server.handle_ready(NOW);
    let back_and_forth = [ServerAction::Announce(Readiness::LameDuck), ServerAction::Announce(Readiness::Ready)];
    assert_eq!(actions(&mut server), back_and_forth);
}

#[test]
fn stopping_waits_for_requests_acknowledgements_and_its_least_time() {
    let mut server = server();
    server.handle_ready(NOW);
    let running = admit(&server, NOW).unwrap();
    server.handle_stop(NOW);
    server.handle_clients(NOW, Clients { unacknowledged: 2, silent: 0, unreached: 0 });
    actions(&mut server);

    server.handle_timeout(after(5_000));
    assert_eq!(server.snapshot(after(5_000)).phase, Phase::Stopping, "a request is in flight");
    let late = admit(&server, after(5_000)).expect("what still arrives is served");
    finish(&server, after(5_001), late, Outcome::Served);
    finish(&server, after(5_001), running, Outcome::Served);
    server.handle_timeout(after(5_010));
    assert_eq!(actions(&mut server), [], "two clients have not noticed");

    server.handle_clients(after(5_020), Clients::default());
    assert_eq!(actions(&mut server), [ServerAction::Close]);
    server.handle_closed(after(5_030));
    assert_eq!(actions(&mut server), [ServerAction::Exit]);
    assert_eq!(admit(&server, after(5_040)).unwrap_err(), ServerRefusal::Closed);
    assert_eq!(server.poll_timeout(), None);
}

#[test]
fn an_idle_server_still_waits_for_late_requests_of_clients_that_cannot_acknowledge() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    actions(&mut server);
    server.handle_clients(NOW, Clients { unacknowledged: 0, silent: 1, unreached: 0 });
    server.handle_timeout(after(900));
    assert_eq!(actions(&mut server), []);
    server.handle_timeout(after(1_000));
    assert_eq!(actions(&mut server), [ServerAction::Close]);
}

#[test]
fn clients_that_have_all_acknowledged_are_waited_for_briefly() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    actions(&mut server);
    server.handle_clients(after(10), Clients::default());
    assert_eq!(actions(&mut server), [], "what was on its way may still arrive");

    server.handle_timeout(after(50));

    assert_eq!(actions(&mut server), [ServerAction::Close]);
}

#[test]
fn clients_without_a_connection_are_waited_for_while_they_are_pushed_to() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    actions(&mut server);
    server.handle_clients(NOW, Clients { unreached: 1, ..Clients::default() });
    server.handle_timeout(after(600));
    assert_eq!(actions(&mut server), []);

    server.handle_clients(after(700), Clients::default());

    assert_eq!(actions(&mut server), [ServerAction::Close]);
}

#[test]
fn a_silent_client_that_comes_during_the_drain_makes_it_longer() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    actions(&mut server);
    server.handle_clients(after(40), Clients { unacknowledged: 0, silent: 1, unreached: 0 });
    server.handle_timeout(after(500));
    assert_eq!(actions(&mut server), []);

    server.handle_timeout(after(1_000));

    assert_eq!(actions(&mut server), [ServerAction::Close]);
}

#[test]
fn it_never_closes_before_its_announcement_has_gone_out() {
    let mut server = Server::new(NOW, ServerConfig { drain_least: Duration::ZERO, ..ServerConfig::default() }).unwrap();
    server.handle_ready(NOW);
    server.handle_clients(NOW, Clients::default());
    actions(&mut server);
    server.handle_stop(NOW);
    assert_eq!(actions(&mut server), [ServerAction::Announce(Readiness::LameDuck)]);
    server.handle_clients(NOW, Clients::default());
    assert_eq!(actions(&mut server), [ServerAction::Close]);
}

#[test]
fn a_clock_that_wobbles_does_not_cut_the_drain_short() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    server.handle_clients(NOW, Clients { unacknowledged: 0, silent: 1, unreached: 0 });
    server.handle_timeout(Time::from_millis(999_100));
    server.handle_timeout(after(110));
    assert_eq!(server.snapshot(after(110)).phase, Phase::Stopping);
    server.handle_timeout(after(1_000));
    assert_eq!(server.snapshot(after(3_000)).draining_for, Some(Duration::from_secs(3)));
}

#[test]
fn rates_and_measurements_go_on_after_a_clock_set_back() {
    let mut server = server();
    server.handle_ready(NOW);
    let run = |server: &mut Server, from: Time, requests: u64| {
        for step in 1..=300 {
            let now = from + Duration::from_millis(100 * step);
            for _ in 0..requests {
                let admission = admit(server, now).unwrap();
                finish(server, now, admission, Outcome::Served);
            }
            server.handle_timeout(now);
        }
    };
    run(&mut server, NOW, 1);
    run(&mut server, Time::from_secs(1), 100);
    let qps = server.gate().report().qps.unwrap();
    assert!(qps > 900.0, "{qps} after 30 s at 1,000");

    server.handle_usage(Time::from_secs(2), Usage::default());
    assert!(server.poll_timeout().unwrap() <= Time::from_secs(3));
}

#[test]
fn nothing_keeps_it_for_ever() {
    let mut server = server();
    server.handle_ready(NOW);
    let stuck = admit(&server, NOW).unwrap();
    server.handle_stop(NOW);
    let mut now = NOW;
    for _ in 0..10_000 {
        let Some(next) = server.poll_timeout() else { break };
        now = next;
        server.handle_timeout(now);
    }
    assert_eq!(actions(&mut server).last(), Some(&ServerAction::Exit));
    assert!(now <= after(36_000), "{now:?}");
    finish(&server, now, stuck, Outcome::Failed);
}

#[test]
fn a_stopping_server_cannot_be_made_ready_again() {
    let mut server = server();
    server.handle_stop(NOW);
    server.handle_ready(NOW);
    assert_eq!(server.snapshot(NOW).phase, Phase::Stopping);
}

#[test]
fn a_clock_set_back_lets_it_drain_all_the_same() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_stop(NOW);
    server.handle_clients(NOW, Clients::default());
    let mut now = Time::from_secs(1);
    server.handle_timeout(now);
    for _ in 0..10_000 {
        let Some(next) = server.poll_timeout() else { break };
        now = next;
        server.handle_timeout(now);
    }
    assert_eq!(server.snapshot(now).phase, Phase::Stopped);
    assert!(now < Time::from_secs(60), "{now:?}");
}

#[test]
fn the_report_says_what_happened_and_leaves_out_what_is_unknown() {
    let mut server = server();
    server.handle_ready(NOW);
    server.handle_timeout(NOW);
    assert_eq!((server.gate().report().qps, server.gate().report().utilization), (None, None));

    for step in 1..=200u64 {
        let now = after(step * 10);
        let admission = admit(&server, now).unwrap();
        let outcome = if step % 4 == 0 { Outcome::Failed } else { Outcome::Served };
        finish(&server, now + Duration::from_millis(3), admission, outcome);
        server.handle_timeout(now);
    }
    server.handle_usage(after(2_000), Usage { utilization: Some(0.5), processors: Some(2.0), ..Usage::default() });
    server.handle_usage(after(2_100), Usage { utilization: Some(f64::NAN), processors: Some(2.0), ..Usage::default() });
    let held = admit(&server, after(2_100)).unwrap();

    let report = server.gate().report();
    assert_eq!((report.in_flight, report.utilization, report.processors), (Some(1), Some(0.5), Some(2.0)));
    assert_eq!((report.runnable, report.latency.map(|l| l.as_micros())), (None, Some(3_000)));
    let (qps, eps) = (report.qps.unwrap(), report.eps.unwrap());
    assert!((90.0..=110.0).contains(&qps) && (20.0..=30.0).contains(&eps), "{qps} {eps}");
    finish(&server, after(2_100), held, Outcome::Served);
}

#[test]
fn work_nobody_waits_for_is_refused() {
    let server = server();
    let late = RequestMeta { deadline: NOW, ..meta() };
    let refusal =
        server.gate().admit(&mut GateLocal::default(), NOW, &late, &mut Rng::from_seed(1)).unwrap_err().reason;
    assert_eq!(refusal, ServerRefusal::TooLate);
    assert_eq!((server.snapshot(NOW).too_late, server.snapshot(NOW).admitted), (1, 0));
}

#[test]
fn bad_values_are_refused_with_their_field() {
    let config = ServerConfig { drain_most: Duration::ZERO, ..ServerConfig::default() };
    let error = Server::new(NOW, config).unwrap_err();
    assert_eq!(error.to_string(), "drain_most = 0ns is not possible: must be from 1s to 3600s");
}
