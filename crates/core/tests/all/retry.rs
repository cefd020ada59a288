//! Retries as a client decides on them (B12 to B15): who is tried again, where, how often, and why not.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Fixture, NOW, config, id, meta};
use evenkeel_core::{
    BackendId, Behind, Cause, ClientConfig, CustomerId, Fate, Mode, Outcome, PolicyName, Repeat, RequestMeta,
    RetryCounts, Rng, Stop, Ticket, Time, Tries,
};

fn settings() -> ClientConfig {
    let mut settings = config(PolicyName::LeastLoaded);
    // What is thinned is another matter.
    (settings.throttle.local, settings.throttle.hints) = (Mode::Off, Mode::Off);
    settings
}

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

fn fate(outcome: Outcome) -> Fate {
    Fate { backend: id(0), outcome, repeat: Repeat::Safe, pushback: None, elsewhere: false }
}

/// Many requests were served: there is room in the budget.
fn serve(fixture: &mut Fixture, now: Time, first: &RequestMeta, count: u32) {
    for _ in 0..count {
        let ticket = fixture.picker.begin(&mut fixture.local, now, first, &mut fixture.rng).unwrap();
        fixture.picker.finish(now, ticket, Outcome::Served, None);
    }
}

fn with_room(settings: ClientConfig) -> Fixture {
    let mut fixture = Fixture::new(settings, 3, 1);
    serve(&mut fixture, NOW, &meta(), 200);
    fixture
}

fn ask(fixture: &mut Fixture, first: &RequestMeta, tries: &mut Tries, fate: Fate) -> Result<Duration, Stop> {
    fixture.picker.again(NOW, first, tries, &fate, &mut fixture.rng)
}

fn counts(fixture: &Fixture, now: Time) -> RetryCounts {
    fixture.client.snapshot(now).retries
}

fn stopped(counts: &RetryCounts, stop: Stop) -> u64 {
    counts.stopped[Stop::COUNTED.into_iter().position(|one| one == stop).unwrap()]
}

#[test]
fn what_was_refused_is_tried_at_once_and_three_times_at_most() {
    let mut fixture = with_room(settings());
    let mut tries = Tries::default();

    for attempt in 1..=2 {
        assert_eq!(ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Overloaded)), Ok(Duration::ZERO));
        assert_eq!((tries.meta(&meta()).attempt, tries.retries()), (attempt, attempt));
    }
    assert_eq!(ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Overloaded)), Err(Stop::Attempts));

    let counts = counts(&fixture, NOW);
    assert_eq!((counts.made, counts.left), ([2, 0, 0], 18), "20 for 200 requests");
    assert_eq!(stopped(&counts, Stop::Attempts), 1);
}

#[test]
fn an_attempt_its_caller_made_before_counts_as_one() {
    let mut fixture = with_room(settings());
    let second = RequestMeta { attempt: 1, ..meta() };
    let mut tries = Tries::default();

    assert!(ask(&mut fixture, &second, &mut tries, fate(Outcome::Overloaded)).is_ok());
    assert_eq!(tries.meta(&second).attempt, 2);
    assert_eq!(ask(&mut fixture, &second, &mut tries, fate(Outcome::Overloaded)), Err(Stop::Attempts));
}

#[test]
fn it_goes_to_another_backend_if_there_is_one() {
    for policy in PolicyName::ALL {
        for backends in 2..=4_u32 {
            let mut fixture = Fixture::new(ClientConfig { policy, ..settings() }, backends, 7);
            for round in 0..200 {
                serve(&mut fixture, after(round), &meta(), 10);
                let first = fixture.begin(after(round)).unwrap();
                let refusing = first.backend();
                fixture.picker.finish(after(round), first, Outcome::Overloaded, None);
                let mut tries = Tries::default();
                let refused = Fate { backend: refusing, ..fate(Outcome::Overloaded) };
                fixture.picker.again(after(round), &meta(), &mut tries, &refused, &mut fixture.rng).unwrap();
                let Fixture { picker, local, rng, .. } = &mut fixture;
                let second = picker.begin_again(local, after(round), &meta(), &tries, rng).unwrap();
                assert_ne!(second.backend(), refusing, "{policy} {backends}");
                picker.finish(after(round), second, Outcome::Served, None);
            }
        }
    }
}

