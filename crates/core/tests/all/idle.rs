//! Inactive backends (A5, A8): when a connection is let go, what is asked instead, and how a request brings it back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use crate::support;
use crate::support::{NOW, backends, id, meta};
use evenkeel_core::client::WAKE_MORE_AFTER;
use evenkeel_core::{
    Action, Announcement, BackendSnapshot, BackendState, Checked, CheckedBy, Client, ClientConfig, Greeting, LinkState,
    LoadReport, Local, Mode, Notice, Outcome, Picker, PolicyName, Readiness, Refusal, Rng, Ticket, Time,
};

const IDLE: Duration = Duration::from_secs(8);
const EVERY: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(1);
const VISIT_EVERY: Duration = Duration::from_secs(60);

/// A client whose backends are what the test says they are.
struct Idle {
    client: Client,
    picker: Arc<Picker>,
    local: Local,
    rng: Rng,
    now: Time,
}

fn config() -> ClientConfig {
    let mut config = support::config(PolicyName::RoundRobin);
    config.idle.after = Some(IDLE);
    config.checks.jitter = 0.0;
    config
}

/// Process 1 made this announcement.
fn says(readiness: Readiness, number: u32) -> Notice {
    Notice { readiness, announcement: Some(Announcement { process: 1, number }) }
}

fn answer(notice: Notice, remembered: bool) -> Checked {
    Checked { notice, remembered, report: LoadReport { qps: Some(3.0), ..LoadReport::default() } }
}

impl Idle {
    fn new(count: u32, takes_checks: bool) -> Self {
        Idle::with(config(), count, takes_checks)
    }

    fn with(config: ClientConfig, count: u32, takes_checks: bool) -> Self {
        let mut rng = Rng::from_seed(1);
        let mut client = Client::new(NOW, config, &mut rng).unwrap();
        let picker = client.poll_picker().unwrap();
        client.handle_backends(NOW, backends(count)).unwrap();
        let mut idle = Idle { client, picker, local: Local::default(), rng, now: NOW };
        for action in idle.actions() {
            idle.connect(action.backend().0 as u32, takes_checks);
        }
        idle.publish();
        idle
    }

    fn connect(&mut self, backend: u32, takes_checks: bool) {
        let greeting = Greeting { notice: says(Readiness::Ready, 1), takes_checks };
        self.client.handle_connected(self.now, id(backend), greeting);
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.client.poll_action()).collect()
    }

    fn publish(&mut self) {
        self.picker = self.client.poll_picker().unwrap_or_else(|| Arc::clone(&self.picker));
    }

    /// Lets time pass, with every timeout in it; what is to be done in the end.
    fn pass(&mut self, time: Duration) -> Vec<Action> {
        let until = self.now + time;
        while let Some(at) = self.client.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.client.handle_timeout(self.now);
        }
        self.now = until;
        self.publish();
        self.actions()
    }

    fn checked(&mut self, backend: u32, notice: Notice, remembered: bool) -> Vec<Action> {
        self.client.handle_checked(self.now, id(backend), &answer(notice, remembered));
        self.publish();
        self.actions()
    }

    fn seen(&self, backend: u32) -> BackendSnapshot {
        let snapshot = self.client.snapshot(self.now);
        snapshot.backends.into_iter().find(|one| one.backend == id(backend)).unwrap()
    }

    fn state(&self, backend: u32) -> (BackendState, LinkState, CheckedBy) {
        let seen = self.seen(backend);
        (seen.state, seen.link, seen.checked_by)
    }

    fn begin(&mut self) -> Result<Ticket, Refusal> {
        self.picker.begin(&mut self.local, self.now, &meta(), &mut self.rng)
    }

    fn finish(&self, ticket: Ticket) {
        self.picker.finish(self.now, ticket, Outcome::Served, None);
    }

    /// Until the one backend there is has no connection, and remembers us.
    fn asleep() -> Self {
        let mut idle = Idle::new(1, true);
        assert_eq!(idle.pass(IDLE), [Action::Check(id(0))]);
        assert_eq!(idle.checked(0, says(Readiness::Ready, 1), true), [Action::Deactivate(id(0))]);
        idle
    }
}

