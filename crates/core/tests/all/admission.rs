//! Who is let in: off, observe and on; the line; quotas; and what must never make a server answer nothing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::NOW;
use evenkeel_core::server::{
    Admission, AdmissionConfig, Entry, GateLocal, Line, Quota, Refused, ServerRefusal, Spent, Thresholds, Usage,
};
use evenkeel_core::{
    Criticality, CustomerId, Cutoff, HeldBack, Lot, MethodId, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig,
    Time,
};

const MS: Duration = Duration::from_millis(1);

fn server(change: impl FnOnce(&mut AdmissionConfig)) -> Server {
    let mut config = ServerConfig::default();
    change(&mut config.admission);
    let mut server = Server::new(NOW, config).unwrap();
    server.handle_ready(NOW);
    server
}

fn usage() -> Usage {
    Usage { processors: Some(1.0), ..Usage::default() }
}

fn ask(server: &Server, now: Time, meta: &RequestMeta) -> Result<Entry, Refused> {
    server.gate().admit(&mut GateLocal::default(), now, meta, &mut Rng::from_seed(1))
}

fn of(criticality: Criticality) -> RequestMeta {
    RequestMeta { criticality, lot: Lot(1 << 15), ..RequestMeta::default() }
}

fn end(server: &Server, now: Time, admission: Admission) -> bool {
    server.gate().finish(now, admission, Outcome::Served, Some(10 * MS));
    server.gate().running().rests(0)
}

/// Lets time pass with this memory reading, long enough for it to count.
fn under_memory(server: &mut Server, memory: f64, from: Time) -> Time {
    let mut now = from;
    for _ in 0..100 {
        now = now + 100 * MS;
        server.handle_usage(now, Usage { memory: Some(memory), ..usage() });
        server.handle_timeout(now);
    }
    now
}

#[test]
fn with_one_processor_the_second_waits_and_is_called_when_the_first_rests() {
    let mut server = server(|_| {});
    let mut line = Line::new(server.gate().clone());
    assert!(ask(&server, NOW, &of(Criticality::Critical)).unwrap().started().is_some(), "processors are not known yet");
    assert!(!server.gate().running().rests(0));
    server.handle_usage(NOW, usage());

    let first = ask(&server, NOW, &of(Criticality::Critical)).unwrap().started().unwrap();
    let Entry::Wait(waiting) = ask(&server, NOW, &of(Criticality::Critical)).unwrap() else { panic!("a second runs") };
    line.enter(waiting, "second");
    assert!(line.next(NOW).is_none());
    assert!(end(&server, NOW + MS, first), "somebody waits for that");
    let called = line.next(NOW + MS).unwrap();
    let second = called.verdict.unwrap();
    assert_eq!((called.payload, second.waited(), line.len()), ("second", MS, 0));
    assert!(!end(&server, NOW + 2 * MS, second));
    assert_eq!(server.gate().in_flight(), 1, "the very first has not ended");
}

#[test]
fn whoever_leaves_the_line_is_not_called_and_the_urgent_go_first() {
    let mut server = server(|_| {});
    server.handle_usage(NOW, usage());
    let mut line = Line::new(server.gate().clone());
    let running = ask(&server, NOW, &of(Criticality::Critical)).unwrap().started().unwrap();
    let mut enter = |name, deadline: u64| {
        let meta = RequestMeta { deadline: NOW + MS * u32::try_from(deadline).unwrap(), ..of(Criticality::Critical) };
        let Entry::Wait(waiting) = ask(&server, NOW, &meta).unwrap() else { panic!("it runs") };
        line.enter(waiting, name)
    };
    enter("late", 500);
    let gone = enter("gone", 100);
    enter("soon", 200);
    enter("expired", 5);
    assert_eq!(line.leave(gone), Some("gone"));
    assert_eq!(line.leave(gone), None);

    // Nobody waits for its answer: it is told at once, though nobody rests.
    let expired = line.next(NOW + 6 * MS).unwrap();
    assert_eq!((expired.payload, expired.verdict.unwrap_err().reason), ("expired", ServerRefusal::TooLate));
    assert!(line.next(NOW + 6 * MS).is_none());
    assert!(end(&server, NOW + 10 * MS, running));
    let soon = line.next(NOW + 10 * MS).unwrap();
    assert!(end(&server, NOW + 11 * MS, soon.verdict.unwrap()));
    assert_eq!((soon.payload, line.next(NOW + 11 * MS).unwrap().payload), ("soon", "late"));
}

