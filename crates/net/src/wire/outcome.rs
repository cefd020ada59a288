//! How a call ended, as its answer's status says (WIRE.md): the one place where statuses become [`Outcome`]s.
//!
//! An answer that says "no such thing" is an answer. What a backend refused is told from what it failed at by gRPC's
//! pushback or Envoy's mark, which our servers always send; a refusal by status alone counts as a failure.

use evenkeel_core::Outcome;
use evenkeel_core::server::ServerRefusal;
use http::{HeaderMap, StatusCode};

use super::{headers, names};

/// What the head of an answer says. For gRPC that has yet to send its trailers this is [`Outcome::Failed`]: an answer
/// that ends without them is broken.
pub fn outcome_of(status: StatusCode, headers: &HeaderMap) -> Outcome {
    if let Some(outcome) = outcome_of_trailers(headers) {
        return outcome;
    }
    match status {
        StatusCode::OK if headers::is_grpc(headers) => Outcome::Failed,
        StatusCode::TOO_MANY_REQUESTS => Outcome::OutOfQuota,
        status if status.is_server_error() && headers::is_failed_behind(headers) => Outcome::Failed,
        // Also on a failure that a handler made of what somebody behind it refused (B17).
        status if status.is_server_error() && headers.contains_key(names::ENVOY_RATELIMITED) => Outcome::DontRetry,
        StatusCode::SERVICE_UNAVAILABLE if asks_to_go_elsewhere(headers) => Outcome::Overloaded,
        status if status.is_server_error() => Outcome::Failed,
        _ => Outcome::Served,
    }
}

/// The same where it is final: nothing for gRPC that has yet to send its trailers.
pub fn outcome_of_head(status: StatusCode, headers: &HeaderMap) -> Option<Outcome> {
    let is_open = headers::is_grpc(headers) && !headers.contains_key(names::GRPC_STATUS);
    (!is_open).then(|| outcome_of(status, headers))
}

/// What gRPC's status says, in trailers or in a head that is all there is; nothing where there is none.
pub fn outcome_of_trailers(trailers: &HeaderMap) -> Option<Outcome> {
    let code = trailers.get(names::GRPC_STATUS)?.to_str().ok().and_then(|text| text.parse::<u8>().ok());
    let pushback = trailers.get(names::GRPC_RETRY_PUSHBACK_MS).map(http::HeaderValue::as_bytes);
    let dont_retry = pushback.is_some_and(|value| value.starts_with(b"-"));
    Some(match code {
        Some(1) => Outcome::Cancelled,
        Some(4) => Outcome::Expired,
        Some(8) if dont_retry && is_out_of_quota(trailers) => Outcome::OutOfQuota,
        Some(2 | 8 | 13 | 14 | 15) if headers::is_failed_behind(trailers) => Outcome::Failed,
        Some(2 | 8 | 13 | 14 | 15) if dont_retry => Outcome::DontRetry,
        Some(8) => Outcome::Overloaded,
        Some(14) if pushback.is_some() => Outcome::Overloaded,
        Some(2 | 13 | 14 | 15) => Outcome::Failed,
        Some(0..=16) => Outcome::Served,
        // Not a code of gRPC: whoever answers so is not well.
        _ => Outcome::Failed,
    })
}

/// Our servers name their reason; to others it is one more *don't retry*.
fn is_out_of_quota(headers: &HeaderMap) -> bool {
    headers.get(names::REFUSED).is_some_and(|reason| reason == ServerRefusal::OutOfQuota.as_str())
}

/// `Retry-After: 0` invites another try at once, which only makes sense elsewhere.
fn asks_to_go_elsewhere(headers: &HeaderMap) -> bool {
    headers.get(http::header::RETRY_AFTER).is_some_and(|value| value == "0")
}

#[cfg(test)]
mod tests {
    use evenkeel_core::Behind;
    use http::HeaderValue;

    use super::*;

    fn grpc(code: &'static str, pushback: Option<&'static str>) -> Option<Outcome> {
        let mut trailers = HeaderMap::from_iter([(names::GRPC_STATUS, HeaderValue::from_static(code))]);
        if let Some(pushback) = pushback {
            trailers.insert(names::GRPC_RETRY_PUSHBACK_MS, HeaderValue::from_static(pushback));
        }
        outcome_of_trailers(&trailers)
    }

