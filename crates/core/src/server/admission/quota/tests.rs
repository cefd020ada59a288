use std::time::Duration;

use super::*;
use crate::server::admission::rules::Spans;
use crate::server::gate::{Gate, GateLocal};
use crate::{RequestMeta, Rng};

const MS: u64 = 1_000_000;

fn buckets(hard: bool) -> Buckets {
    let buckets = Buckets::default();
    let quota = Quota { hard, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
    buckets.set(CustomerId(7), Some(quota));
    buckets
}

#[test]
fn what_matters_less_is_refused_for_a_moment_after_what_matters_more_though_there_is_room_again() {
    let (gate, now, search) = (Gate::default(), Time::from_secs(10), CustomerId(7));
    gate.buckets().set(search, Some(Quota { burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) }));
    gate.buckets().charge_more(now, search, Criticality::Critical, 5_000 * MS);
    let refused = |now: Time, criticality, customer| {
        let meta = RequestMeta { criticality, customer, ..RequestMeta::default() };
        gate.admit(&mut GateLocal::default(), now, &meta, &mut Rng::from_seed(7)).is_err()
    };
    assert!(!refused(now, Criticality::Sheddable, search), "over its quota, and there is room");
    let now = now + Duration::from_millis(20);
    gate.rules().set_short(true);
    assert!(refused(now, Criticality::Critical, search));
    gate.rules().set_short(false);

    let soon = now + Duration::from_millis(5);
    assert!(refused(soon, Criticality::Sheddable, search));
    assert!(!refused(soon, Criticality::CriticalPlus, search) && !refused(soon, Criticality::Sheddable, CustomerId(8)));
    assert!(!refused(now + Duration::from_millis(20), Criticality::Sheddable, search));
}

