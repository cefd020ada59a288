//! What others do: policies of peers and of papers, to measure against. None of them is a product.
//!
//! Each is a [`Policy`] of core, so that it meets the same connections, limits and deadlines as ours, and hears through
//! [`Baseline`] what its original hears. Where an original has no limit of requests for each backend, one that is at its
//! limit here is passed over. Backends that fail count for nothing unless the original counts them.

mod c3;
mod envoy;
mod grpc;
mod haproxy;
mod linear;
mod nginx;
mod peak_ewma;
mod random;
mod sample;
mod table;
mod yarp;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::client::pick::Policy;
use evenkeel_core::{BackendId, LoadReport, Outcome, Time};

/// A policy of somebody else: one object for each client task, told what happens.
pub trait Baseline: Policy {
    /// A request was sent to this backend.
    fn on_begin(&self, _now: Time, _backend: BackendId) {}

    /// A request ended so, this long after it was sent; the report came with the answer, and is empty where none did.
    fn on_answer(&self, _now: Time, _backend: BackendId, _latency: Duration, _outcome: Outcome, _report: &LoadReport) {}

    /// How often every connected backend is to be asked for a report.
    fn poll_every(&self) -> Option<Duration> {
        None
    }

    /// The answer to that.
    fn on_report(&self, _now: Time, _backend: BackendId, _report: &LoadReport) {}
}

/// The policy of this name for one client of so many; the seed is the client's own.
pub fn build(name: &str, clients: u32, seed: u64) -> Option<Arc<dyn Baseline>> {
    Some(match name {
        "random" => Arc::new(random::Random),
        "envoy_least_request" => Arc::new(envoy::LeastRequest),
        "haproxy_leastconn" => Arc::new(haproxy::LeastConn::default()),
        "nginx_least_conn" => Arc::new(nginx::LeastConn::default()),
        "peak_ewma" => Arc::new(peak_ewma::PeakEwma::default()),
        "yarp" => Arc::new(yarp::Yarp::default()),
        "linear" => Arc::new(linear::Linear::default()),
        "c3" => Arc::new(c3::C3::new(clients)),
        "grpc_weighted" => Arc::new(grpc::Weighted::new(seed)),
        _ => return None,
    })
}

/// Name and what it is, of all that [`build`] builds.
pub const NAMES: &[(&str, &str)] = &[
    ("random", "any backend, drawn at random"),
    ("envoy_least_request", "Envoy LEAST_REQUEST: the less active of two drawn at random"),
    ("haproxy_leastconn", "HAProxy leastconn: fewest active, the one that waited longest among equals"),
    ("nginx_least_conn", "nginx least_conn: fewest active, its round robin among equals"),
    ("peak_ewma", "tower and Linkerd: of two drawn at random the lower peak-sensitive latency x outstanding"),
    ("yarp", "of two drawn at random the one with fewer requests when last asked, every 500 ms"),
    ("linear", "lowest of half the latency and half 75 ms for each request in flight, as reported"),
    ("c3", "C3: lowest estimate of waiting time, cubic in the queue"),
    ("grpc_weighted", "gRPC weighted_round_robin (gRFC A58): in proportion to requests per utilization"),
];