#[test]
fn handlers_that_cost_little_share_a_processor_and_need_no_line() {
    let starts_beside = |cost: Duration| {
        let mut server = server(|_| {});
        let mut now = NOW;
        for _ in 0..200 {
            now = now + 10 * MS;
            server.handle_usage(now, usage());
            server.handle_timeout(now);
            let admission = ask(&server, now, &of(Criticality::Critical)).unwrap().started().unwrap();
            server.gate().finish(now, admission, Outcome::Served, Some(cost));
            let _nobody_waits = server.gate().running().rests(0);
        }
        let started = (0..100).map_while(|_| ask(&server, now, &of(Criticality::Critical)).unwrap().started());
        started.count()
    };

    assert_eq!(starts_beside(4 * MS), 1);
    let many = starts_beside(MS / 20);
    assert!((10..=25).contains(&many), "{many} of 50 us each");
    assert_eq!(starts_beside(MS / 1000), 64);
}

#[test]
fn a_signal_above_its_thresholds_refuses_from_below_and_never_everything() {
    let mut server = server(|_| {});
    let now = under_memory(&mut server, 0.945, NOW);
    let let_in = |level| ask(&server, now, &of(level)).is_ok();
    // Memory at 0.945 is halfway between the second and the third threshold: lots below the middle are refused.
    assert_eq!(Criticality::ALL.map(let_in), [false, true, true, true]);
    let refused = ask(&server, now, &of(Criticality::Sheddable)).unwrap_err();
    assert_eq!((refused.reason, refused.dont_retry), (ServerRefusal::Overloaded, false));
    assert!(refused.hint.is_some_and(|hint| hint.cutoff.value() > 1.0 && hint.ttl > Duration::ZERO));

    let now = under_memory(&mut server, 99.0, now);
    let most = RequestMeta { lot: Lot(u16::MAX), ..of(Criticality::CriticalPlus) };
    assert!(ask(&server, now, &most).is_ok(), "some of what matters most is always let in");
    assert_eq!(server.snapshot(now).admission.signal.as_deref(), Some("memory"));

    // A signal that is gone refuses nothing any more.
    server.handle_usage(now + 100 * MS, usage());
    assert!(Criticality::ALL.iter().all(|level| ask(&server, now + 101 * MS, &of(*level)).is_ok()));
}

#[test]
fn observing_counts_and_changes_nothing_and_the_switch_for_all_is_heard_at_once() {
    let mut server = server(|admission| admission.modes.all = Mode::Observe);
    let now = under_memory(&mut server, 0.99, NOW);
    for _ in 0..3 {
        assert!(ask(&server, now, &of(Criticality::Sheddable)).unwrap().started().is_some());
    }
    let seen = server.snapshot(now).admission;
    assert_eq!(seen.observed[ServerRefusal::Overloaded.index()], [3, 0, 0, 0]);
    assert_eq!(seen.observed[ServerRefusal::QueueFull.index()], [0; 4], "nobody is refused twice");
    assert!(seen.refused.iter().flatten().all(|count| *count == 0));
    assert!(seen.cutoff.value() == 0.0 && seen.cutoff_observed.value() > 3.0);

    let mut config = server.config().clone();
    config.admission.modes.all = Mode::On;
    server.handle_config(now, config.clone()).unwrap();
    assert!(ask(&server, now, &of(Criticality::Sheddable)).is_err());
    config.admission.modes.all = Mode::Off;
    server.handle_config(now, config).unwrap();
    assert!(ask(&server, now, &of(Criticality::Sheddable)).unwrap().started().is_some());
}