#[test]
fn what_was_refused_is_not_tried_again_where_nobody_else_has_room() {
    let refused = fate(Outcome::Overloaded);
    let mut alone = Fixture::new(settings(), 1, 7);
    serve(&mut alone, NOW, &meta(), 100);
    assert_eq!(ask(&mut alone, &meta(), &mut Tries::default(), refused), Err(Stop::NoOther));
    assert!(ask(&mut alone, &meta(), &mut Tries::default(), fate(Outcome::Failed)).is_ok(), "a little later it may do");
    let at_once = Fate { pushback: Some(Duration::ZERO), ..refused };
    assert_eq!(ask(&mut alone, &meta(), &mut Tries::default(), at_once), Err(Stop::NoOther));
    let asked = Fate { pushback: Some(Duration::from_millis(5)), ..refused };
    assert!(ask(&mut alone, &meta(), &mut Tries::default(), asked).is_ok(), "it asks for it");
    let spilling = Fate { elsewhere: true, ..refused };
    assert!(ask(&mut alone, &meta(), &mut Tries::default(), spilling).is_ok(), "there is another cluster");
    assert_eq!(stopped(&counts(&alone, NOW), Stop::NoOther), 2);

    let mut settings = settings();
    settings.flow.active_max = 1;
    let mut two = Fixture::new(settings, 2, 7);
    serve(&mut two, NOW, &meta(), 100);
    let there: Vec<_> = (0..2).map(|_| two.begin(NOW).unwrap()).collect();
    assert_eq!(ask(&mut two, &meta(), &mut Tries::default(), refused), Err(Stop::NoOther), "the other is full");
    two.finish_all(there);
    assert!(ask(&mut two, &meta(), &mut Tries::default(), refused).is_ok());
}

#[test]
fn what_failed_is_tried_again_only_where_it_may_run_twice_and_after_a_while() {
    let mut fixture = with_room(settings());
    for (repeat, stop) in [(Repeat::Unsafe, Stop::Unsafe), (Repeat::Gone, Stop::Gone)] {
        let broken = Fate { repeat, ..fate(Outcome::Failed) };
        assert_eq!(ask(&mut fixture, &meta(), &mut Tries::default(), broken), Err(stop));
    }

    let mut tries = Tries::default();
    let first = ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Failed)).unwrap();
    let second = ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Failed)).unwrap();
    assert!((Duration::from_millis(10)..=Duration::from_millis(30)).contains(&first), "{first:?}");
    assert!((Duration::from_millis(20)..=Duration::from_millis(60)).contains(&second), "{second:?}");

    let asked = Fate { pushback: Some(Duration::from_millis(70)), ..fate(Outcome::Overloaded) };
    let wait = ask(&mut fixture, &meta(), &mut Tries::default(), asked);
    assert_eq!(wait, Ok(Duration::from_millis(70)), "a backend is taken at its word");
    assert_eq!(counts(&fixture, NOW).made, [1, 2, 0]);
}

#[test]
fn a_verdict_a_deadline_and_a_caller_that_left_end_it() {
    let mut fixture = with_room(settings());
    let mut tries = Tries::default();
    assert_eq!(ask(&mut fixture, &meta(), &mut tries, fate(Outcome::DontRetry)), Err(Stop::DontRetry));
    for outcome in [Outcome::Served, Outcome::Expired, Outcome::Cancelled] {
        assert_eq!(ask(&mut fixture, &meta(), &mut tries, fate(outcome)), Err(Stop::Final));
    }
    let short = RequestMeta { deadline: after(50), ..meta() };
    let late = Fate { pushback: Some(Duration::from_millis(50)), ..fate(Outcome::Overloaded) };
    assert_eq!(ask(&mut fixture, &short, &mut tries, late), Err(Stop::TooLate));
    let in_time = Fate { pushback: Some(Duration::from_millis(49)), ..late };
    assert!(ask(&mut fixture, &short, &mut tries, in_time).is_ok());

    let counts = counts(&fixture, NOW);
    assert_eq!((stopped(&counts, Stop::DontRetry), stopped(&counts, Stop::TooLate)), (1, 1));
}

