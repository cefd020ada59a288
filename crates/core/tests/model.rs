//! Where threads meet, every order of their steps is tried: `./test model` builds this with `--cfg loom`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(loom)]

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Entry, Gate, GateLocal, Line, Usage};
use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, Checked, Client, ClientConfig, Criticality, Cutoff, Fate, Greeting,
    Hint, LoadReport, Local, Mode, Notice, Outcome, Picker, PolicyName, Readiness, Refusal, Repeat, RequestMeta, Rng,
    Server, ServerConfig, Time, Tries,
};
use loom::sync::Mutex;
use loom::thread;

const NOW: Time = Time::from_secs(100);

/// A client of one backend that may have so many requests in flight.
fn client(active_max: u32, policy: PolicyName) -> (Client, Arc<Picker>) {
    let mut config = ClientConfig { policy, ..ClientConfig::default() };
    config.flow.active_max = active_max;
    config.throttle.least = 2;
    // One count more for every request, which has a model of its own.
    config.retry.mode = Mode::Off;
    let mut client = Client::new(NOW, config, &mut Rng::from_seed(1)).unwrap();
    let only = BackendSpec { id: BackendId(1), ordinal: None };
    client.handle_backends(NOW, BackendList::new([only]).unwrap()).unwrap();
    while let Some(action) = client.poll_action() {
        client.handle_connected(NOW, action.backend(), Readiness::Ready);
    }
    let picker = client.poll_picker().unwrap();
    (client, picker)
}

fn begin(picker: &Picker, local: &mut Local) -> Result<evenkeel_core::Ticket, Refusal> {
    picker.begin(local, NOW, &RequestMeta::default(), &mut Rng::from_seed(1))
}

#[test]
fn two_threads_never_share_the_last_place() {
    loom::model(|| {
        let (client, picker) = client(1, PolicyName::RoundRobin);
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || begin(&other, &mut Local::default()).ok());
        let mine = begin(&picker, &mut Local::default()).ok();
        let theirs = thread.join().unwrap();

        assert!(mine.is_some() != theirs.is_some(), "one of them has it, and only one");
        mine.into_iter().chain(theirs).for_each(|ticket| picker.finish(NOW, ticket, Outcome::Served, None));
        assert_eq!(client.snapshot(NOW).backends[0].active, 0);
    });
}

#[test]
fn room_given_back_is_seen_even_by_a_thread_that_remembers_all_full() {
    loom::model(|| {
        let (_client, picker) = client(1, PolicyName::LeastLoaded);
        let mut local = Local::default();
        let ticket = begin(&picker, &mut local).unwrap();
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || other.finish(NOW, ticket, Outcome::Served, None));
        // May come before, during or after; whatever it remembers must not outlive the place given back.
        let early = begin(&picker, &mut local);
        thread.join().unwrap();

        match early {
            Ok(ticket) => picker.finish(NOW, ticket, Outcome::Served, None),
            Err(refusal) => assert_eq!(refusal, Refusal::AllFull),
        }
        let late = begin(&picker, &mut local).expect("the place is free");
        picker.finish(NOW, late, Outcome::Served, None);
    });
}

#[test]
fn nothing_begins_on_an_old_picker_once_a_notice_is_handled() {
    loom::model(|| {
        let (mut client, picker) = client(2, PolicyName::RoundRobin);
        let old = Arc::clone(&picker);
        let thread = thread::spawn(move || begin(&old, &mut Local::default()).ok());

        client.handle_readiness(NOW, BackendId(1), Readiness::LameDuck);
        let at_notice = client.snapshot(NOW).backends[0].active;
        let ticket = thread.join().unwrap();

        assert_eq!(client.snapshot(NOW).backends[0].active, at_notice);
        ticket.into_iter().for_each(|ticket| picker.finish(NOW, ticket, Outcome::Served, None));
        assert_eq!(client.snapshot(NOW).backends[0].active, 0);
    });
}

/// Until the one backend there is may fall asleep: the next answer lets its connection go.
fn idle_client() -> (Client, Arc<Picker>, Time) {
    // What looks at backends now and then reads their counts each time, which is no part of this model.
    let mut config = ClientConfig { policy: PolicyName::LeastLoaded, ..ClientConfig::default() };
    config.checks.jitter = 0.0;
    (config.retry.mode, config.eject.mode) = (Mode::Off, Mode::Off);
    let mut client = Client::new(NOW, config, &mut Rng::from_seed(1)).unwrap();
    let only = BackendSpec { id: BackendId(1), ordinal: None };
    client.handle_backends(NOW, BackendList::new([only]).unwrap()).unwrap();
    assert_eq!(client.poll_action(), Some(Action::Connect(BackendId(1))));
    let notice = Notice { readiness: Readiness::Ready, announcement: None };
    client.handle_connected(NOW, BackendId(1), Greeting { notice, takes_checks: true });
    let later = NOW + Duration::from_secs(300);
    while client.poll_timeout().is_some_and(|at| at <= later) {
        client.handle_timeout(client.poll_timeout().unwrap());
    }
    assert_eq!(client.poll_action(), Some(Action::Check(BackendId(1))));
    let picker = client.poll_picker().unwrap();
    (client, picker, later)
}