#[test]
fn observing_foretells_what_would_be_refused_degraded_and_made_to_wait() {
    let mut server = server(|admission| admission.modes.all = Mode::Observe);
    let (mut now, mut tick, mut rng) = (NOW, NOW, Rng::from_seed(5));
    let (mut spent, mut asked) = (Duration::ZERO, 0_u64);
    // Five times what one processor can do, a quarter of it of each criticality, one in eight a retry.
    while now < NOW + Duration::from_secs(4) {
        now = now + 2 * MS;
        let level = Criticality::ALL[rng.below(4) as usize];
        let attempt = u8::from(rng.below(8) == 0);
        let deadline = now + 400 * MS;
        let meta = RequestMeta { lot: Lot::draw(&mut rng), method: MethodId(1), deadline, attempt, ..of(level) };
        let admission = ask(&server, now, &meta).unwrap().started().expect("all are let in at once");
        assert_eq!(admission.degrade(), 0);
        server.gate().finish(now, admission, Outcome::Served, Some(10 * MS));
        let _nobody_waits = server.gate().running().rests(0);
        asked += 1;
        if now.since(tick) > 10 * MS {
            spent += now.since(tick);
            tick = now;
            server.handle_usage(now, usage());
            server.handle_spent(Spent { handlers: Some(spent), process: Some(spent) });
            server.handle_timeout(now);
        }
    }

    let seen = server.snapshot(now).admission;
    let demand: f64 = seen.demand.unwrap().iter().sum();
    assert!((4.5..5.5).contains(&demand), "{demand}");
    // Each criticality is 1.25 of what it can do. Half to twice of 1.05 of that is handed out, as idling says.
    let cutoff = seen.cutoff_observed.value();
    assert!((2.3..3.6).contains(&cutoff), "{cutoff}");
    let refused: u64 = seen.observed.iter().flatten().sum();
    let share = refused as f64 / asked as f64;
    assert!((0.7..0.85).contains(&share), "{share}");
    assert!(seen.would_wait.iter().sum::<u64>() > 0, "{seen:?}");
    assert!(seen.degrade_observed == 3 && seen.dont_retry_observed, "{seen:?}");
    assert!(seen.refused.iter().flatten().all(|count| *count == 0), "{seen:?}");
    assert!(seen.cutoff.value() == 0.0 && seen.degrade == 0 && !seen.dont_retry, "{seen:?}");
}

/// For so many seconds, a request every so often: what each cost, as its handler says. How many were asked to be whole.
fn serve(server: &mut Server, from: Time, seconds: u32, every: Duration, cost: fn(u8) -> Duration) -> (Time, u32) {
    let (mut now, end, mut whole) = (from, from + Duration::from_secs(1) * seconds, 0);
    let (mut rng, mut tick) = (Rng::from_seed(3), from);
    let mut spent: Duration = server.snapshot(now).admission.cpu.iter().sum();
    while now < end {
        now = now + every;
        let meta = RequestMeta { method: MethodId(1), lot: Lot::draw(&mut rng), ..of(Criticality::Critical) };
        let mut admission = ask(server, now, &meta).unwrap().started().unwrap();
        let level = admission.degrade();
        whole += u32::from(level == 0);
        if level > 0 {
            server.gate().mark_degraded(&mut admission);
        }
        server.gate().finish(now, admission, Outcome::Served, Some(cost(level)));
        let _nobody_waits = server.gate().running().rests(0);
        spent += cost(level);
        if now.since(tick) > 10 * MS {
            tick = now;
            server.handle_usage(now, usage());
            server.handle_spent(Spent { handlers: Some(spent), process: Some(spent) });
            server.handle_timeout(now);
        }
    }
    (now, whole)
}

#[test]
fn cheaper_answers_stay_cheaper_until_whole_ones_fit_again() {
    let mut server = server(|_| {});
    // Whole answers would take 1.25 of the processor, half of each 0.62, which is enough.
    let cost = |level: u8| MS * (4 - u32::from(level));
    let (now, _) = serve(&mut server, NOW, 5, MS * 16 / 5, cost);
    assert_eq!(server.gate().degrade(), 2);

    let (now, whole) = serve(&mut server, now, 20, MS * 16 / 5, cost);
    assert_eq!(server.gate().degrade(), 2);
    let seen = server.snapshot(now).admission;
    let demand = seen.demand.unwrap()[2];
    assert!((1.1..1.4).contains(&demand), "{demand}");
    assert_eq!(
        (seen.cost, seen.cost_degraded),
        (Some(4 * MS), Some(2 * MS)),
        "of whole answers and of those that are given"
    );
    assert_eq!(server.gate().degraded_cost_of(MethodId(1)), Some(2 * MS));
    // One in 128 of 6,250, five standard deviations of a binomial about that.
    assert!((14..=84).contains(&whole), "{whole} were asked for in full");

    // Half of that fits.
    let (now, whole) = serve(&mut server, now, 10, MS * 32 / 5, cost);
    assert!(server.gate().degrade() == 0 && whole > 500, "{whole}");
    assert_eq!(server.snapshot(now).admission.cost_degraded, None, "none is made cheaper any more");
}

