//! Names of policies that a scenario may use.

use evenkeel_core::PolicyName;

/// What others do, built in the laboratory to compare with; no products.
pub(crate) const BASELINES: [&str; 9] = [
    "random",
    "envoy_least_request",
    "haproxy_leastconn",
    "nginx_least_conn",
    "peak_ewma",
    "yarp",
    "linear",
    "c3",
    "grpc_weighted",
];

/// One queue for all cores, which no policy can have: the bound that they are measured against.
pub(crate) const ORACLE: &str = "oracle";

/// What a client holds back by itself.
pub(crate) const ADMISSIONS: [&str; 1] = ["envoy"];

/// Core's own that are built.
pub(crate) fn of_core() -> [&'static str; PolicyName::BUILT.len()] {
    PolicyName::BUILT.map(PolicyName::as_str)
}

/// Every name there is.
pub(crate) fn all() -> Vec<&'static str> {
    of_core().into_iter().chain(BASELINES).chain([ORACLE]).collect()
}