#[test]
fn a_connection_is_let_go_or_a_request_has_begun_but_never_both() {
    loom::model(|| {
        let (mut client, picker, now) = idle_client();
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || {
            other.begin(&mut Local::default(), now, &RequestMeta::default(), &mut Rng::from_seed(1)).ok()
        });

        let notice = Notice { readiness: Readiness::Ready, announcement: None };
        let checked = Checked { notice, remembered: true, report: LoadReport::default() };
        client.handle_checked(now, BackendId(1), &checked);
        let let_go = client.poll_action() == Some(Action::Deactivate(BackendId(1)));
        let ticket = thread.join().unwrap();

        assert!(!(let_go && ticket.is_some()), "nothing is in flight where there is no connection");
        ticket.into_iter().for_each(|ticket| picker.finish(now, ticket, Outcome::Served, None));
    });
}

#[test]
fn of_two_threads_that_want_an_inactive_backend_one_says_so_and_the_wish_is_found() {
    loom::model(|| {
        let (mut client, _, now) = idle_client();
        let notice = Notice { readiness: Readiness::Ready, announcement: None };
        let checked = Checked { notice, remembered: true, report: LoadReport::default() };
        client.handle_checked(now, BackendId(1), &checked);
        assert_eq!(client.poll_action(), Some(Action::Deactivate(BackendId(1))));
        let picker = client.poll_picker().unwrap();
        let want = move |picker: Arc<Picker>| {
            picker.begin(&mut Local::default(), now, &RequestMeta::default(), &mut Rng::from_seed(1)).unwrap_err()
        };
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || want(other));
        let refused = [want(picker), thread.join().unwrap()];

        assert_eq!(refused, [Refusal::Waking; 2]);
        client.handle_wishes(now);
        assert_eq!(client.poll_action(), Some(Action::Connect(BackendId(1))));
        assert_eq!(client.snapshot(now).woken, 1);
    });
}

#[test]
fn what_two_threads_hold_is_told_once_and_no_place_leaks() {
    loom::model(|| {
        let (client, picker) = client(2, PolicyName::RoundRobin);
        let mut first = begin(&picker, &mut Local::default()).unwrap();
        picker.heed(NOW, &mut first, Hint { cutoff: Cutoff::new(3.0), ttl: Duration::from_secs(1) });
        picker.finish(NOW, first, Outcome::Served, None);
        let critical = RequestMeta { criticality: Criticality::CriticalPlus, ..RequestMeta::default() };
        let ask = |picker: &Picker, meta: &RequestMeta| {
            picker.begin(&mut Local::default(), NOW, meta, &mut Rng::from_seed(1))
        };
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || begin(&other, &mut Local::default()).unwrap_err());
        // Passes, and tells what was held before it; then it is as if it never left.
        let passed = ask(&picker, &critical).unwrap();
        picker.finish(NOW, passed, Outcome::Unsent, None);
        assert_eq!(
            [begin(&picker, &mut Local::default()).unwrap_err(), thread.join().unwrap()],
            [Refusal::Throttled; 2]
        );

        let passed = ask(&picker, &critical).unwrap();
        assert_eq!(passed.held().map(|held| held.counts), Some([0, 0, 2, 0]));
        picker.finish(NOW, passed, Outcome::Served, None);
        let snapshot = client.snapshot(NOW);
        assert_eq!((snapshot.backends[0].active, snapshot.throttled.hints), (0, [0, 0, 2, 0]));
    });
}

#[test]
fn requests_counted_by_two_threads_are_both_counted() {
    loom::model(|| {
        let (client, picker) = client(2, PolicyName::RoundRobin);
        let mut local = Local::default();
        let (mine, theirs) = (begin(&picker, &mut local).unwrap(), begin(&picker, &mut local).unwrap());
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || other.finish(NOW, theirs, Outcome::Overloaded, None));
        picker.finish(NOW, mine, Outcome::Overloaded, None);
        thread.join().unwrap();

        // Two refusals are enough to refuse two of three; had one been lost, none would be.
        // Few, or there are more steps than the checker follows.
        let refused = (0..10).filter(|&seed| {
            let begun = picker.begin(&mut local, NOW, &RequestMeta::default(), &mut Rng::from_seed(seed));
            begun.map(|ticket| picker.finish(NOW, ticket, Outcome::Cancelled, None)).is_err()
        });
        assert!(refused.count() > 0);
        assert!(client.snapshot(NOW).throttled.local[2] > 0);
    });
}