#[test]
fn what_whole_answers_cost_is_learned_while_others_are_cheaper() {
    let mut server = server(|_| {});
    let (now, _) = serve(&mut server, NOW, 5, MS * 16 / 5, |level| MS * (4 - u32::from(level)));
    assert_eq!(server.gate().degrade(), 2);

    // Everything has become four times as fast: whole answers would take a third of the processor.
    let fast = |level: u8| MS * (4 - u32::from(level)) / 4;
    let (_, _) = serve(&mut server, now, 300, MS * 16 / 5, fast);
    assert_eq!(server.gate().degrade(), 0);
}

#[test]
fn whoever_waits_when_the_line_is_switched_off_is_called_at_once() {
    let mut server = server(|_| {});
    server.handle_usage(NOW, usage());
    let mut line = Line::new(server.gate().clone());
    let _running = ask(&server, NOW, &of(Criticality::Critical)).unwrap().started().unwrap();
    let Entry::Wait(waiting) = ask(&server, NOW, &of(Criticality::Critical)).unwrap() else { panic!("it runs") };
    line.enter(waiting, ());
    assert!(line.next(NOW).is_none());

    let mut config = server.config().clone();
    config.admission.modes.all = Mode::Off;
    server.handle_config(NOW, config).unwrap();
    assert!(line.next(NOW).unwrap().verdict.is_ok() && line.is_empty());
}

#[test]
fn settings_that_would_answer_nothing_are_refused_and_leave_all_as_it_was() {
    let refused = |change: fn(&mut AdmissionConfig)| {
        let mut config = ServerConfig::default();
        change(&mut config.admission);
        Server::new(NOW, config).unwrap_err().field
    };
    assert_eq!(refused(|config| config.signals.memory = Some(Thresholds([0.0; 4]))), "admission.signals.memory");
    assert_eq!(refused(|config| config.signals.cpu = Some(Thresholds([0.9, 0.8, 0.95, 1.0]))), "admission.signals.cpu");
    assert_eq!(refused(|config| config.signals.delay = Some(Thresholds([f64::NAN; 4]))), "admission.signals.delay");
    assert_eq!(refused(|config| config.slots = 0.0), "admission.slots");
    assert_eq!(refused(|config| config.burst = Duration::ZERO), "admission.burst");
    assert_eq!(refused(|config| config.cpu_factor = f64::NAN), "admission.cpu_factor");
    assert_eq!(refused(|config| config.quotas.default = Some(Quota::of_cpu(0.0))), "admission.quotas.default");
    for names in [&["mail", "mail"][..], &[""], &["mail "], &[" "]] {
        let mut config = ServerConfig::default();
        config.admission.quotas.customers = names.iter().map(|name| ((*name).into(), Quota::of_cpu(1.0))).collect();
        assert_eq!(Server::new(NOW, config).unwrap_err().field, "admission.quotas.customers", "{names:?}");
    }
    for cpu in [0.0, -1.0, 1.1, f64::NAN] {
        let mut config = ServerConfig::default();
        let by_criticality = [Some(cpu), None, Some(1.0), None];
        config.admission.quotas.default = Some(Quota { by_criticality, ..Quota::of_cpu(1.0) });
        let told = Server::new(NOW, config).unwrap_err().to_string();
        assert!(told.starts_with(&format!("admission.quotas.default = {cpu} for SHEDDABLE is not possible")), "{told}");
    }

    let mut server = server(|_| {});
    let mut config = server.config().clone();
    config.admission.age = -1.0;
    assert_eq!(server.handle_config(NOW, config).unwrap_err().field, "admission.age");
    assert_eq!(*server.config(), ServerConfig::default());
}

