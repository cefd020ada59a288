//! What a gRPC caller is told when there is no answer: a status made here, in the words a service would have used.
//!
//! A gRPC client knows statuses, not our errors: it would call all of them unknown. What this client itself refused is
//! marked as local, so that dashboards can tell it from what a backend refused (WIRE.md).

use evenkeel_core::Refusal;
use http::HeaderValue;

use super::answer::CountedBody;
use super::error::CallError;
use crate::wire::{grpc, names};

/// An answer that is a status and nothing else.
pub(super) fn answer(error: &CallError) -> http::Response<CountedBody> {
    let mut response = http::Response::new(CountedBody::nothing());
    let headers = response.headers_mut();
    *headers = grpc::trailers_of(code(error), &error.to_string());
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(names::LOCAL, HeaderValue::from_static(error.as_str()));
    if let CallError::Refused(refusal) = error {
        headers.insert(names::REFUSED, HeaderValue::from_static(marked(*refusal)));
    }
    response
}

/// The code that gRPC's own clients use for it.
fn code(error: &CallError) -> &'static str {
    match error {
        CallError::Refused(Refusal::TooLate) | CallError::Expired => grpc::DEADLINE_EXCEEDED,
        // What the service itself says to what it refuses.
        CallError::Refused(Refusal::Throttled) => grpc::RESOURCE_EXHAUSTED,
        CallError::BadRequest(_) | CallError::Body(_) => grpc::INTERNAL,
        CallError::Refused(Refusal::AllFull | Refusal::NoneUsable | Refusal::Waking)
        | CallError::Unsent(_)
        | CallError::Broken(_) => grpc::UNAVAILABLE,
    }
}

fn marked(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::TooLate => "too_late;local",
        Refusal::AllFull => "all_full;local",
        Refusal::NoneUsable => "none_usable;local",
        Refusal::Waking => "waking;local",
        Refusal::Throttled => "throttled;local",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_refusal_has_the_name_core_gives_it() {
        for refusal in Refusal::ALL {
            assert_eq!(marked(refusal), format!("{};local", refusal.as_str()));
        }
    }
}
