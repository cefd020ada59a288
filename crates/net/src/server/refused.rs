//! Answers that are only a head: refusals, and calls whose time is up. Cheap, and Trailers-Only for gRPC (DESIGN §6.7).
//!
//! A task that refuses does so because it has too much to do, so everything that can be said is made once, at the first
//! refusal: later ones only put together what is there.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use evenkeel_core::server::{Refused, ServerRefusal};
use evenkeel_core::{Criticality, Rng};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::body::{BoxBody, empty};
use crate::wire::{details, grpc, headers, names};

/// A request of this criticality that was not let in.
pub(crate) fn refused(refused: &Refused, level: Criticality, is_grpc: bool, rng: &mut Rng) -> Response<BoxBody> {
    let Refused { reason, dont_retry, hint } = *refused;
    let way = Way::of(reason, dont_retry);
    let words = &WORDS[reason.index()];
    let delays = delays(level);
    let mut delay = || &delays[rng.below(delays.len() as u32) as usize];
    let mut response = head(HEADERS_MOST);
    let headers = response.headers_mut();
    if is_grpc {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC_TYPE));
        headers.insert(names::GRPC_STATUS, HeaderValue::from_static(way.code()));
        let message = if way == Way::Nowhere { words.of_service } else { words.message };
        headers.insert(names::GRPC_MESSAGE, HeaderValue::from_static(message));
    }
    match (way, is_grpc) {
        (Way::TooLate, _) => {}
        (Way::Elsewhere, true) => put(headers, &names::GRPC_RETRY_PUSHBACK_MS, AT_ONCE_MS),
        (Way::Elsewhere, false) => put(headers, &RETRY_AFTER, "0"),
        (Way::Nowhere, true) => {
            put(headers, &names::GRPC_RETRY_PUSHBACK_MS, "-1");
            put(headers, &names::GRPC_STATUS_DETAILS_BIN, words.overloaded);
            put(headers, &names::ENVOY_RATELIMITED, "true");
        }
        (Way::Nowhere, false) => {
            put(headers, &RETRY_AFTER, delay().text);
            put(headers, &names::ENVOY_RATELIMITED, "true");
        }
        (Way::OutOfQuota, true) => {
            put(headers, &names::GRPC_RETRY_PUSHBACK_MS, "-1");
            put(headers, &names::GRPC_STATUS_DETAILS_BIN, delay().out_of_quota);
        }
        (Way::OutOfQuota, false) => put(headers, &RETRY_AFTER, delay().text),
    }
    put(headers, &names::REFUSED, reason.as_str());
    if let Some(hint) = hint {
        headers::write_admit(headers, hint);
    }
    if !is_grpc {
        *response.status_mut() = way.status();
    }
    response
}

/// A request that was let in and not answered in time.
pub(crate) fn expired(is_grpc: bool) -> Response<BoxBody> {
    if is_grpc {
        return grpc_status(grpc::DEADLINE_EXCEEDED, "deadline passed while the request was served");
    }
    let mut response = head(0);
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response
}

/// An answer of gRPC that is a status and nothing else.
pub(crate) fn grpc_status(code: &'static str, message: &str) -> Response<BoxBody> {
    let mut response = Response::new(empty());
    *response.headers_mut() = grpc::trailers_of(code, message);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC_TYPE));
    response
}

fn head(headers: usize) -> Response<BoxBody> {
    let mut response = Response::new(empty());
    *response.headers_mut() = HeaderMap::with_capacity(headers);
    response
}

fn put(headers: &mut HeaderMap, name: &http::HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

/// What whoever asked should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing: it has gone.
    TooLate,
    /// Ask another task, at once: it never ran here.
    Elsewhere,
    /// Ask nobody for a while (B13).
    Nowhere,
    /// Ask for less (B6).
    OutOfQuota,
}

impl Way {
    fn of(reason: ServerRefusal, dont_retry: bool) -> Way {
        match reason {
            ServerRefusal::TooLate => Way::TooLate,
            ServerRefusal::OutOfQuota => Way::OutOfQuota,
            _ if dont_retry => Way::Nowhere,
            _ => Way::Elsewhere,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Way::TooLate => grpc::DEADLINE_EXCEEDED,
            Way::Elsewhere => grpc::UNAVAILABLE,
            Way::Nowhere | Way::OutOfQuota => grpc::RESOURCE_EXHAUSTED,
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Way::TooLate => StatusCode::GATEWAY_TIMEOUT,
            Way::Elsewhere | Way::Nowhere => StatusCode::SERVICE_UNAVAILABLE,
            Way::OutOfQuota => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

/// What is said of a reason.
struct Words {
    message: &'static str,
    /// The same where the whole service has too much.
    of_service: &'static str,
    /// `grpc-status-details-bin` then.
    overloaded: &'static str,
}

/// When to come back.
struct Delay {
    text: &'static str,
    /// `grpc-status-details-bin` of a customer that is out of quota until then.
    out_of_quota: &'static str,
}

static WORDS: LazyLock<Vec<Words>> = LazyLock::new(|| {
    let of = |reason: ServerRefusal| {
        let words = reason.to_string();
        let service = format!("{words}; so is the service: do not retry");
        Words {
            message: kept(&grpc::encode_status_message(&words)),
            of_service: kept(&grpc::encode_status_message(&service)),
            overloaded: kept(&details::service_overloaded(&service)),
        }
    };
    ServerRefusal::ALL.into_iter().map(of).collect()
});

static DELAYS: LazyLock<(Vec<Delay>, Vec<Delay>)> = LazyLock::new(|| {
    let of = |seconds: u32| Delay {
        text: kept(&HeaderValue::from(seconds)),
        out_of_quota: kept(&details::out_of_quota(&ServerRefusal::OutOfQuota.to_string(), seconds)),
    };
    (SOON_S.map(of).collect(), LATER_S.step_by(LATER_STEP_S).map(of).collect())
});

/// By class: batch work that may wait for minutes leaves the seconds to those for whom somebody waits.
fn delays(level: Criticality) -> &'static [Delay] {
    let (soon, later) = &*DELAYS;
    if level == Criticality::SheddablePlus { later } else { soon }
}

/// Made once for each thing there is to say, so it may stay: copies of it are free, and count nothing on shared memory.
fn kept(value: &HeaderValue) -> &'static str {
    value.to_str().map_or("", |text| Box::leak(Box::from(text)))
}

/// The least that every client comes back from: grpcio, told 0, waits until its deadline.
const AT_ONCE_MS: &str = "1";
const GRPC_TYPE: &str = "application/grpc";
/// Content type, status, message, pushback, details, Envoy's mark, reason and hint, and room for a lame duck's two.
const HEADERS_MOST: usize = 10;
/// Seconds from which one is drawn, so that those refused together do not come back together.
const SOON_S: std::ops::RangeInclusive<u32> = 2..=9;
const LATER_S: std::ops::RangeInclusive<u32> = 60..=180;
const LATER_STEP_S: usize = 10;