#[test]
fn what_never_left_has_waits_of_its_own_and_needs_no_budget() {
    for mode in Mode::ALL {
        let mut settings = settings();
        (settings.retry.mode, settings.retry.attempts) = (mode, 1);
        let mut fixture = Fixture::new(settings, 3, 1);
        let mut tries = Tries::default();

        let waits: Vec<_> = (0..4).map(|_| ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Unsent))).collect();

        assert_eq!(waits, [Ok(0), Ok(1), Ok(5), Err(Stop::Unsent)].map(|wait| wait.map(Duration::from_millis)));
        assert_eq!((tries.retries(), tries.unsent(), counts(&fixture, NOW).made), (0, 3, [0; 3]), "{mode}");
    }
}

#[test]
fn a_request_sent_again_because_it_never_left_is_one_request() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    let mut tries = Tries::default();
    for _ in 0..3 {
        let Fixture { picker, local, rng, .. } = &mut fixture;
        let ticket = picker.begin_again(local, NOW, &meta(), &tries, rng).unwrap();
        picker.finish(NOW, ticket, Outcome::Unsent, None);
        ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Unsent)).unwrap();
    }
    serve(&mut fixture, NOW, &meta(), 18);
    assert_eq!(counts(&fixture, NOW).left, 1, "for 19 requests");
    serve(&mut fixture, NOW, &meta(), 1);
    assert_eq!(counts(&fixture, NOW).left, 2);
}

#[test]
fn what_its_backend_says_is_no_use_is_not_tried_again_in_any_mode() {
    for (mode, counted) in [(Mode::On, 1), (Mode::Observe, 1), (Mode::Off, 0)] {
        let mut settings = settings();
        settings.retry.mode = mode;
        let mut fixture = with_room(settings);
        let mut tries = Tries::default();

        let useless = Fate { repeat: Repeat::Useless, ..fate(Outcome::Failed) };
        assert_eq!(ask(&mut fixture, &meta(), &mut tries, useless), Err(Stop::DontRetry));

        assert!(Stop::DontRetry.bubbles(Outcome::Failed, &tries).is_some(), "whoever is above hears it too");
        let counts = counts(&fixture, NOW);
        assert_eq!((stopped(&counts, Stop::DontRetry), counts.made, counts.observed), (counted, [0; 3], [0; 3]));
    }
}

#[test]
fn a_layer_is_done_with_a_failure_after_one_retry_or_without_budget() {
    let mut fixture = with_room(settings());
    let failed = fate(Outcome::Failed);
    let unsafe_one = Fate { repeat: Repeat::Unsafe, ..failed };
    let mut goes_up = |fate: Fate| {
        let mut tries = Tries::default();
        loop {
            if let Err(stop) = fixture.picker.again(NOW, &meta(), &mut tries, &fate, &mut fixture.rng) {
                return (stop, tries.retries(), stop.bubbles(fate.outcome, &tries));
            }
        }
    };

    assert_eq!(goes_up(unsafe_one), (Stop::Unsafe, 0, None), "nobody here tried it again");
    for _ in 0..10 {
        assert_eq!(goes_up(failed), (Stop::Attempts, 2, Some(Behind::Failed)));
    }
    assert_eq!(goes_up(failed), (Stop::Budget, 0, Some(Behind::Failed)), "20 for 200 requests");
}

#[test]
fn a_rare_caller_has_one_retry_in_a_window() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    let mut made = 0;
    for second in 0..100 {
        let now = after(1_000 * second);
        serve(&mut fixture, now, &meta(), u32::from(second % 5 == 0));
        let refused = fate(Outcome::Overloaded);
        made +=
            u32::from(fixture.picker.again(now, &meta(), &mut Tries::default(), &refused, &mut fixture.rng).is_ok());
    }
    assert_eq!(made, 10, "one in eleven seconds: ten whole ones and the one that is going on");
}