const INACTIVE: (BackendState, LinkState, CheckedBy) =
    (BackendState::Healthy, LinkState::Inactive, CheckedBy::Datagrams);
const VISITED: (BackendState, LinkState, CheckedBy) = (BackendState::Healthy, LinkState::Inactive, CheckedBy::Visits);

#[test]
fn a_connection_goes_only_when_the_backend_remembers_us_without_it() {
    let mut idle = Idle::new(1, true);
    assert_eq!(idle.pass(IDLE), [Action::Check(id(0))]);
    assert_eq!(idle.state(0).1, LinkState::Connected);

    let again = idle.checked(0, says(Readiness::Ready, 1), false);
    assert_eq!(again, [Action::Check(id(0))], "it has given the time by now: the next question proves itself");
    assert_eq!(idle.checked(0, says(Readiness::Ready, 1), true), [Action::Deactivate(id(0))]);

    assert_eq!(idle.state(0), INACTIVE);
    assert_eq!(idle.picker.len(), 1, "it can still be picked");
    assert_eq!(idle.seen(0).report.unwrap().1.qps, Some(3.0), "a check is a report");
}

#[test]
fn a_backend_that_will_not_remember_keeps_its_connection() {
    let mut idle = Idle::new(1, true);
    idle.pass(IDLE);
    idle.checked(0, says(Readiness::Ready, 1), false);
    assert_eq!(idle.checked(0, says(Readiness::Ready, 1), false), []);
    assert_eq!(idle.state(0).1, LinkState::Connected);
    assert_eq!(idle.pass(IDLE / 2), [], "and is not asked all the time");
}

#[test]
fn a_connection_in_use_stays() {
    let mut idle = Idle::new(1, true);
    for _ in 0..20 {
        let ticket = idle.begin().unwrap();
        idle.finish(ticket);
        assert_eq!(idle.pass(IDLE / 2), []);
    }
    let open = idle.begin().unwrap();
    assert_eq!(idle.pass(IDLE * 10), [], "one long request is use, too");
    idle.finish(open);

    assert_eq!(idle.pass(IDLE), [], "idle for so long since it was last looked at");
    assert_eq!(idle.pass(IDLE / 4), [Action::Check(id(0))]);
    let ticket = idle.begin().unwrap();
    assert_eq!(idle.checked(0, says(Readiness::Ready, 1), true), [], "a request came between");
    assert_eq!(idle.state(0).1, LinkState::Connected);
    idle.finish(ticket);
}

#[test]
fn a_request_goes_to_a_connected_backend_while_the_inactive_one_it_wanted_wakes() {
    let mut idle = Idle::new(2, true);
    idle.pass(IDLE);
    assert_eq!(idle.checked(1, says(Readiness::Ready, 1), true), [Action::Deactivate(id(1))]);
    idle.client.handle_checked(idle.now, id(0), &answer(says(Readiness::Ready, 1), false));

    let tickets = [idle.begin().unwrap(), idle.begin().unwrap()];
    assert!(tickets.iter().all(|ticket| ticket.backend() == id(0)), "nobody waits");
    assert_eq!(tickets.iter().filter(|ticket| ticket.wakes()).count(), 1, "one of them wanted the other");
    idle.client.handle_wishes(idle.now);
    assert!(idle.actions().contains(&Action::Connect(id(1))));
    assert_eq!(idle.state(1).1, LinkState::Waking);
    idle.publish();
    let meanwhile = idle.begin().unwrap();
    assert!(!meanwhile.wakes());

    idle.connect(1, true);
    idle.publish();
    let then: Vec<_> = (0..2).map(|_| idle.begin().unwrap()).collect();
    assert!(then.iter().any(|ticket| ticket.backend() == id(1)));
    assert_eq!(idle.client.snapshot(idle.now).woken, 1);
    tickets.into_iter().chain([meanwhile]).chain(then).for_each(|ticket| idle.finish(ticket));
}

