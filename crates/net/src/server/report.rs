//! The load report of an answer (A15), written once for each measurement: only the requests in flight are written anew
//! for each answer.

use arc_swap::ArcSwap;
use evenkeel_core::LoadReport;
use evenkeel_core::server::Gate;
use http::{HeaderMap, HeaderValue};

use crate::wire::names;
use crate::wire::orca::Written;

/// The last report, as it goes out.
#[derive(Debug)]
pub(crate) struct Reports {
    written: ArcSwap<Written>,
}

impl Reports {
    pub(crate) fn new() -> Self {
        Reports { written: ArcSwap::from_pointee(Written::new(&LoadReport::default())) }
    }

    /// There are fresh figures.
    pub(crate) fn measured(&self, gate: &Gate) {
        self.written.store(std::sync::Arc::new(Written::new(&gate.report())));
    }

    /// As gRPC's trailers have it.
    pub(crate) fn binary(&self, gate: &Gate) -> HeaderValue {
        self.written.load().binary(gate.in_flight())
    }

    /// The report of an answer that has no trailers to carry it: plain HTTP, and gRPC that ends with its head.
    pub(crate) fn in_head(&self, gate: &Gate, headers: &mut HeaderMap, is_grpc: bool) {
        if !is_grpc {
            headers.insert(names::LOAD_METRICS, self.written.load().text(gate.in_flight()));
        } else if headers.contains_key(names::GRPC_STATUS) {
            headers.insert(names::LOAD_METRICS_BIN, self.binary(gate));
        }
    }
}
