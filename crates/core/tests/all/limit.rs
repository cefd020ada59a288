//! Adaptive concurrency: handlers that wait for something slow are not filled without end, and nothing else is refused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::NOW;
use evenkeel_core::server::{Admission, AdmissionSnapshot, GateLocal, Refused, ServerRefusal, Spent, Usage};
use evenkeel_core::{Criticality, Cutoff, Lot, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig, Time};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_micros(10_500);

/// Handlers that hardly compute and wait for something else; ticks and readings come as a driver has them.
struct Waiters {
    server: Server,
    now: Time,
    tick: Time,
    rng: Rng,
    /// By when they leave, and by number.
    inside: BTreeMap<(Time, u64), Admission>,
    asked: u64,
}

impl Waiters {
    fn new(limit: Mode) -> Self {
        let mut server = Server::new(NOW, config(limit)).unwrap();
        server.handle_ready(NOW);
        Waiters { server, now: NOW, tick: NOW, rng: Rng::from_seed(3), inside: BTreeMap::new(), asked: 0 }
    }

    /// A thousand requests in a second, as many of each criticality, for so long, each of which takes as long as said. Who is
    /// refused, and of what criticality.
    fn run(&mut self, lasts: Duration, takes: Duration) -> Vec<(Criticality, Refused)> {
        let (end, mut refused) = (self.now + lasts, Vec::new());
        while self.now < end {
            self.now = self.now + MS;
            self.pass();
            self.asked += 1;
            let criticality = Criticality::ALL[(self.asked % 4) as usize];
            let meta = RequestMeta { criticality, lot: Lot::draw(&mut self.rng), ..RequestMeta::default() };
            match self.server.gate().admit(&mut GateLocal::default(), self.now, &meta, &mut self.rng) {
                Ok(entry) => {
                    let _nobody_waits = self.server.gate().running().rests(0);
                    self.inside.insert((self.now + takes, self.asked), entry.started().unwrap());
                }
                Err(refusal) => refused.push((criticality, refusal)),
            }
        }
        refused
    }

    /// Whoever is done leaves, and the server looks at the time.
    fn pass(&mut self) {
        while let Some(first) = self.inside.first_entry().filter(|first| first.key().0 <= self.now) {
            let admission = first.remove();
            let cost = Some(Duration::from_micros(10));
            self.server.gate().finish(self.now, admission, Outcome::Served, cost);
        }
        while self.tick + TICK <= self.now {
            self.tick = self.tick + TICK;
            self.server.handle_usage(self.tick, Usage { processors: Some(1.0), ..Usage::default() });
            self.server.handle_spent(Spent { handlers: Some(Duration::ZERO), process: Some(Duration::ZERO) });
            self.server.handle_timeout(self.tick);
        }
    }

    fn seen(&self) -> AdmissionSnapshot {
        self.server.snapshot(self.now).admission
    }
}

fn config(limit: Mode) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.admission.modes.limit = limit;
    config
}

#[test]
fn while_handlers_hang_the_least_critical_stop_first_and_hear_it() {
    let mut waiters = Waiters::new(Mode::On);
    let calm = waiters.run(5 * SECOND, 100 * MS);
    assert!(calm.is_empty(), "{} of 5,000", calm.len());
    // Three times the hundred that come in a tenth of a second.
    assert!(waiters.seen().limit.is_some_and(|limit| (285..=330).contains(&limit)), "{:?}", waiters.seen().limit);

    let refused = waiters.run(2 * SECOND, 60 * SECOND);

    assert!(refused.iter().all(|(_, refused)| refused.reason == ServerRefusal::LimitReached));
    let hints = refused.iter().filter(|(_, refused)| refused.hint.is_some_and(|hint| hint.cutoff > Cutoff::NOTHING));
    assert_eq!(hints.count(), refused.len(), "each tells what is refused");
    let first = Criticality::ALL.map(|level| refused.iter().position(|(of, _)| *of == level).unwrap());
    assert!(first.is_sorted(), "{first:?}");
    let counts = Criticality::ALL.map(|level| refused.iter().filter(|(of, _)| *of == level).count());
    assert!(counts.is_sorted_by(|below, above| below >= above), "{counts:?}");
    // What a signal may ask for at most lets a tenth of the highest in, which here never leave.
    assert!(waiters.inside.len() < 420, "{}", waiters.inside.len());
}

#[test]
fn it_recovers_when_they_go_on() {
    let mut waiters = Waiters::new(Mode::On);
    waiters.run(5 * SECOND, 100 * MS);
    waiters.run(3 * SECOND, SECOND);
    assert!(waiters.seen().cutoff > Cutoff::NOTHING);

    waiters.run(SECOND, 100 * MS);
    let after = waiters.run(3 * SECOND, 100 * MS);

    assert!(after.is_empty(), "{}", after.len());
    assert_eq!(waiters.seen().cutoff, Cutoff::NOTHING);
}

#[test]
fn what_takes_longer_for_good_becomes_usual() {
    let mut waiters = Waiters::new(Mode::On);
    waiters.run(5 * SECOND, 50 * MS);

    let at_first = waiters.run(5 * SECOND, 200 * MS);
    waiters.run(60 * SECOND, 200 * MS);
    let later = waiters.run(5 * SECOND, 200 * MS);

    assert!(at_first.len() > 100, "{}", at_first.len());
    assert!(later.is_empty(), "{}", later.len());
}

#[test]
fn one_that_only_observes_refuses_nothing_and_says_what_it_would() {
    let mut waiters = Waiters::new(Mode::Observe);
    waiters.run(5 * SECOND, 100 * MS);
    assert_eq!(waiters.seen().cutoff_observed, Cutoff::NOTHING);

    let refused = waiters.run(2 * SECOND, 60 * SECOND);

    assert!(refused.is_empty());
    let seen = waiters.seen();
    let counted = seen.observed[ServerRefusal::LimitReached.index()];
    assert!(seen.cutoff == Cutoff::NOTHING && seen.cutoff_observed.value() > 3.0, "{:?}", seen.cutoff_observed);
    assert!(counted.is_sorted_by(|below, above| below >= above) && counted[0] > 400, "{counted:?}");
}

#[test]
fn switched_on_after_a_pause_without_any_admission_it_refuses_nobody_in_calm() {
    let mut waiters = Waiters::new(Mode::On);
    waiters.run(2 * SECOND, 20 * MS);
    let mut off = config(Mode::On);
    off.admission.modes.all = Mode::Off;
    waiters.server.handle_config(waiters.now, off).unwrap();
    // Nobody looks meanwhile, and what is waited for takes ten times as long.
    waiters.run(20 * SECOND, 200 * MS);

    waiters.server.handle_config(waiters.now, config(Mode::On)).unwrap();
    let refused = waiters.run(5 * SECOND, 200 * MS);

    assert!(refused.is_empty(), "{}", refused.len());
}
