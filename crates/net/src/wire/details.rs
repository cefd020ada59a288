//! `grpc-status-details-bin` as everybody's clients read it: as much of `google.rpc` as refusals need.

use http::HeaderValue;
use prost::Message;

use super::grpc::encode_bin;

/// Not the task but the service has too much to do: `google.rpc.ErrorInfo` with reason `SERVICE_OVERLOADED`.
pub(crate) fn service_overloaded(message: &str) -> HeaderValue {
    let info = ErrorInfo { reason: SERVICE_OVERLOADED.to_owned(), domain: DOMAIN.to_owned() };
    status(message, vec![any("ErrorInfo", &info)])
}

/// A quota is used up until then: `google.rpc.QuotaFailure` and `google.rpc.RetryInfo`.
pub(crate) fn out_of_quota(message: &str, retry_after_s: u32) -> HeaderValue {
    let violation = Violation { subject: "customer".to_owned(), description: message.to_owned() };
    let failure = QuotaFailure { violations: vec![violation] };
    let retry = RetryInfo { retry_delay: Some(Span { seconds: i64::from(retry_after_s) }) };
    status(message, vec![any("QuotaFailure", &failure), any("RetryInfo", &retry)])
}

fn status(message: &str, details: Vec<Any>) -> HeaderValue {
    let status = Status { code: RESOURCE_EXHAUSTED, message: message.to_owned(), details };
    encode_bin(&status.encode_to_vec())
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/google.rpc.{name}"), value: message.encode_to_vec() }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Eq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
}

/// `google.rpc.QuotaFailure`.
#[derive(Clone, PartialEq, Message)]
struct QuotaFailure {
    #[prost(message, repeated, tag = "1")]
    violations: Vec<Violation>,
}

/// `google.rpc.QuotaFailure.Violation`.
#[derive(Clone, PartialEq, Eq, Message)]
struct Violation {
    #[prost(string, tag = "1")]
    subject: String,
    #[prost(string, tag = "2")]
    description: String,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Span>,
}

/// `google.protobuf.Duration`, whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

const RESOURCE_EXHAUSTED: i32 = 8;
const SERVICE_OVERLOADED: &str = "SERVICE_OVERLOADED";
/// Who gives the reason its meaning.
const DOMAIN: &str = "evenkeel";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::grpc::decode_bin;

    #[test]
    fn details_read_back_as_googles_messages() {
        let read = |value: &HeaderValue| Status::decode(&*decode_bin(value.as_bytes()).unwrap()).unwrap();

        let overloaded = read(&service_overloaded("busy"));
        assert_eq!((overloaded.code, overloaded.message.as_str()), (8, "busy"));
        assert_eq!(overloaded.details[0].type_url, "type.googleapis.com/google.rpc.ErrorInfo");
        let info = ErrorInfo::decode(&*overloaded.details[0].value).unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("SERVICE_OVERLOADED", "evenkeel"));

        let quota = read(&out_of_quota("used up", 7));
        let failure = QuotaFailure::decode(&*quota.details[0].value).unwrap();
        assert_eq!(failure.violations[0].description, "used up");
        assert_eq!(quota.details[1].type_url, "type.googleapis.com/google.rpc.RetryInfo");
        let retry = RetryInfo::decode(&*quota.details[1].value).unwrap();
        assert_eq!(retry.retry_delay, Some(Span { seconds: 7 }));
    }
}