#[test]
fn with_nobody_connected_a_request_waits_for_a_connection_and_no_longer() {
    let mut idle = Idle::asleep();
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    idle.client.handle_wishes(idle.now);
    idle.client.handle_wishes(idle.now);
    assert_eq!(idle.actions(), [Action::Connect(id(0))], "once");
    idle.publish();
    assert!(idle.picker.is_empty() && idle.picker.is_usable());
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    assert_eq!(idle.client.snapshot(idle.now).refused.total(), 0, "whoever waits is not refused");

    idle.client.handle_lost(idle.now, id(0));
    idle.publish();
    assert_eq!(idle.begin().unwrap_err(), Refusal::NoneUsable);
    assert_eq!(idle.state(0).0, BackendState::Refusing);
}

#[test]
fn a_request_that_waits_wakes_two_and_more_only_when_those_take_long() {
    let mut idle = Idle::new(8, true);
    idle.pass(IDLE);
    (0..8).for_each(|backend| drop(idle.checked(backend, says(Readiness::Ready, 1), true)));
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    idle.client.handle_wishes(idle.now);
    idle.publish();
    let connects = |actions: Vec<Action>| actions.iter().filter(|one| matches!(one, Action::Connect(_))).count();
    assert!((1..=2).contains(&connects(idle.actions())), "the one that was picked, and the first");

    for _ in 0..5 {
        assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
        idle.client.handle_wishes(idle.now);
        assert_eq!(connects(idle.actions()), 0, "one of them will do");
    }
    idle.now = idle.now + WAKE_MORE_AFTER;
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    idle.client.handle_wishes(idle.now);
    assert!(connects(idle.actions()) >= 1, "those lead nowhere");
}

#[test]
fn an_inactive_backend_is_asked_now_and_then_and_answers_change_nothing() {
    let mut idle = Idle::asleep();
    for _ in 0..5 {
        assert_eq!(idle.pass(EVERY), [Action::Check(id(0))]);
        assert_eq!(idle.checked(0, says(Readiness::Ready, 1), true), []);
        assert_eq!(idle.state(0), INACTIVE);
    }
    let checks = idle.client.snapshot(idle.now).checks;
    assert_eq!((checks.sent, checks.answered, checks.silent, checks.visits), (6, 6, 0, 0));
}

#[test]
fn silence_is_no_news_while_the_backend_can_be_connected_to() {
    let mut idle = Idle::asleep();
    assert_eq!(idle.pass(EVERY), [Action::Check(id(0))]);
    assert_eq!(idle.pass(TIMEOUT), [Action::Check(id(0))]);
    assert_eq!(idle.pass(TIMEOUT), [Action::Check(id(0))]);
    assert_eq!((idle.state(0), idle.seen(0).silences), (INACTIVE, 2));
    assert_eq!(idle.pass(TIMEOUT), [Action::Connect(id(0))], "a connection tells");
    assert_eq!(idle.state(0).0, BackendState::Healthy);

    // Connections work, datagrams still do not: from then on it is visited, rarely, and asked once each time.
    idle.connect(0, true);
    assert_eq!(idle.actions(), [Action::Check(id(0))]);
    idle.pass(TIMEOUT * 2);
    assert_eq!(idle.pass(TIMEOUT), [Action::Deactivate(id(0))]);
    assert_eq!(idle.state(0), VISITED);
    assert_eq!(idle.pass(VISIT_EVERY.saturating_sub(TIMEOUT)), []);
    assert_eq!(idle.pass(TIMEOUT), [Action::Connect(id(0))]);
    idle.connect(0, true);
    assert_eq!(idle.pass(TIMEOUT), [Action::Check(id(0)), Action::Deactivate(id(0))]);
    assert_eq!(idle.state(0), VISITED);

    // They get through again.
    idle.pass(VISIT_EVERY);
    idle.connect(0, true);
    idle.actions();
    assert_eq!(idle.checked(0, says(Readiness::Ready, 1), true), [Action::Deactivate(id(0))]);
    assert_eq!(idle.state(0), INACTIVE);
}

#[test]
fn one_that_is_silent_and_cannot_be_connected_to_is_refusing_and_tried_again() {
    let mut idle = Idle::asleep();
    assert_eq!(idle.pass(EVERY + TIMEOUT * 3).last(), Some(&Action::Connect(id(0))));
    idle.client.handle_lost(idle.now, id(0));
    assert_eq!(idle.state(0), (BackendState::Refusing, LinkState::Connecting, CheckedBy::Nothing));
    assert_eq!(idle.pass(Duration::from_millis(60)), [Action::Connect(id(0))], "by the back-off");
    idle.connect(0, true);
    assert_eq!(idle.state(0).1, LinkState::Connected);
}