    #[test]
    fn grpc_refusals_are_told_from_failures_by_their_pushback() {
        let table = [
            ("0", None, Outcome::Served),
            ("5", None, Outcome::Served),
            ("1", None, Outcome::Cancelled),
            ("4", None, Outcome::Expired),
            ("8", Some("-1"), Outcome::DontRetry),
            ("8", None, Outcome::Overloaded),
            ("14", Some("0"), Outcome::Overloaded),
            ("14", Some("-1"), Outcome::DontRetry),
            ("14", None, Outcome::Failed),
            ("13", None, Outcome::Failed),
            ("13", Some("-1"), Outcome::DontRetry),
            ("2", Some("-1"), Outcome::DontRetry),
            ("5", Some("-1"), Outcome::Served),
            ("17", None, Outcome::Failed),
            ("ok", None, Outcome::Failed),
        ];
        for (code, pushback, expected) in table {
            assert_eq!(grpc(code, pushback), Some(expected), "{code} {pushback:?}");
        }
        assert_eq!(outcome_of_trailers(&HeaderMap::new()), None);
    }

    #[test]
    fn a_failure_that_is_not_to_be_tried_again_is_a_failure_and_no_refusal() {
        for (behind, expected) in [(Behind::Failed, Outcome::Failed), (Behind::TooMuch, Outcome::DontRetry)] {
            for code in ["2", "8", "13", "14", "15"] {
                let mut trailers = HeaderMap::from_iter([(names::GRPC_STATUS, HeaderValue::from_static(code))]);
                headers::write_dont_retry(&mut trailers, behind, true);
                assert_eq!(outcome_of_trailers(&trailers), Some(expected), "{code}");
            }
            for status in [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE] {
                let mut headers = HeaderMap::new();
                headers::write_dont_retry(&mut headers, behind, false);
                assert_eq!(outcome_of(status, &headers), expected, "{status}");
                assert_eq!(headers::is_failed_behind(&headers), behind == Behind::Failed);
                headers::write_dont_retry(&mut headers, Behind::TooMuch, false);
                assert_eq!(outcome_of(status, &headers), Outcome::DontRetry, "the worse of the two");
            }
        }
        let mut answer = HeaderMap::new();
        headers::write_dont_retry(&mut answer, Behind::Failed, false);
        assert_eq!(outcome_of(StatusCode::OK, &answer), Outcome::Served);
    }

    #[test]
    fn plain_statuses_are_told_apart_by_their_headers() {
        let outcome = |status, name: Option<http::HeaderName>, value| {
            let headers = name.map(|name| (name, HeaderValue::from_static(value)));
            outcome_of(status, &HeaderMap::from_iter(headers))
        };
        let busy = StatusCode::SERVICE_UNAVAILABLE;

        assert_eq!(outcome(StatusCode::OK, None, ""), Outcome::Served);
        assert_eq!(outcome(StatusCode::NOT_FOUND, None, ""), Outcome::Served);
        assert_eq!(outcome(StatusCode::INTERNAL_SERVER_ERROR, None, ""), Outcome::Failed);
        assert_eq!(outcome(busy, None, ""), Outcome::Failed);
        assert_eq!(outcome(busy, Some(http::header::RETRY_AFTER), "0"), Outcome::Overloaded);
        assert_eq!(outcome(busy, Some(names::ENVOY_RATELIMITED), "true"), Outcome::DontRetry);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(outcome(failed, Some(names::ENVOY_RATELIMITED), "true"), Outcome::DontRetry);
        assert_eq!(outcome(StatusCode::OK, Some(names::ENVOY_RATELIMITED), "true"), Outcome::Served);
        assert_eq!(outcome(StatusCode::TOO_MANY_REQUESTS, None, ""), Outcome::OutOfQuota);
        let grpc = Some(http::header::CONTENT_TYPE);
        assert_eq!(outcome(StatusCode::OK, grpc, "application/grpc"), Outcome::Failed, "until its trailers come");
    }
}