#[test]
fn a_plugged_signal_that_refusing_does_not_bring_down_is_left_out_alone_and_by_name() {
    let mut server = server(|_| {});
    let mut now = NOW;
    let mut read = |server: &mut Server, (wrong, right): (f64, f64), seconds: u32| {
        for _ in 0..seconds * 10 {
            now = now + 100 * MS;
            server.handle_plugged(&[("wrong".to_owned(), Some(wrong)), ("right".to_owned(), Some(right))]);
            server.handle_usage(now, Usage { processors: Some(4.0), ..Usage::default() });
            server.handle_timeout(now);
            let _refused_or_not = ask(server, now, &of(Criticality::Sheddable)).map(|entry| {
                let _nobody_waits = end(server, now, entry.started().unwrap());
            });
        }
        now
    };
    let at = read(&mut server, (5.0, 0.0), 8);
    assert_eq!(ask(&server, at, &of(Criticality::Critical)).unwrap_err().reason, ServerRefusal::Overloaded);
    assert_eq!(server.snapshot(at).admission.signal.as_deref(), Some("wrong"));

    let at = read(&mut server, (5.0, 0.91), 4);

    let seen = server.snapshot(at).admission;
    assert_eq!((seen.signal.as_deref(), &seen.stuck[..]), (Some("right"), &["wrong".to_owned()][..]));
    let held = ask(&server, at, &of(Criticality::Critical)).unwrap().started().unwrap();
    assert!(ask(&server, at, &of(Criticality::Sheddable)).is_err());

    // It is believed again once it was below; with a stream open, refusing has a minute to bring it down.
    read(&mut server, (0.1, 0.1), 10);
    let at = read(&mut server, (5.0, 0.1), 50);
    assert_eq!(server.snapshot(at).admission.signal.as_deref(), Some("wrong"));
    let at = read(&mut server, (5.0, 0.1), 15);
    assert_eq!(server.stuck_signals().collect::<Vec<_>>(), ["wrong"]);
    let _nobody_waits = end(&server, at, held);
}

#[test]
fn a_signal_that_does_not_fall_where_nobody_asks_still_counts_when_somebody_does() {
    let mut server = server(|_| {});

    let morning = (0..60).fold(NOW, |now, _| under_memory(&mut server, 1.1, now));

    assert_eq!(server.stuck_signals().count(), 0);
    assert_eq!(ask(&server, morning, &of(Criticality::Critical)).unwrap_err().reason, ServerRefusal::Overloaded);
}

#[test]
fn nonsense_readings_and_a_clock_that_jumps_never_close_the_door() {
    let mut server = server(|_| {});
    let mut now = NOW;
    let readings = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300];
    for step in 0..2_000_u64 {
        let value = Some(readings[step as usize % readings.len()]);
        // Forwards by steps of all sizes, and back by an hour now and then.
        now = if step % 97 == 96 { NOW } else { now + MS * (1 << (step % 18)) };
        let delay = Some(Duration::from_nanos(u64::MAX >> (step % 64)));
        let usage = Usage {
            utilization: value,
            processors: value,
            runnable: value,
            memory: value,
            throttled: value,
            delay: delay.filter(|_| step % 3 == 0),
            plugged: value,
            overhead: delay,
        };
        server.handle_usage(now, usage);
        server.handle_spent(Spent { handlers: delay, process: delay });
        server.handle_timeout(now);
        let most = RequestMeta { lot: Lot(u16::MAX), ..of(Criticality::CriticalPlus) };
        match ask(&server, now, &most).unwrap() {
            Entry::Start(admission) => {
                let _nobody_waits = end(&server, now, admission);
            }
            Entry::Wait(waiting) => {
                // Nothing runs, so it is called.
                let mut line = Line::new(server.gate().clone());
                line.enter(waiting, ());
                let called = line.next(now).unwrap();
                let _nobody_waits = end(&server, now, called.verdict.unwrap());
            }
        }
    }
    assert_eq!((server.gate().in_flight(), server.gate().running().now()), (0, 0));
}

#[test]
fn a_hard_quota_refuses_its_customer_and_nobody_else() {
    let mut server = server(|admission| {
        let quota = Quota { hard: true, ..Quota::of_cpu(0.1) };
        admission.quotas.customers.push(("mail".to_owned(), quota));
    });
    let (mail, maps) = (server.handle_customer("mail"), server.handle_customer("maps"));
    assert_eq!((mail, maps, server.handle_customer("mail")), (CustomerId(1), CustomerId(2), CustomerId(1)));
    let mut refused = [0, 0];
    for step in 0..1_000 {
        let now = NOW + MS * step;
        for (place, customer) in [mail, maps].into_iter().enumerate() {
            let meta = RequestMeta { customer, method: MethodId(1), ..RequestMeta::default() };
            match ask(&server, now, &meta) {
                Ok(entry) => {
                    let _nobody_waits = end(&server, now, entry.started().unwrap());
                }
                Err(refusal) => {
                    // Also that nothing is refused but for quotas: who is told nothing else would go by what held before.
                    let hint = refusal.hint.map(|hint| hint.cutoff);
                    assert_eq!((refusal.reason, hint), (ServerRefusal::OutOfQuota, Some(Cutoff::NOTHING)));
                    refused[place] += 1;
                }
            }
        }
    }
    // A tenth of a CPU for a second, and a quarter of a second on top: a dozen of 10 ms each.
    assert!((970..995).contains(&refused[0]) && refused[1] == 0, "{refused:?}");
}

