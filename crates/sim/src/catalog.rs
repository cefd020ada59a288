//! The scenarios that come with the laboratory, by name: the files of `scenarios/`, built in.

use crate::scenario::closest;

/// Name and text of each, in order of names.
pub fn all() -> &'static [(&'static str, &'static str)] {
    SCENARIOS
}

/// Their names.
///
/// ```
/// assert!(evenkeel_sim::catalog::names().contains(&"figure-20-5"));
/// ```
pub fn names() -> Vec<&'static str> {
    SCENARIOS.iter().map(|&(name, _)| name).collect()
}

/// The text of one.
pub fn text(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|&(_, text)| text)
}

/// The one of these names that was probably meant by another one.
///
/// ```
/// assert_eq!(evenkeel_sim::catalog::nearest("spraed", &["churn", "spread"]), Some("spread"));
/// ```
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    closest(name, names.iter().copied())
}

macro_rules! scenarios {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../../scenarios/", $name, ".toml")))),+]
    };
}

const SCENARIOS: &[(&str, &str)] = &scenarios![
    "at-capacity",
    "churn",
    "clusters",
    "crash",
    "critical-half",
    "degrade",
    "fan-out-burst",
    "figure-20-1",
    "figure-20-2",
    "figure-20-3",
    "figure-20-4",
    "figure-20-5",
    "figure-20-6",
    "figure-21-1",
    "foreign-clients",
    "half-failing",
    "hedge",
    "hints-per-backend",
    "idle-restart",
    "layers",
    "left-out",
    "level",
    "level-90",
    "level-attacked",
    "level-many",
    "level-stable",
    "level-worst",
    "limit",
    "metastable",
    "mild-overload",
    "mix",
    "near-capacity",
    "neighbours",
    "nine-policies",
    "no-datagrams",
    "one-customer",
    "order-customers",
    "overload",
    "overload-2",
    "overload-8",
    "overload-oracle",
    "overload-others",
    "partition",
    "peers",
    "probe-rate",
    "ramp",
    "retry-layers",
    "rhythm",
    "rolling-restart",
    "sinkhole",
    "sinkhole-policies",
    "slow-backend",
    "slow-start",
    "spike",
    "spill",
    "spill-full",
    "spill-many",
    "spill-trap",
    "spread",
    "stable-level",
    "stable-prequal",
    "stable-rare",
    "stable-weighted",
    "subsets",
    "throttle",
    "throttle-recovery",
    "warmup",
];
