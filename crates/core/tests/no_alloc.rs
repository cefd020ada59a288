//! The request path allocates nothing, and a client holds memory for its subset only: counted by an allocator of our own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "an allocator can only be written with it")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use evenkeel_core::client::{ClustersConfig, Reading, SharesLocal, Spill};
use evenkeel_core::server::GateLocal;
use evenkeel_core::{
    BackendId, BackendList, BackendSpec, Client, ClientConfig, CustomerId, Cutoff, Fate, Hint, LoadReport, Mode,
    Outcome, PolicyName, Repeat, RequestMeta, Rng, Server, ServerConfig, Tries,
};
use support::{Fixture, NOW, config, meta};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes this thread allocated and has not given back.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it came; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        HELD.set(HELD.get().wrapping_add(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.set(HELD.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`, and all memory comes from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations_of(mut work: impl FnMut()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_sees_an_allocation() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(Box::new(7)))), 1);
}

#[test]
fn begin_and_finish_allocate_nothing() {
    for policy in PolicyName::ALL {
        for backends in [1, 20, 1_000] {
            let mut settings = config(policy);
            settings.flow.active_max = 1;
            let mut fixture = Fixture::new(settings, backends, 1);
            let report = LoadReport { utilization: Some(0.5), ..LoadReport::default() };
            let mut tickets = Vec::with_capacity(backends as usize);

            let count = allocations_of(|| {
                while let Ok(ticket) = fixture.begin(NOW) {
                    tickets.push(ticket);
                }
                assert!(fixture.begin(NOW).is_err(), "refusals too");
                for ticket in tickets.drain(..) {
                    fixture.picker.finish(NOW, ticket, Outcome::Failed, Some(&report));
                }
            });

            assert_eq!(count, 0, "{policy} {backends}");
        }
    }
}

#[test]
fn throttling_allocates_once_for_hints_and_once_for_a_customer() {
    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 20, 1);
    let hint = Hint { cutoff: Cutoff::new(2.5), ttl: Duration::from_secs(1) };
    let round = |fixture: &mut Fixture, customer| {
        let meta = RequestMeta { customer: CustomerId(customer), ..meta() };
        for outcome in Outcome::ALL.into_iter().cycle().take(1_000) {
            if let Ok(mut ticket) = fixture.picker.begin(&mut fixture.local, NOW, &meta, &mut fixture.rng) {
                std::hint::black_box(ticket.held());
                fixture.picker.heed(NOW, &mut ticket, hint);
                fixture.picker.finish(NOW, ticket, outcome, None);
            }
        }
    };
    assert_eq!(allocations_of(|| round(&mut fixture, 0)), 1, "the first hint makes room for all of a block");
    assert_eq!(allocations_of(|| round(&mut fixture, 0)), 0);
    assert!(fixture.client.snapshot(NOW).throttled.hints[2] > 100, "many were refused");

    let mut fixture = Fixture::new(config(PolicyName::LeastLoaded), 20, 1);
    let serve = |fixture: &mut Fixture| {
        let meta = RequestMeta { customer: CustomerId(5), ..meta() };
        let ticket = fixture.picker.begin(&mut fixture.local, NOW, &meta, &mut fixture.rng).unwrap();
        fixture.picker.finish(NOW, ticket, Outcome::Served, None);
    };
    // And once for the budgets of all customers.
    assert_eq!([(); 3].map(|()| allocations_of(|| serve(&mut fixture))), [2, 0, 0]);
}

#[test]
fn trying_again_allocates_nothing() {
    let mut settings = config(PolicyName::LeastLoaded);
    settings.retry.hedge.mode = Mode::On;
    settings.throttle.local = Mode::Off;
    let mut fixture = Fixture::new(settings, 20, 1);
    let Fixture { picker, local, rng, .. } = &mut fixture;

    let count = allocations_of(|| {
        for outcome in Outcome::ALL.into_iter().cycle().take(5_000) {
            let mut tries = Tries::default();
            while let Ok(ticket) = picker.begin_again(local, NOW, &meta(), &tries, rng) {
                let fate =
                    Fate { backend: ticket.backend(), outcome, repeat: Repeat::Safe, pushback: None, elsewhere: false };
                std::hint::black_box(picker.hedge_after(NOW, &meta()));
                picker.finish(NOW, ticket, outcome, None);
                let hedge = picker.hedge(local, NOW, &meta(), &mut { tries }, fate.backend, rng);
                if let Ok(ticket) = hedge {
                    picker.outrun(NOW, ticket);
                }
                if picker.again(NOW, &meta(), &mut tries, &fate, rng).is_err() {
                    break;
                }
            }
        }
    });

    assert_eq!(count, 0);
    assert!(fixture.client.snapshot(NOW).retries.made.iter().sum::<u64>() > 100);
}

#[test]
fn choosing_a_cluster_allocates_nothing() {
    let mut rng = Rng::from_seed(1);
    let mut spill = Spill::new(NOW, ClustersConfig::default(), 3, &mut rng).unwrap();
    let full = Reading { usable: 20, wanted: 20, known: 20, load: Some(1.0), mean: Some(1.0), ..Reading::default() };
    spill.handle_readings(NOW, &[full, Reading { load: Some(0.1), mean: Some(0.1), ..full }, full]);
    let shares = spill.poll_shares().unwrap();
    assert!(shares.iter().nth(1).unwrap() > 0.0, "{shares:?}");
    let mut local = SharesLocal::default();

    let count = allocations_of(|| {
        for turn in 0..1_000 {
            assert!(shares.pick(&mut local, |cluster| cluster != turn % 3, &mut rng).is_some());
        }
    });

    assert_eq!(count, 0);
}

#[test]
fn the_gate_allocates_nothing() {
    let mut server = Server::new(NOW, ServerConfig::default()).unwrap();
    server.handle_ready(NOW);
    let (gate, mut local, mut rng) = (server.gate().clone(), GateLocal::default(), Rng::from_seed(1));

    let count = allocations_of(|| {
        for _ in 0..1_000 {
            let admission = gate.admit(&mut local, NOW, &meta(), &mut rng).unwrap().started().unwrap();
            std::hint::black_box(gate.report());
            gate.finish(NOW, admission, Outcome::Served, None);
        }
    });

    assert_eq!(count, 0);
}

/// Bytes a connected client holds beyond the list of backends, which it shares.
fn held_by_a_client_of(count: u32) -> usize {
    let list = support::backends(count);
    let before = HELD.get();
    let mut client = Client::new(NOW, ClientConfig::default(), &mut Rng::from_seed(1)).unwrap();
    client.handle_backends(NOW, list.clone()).unwrap();
    let picker = support::connect_all(&mut client, NOW);
    let held = HELD.get().wrapping_sub(before);
    drop((picker, client));
    held
}

#[test]
fn a_client_holds_memory_for_its_subset_not_for_the_service() {
    let (small, large) = (held_by_a_client_of(100), held_by_a_client_of(100_000));

    assert!(small > 0 && large <= small + 1_024, "{small} bytes for 20 of 100, {large} for 20 of 100,000");
    assert!(large < 20_000, "{large} bytes");
}

#[test]
fn slots_of_backends_that_left_are_lent_again() {
    let mut fixture = Fixture::new(config(PolicyName::RoundRobin), 3, 1);
    let mut held = Vec::with_capacity(300);
    for round in 1..=300u64 {
        let now = NOW + Duration::from_secs(20 * round);
        let names = (0..3).map(|n| BackendSpec { id: BackendId(1_000 * round + n), ordinal: None });
        fixture.client.handle_backends(now, BackendList::new(names).unwrap()).unwrap();
        fixture.picker = support::connect_all(&mut fixture.client, now).unwrap();
        fixture.client.handle_timeout(now + Duration::from_secs(11));
        held.push(HELD.get());
    }

    assert_eq!(held[20], held[299], "900 backends came and went");
}