#[test]
fn two_threads_never_spend_the_last_retry_twice() {
    loom::model(|| {
        let mut client = Client::new(NOW, ClientConfig::default(), &mut Rng::from_seed(1)).unwrap();
        let picker = client.poll_picker().unwrap();
        let retry = |picker: &Picker| {
            let fate = Fate {
                backend: BackendId(1),
                outcome: Outcome::Failed,
                repeat: Repeat::Safe,
                pushback: None,
                elsewhere: false,
            };
            let (first, mut tries) = (RequestMeta::default(), Tries::default());
            picker.again(NOW, &first, &mut tries, &fate, &mut Rng::from_seed(1)).is_ok()
        };
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || retry(&other));
        let mine = retry(&picker);

        assert!(mine != thread.join().unwrap(), "a rare caller has one, and only one");
    });
}

#[test]
fn two_threads_at_the_edge_of_a_bucket_never_spend_the_last_retry_twice() {
    loom::model(|| {
        let mut client = Client::new(NOW, ClientConfig::default(), &mut Rng::from_seed(1)).unwrap();
        let picker = client.poll_picker().unwrap();
        let retry = |picker: &Picker, now: Time| {
            let fate = Fate {
                backend: BackendId(1),
                outcome: Outcome::Failed,
                repeat: Repeat::Safe,
                pushback: None,
                elsewhere: false,
            };
            let (first, mut tries) = (RequestMeta::default(), Tries::default());
            picker.again(now, &first, &mut tries, &fate, &mut Rng::from_seed(1)).is_ok()
        };
        // One bucket is a whole window here.
        let next = NOW + Duration::from_secs(10);
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || retry(&other, next));
        let mine = retry(&picker, NOW);

        assert!(!(mine && thread.join().unwrap()), "a rare caller has one in a window, whatever its clocks say");
    });
}

#[test]
fn errors_counted_by_two_threads_are_both_counted() {
    loom::model(|| {
        let (client, picker) = client(2, PolicyName::RoundRobin);
        let tickets = {
            let mut local = Local::default();
            [begin(&picker, &mut local).unwrap(), begin(&picker, &mut local).unwrap()]
        };
        let [mine, theirs] = tickets;
        let other = Arc::clone(&picker);
        let thread = thread::spawn(move || other.finish(NOW, theirs, Outcome::Failed, None));
        picker.finish(NOW, mine, Outcome::Failed, None);
        thread.join().unwrap();

        let backend = &client.snapshot(NOW).backends[0];
        // Two in a row weigh as one request; had one been lost, the other alone would weigh as none.
        assert_eq!((backend.recent_errors, backend.ended(Outcome::Failed)), (1, 2));
    });
}

#[test]
fn a_draining_server_never_overlooks_a_request_in_flight() {
    server_model(|| {
        let mut server = Server::new(NOW, ServerConfig::default()).unwrap();
        server.handle_ready(NOW);
        let gate = Arc::clone(server.gate());
        let admit = || {
            gate.admit(&mut GateLocal::default(), NOW, &RequestMeta::default(), &mut Rng::from_seed(1))
                .unwrap()
                .started()
                .unwrap()
        };
        let (ending, running) = (admit(), admit());
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || other.finish(NOW, ending, Outcome::Served, None));
        let during = server.snapshot(NOW).in_flight;
        thread.join().unwrap();

        assert!((1..=2).contains(&during), "one is running all the while: {during}");
        gate.finish(NOW, running, Outcome::Served, None);
        assert_eq!(server.snapshot(NOW).in_flight, 0);
    });
}

/// A gate counts much, and every count is a step.
fn server_model(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(model);
}

/// One processor, so that a second request must wait for the first to rest.
fn server_of_one() -> Server {
    let mut server = Server::new(NOW, ServerConfig::default()).unwrap();
    server.handle_ready(NOW);
    server.handle_usage(NOW, Usage { processors: Some(1.0), ..Usage::default() });
    server
}

fn ask(gate: &Gate) -> Entry {
    gate.admit(&mut GateLocal::default(), NOW, &RequestMeta::default(), &mut Rng::from_seed(1)).unwrap()
}

#[test]
fn whoever_joins_the_line_while_a_handler_comes_to_rest_is_called() {
    server_model(|| {
        let server = server_of_one();
        let line = Arc::new(Mutex::new(Line::new(Arc::clone(server.gate()))));
        let first = ask(server.gate()).started().unwrap();
        let (gate, other) = (Arc::clone(server.gate()), Arc::clone(&line));
        let resting = thread::spawn(move || {
            gate.finish(NOW, first, Outcome::Served, None);
            let mut called = Vec::new();
            if gate.running().rests(0) {
                called.extend(std::iter::from_fn(|| other.lock().unwrap().next(NOW)));
            }
            called
        });
        let mut called = Vec::new();
        let started = match ask(server.gate()) {
            Entry::Start(admission) => Some(admission),
            Entry::Wait(waiting) => {
                line.lock().unwrap().enter(waiting, ());
                called.extend(std::iter::from_fn(|| line.lock().unwrap().next(NOW)));
                None
            }
        };
        called.extend(resting.join().unwrap());

        let admissions: Vec<_> = called.into_iter().map(|called| called.verdict.unwrap()).chain(started).collect();
        assert_eq!(admissions.len(), 1, "called once, and never left behind");
        assert_eq!((line.lock().unwrap().len(), server.gate().running().now()), (0, 1));
    });
}