#[test]
fn a_customer_that_is_refused_spends_its_own_budget() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    let of = |customer| RequestMeta { customer: CustomerId(customer), ..meta() };
    (0..3).for_each(|customer| serve(&mut fixture, NOW, &of(customer), 100));

    let mut tried = |customer| {
        let retry = || ask(&mut fixture, &of(customer), &mut Tries::default(), fate(Outcome::Failed)).is_ok();
        std::iter::repeat_with(retry).take(100).filter(|&again| again).count()
    };
    assert_eq!([tried(1), tried(1), tried(2), tried(0)], [10, 0, 10, 10]);
    assert_eq!(tried(900), 1, "one that asks for the first time");
    assert_eq!(tried(901), 0, "those without a place of their own share one");
}

#[test]
fn many_rare_customers_have_a_tenth_together_and_leave_the_others_theirs() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    let of = |customer| RequestMeta { customer: CustomerId(customer), ..meta() };
    let failed = fate(Outcome::Failed);
    let (mut requests, mut rare, mut busy) = (0, 0, 0);
    // Sixty customers ask five times in a window each, and one a hundred times; all of it fails.
    for second in 0..110_u64 {
        let now = after(1_000 * second);
        let mut retries = |fixture: &mut Fixture, customer, count| {
            serve(fixture, now, &of(customer), count);
            requests += count;
            let tried = (0..count).filter(|_| {
                fixture.picker.again(now, &of(customer), &mut Tries::default(), &failed, &mut fixture.rng).is_ok()
            });
            tried.count()
        };
        for customer in 1..=60 {
            rare += retries(&mut fixture, customer, u32::from((second + u64::from(customer)) % 2 == 0));
        }
        busy += retries(&mut fixture, 61, 10);
    }
    assert_eq!(requests, 60 * 55 + 1_100);
    // Each rare one had one in every window before: 600 for 3,300 requests.
    assert!((250..=340).contains(&rare), "{rare} retries of 3,300 requests");
    assert!((95..=111).contains(&busy), "{busy} retries of 1,100 requests");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "threads are what is tested")]
fn threads_do_not_spend_the_same_place_twice() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    serve(&mut fixture, NOW, &meta(), 1_000);
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let (picker, mut rng) = (Arc::clone(&fixture.picker), Rng::from_seed(seed));
            let mut retry =
                move || picker.again(NOW, &meta(), &mut Tries::default(), &fate(Outcome::Failed), &mut rng).is_ok();
            std::thread::spawn(move || (0..1_000).filter(|_| retry()).count())
        })
        .collect();

    let made: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();

    assert_eq!(made, 100);
    let counts = counts(&fixture, NOW);
    assert_eq!((counts.made[Cause::Failed.index()], stopped(&counts, Stop::Budget)), (100, 3_900));
}

#[test]
fn a_client_most_of_whose_attempts_are_refused_stops_and_goes_on_when_they_are_served() {
    let mut fixture = Fixture::new(settings(), 3, 1);
    let refuse = |fixture: &mut Fixture, now, outcome, count: u32| {
        for _ in 0..count {
            let ticket = fixture.begin(now).unwrap();
            fixture.picker.finish(now, ticket, outcome, None);
        }
    };
    refuse(&mut fixture, NOW, Outcome::Served, 40);
    refuse(&mut fixture, NOW, Outcome::Overloaded, 41);
    assert_eq!(ask(&mut fixture, &meta(), &mut Tries::default(), fate(Outcome::Overloaded)), Err(Stop::ManyRefuse));
    assert!(ask(&mut fixture, &meta(), &mut Tries::default(), fate(Outcome::Failed)).is_ok(), "that is another matter");

    refuse(&mut fixture, NOW, Outcome::Served, 10);
    assert!(ask(&mut fixture, &meta(), &mut Tries::default(), fate(Outcome::Overloaded)).is_ok());
}

