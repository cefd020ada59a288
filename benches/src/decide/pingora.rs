//! Pingora's choice by round robin: a selection only. Nothing is counted in or out, and no load is looked at.

use std::hint::black_box;
use std::net::SocketAddr;

use pingora_load_balancing::LoadBalancer;
use pingora_load_balancing::selection::RoundRobin;

use super::Scale;
use super::begin_finish::ns_per;
use crate::rounds::Subject;

pub(super) fn subjects(scale: Scale) -> Vec<Subject> {
    [100, 10_000].map(|backends| subject(backends, scale)).into()
}

fn subject(backends: u16, scale: Scale) -> Subject {
    let addresses = (1..=backends).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let balancer = LoadBalancer::<RoundRobin>::try_from_iter(addresses).expect("these are addresses");
    let question = format!("peer/pingora_round_robin/{backends}_backends/select");
    let subject = Subject::new(question, scale.requests, move |requests| {
        ns_per(requests, || {
            for _ in 0..requests {
                assert!(black_box(balancer.select(b"", ITERATIONS_MAX)).is_some(), "every backend is healthy");
            }
        })
    });
    subject.noted("selects only: counts nothing, knows no load")
}

/// As in Pingora's own example.
const ITERATIONS_MAX: usize = 256;