#[test]
fn a_criticality_over_its_ceiling_is_refused_and_what_it_asked_for_is_no_demand() {
    let mut server = server(|admission| {
        let by_criticality = [Some(0.1), None, None, None];
        let quota = Quota { by_criticality, hard: true, ..Quota::of_cpu(100.0) };
        admission.quotas.customers.push(("mail".to_owned(), quota));
    });
    let mail = server.handle_customer("mail");
    let mut refused = [0, 0];
    for step in 0..1_000 {
        let now = NOW + MS * step;
        for (place, class) in [Criticality::Sheddable, Criticality::Critical].into_iter().enumerate() {
            let meta = RequestMeta { customer: mail, method: MethodId(1), ..of(class) };
            match ask(&server, now, &meta) {
                Ok(entry) => {
                    let _nobody_waits = end(&server, now, entry.started().unwrap());
                }
                Err(refusal) => {
                    assert_eq!(refusal.reason, ServerRefusal::OutOfQuota);
                    refused[place] += 1;
                }
            }
        }
    }
    // As the customer that may use no more than a tenth of a CPU at all.
    assert!((960..995).contains(&refused[0]) && refused[1] == 0, "{refused:?}");
    let beyond = server.snapshot(NOW).admission.beyond_quota.map(|cpu| cpu.as_secs_f64());
    // Nearly all of a thousand of 10 ms each.
    assert!((9.0..10.0).contains(&beyond[0]) && beyond[1..] == [0.0; 3], "{beyond:?}");
}

#[test]
fn what_clients_hold_back_beyond_the_quota_of_its_customer_is_no_demand() {
    let mut server = server(|admission| {
        admission.quotas.customers.push(("mail".to_owned(), Quota::of_cpu(0.1)));
    });
    let (mail, maps) = (server.handle_customer("mail"), server.handle_customer("maps"));
    let entry = ask(&server, NOW, &of(Criticality::Critical)).unwrap();
    let _nobody_waits = end(&server, NOW, entry.started().unwrap());
    let beyond = |server: &Server| server.snapshot(NOW).admission.beyond_quota[2];
    let hold = |server: &Server, customer| {
        let held = HeldBack { customer, counts: [0, 0, 100, 0] };
        server.gate().count_held(&mut GateLocal::default(), NOW, held, &mut Rng::from_seed(1));
    };

    // A hundred of 10 ms each, of which a burst is within the quota.
    hold(&server, mail);
    assert!((700 * MS..1_000 * MS).contains(&beyond(&server)), "{:?}", beyond(&server));
    let before = beyond(&server);
    hold(&server, maps);
    assert_eq!(beyond(&server), before, "nobody limits it");

    let mut config = ServerConfig::default();
    config.admission.quotas.customers.push(("mail".to_owned(), Quota::of_cpu(0.1)));
    config.admission.modes.quota = Mode::Observe;
    server.handle_config(NOW, config).unwrap();
    hold(&server, mail);
    assert_eq!(beyond(&server), before, "a quota that only observes changes nothing");
}

#[test]
fn a_long_request_is_charged_while_it_runs() {
    let mut server = server(|config| {
        config.quotas.customers = vec![("mail".into(), Quota { hard: true, ..Quota::of_cpu(0.1) })];
    });
    let mail = server.handle_customer("mail");
    let meta = RequestMeta { customer: mail, ..of(Criticality::CriticalPlus) };
    let mut long = ask(&server, NOW, &meta).unwrap().started().unwrap();
    let now = NOW + 100 * MS;
    assert!(!server.gate().owes(&long, 9 * MS) && server.gate().owes(&long, 500 * MS));
    assert!(ask(&server, now, &meta).is_ok(), "it was not charged yet");

    server.gate().charge_so_far(now, &mut long, 500 * MS);

    assert_eq!(ask(&server, now, &meta).unwrap_err().reason, ServerRefusal::OutOfQuota);
    assert!(!server.gate().owes(&long, 500 * MS), "nothing is charged twice");
    server.gate().finish(now, long, Outcome::Served, Some(500 * MS));
    // Half a CPU second at a tenth of a CPU.
    assert!(ask(&server, now + 4_000 * MS, &meta).is_err());
    assert!(ask(&server, now + 5_100 * MS, &meta).is_ok());
}