#[test]
fn observing_counts_and_changes_nothing_and_off_does_not_look() {
    for (mode, stop) in [(Mode::Observe, Stop::Observed), (Mode::Off, Stop::Off)] {
        let mut settings = settings();
        settings.retry.mode = mode;
        let mut fixture = with_room(settings);
        let mut tries = Tries::default();

        for _ in 0..5 {
            assert_eq!(ask(&mut fixture, &meta(), &mut tries, fate(Outcome::Overloaded)), Err(stop));
        }

        assert_eq!(tries, Tries::default());
        let seen = counts(&fixture, NOW);
        assert_eq!(
            (seen.made, seen.observed[Cause::Overloaded.index()]),
            ([0; 3], [0, 5][usize::from(stop == Stop::Observed)])
        );

        // Also where it would not have been tried again: a layer that does nothing is not done with it.
        let asked = Fate { repeat: Repeat::Unsafe, ..fate(Outcome::Failed) };
        for last in [asked, fate(Outcome::Failed)] {
            (0..30).for_each(|_| assert_eq!(ask(&mut fixture, &meta(), &mut tries, last), Err(stop)));
            assert_eq!(stop.bubbles(last.outcome, &tries), None);
        }
        let is_observed = u64::from(stop == Stop::Observed);
        let stops = counts(&fixture, NOW);
        assert_eq!(stopped(&stops, Stop::Unsafe), 30 * is_observed);
        assert_eq!(stopped(&stops, Stop::Budget), 15 * is_observed, "20 for 200 requests, five taken before");
    }
}

#[test]
fn settings_change_while_it_runs_and_a_clock_set_back_starts_anew() {
    let mut fixture = with_room(settings());
    let mut other = settings();
    other.retry.mode = Mode::Off;
    fixture.client.handle_config(NOW, other.clone()).unwrap();
    fixture.refresh();
    assert_eq!(ask(&mut fixture, &meta(), &mut Tries::default(), fate(Outcome::Overloaded)), Err(Stop::Off));

    other.retry = settings().retry;
    fixture.client.handle_config(NOW, other.clone()).unwrap();
    fixture.refresh();
    assert_eq!(counts(&fixture, NOW).left, 20);
    fixture.client.handle_timeout(Time::from_secs(10));
    assert_eq!(counts(&fixture, Time::from_secs(10)).left, 0, "nobody has asked since");

    for (field, bad) in [("retry.attempts", 0), ("retry.attempts", 6)] {
        other.retry.attempts = bad;
        assert_eq!(other.check().unwrap_err().field, field);
    }
    other.retry = settings().retry;
    other.retry.share = f64::NAN;
    assert_eq!(other.check().unwrap_err().field, "retry.share");
}

/// Whatever happens to whom: attempts sent are at most the requests, a tenth of them, and one for each window.
#[test]
fn load_grows_by_the_share_at_most_whatever_is_refused() {
    for seed in 0..20 {
        let mut rng = Rng::from_seed(seed);
        let mut settings = settings();
        settings.retry.refused_most = 1.0;
        let mut fixture = Fixture::new(settings, 5, seed);
        let refusing = rng.unit();
        let (mut requests, mut attempts, mut now) = (0_u32, 0_u32, NOW);
        while now < after(60_000) {
            now = now + Duration::from_millis(u64::from(rng.below(40)));
            let first = RequestMeta { customer: CustomerId(rng.below(3)), ..meta() };
            requests += 1;
            let mut tries = Tries::default();
            loop {
                let Fixture { picker, local, .. } = &mut fixture;
                let ticket = picker.begin_again(local, now, &first, &tries, &mut rng).unwrap();
                attempts += 1;
                let backend: BackendId = ticket.backend();
                let outcome = if rng.unit() < refusing { Outcome::Overloaded } else { Outcome::Served };
                picker.finish(now, ticket, outcome, None);
                let ended = Fate { backend, ..fate(outcome) };
                if picker.again(now, &first, &mut tries, &ended, &mut rng).is_err() {
                    break;
                }
            }
        }
        let windows = 60 / 11 + 1;
        let most = f64::from(requests) * 1.1 + f64::from(windows);
        assert!(f64::from(attempts) <= most, "seed {seed}: {attempts} attempts for {requests} requests");
        assert!(fixture.client.snapshot(now).backends.iter().all(|backend| backend.active == 0));
    }
}

