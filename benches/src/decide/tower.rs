//! tower's power of two choices over services that are always ready and answer at once.
//!
//! One operation is `poll_ready`, `call` and the finished response. It has no limit, no refusal, no errors and one
//! thread only (`&mut self`); `PeakEwma` reads the clock twice.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, Load, PeakEwma, PendingRequests};
use tower::{Service, service_fn};

use super::Scale;
use super::begin_finish::ns_per;
use crate::rounds::Subject;

pub(super) fn subjects(scale: Scale) -> Vec<Subject> {
    let services = || (0..BACKENDS).map(|_| service_fn(answer));
    let pending = services().map(|each| PendingRequests::new(each, CompleteOnResponse::default()));
    let (rtt, decay_ns) = (Duration::from_millis(30), 1e10);
    let ewma = services().map(|each| PeakEwma::new(each, rtt, decay_ns, CompleteOnResponse::default()));
    vec![
        subject("tower_p2c_pending", pending.collect(), scale).noted("counts in flight; no limit, errors or threads"),
        subject("tower_p2c_peak_ewma", ewma.collect(), scale).noted("in flight and latency; clock reads included"),
    ]
}

fn subject<S>(name: &str, services: Vec<S>, scale: Scale) -> Subject
where
    S: Service<u64, Response = u64> + Load + 'static,
    S::Error: Into<tower::BoxError>,
    S::Metric: std::fmt::Debug,
{
    let mut balance = Balance::new(ServiceList::new(services));
    Subject::new(format!("peer/{name}/{BACKENDS}_backends/idle"), scale.requests, move |requests| {
        ns_per(requests, || {
            for request in 0..requests {
                one_request(&mut balance, u64::from(request));
            }
        })
    })
}

fn one_request<S: Service<u64, Response = u64>>(balance: &mut S, request: u64) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(balance.poll_ready(&mut context), Poll::Ready(Ok(()))), "every service is ready");
    let response = pin!(balance.call(request)).poll(&mut context);
    assert!(matches!(black_box(response), Poll::Ready(Ok(_))), "every service answers at once");
}

fn answer(request: u64) -> Ready<Result<u64, Infallible>> {
    ready(Ok(request))
}

const BACKENDS: usize = 100;