#[test]
fn what_matters_more_is_refused_for_a_quota_only_a_moment_after_what_matters_less_was_let_in() {
    for (own, queued, expected) in [(None, 0, false), (Some(0.1), 0, true), (None, 300 * MS, true)] {
        let (gate, now, search) = (Gate::default(), Time::from_secs(10), CustomerId(7));
        let by_criticality = [None, None, own, None];
        let quota = Quota { by_criticality, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
        gate.buckets().set(search, Some(quota));
        gate.buckets().charge_more(now, search, Criticality::Critical, 5_000 * MS);
        gate.rules().set_spans(Spans { burst: 100 * MS, ..gate.rules().spans() });
        let refused = |after: u64, criticality| {
            let meta = RequestMeta { criticality, customer: search, ..RequestMeta::default() };
            let now = now + Duration::from_millis(after);
            gate.admit(&mut GateLocal::default(), now, &meta, &mut Rng::from_seed(7)).is_err()
        };
        assert!(!refused(0, Criticality::Sheddable), "over its quota, and there is room");

        gate.rules().set_short(true);
        gate.rules().set_queued(queued);

        // Neither its own ceiling nor a line that is far too long waits for those below.
        assert_eq!(refused(5, Criticality::Critical), expected, "{own:?} {queued}");
        assert!(refused(5, Criticality::Sheddable));
        assert!(refused(20, Criticality::Critical));
    }
}

#[test]
fn who_asks_for_no_more_than_its_quota_is_not_over_it_for_what_costs_much_by_chance() {
    let (now, class) = (Time::from_secs(10), Criticality::Critical);
    let quota = Quota::of_cpu(0.2);
    let set = Quota { burst: Some(Duration::from_millis(900)), ..quota };
    // On two processors three quarters of 180 ms are a burst of this criticality; 40 requests of 4 ms are 0.8 of the quota.
    for (asked, used, quota, expected) in [
        (40, 160, quota, Standing::Within),
        (400, 160, quota, Standing::OverSoft),
        (40, 900, quota, Standing::OverSoft),
        (40, 160, set, Standing::OverSoft),
    ] {
        let (buckets, search) = (Buckets::default(), CustomerId(7));
        buckets.set_at_once(180 * MS);
        buckets.set(search, Some(quota));
        let at = |request: u64| now + Duration::from_micros(request * 1_000_000 / asked);

        (0..asked).for_each(|request| buckets.ask(at(request), search, class, 4 * MS));
        buckets.charge_more(at(asked), search, class, used * MS);

        assert_eq!(buckets.standing(at(asked), search, class), expected, "{asked} {used}");
        assert_eq!(buckets.is_entitled(at(asked), search, class, 0), expected == Standing::Within);
    }
}

#[test]
fn what_matters_less_and_is_asked_for_often_takes_nothing_from_what_matters_more() {
    let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
    buckets.set_at_once(180 * MS);
    buckets.set(search, Some(Quota::of_cpu(0.2)));

    (0..1_000).for_each(|_| buckets.ask(now, search, Criticality::Sheddable, 4 * MS));

    assert!(!buckets.is_entitled(now, search, Criticality::Sheddable, 0));
    assert!(buckets.is_entitled(now, search, Criticality::Critical, 0));
    assert!(!buckets.is_entitled(now, CustomerId(8), Criticality::Critical, 0), "nobody promised it anything");
}

#[test]
fn the_lowest_criticality_is_out_first_and_others_are_not_touched() {
    let (buckets, now, search) = (buckets(false), Time::from_secs(10), CustomerId(7));
    // Half a CPU second fills the burst of a second at half a CPU.
    for (used, out) in [(0, 0), (130, 1), (130, 2), (130, 3), (130, 4)] {
        buckets.charge(now, search, Criticality::Critical, used * MS);
        let over = Criticality::ALL.map(|class| buckets.standing(now, search, class) == Standing::OverSoft);
        assert_eq!(over.iter().filter(|over| **over).count(), out, "{used}");
        assert!(over.is_sorted_by(|lower, higher| lower >= higher));
    }
    assert_eq!(buckets.standing(now, CustomerId(8), Criticality::Sheddable), Standing::Within);
    assert_eq!(buckets.standing(now + Duration::from_secs(2), search, Criticality::Sheddable), Standing::Within);
}

#[test]
fn what_was_taken_too_much_comes_back_and_debt_has_an_end() {
    let (buckets, now, search) = (buckets(true), Time::from_secs(10), CustomerId(7));
    buckets.charge(now, search, Criticality::Critical, 600 * MS);
    assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
    buckets.refund(search, Criticality::Critical, 600 * MS, 10 * MS);
    assert_eq!(buckets.standing(now, search, Criticality::Sheddable), Standing::Within);

    buckets.charge(now, search, Criticality::Critical, u64::MAX);
    assert_eq!(buckets.standing(now, search, Criticality::CriticalPlus), Standing::OverHard);
    let later = now + Duration::from_secs(65);
    assert_eq!(buckets.standing(later, search, Criticality::CriticalPlus), Standing::Within);
}

#[test]
fn what_is_kept_of_a_charge_beyond_the_most_is_what_was_used() {
    let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
    let (class, quota) = (Criticality::CriticalPlus, Quota::of_cpu(0.001));
    buckets.set(search, Some(Quota { hard: true, burst: Some(Duration::from_secs(1)), ..quota }));
    // A minute is charged for a hundred seconds of that quota, and fifty were used.
    buckets.charge(now, search, class, 100 * MS);
    assert_eq!(buckets.standing_without(now, search, class, 100 * MS), Standing::Within);

    buckets.refund(search, class, 100 * MS, 50 * MS);

    let standing = [48, 50].map(|after| buckets.standing(now + Duration::from_secs(after), search, class));
    assert_eq!(standing, [Standing::OverHard, Standing::Within]);
}

#[test]
fn requests_dearer_than_the_burst_are_paid_for_all_the_same() {
    let (buckets, search) = (buckets(true), CustomerId(7));
    // Ten CPU seconds each, of half a CPU: one in twenty seconds.
    let asked = (0..600).map(|second| Time::from_secs(1_000 + second));
    let let_in = asked.filter(|&now| {
        let may = buckets.standing(now, search, Criticality::CriticalPlus) == Standing::Within;
        may && buckets.charge(now, search, Criticality::Critical, 10_000 * MS) == 10_000 * MS
    });
    let count = let_in.count();
    assert!((29..=32).contains(&count), "{count}");
}

#[test]
fn a_customer_that_is_always_over_its_quota_still_asks_for_that_much() {
    let (buckets, search) = (buckets(false), CustomerId(7));
    // Two CPUs asked for in requests of 10 ms, for ten seconds; half a CPU is its quota.
    let counted = (0..2_000).filter(|&request| {
        let now = Time::from_millis(10_000 + request * 5);
        buckets.charge(now, search, Criticality::Critical, 10 * MS);
        buckets.demand_of(now, search, Criticality::Critical, 10 * MS, 1) == 1
    });
    // 5 CPU seconds in ten seconds, and what the burst had besides.
    let count = counted.count();
    assert!((500..=540).contains(&count), "{count}");
    assert_eq!(buckets.standing(Time::from_secs(20), search, Criticality::Critical), Standing::OverSoft);
}

#[test]
fn nothing_is_given_back_that_was_not_taken() {
    let (buckets, now, free) = (Buckets::default(), Time::from_secs(10), CustomerId(9));
    assert_eq!(buckets.charge(now, free, Criticality::Critical, 500 * MS), 0);
}

#[test]
fn a_criticality_has_a_ceiling_of_its_own_within_that_of_its_customer() {
    let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
    let by_criticality = [Some(0.1), None, None, None];
    let quota = Quota { by_criticality, burst: Some(Duration::from_secs(1)), ..Quota::of_cpu(0.5) };
    buckets.set(search, Some(quota));
    let is_within = |class| buckets.standing(now, search, class) == Standing::Within;
    let (batch, most) = (Criticality::Sheddable, Criticality::CriticalPlus);
    // A tenth of a CPU second fills the burst of its ceiling, and a fifth of that of the customer.
    assert_eq!(buckets.charge(now, search, batch, 99 * MS), 99 * MS);
    let is_demand = |class, nanos| buckets.demand_of(now, search, class, nanos, 1) == 1;
    assert!(is_within(batch) && is_demand(batch, 99 * MS));
    buckets.charge(now, search, batch, MS);
    is_demand(batch, MS);
    assert!(!is_within(batch) && !is_demand(batch, MS));
    assert!(is_within(Criticality::SheddablePlus) && is_demand(most, MS));

    buckets.refund(search, batch, 50 * MS, 0);
    assert!(is_within(batch));
    buckets.charge_more(now, search, most, 480 * MS);
    assert!(Criticality::ALL.into_iter().all(|class| !is_within(class)), "the customer as a whole is out");

    buckets.set(search, Some(Quota { burst: Some(Duration::from_secs(10)), ..Quota::of_cpu(5.0) }));
    assert!(is_within(batch), "a ceiling that is gone holds nobody back");
    assert_eq!(buckets.standing(now, CustomerId(8), batch), Standing::Within);
}

#[test]
fn a_burst_that_is_left_open_is_what_may_be_used_at_once_and_a_second_at_most() {
    let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
    let by_criticality = [None, None, Some(0.1), None];
    buckets.set_at_once(40 * MS);
    buckets.set(search, Some(Quota { by_criticality, hard: true, ..Quota::of_cpu(0.5) }));
    let stands = |class| buckets.standing(now, search, class);

    // 40 ms of CPU are 80 ms of half a processor, and 400 ms of a tenth of one.
    buckets.charge(now, search, Criticality::Critical, 25 * MS);
    assert_eq!(stands(Criticality::Critical), Standing::Within);
    buckets.charge(now, search, Criticality::CriticalPlus, 10 * MS);
    assert_eq!(stands(Criticality::CriticalPlus), Standing::Within);
    buckets.charge(now, search, Criticality::CriticalPlus, 10 * MS);
    assert_eq!(stands(Criticality::CriticalPlus), Standing::OverHard);

    // More processors were found; however many, what is owed is given back within a second.
    buckets.set_at_once(80 * MS);
    assert_eq!(stands(Criticality::CriticalPlus), Standing::Within);
    buckets.set_at_once(u64::MAX);
    buckets.charge(now, search, Criticality::CriticalPlus, 500 * MS);
    assert_eq!(stands(Criticality::CriticalPlus), Standing::OverHard);
}

#[test]
fn whoever_is_refused_for_its_quota_pays_for_the_refusal() {
    let (now, class) = (Time::from_secs(10), Criticality::Critical);
    // Refusing a thousand in a second at 0.2 ms each leaves 0.3 of half a CPU, at 1 ms each nothing.
    for (cost, least, most) in [(0, 480, 500), (MS / 5, 280, 300), (MS, 0, 0)] {
        let (buckets, search) = (buckets(false), CustomerId(7));
        buckets.charge(now, search, class, 500 * MS);
        let counted = (0..1_000).map(|request| {
            let now = now + Duration::from_millis(request);
            buckets.note_refused(now, search, class, cost);
            buckets.demand_of(now, search, class, MS, 1)
        });
        let _burst: u64 = counted.sum();

        let later = now + Duration::from_secs(1);
        let counted = (0..1_000).map(|request| {
            let now = later + Duration::from_millis(request);
            buckets.note_refused(now, search, class, cost);
            buckets.demand_of(now, search, class, MS, 1)
        });
        let counted: u64 = counted.sum();
        assert!((least..=most).contains(&counted), "{cost}: {counted}");
        assert_eq!(buckets.standing(later, search, class) == Standing::Within, cost == 0);
    }
}

#[test]
fn a_debt_for_refusals_has_an_end() {
    let (buckets, now, search) = (buckets(false), Time::from_secs(10), CustomerId(7));
    (0..100_000).for_each(|_| buckets.note_refused(now, search, Criticality::Critical, MS));

    // Four bursts of a second, and not two hundred.
    let later = now + Duration::from_secs(5);
    assert_eq!(buckets.standing(later, search, Criticality::Sheddable), Standing::Within);
    assert_eq!(buckets.demand_of(later, search, Criticality::Sheddable, MS, 1), 1);
}

#[test]
fn of_many_at_once_as_many_count_as_fit() {
    let (buckets, now, search) = (buckets(false), Time::from_secs(10), CustomerId(7));

    // Half a CPU second is a burst; a quarter of it is for the lowest.
    assert_eq!(buckets.demand_of(now, search, Criticality::Sheddable, 4 * MS, 1_000), 32);
    assert_eq!(buckets.demand_of(now, search, Criticality::CriticalPlus, 4 * MS, 1_000), 93);
    assert_eq!(buckets.demand_of(now, search, Criticality::CriticalPlus, 4 * MS, 1_000), 0);
    assert_eq!(buckets.demand_of(now, CustomerId(8), Criticality::CriticalPlus, 4 * MS, 1_000), 1_000);
}

#[test]
fn the_lowest_of_a_customer_within_its_quota_is_not_out_of_it_for_one_dear_request() {
    let (buckets, now, search) = (Buckets::default(), Time::from_secs(10), CustomerId(7));
    let class = Criticality::Sheddable;
    buckets.set_at_once(180 * MS);
    buckets.set(search, Some(Quota::of_cpu(0.2)));

    // A dozen requests that are expected to cost 4 ms each, of which some cost 40: more than a quarter of 180 ms.
    for _ in 0..12 {
        buckets.ask(now, search, class, 4 * MS);
        buckets.charge_more(now, search, class, 20 * MS);
    }

    assert_eq!(buckets.standing(now, search, class), Standing::Within);
    assert!(buckets.is_entitled(now, search, class, 0));
}