#[test]
fn a_backend_without_datagrams_is_visited() {
    let mut idle = Idle::new(1, false);
    assert_eq!(idle.pass(IDLE), [Action::Deactivate(id(0))]);
    assert_eq!(idle.state(0), VISITED);
    assert_eq!(idle.pass(VISIT_EVERY), [Action::Connect(id(0))]);
    idle.connect(0, false);
    assert_eq!(idle.actions(), [Action::Deactivate(id(0))], "seen, and let go again");
    assert_eq!(idle.state(0), VISITED);
}

#[test]
fn a_request_that_comes_during_a_visit_keeps_the_connection() {
    let mut idle = Idle::new(1, false);
    idle.pass(IDLE);
    assert_eq!(idle.pass(VISIT_EVERY), [Action::Connect(id(0))]);
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    idle.client.handle_wishes(idle.now);
    assert_eq!(idle.actions(), [], "the connection is being made already");
    idle.connect(0, false);
    idle.publish();
    assert_eq!((idle.actions(), idle.state(0).1), (vec![], LinkState::Connected));
    let ticket = idle.begin().unwrap();
    idle.finish(ticket);
}

#[test]
fn a_pushed_lame_duck_is_not_used_from_then_on_and_is_acknowledged() {
    let mut idle = Idle::asleep();
    let old = Arc::clone(&idle.picker);
    let change = idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 2)).unwrap();
    assert_eq!((change.from, change.to), (BackendState::Healthy, BackendState::LameDuck));
    assert_eq!(idle.actions(), [Action::Check(id(0))], "which says what was heard");
    assert_eq!(idle.client.heard(id(0)), Some(Announcement { process: 1, number: 2 }));

    assert!(old.begin(&mut idle.local, idle.now, &meta(), &mut idle.rng).is_err());
    idle.publish();
    assert_eq!(idle.begin().unwrap_err(), Refusal::NoneUsable);
    idle.client.handle_wishes(idle.now);
    assert_eq!(idle.actions(), [], "an older wish does not wake it");

    idle.client.handle_pushed(idle.now, id(0), says(Readiness::Ready, 3)).unwrap();
    assert_eq!(idle.state(0).0, BackendState::Healthy);
}

#[test]
fn one_that_was_wanted_before_it_was_a_lame_duck_is_connected_to_when_it_is_back() {
    let mut idle = Idle::asleep();
    assert_eq!(idle.begin().unwrap_err(), Refusal::Waking);
    // The push is handled before the wish.
    idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 2));
    idle.client.handle_wishes(idle.now);
    assert_eq!(idle.actions(), [Action::Check(id(0))]);

    idle.client.handle_pushed(idle.now, id(0), says(Readiness::Ready, 3));
    assert_eq!(idle.actions(), [Action::Check(id(0)), Action::Connect(id(0))], "acknowledged, and connected to");
    assert_eq!(idle.state(0).1, LinkState::Waking);
}

#[test]
fn an_answer_of_an_earlier_process_leads_to_a_connection_which_knows_better() {
    let mut idle = Idle::asleep();
    let by = |process, readiness| Notice { readiness, announcement: Some(Announcement { process, number: 1 }) };
    idle.client.handle_pushed(idle.now, id(0), by(7, Readiness::LameDuck));
    idle.actions();
    assert_eq!(idle.checked(0, by(3, Readiness::Ready), true), [Action::Connect(id(0))]);
    assert_eq!(idle.state(0).0, BackendState::LameDuck);

    idle.client.handle_connected(idle.now, id(0), Greeting { notice: by(3, Readiness::Ready), takes_checks: true });
    assert_eq!(idle.state(0).0, BackendState::Healthy);
    assert_eq!(idle.client.heard(id(0)).map(|heard| heard.process), Some(3));
}

