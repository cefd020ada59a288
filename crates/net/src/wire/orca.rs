//! Load reports (A15) as gRPC and Envoy read them: ORCA, `xds.data.orca.v3`.
//!
//! In ORCA 0 means unset, and to us unknown is not zero: a rate or utilization that is known to be 0 is repeated
//! under our own name. Reading never fails: what is no report is none. What is read comes from the network, so
//! whoever keeps it keeps it [sanitized](LoadReport::sanitized).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evenkeel_core::LoadReport;
use http::HeaderValue;
use prost::Message;

use super::orca_read::Numbers;
pub use super::orca_read::read;
pub use super::orca_write::Written;
use super::{grpc, visible};

/// `xds.data.orca.v3.OrcaLoadReport`, field for field.
#[derive(Clone, PartialEq, Message)]
pub struct OrcaLoadReport {
    /// CPU in use over CPU reserved; may exceed 1.
    #[prost(double, tag = "1")]
    pub cpu_utilization: f64,
    /// Memory in use over memory available.
    #[prost(double, tag = "2")]
    pub mem_utilization: f64,
    /// Whole requests per second; deprecated in favour of `rps_fractional`.
    #[prost(uint64, tag = "3")]
    pub rps: u64,
    /// What the answered request cost, by resource.
    #[prost(btree_map = "string, double", tag = "4")]
    pub request_cost: BTreeMap<String, f64>,
    /// Utilization of further resources, by name.
    #[prost(btree_map = "string, double", tag = "5")]
    pub utilization: BTreeMap<String, f64>,
    /// Requests per second.
    #[prost(double, tag = "6")]
    pub rps_fractional: f64,
    /// Errors per second.
    #[prost(double, tag = "7")]
    pub eps: f64,
    /// What ORCA has no field for; ours start with `evenkeel.`.
    #[prost(btree_map = "string, double", tag = "8")]
    pub named_metrics: BTreeMap<String, f64>,
    /// What balancers go by if set, else `cpu_utilization`.
    #[prost(double, tag = "9")]
    pub application_utilization: f64,
}

impl From<&LoadReport> for OrcaLoadReport {
    fn from(report: &LoadReport) -> Self {
        let known_zero = |value: Option<f64>| value.filter(|value| *value == 0.0);
        let named = [
            ("evenkeel.utilization", known_zero(report.utilization)),
            ("evenkeel.qps", known_zero(report.qps)),
            ("evenkeel.eps", known_zero(report.eps)),
            ("evenkeel.utilization_slow", report.utilization_slow),
            ("evenkeel.in_flight", report.in_flight.map(f64::from)),
            ("evenkeel.runnable", report.runnable),
            ("evenkeel.processors", report.processors),
            ("evenkeel.latency_s", report.latency.map(|latency| latency.as_secs_f64())),
        ];
        let utilization = report.utilization.unwrap_or_default();
        OrcaLoadReport {
            cpu_utilization: utilization,
            application_utilization: utilization,
            rps_fractional: report.qps.unwrap_or_default(),
            eps: report.eps.unwrap_or_default(),
            named_metrics: named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
            ..OrcaLoadReport::default()
        }
    }
}

impl From<&OrcaLoadReport> for LoadReport {
    /// Not yet sanitized.
    fn from(orca: &OrcaLoadReport) -> Self {
        let mut numbers = Numbers {
            cpu_utilization: orca.cpu_utilization,
            application_utilization: orca.application_utilization,
            rps: orca.rps as f64,
            rps_fractional: orca.rps_fractional,
            eps: orca.eps,
            ..Numbers::default()
        };
        for (name, value) in &orca.named_metrics {
            numbers.set_named(name, *value);
        }
        numbers.report()
    }
}

/// The value of `endpoint-load-metrics-bin`: base64 without padding.
pub fn to_binary(report: &OrcaLoadReport) -> HeaderValue {
    grpc::encode_bin(&report.encode_to_vec())
}

/// The value of `endpoint-load-metrics`: `TEXT name=value,…`. Zeros are left out, since 0 means unset, and so is
/// `request_cost`, since Envoy discards a whole report for one name it does not know.
pub fn to_text(report: &OrcaLoadReport) -> HeaderValue {
    let fields = [
        ("cpu_utilization", report.cpu_utilization),
        ("application_utilization", report.application_utilization),
        ("mem_utilization", report.mem_utilization),
        ("rps_fractional", report.rps_fractional),
        ("eps", report.eps),
    ];
    let mut text = TEXT_PREFIX.to_owned();
    for (name, value) in fields {
        if value != 0.0 {
            push_metric(&mut text, "", name, value);
        }
    }
    for (name, value) in &report.named_metrics {
        push_metric(&mut text, "named_metrics.", name, *value);
    }
    text.truncate(text.trim_end_matches(',').len());
    visible(text)
}

/// Appends `name=value,` unless text cannot carry it.
fn push_metric(text: &mut String, prefix: &str, name: &str, value: f64) {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b",=:".contains(&byte));
    if plain && value.is_finite() {
        // `{:?}` turns to exponents for very small and very large numbers instead of hundreds of digits.
        write!(text, "{prefix}{name}={value:?},").expect("writing to a string");
    }
}

const TEXT_PREFIX: &str = "TEXT ";
