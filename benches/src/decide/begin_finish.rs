//! `begin` and `finish` of one request, on one thread.

use std::hint::black_box;

use evenkeel_core::{PolicyName, Rng};

use super::fleet::{Fleet, Manner, Requester};
use super::{ACTIVE_MAX, IN_FLIGHT_PER_BACKEND, Scale, question};
use crate::clock::thread_cpu;
use crate::rounds::Subject;

pub(super) fn questions(backends: u32) -> Vec<String> {
    let situations = ["idle", "busy", "busy_reported", "busy_failing"];
    let of_policies =
        PolicyName::ALL.into_iter().flat_map(|policy| situations.map(|each| question(policy, backends, each)));
    of_policies.chain([harness_question(backends)]).collect()
}

pub(super) fn subjects(fleet: &mut Fleet, scale: Scale) -> Vec<Subject> {
    let backends = fleet.backends;
    let mut subjects = Vec::new();
    for policy in PolicyName::ALL {
        subjects.push(idle(fleet, policy, scale));
        subjects.push(busy(fleet, policy, Manner::Served, "busy", scale));
    }
    if backends == EXTRAS_BACKENDS {
        // What they leave behind (reports, errors) is not for the others: a client of their own.
        for policy in PolicyName::ALL {
            let mut apart = Fleet::new(backends, ACTIVE_MAX);
            subjects.push(busy(&mut apart, policy, Manner::Failing, "busy_failing", scale).noted("1 in 20 fails"));
        }
        let (mut apart, policy) = (Fleet::new(backends, ACTIVE_MAX), PolicyName::default());
        let reported = busy(&mut apart, policy, Manner::Reported, "busy_reported", scale);
        subjects.push(reported.noted("a load report of 8 fields with every answer"));
    }
    subjects.push(harness(backends, scale));
    subjects
}

fn idle(fleet: &mut Fleet, policy: PolicyName, scale: Scale) -> Subject {
    let mut requester = Requester::new(fleet.picker(policy), Manner::Served, 2);
    let warm_up = fleet.backends;
    Subject::new(question(policy, fleet.backends, "idle"), scale.requests, move |requests| {
        requester.one_by_one(warm_up);
        ns_per(requests, || requester.one_by_one(requests))
    })
}

fn busy(fleet: &mut Fleet, policy: PolicyName, manner: Manner, situation: &str, scale: Scale) -> Subject {
    let mut requester = Requester::new(fleet.picker(policy), manner, 3);
    let in_flight = fleet.backends * IN_FLIGHT_PER_BACKEND;
    Subject::new(question(policy, fleet.backends, situation), scale.requests, move |requests| {
        requester.fill(in_flight as usize);
        // Twice through, so that how the filling spread them is forgotten.
        requester.replace(2 * in_flight);
        let ns = ns_per(requests, || requester.replace(requests));
        requester.drain();
        ns
    })
}

/// What the loop of the busy subjects costs by itself: a draw, and a ticket's worth of memory at a random place.
fn harness(backends: u32, scale: Scale) -> Subject {
    let in_flight = backends * IN_FLIGHT_PER_BACKEND;
    let (mut open, mut rng) = (vec![[0u64; 4]; in_flight as usize], Rng::from_seed(4));
    let subject = Subject::new(harness_question(backends), scale.requests, move |requests| {
        ns_per(requests, || {
            for request in 0..requests {
                let chosen = rng.below(in_flight) as usize;
                let ended = std::mem::replace(&mut open[chosen], black_box([u64::from(request); 4]));
                black_box(ended);
            }
        })
    });
    subject.noted("the busy loop without begin and finish; contained in the busy figures")
}

fn harness_question(backends: u32) -> String {
    format!("harness/{backends}_backends/busy")
}

pub(super) fn ns_per(operations: u32, run: impl FnOnce()) -> f64 {
    let began = thread_cpu();
    run();
    thread_cpu().saturating_sub(began).as_nanos() as f64 / f64::from(operations)
}

const EXTRAS_BACKENDS: u32 = 100;