#[test]
fn a_request_charged_piece_by_piece_costs_its_customer_as_much_as_one_charged_at_once() {
    let mut server = server(|config| {
        config.quotas.customers = vec![("mail".into(), Quota { hard: true, ..Quota::of_cpu(0.5) })];
    });
    let mail = server.handle_customer("mail");
    let meta = RequestMeta { customer: mail, ..of(Criticality::CriticalPlus) };
    let mut long = ask(&server, NOW, &meta).unwrap().started().unwrap();
    let mut now = NOW;
    for hundredths in 1..=1_000 {
        now = now + 10 * MS;
        if server.gate().owes(&long, 10 * MS * hundredths) {
            server.gate().charge_so_far(now, &mut long, 10 * MS * hundredths);
        }
    }

    server.gate().finish(now, long, Outcome::Served, Some(10_000 * MS));

    // Twenty seconds at its rate, of which ten are over.
    assert!(ask(&server, now + 9_000 * MS, &meta).is_err());
    assert!(ask(&server, now + 11_500 * MS, &meta).is_ok());
}

#[test]
fn many_retries_make_it_say_dont_retry() {
    let mut server = server(|_| {});
    let retry = |attempt| RequestMeta { attempt, ..of(Criticality::Sheddable) };
    let mut now = under_memory(&mut server, 0.97, NOW);
    for step in 0..400 {
        now = now + 10 * MS;
        drop(ask(&server, now, &retry(u8::from(step % 20 == 0))));
        server.handle_usage(now, Usage { memory: Some(0.97), ..usage() });
    }
    let refused = ask(&server, now, &retry(0)).unwrap_err();
    assert!(refused.dont_retry, "one in twenty is more than 4 %");
    assert!(server.snapshot(now).admission.retries.is_some_and(|share| (share - 0.05).abs() < 0.01));
}

#[test]
fn a_deadline_that_passes_in_line_is_counted_where_deadlines_only_observe() {
    let mut server = server(|config| config.modes.deadline = Mode::Observe);
    server.handle_usage(NOW, usage());
    let mut line = Line::new(server.gate().clone());
    let first = ask(&server, NOW, &of(Criticality::Critical)).unwrap().started().unwrap();
    let meta = RequestMeta { deadline: NOW + MS, ..of(Criticality::Critical) };
    let Entry::Wait(waiting) = ask(&server, NOW, &meta).unwrap() else { panic!("a second runs") };
    line.enter(waiting, ());
    assert!(end(&server, NOW + 2 * MS, first));

    let called = line.next(NOW + 2 * MS).unwrap();

    assert!(called.verdict.is_ok());
    let seen = server.snapshot(NOW + 2 * MS).admission;
    assert_eq!(seen.observed[ServerRefusal::TooLate.index()], [0, 0, 1, 0]);

    let Entry::Wait(waiting) = ask(&server, NOW + 2 * MS, &meta).unwrap() else { panic!("two run") };
    line.enter(waiting, ());
    assert!(end(&server, NOW + 3 * MS, called.verdict.unwrap()));
    assert!(line.next(NOW + 3 * MS).unwrap().verdict.is_ok());
    let seen = server.snapshot(NOW + 3 * MS).admission;
    assert_eq!(seen.observed[ServerRefusal::TooLate.index()], [0, 0, 2, 0], "one that came too late counts once");
}

#[test]
fn demand_is_not_known_where_nobody_measures_it() {
    let mut off = ServerConfig::default();
    off.admission.modes.all = Mode::Off;
    let mut server = server(|_| {});
    assert!(server.snapshot(NOW).admission.demand.is_some());

    server.handle_config(NOW, off).unwrap();

    assert_eq!(server.snapshot(NOW).admission.demand, None);
}