#[test]
fn hedges_wait_for_the_slowest_twentieth_and_share_the_budget() {
    let mut settings = settings();
    settings.retry.hedge.mode = Mode::On;
    let mut fixture = Fixture::new(settings.clone(), 3, 1);
    assert_eq!(fixture.picker.hedge_after(NOW, &meta()), None, "nothing is known yet");
    for _ in 0..2_000 {
        let ticket = fixture.begin(NOW).unwrap();
        let took = 10 + u64::from(fixture.rng.below(100));
        fixture.picker.finish(after(took), ticket, Outcome::Served, None);
    }
    let wait = fixture.picker.hedge_after(NOW, &meta()).unwrap();
    assert!((Duration::from_millis(95)..Duration::from_millis(115)).contains(&wait), "{wait:?}");
    let short = RequestMeta { deadline: after(50), ..meta() };
    assert_eq!(fixture.picker.hedge_after(NOW, &short), None, "its deadline comes first");

    let mut hedged = Vec::new();
    for _ in 0..1_000 {
        let mut tries = Tries::default();
        hedged.extend(hedge(&mut fixture, NOW, &mut tries));
        assert_eq!(tries.meta(&meta()).attempt, u8::from(tries != Tries::default()));
    }
    assert_eq!(hedged.len(), 200, "a tenth of 2,000");
    assert!(hedged.iter().all(|ticket| ticket.backend() != id(0)));
    fixture.finish_all(hedged);

    settings.retry.hedge.after = Some(Duration::from_millis(7));
    settings.retry.mode = Mode::Observe;
    let mut fixture = Fixture::new(settings, 3, 1);
    assert_eq!(fixture.picker.hedge_after(NOW, &meta()), Some(Duration::from_millis(7)));
    assert_eq!(hedge(&mut fixture, NOW, &mut Tries::default()).unwrap_err(), Stop::Observed);
    assert_eq!(counts(&fixture, NOW).observed, [0, 0, 1]);
}

#[test]
fn hedges_that_are_only_watched_are_counted_and_not_made() {
    let mut settings = hedging(Some(10));
    settings.retry.hedge.mode = Mode::Observe;
    let mut fixture = Fixture::new(settings, 3, 1);
    serve(&mut fixture, NOW, &meta(), 1_000);
    assert_eq!(fixture.picker.hedge_after(NOW, &meta()), Some(Duration::from_millis(10)));

    for _ in 0..3 {
        assert_eq!(hedge(&mut fixture, NOW, &mut Tries::default()).unwrap_err(), Stop::Observed);
    }
    let seen = counts(&fixture, NOW);
    assert_eq!((seen.observed, seen.made), ([0, 0, 3], [0; 3]));
}

/// The first attempt is at backend 0 and has taken too long.
fn hedge(fixture: &mut Fixture, now: Time, tries: &mut Tries) -> Result<Ticket, Stop> {
    let Fixture { picker, local, rng, .. } = fixture;
    picker.hedge(local, now, &meta(), tries, id(0), rng)
}

fn hedging(millis: Option<u64>) -> ClientConfig {
    let mut settings = settings();
    settings.retry.hedge.mode = Mode::On;
    settings.retry.hedge.after = millis.map(Duration::from_millis);
    settings
}

#[test]
fn late_is_learned_from_heads_of_first_attempts_and_not_from_bodies_or_second_ones() {
    let mut fixture = Fixture::new(hedging(None), 3, 1);
    for _ in 0..2_000 {
        let mut ticket = fixture.begin(NOW).unwrap();
        let head = 10 + u64::from(fixture.rng.below(100));
        fixture.picker.answered(after(head), &mut ticket);
        fixture.picker.finish(after(head + 5_000), ticket, Outcome::Served, None);
        let mut tries = Tries::default();
        if let Ok(mut second) = hedge(&mut fixture, NOW, &mut tries) {
            fixture.picker.answered(after(1), &mut second);
            fixture.picker.finish(after(1), second, Outcome::Served, None);
        }
    }
    let wait = fixture.picker.hedge_after(NOW, &meta()).unwrap();
    assert!((Duration::from_millis(95)..Duration::from_millis(115)).contains(&wait), "{wait:?}");
}

