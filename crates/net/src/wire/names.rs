//! Names of the headers, once. Stable from 1.0 on: a change of meaning gets a new name.

use http::HeaderName;

/// How much a request matters: `CRITICAL_PLUS`, `CRITICAL`, `SHEDDABLE_PLUS` or `SHEDDABLE` (B8).
pub const CRITICALITY: HeaderName = HeaderName::from_static("evenkeel-criticality");
/// W3C baggage, which carries the criticality through hops that only know OpenTelemetry.
pub const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
/// The key in the baggage.
pub const BAGGAGE_KEY: &str = "evenkeel-criticality";
/// Who is billed, asserted by a trusted front end (B4).
pub const CUSTOMER: HeaderName = HeaderName::from_static("evenkeel-customer");
/// How long a gRPC caller waits.
pub const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// How long a plain HTTP caller waits, in milliseconds.
pub const ENVOY_TIMEOUT_MS: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// Tries of a gRPC call before this one.
pub const GRPC_PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
/// Tries of a plain HTTP request, with this one.
pub const ENVOY_ATTEMPT_COUNT: HeaderName = HeaderName::from_static("x-envoy-attempt-count");
/// What its root request drew, 0 to 65535, the same at every hop and attempt: who of a criticality is refused first.
pub const LOT: HeaderName = HeaderName::from_static("evenkeel-lot");
/// Requests this client held back and has not told anybody of, by criticality: `a,b,c,d`, `SHEDDABLE` first (B7).
pub const HELD: HeaderName = HeaderName::from_static("evenkeel-held");
/// Whose those are, where that is not the customer of the request that tells of them; empty for nobody in particular (B4, B7).
pub const HELD_FOR: HeaderName = HeaderName::from_static("evenkeel-held-for");
/// Load report as text, JSON or base64 (A15).
pub const LOAD_METRICS: HeaderName = HeaderName::from_static("endpoint-load-metrics");
/// Load report in base64, as gRPC's trailer (A15).
pub const LOAD_METRICS_BIN: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");
/// `1` on a request whose answer is to say in its load report what the request cost (A15, A18).
pub const COST: HeaderName = HeaderName::from_static("evenkeel-cost");
/// Outcome of a gRPC call.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Outcome of a gRPC call in words, percent-encoded.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// Outcome of a gRPC call as `google.rpc.Status` in base64.
pub const GRPC_STATUS_DETAILS_BIN: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// When to retry a gRPC call: a negative number says don't (B12, B13).
pub const GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
/// Tells Envoy not to retry.
pub const ENVOY_RATELIMITED: HeaderName = HeaderName::from_static("x-envoy-ratelimited");
/// Tells Envoy's active health checks that this task is leaving (A4).
pub const ENVOY_IMMEDIATE_HEALTH_CHECK_FAIL: HeaderName =
    HeaderName::from_static("x-envoy-immediate-health-check-fail");
/// Whether this task wants new requests, where no watch stream says so: `lame_duck` on every answer of one that does
/// not; on answers to health checks also `ready` (A4).
pub const STATE: HeaderName = HeaderName::from_static("evenkeel-state");
/// What this task admits now: `<cutoff>;<ttl-ms>` (B7).
pub const ADMIT: HeaderName = HeaderName::from_static("evenkeel-admit");
/// Why a request was refused, with `;local` when the client refused it itself.
pub const REFUSED: HeaderName = HeaderName::from_static("evenkeel-refused");
/// On an error that is not to be tried again: `failed` where a call behind this task failed and was tried again from
/// there, so that nobody takes it for too much load (B17).
pub const DONT_RETRY: HeaderName = HeaderName::from_static("evenkeel-dont-retry");
/// On a status that the caller's own channel made: what went wrong, since no backend said so.
pub const LOCAL: HeaderName = HeaderName::from_static("evenkeel-local");
/// How much cheaper than asked the answer is (B1).
pub const DEGRADED: HeaderName = HeaderName::from_static("evenkeel-degraded");