#[test]
fn late_and_repeated_datagrams_are_no_news() {
    let mut idle = Idle::asleep();
    idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 4));
    for late in [says(Readiness::Ready, 1), says(Readiness::Ready, 3), says(Readiness::LameDuck, 4)] {
        assert_eq!(idle.client.handle_pushed(idle.now, id(0), late), None);
        assert_eq!(idle.client.handle_checked(idle.now, id(0), &answer(late, true)), None);
    }
    let next = Notice { readiness: Readiness::Ready, announcement: Some(Announcement { process: 2, number: 1 }) };
    assert!(idle.client.handle_checked(idle.now, id(0), &answer(next, true)).is_some(), "a new process");
    assert_eq!(idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 9)), None, "the old one's last");
}

#[test]
fn a_connection_that_a_push_overtook_does_not_undo_it() {
    let mut idle = Idle::asleep();
    idle.begin().unwrap_err();
    idle.client.handle_wishes(idle.now);
    idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 2));
    // Sent before, arrives after.
    idle.connect(0, true);
    assert_eq!(idle.state(0).0, BackendState::LameDuck);
    idle.client.handle_readiness(idle.now, id(0), says(Readiness::LameDuck, 2));
    assert_eq!(idle.state(0).0, BackendState::LameDuck);
    idle.client.handle_readiness(idle.now, id(0), says(Readiness::Ready, 3));
    assert_eq!(idle.state(0).0, BackendState::Healthy);
}

#[test]
fn what_was_pushed_while_it_was_refusing_is_not_undone_by_an_older_greeting() {
    let mut idle = Idle::asleep();
    idle.begin().unwrap_err();
    idle.client.handle_wishes(idle.now);
    idle.client.handle_lost(idle.now, id(0));
    assert_eq!(idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 2)), None);

    idle.connect(0, true);
    assert_eq!(idle.state(0).0, BackendState::LameDuck);
}

#[test]
fn while_connected_only_datagrams_of_that_process_count() {
    let mut idle = Idle::new(1, true);
    let other = Notice { readiness: Readiness::LameDuck, announcement: Some(Announcement { process: 9, number: 9 }) };
    assert_eq!(idle.client.handle_pushed(idle.now, id(0), other), None);
    assert!(idle.client.handle_pushed(idle.now, id(0), says(Readiness::LameDuck, 2)).is_some());
}

#[test]
fn a_reset_leads_to_a_new_key_within_a_period_and_not_at_once() {
    let mut first = Vec::new();
    for seed in 0..20 {
        let mut idle = Idle::asleep();
        idle.rng = Rng::from_seed(seed);
        idle.pass(EVERY);
        // What is drawn differs by the client's own generator: let it draw a few times.
        (0..seed).for_each(|_| idle.client.handle_reset(idle.now, id(0)));
        idle.client.handle_reset(idle.now, id(0));
        let reset = idle.now;
        assert_eq!(idle.state(0), VISITED);
        let at = idle.client.poll_timeout().unwrap().since(reset);
        assert!(at <= EVERY, "{at:?}");
        first.push(at);
        assert!(idle.pass(EVERY).contains(&Action::Connect(id(0))));
    }
    first.sort_unstable();
    assert!(first[19].saturating_sub(first[0]) > EVERY / 2, "spread over the period: {first:?}");
}

#[test]
fn without_an_idle_time_connections_stay_for_ever() {
    let mut settings = config();
    settings.idle.after = None;
    settings.eject.mode = Mode::Off;
    let mut idle = Idle::with(settings, 3, true);
    assert_eq!(idle.pass(Duration::from_secs(100_000)), []);
    assert_eq!(idle.client.poll_timeout(), None);
}

#[test]
fn settings_are_checked_and_say_what_would_do() {
    let mut bad = config();
    bad.checks.timeout = Duration::from_secs(11);
    assert_eq!(bad.check().unwrap_err().to_string(), "checks.timeout = 11s is not possible: must be from 1ms to 10s");
    let mut bad = config();
    bad.idle.after = Some(Duration::ZERO);
    assert!(bad.check().unwrap_err().to_string().starts_with("idle.after = 0ns is not possible"));
    let mut bad = config();
    bad.probes.per_request = f64::NAN;
    assert!(bad.check().is_err());
}
