//! The load report of an answer (A15): written once for each measurement, with the requests in flight every other
//! millisecond.
//!
//! All answers of two milliseconds carry the very same value. HTTP/2 sends a value that it has just sent as a single
//! byte, and the client need not read it again; one that differs in each answer would be compressed, sent, and read in
//! full, which costs more than everything else we do for an answer. So what a request cost is said only where somebody
//! wants to know.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use evenkeel_core::server::Gate;
use evenkeel_core::{LoadReport, Time};
use http::{HeaderMap, HeaderValue};

use crate::wire::names;
use crate::wire::orca::Written;

/// The last report, as it goes out.
#[derive(Debug)]
pub(crate) struct Reports {
    written: ArcSwap<Written>,
    binary: ArcSwap<Spoken>,
    text: ArcSwap<Spoken>,
}

/// A value that goes out until its time is up.
#[derive(Debug)]
struct Spoken {
    until: Time,
    value: HeaderValue,
}

impl Spoken {
    fn nothing() -> ArcSwap<Spoken> {
        ArcSwap::from_pointee(Spoken { until: Time::ZERO, value: HeaderValue::from_static("") })
    }
}

impl Reports {
    pub(crate) fn new() -> Self {
        let written = ArcSwap::from_pointee(Written::new(&LoadReport::default()));
        Reports { written, binary: Spoken::nothing(), text: Spoken::nothing() }
    }

    /// There are fresh figures.
    pub(crate) fn measured(&self, gate: &Gate) {
        self.written.store(Arc::new(Written::new(&gate.report())));
    }

    /// As gRPC's trailers have it, with what the request cost where that is told.
    pub(crate) fn binary(&self, now: Time, gate: &Gate, cost: Option<Duration>) -> HeaderValue {
        if let Some(cost) = cost {
            return self.written.load().binary_with_cost(gate.in_flight(), cost);
        }
        spoken(now, &self.binary, || self.written.load().binary(gate.in_flight()))
    }

    /// The report of an answer that has no trailers to carry it: plain HTTP, and gRPC that ends with its head.
    /// `cost` is what the request has cost until then, where that is told.
    pub(crate) fn in_head(
        &self,
        (now, gate): (Time, &Gate),
        headers: &mut HeaderMap,
        is_grpc: bool,
        cost: Option<Duration>,
    ) {
        if !is_grpc {
            let text = match cost {
                Some(cost) => self.written.load().text_with_cost(gate.in_flight(), cost),
                None => spoken(now, &self.text, || self.written.load().text(gate.in_flight())),
            };
            headers.insert(names::LOAD_METRICS, text);
        } else if headers.contains_key(names::GRPC_STATUS) {
            headers.insert(names::LOAD_METRICS_BIN, self.binary(now, gate, cost));
        }
    }
}

/// What was said last, or something fresh. Threads that find it too old at once each say something fresh.
fn spoken(now: Time, last: &ArcSwap<Spoken>, fresh: impl FnOnce() -> HeaderValue) -> HeaderValue {
    let said = last.load();
    // A clock that was set back makes it fresh again no later than it would have been.
    if now < said.until && said.until.since(now) <= SAME_FOR {
        return said.value.clone();
    }
    let value = fresh();
    last.store(Arc::new(Spoken { until: now + SAME_FOR, value: value.clone() }));
    value
}

/// Requests in flight this old are as good as new to any policy; at a thousand answers a second it halves the work.
const SAME_FOR: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use evenkeel_core::{Server, ServerConfig};

    use super::*;

    #[test]
    fn answers_of_a_moment_share_one_value() {
        let server = Server::new(Time::ZERO, ServerConfig::default()).unwrap();
        let (reports, now) = (Reports::new(), Time::from_secs(5));
        let first = reports.binary(now, server.gate(), None);
        let soon = reports.binary(now + SAME_FOR / 2, server.gate(), None);
        let later = reports.binary(now + SAME_FOR, server.gate(), None);
        let earlier = reports.binary(Time::from_secs(1), server.gate(), None);

        let place = |value: &HeaderValue| value.as_bytes().as_ptr();
        assert_eq!(place(&first), place(&soon));
        assert_ne!(place(&first), place(&later));
        assert_ne!(place(&later), place(&earlier));
    }
}
