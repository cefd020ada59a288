//! Answers that are only a head: refusals, and calls whose time is up. Cheap, and Trailers-Only for gRPC (DESIGN §6.7).

use evenkeel_core::server::ServerRefusal;
use http::{HeaderValue, StatusCode};

use crate::body::{BoxBody, empty};
use crate::wire::{grpc, names};

/// A request that was not let in.
pub(crate) fn refused(refusal: ServerRefusal, is_grpc: bool) -> http::Response<BoxBody> {
    let (status, code, reason) = match refusal {
        ServerRefusal::TooLate => (StatusCode::GATEWAY_TIMEOUT, grpc::DEADLINE_EXCEEDED, "too_late"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, grpc::UNAVAILABLE, refusal.as_str()),
    };
    let mut response = head(status, code, &refusal.to_string(), is_grpc);
    let headers = response.headers_mut();
    headers.insert(names::REFUSED, HeaderValue::from_static(reason));
    if refusal == ServerRefusal::Closed {
        // It never ran, so another task may have it at once.
        let name = if is_grpc { names::GRPC_RETRY_PUSHBACK_MS } else { http::header::RETRY_AFTER };
        headers.insert(name, HeaderValue::from_static("0"));
    }
    response
}

/// A request that was let in and not answered in time.
pub(crate) fn expired(is_grpc: bool) -> http::Response<BoxBody> {
    head(StatusCode::GATEWAY_TIMEOUT, grpc::DEADLINE_EXCEEDED, "deadline passed while the request was served", is_grpc)
}

/// An answer of gRPC that is a status and nothing else.
pub(crate) fn grpc_status(code: &'static str, message: &str) -> http::Response<BoxBody> {
    let mut response = http::Response::new(empty());
    *response.headers_mut() = grpc::trailers_of(code, message);
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn head(status: StatusCode, code: &'static str, message: &str, is_grpc: bool) -> http::Response<BoxBody> {
    if is_grpc {
        return grpc_status(code, message);
    }
    let mut response = http::Response::new(empty());
    *response.status_mut() = status;
    response
}