#[test]
fn a_hedge_that_finds_no_place_spends_nothing_and_one_not_made_takes_no_turn() {
    let mut settings = hedging(Some(10));
    settings.policy = PolicyName::RoundRobin;
    settings.flow.active_max = 1;
    let mut fixture = Fixture::new(settings, 3, 1);
    serve(&mut fixture, NOW, &meta(), 20);
    let mut there: Vec<_> = (0..3).map(|_| fixture.begin(NOW).unwrap()).collect();
    let left = counts(&fixture, NOW).left;
    for _ in 0..5 {
        assert_eq!(hedge(&mut fixture, NOW, &mut Tries::default()).unwrap_err(), Stop::NoOther);
    }
    assert_eq!((counts(&fixture, NOW).left, counts(&fixture, NOW).made), (left, [0; 3]));

    // Two for 23 requests; then whoever asks for more leaves the round as it is.
    fixture.finish_all(there.drain(..));
    for _ in 0..2 {
        let made = hedge(&mut fixture, NOW, &mut Tries::default()).unwrap();
        fixture.finish_all([made]);
    }
    let next = |fixture: &mut Fixture| {
        let ticket = fixture.begin(NOW).unwrap();
        let backend = ticket.backend();
        fixture.finish_all([ticket]);
        backend.0
    };
    let first = next(&mut fixture);
    assert_eq!(hedge(&mut fixture, NOW, &mut Tries::default()).unwrap_err(), Stop::Budget);
    assert_eq!(next(&mut fixture), (first + 1) % 3);
}

#[test]
fn a_backend_that_hangs_is_left_alone_although_its_attempts_are_only_cancelled() {
    let mut fixture = Fixture::new(hedging(Some(10)), 4, 1);
    serve(&mut fixture, NOW, &meta(), 1_000);
    let mut hung = 0;
    for step in 0..400 {
        let now = after(step * 20);
        let ticket = fixture.begin(now).unwrap();
        if ticket.backend() != id(0) {
            fixture.picker.finish(now, ticket, Outcome::Served, None);
            continue;
        }
        hung += 1;
        let later = now + Duration::from_millis(12);
        let second = hedge(&mut fixture, later, &mut Tries::default()).unwrap();
        fixture.picker.finish(later, second, Outcome::Served, None);
        fixture.picker.outrun(later, ticket);
    }
    // Eight seconds: three to notice, and once or so in each half-life after that; a fair share is 100.
    assert!((3..=25).contains(&hung), "{hung}");

    // One that lost by a moment did nothing wrong.
    let before = fixture.client.snapshot(after(9_000)).backends[1].recent_errors;
    for _ in 0..20 {
        let ticket = fixture.begin(after(9_000)).unwrap();
        fixture.picker.outrun(after(9_001), ticket);
    }
    assert_eq!(fixture.client.snapshot(after(9_000)).backends[1].recent_errors, before);
}

#[test]
fn nothing_is_hedged_where_the_service_refuses_some() {
    let mut fixture = Fixture::new(hedging(Some(10)), 4, 1);
    serve(&mut fixture, NOW, &meta(), 1_000);
    let made = hedge(&mut fixture, NOW, &mut Tries::default()).unwrap();
    fixture.finish_all([made]);
    for _ in 0..30 {
        let ticket = fixture.begin(NOW).unwrap();
        fixture.picker.finish(NOW, ticket, Outcome::Overloaded, None);
    }
    assert_eq!(hedge(&mut fixture, NOW, &mut Tries::default()).unwrap_err(), Stop::ManyRefuse);

    serve(&mut fixture, after(20_000), &meta(), 100);
    let made = hedge(&mut fixture, after(20_000), &mut Tries::default()).unwrap();
    fixture.finish_all([made]);
}
