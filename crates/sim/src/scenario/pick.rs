//! Settings of policies that have some, as in core's `PickConfig`, and what policies may spend on probes.

use evenkeel_core::ClientConfig;
use evenkeel_core::client::ProbesConfig;
use evenkeel_core::client::pick::{PrequalConfig, WeightedConfig};
use serde::{Deserialize, Serialize};

use super::span::Span;

/// Of `weighted`; defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedSettings {
    /// Time between two makings of weights.
    pub every: Span,
    /// How long reports must have come before they count.
    pub blackout: Span,
    /// How long a report counts.
    pub expiry: Span,
    /// What a backend that only fails counts as, in whole utilizations.
    pub error_penalty: f64,
    /// How long a fresh backend takes to its full weight.
    pub slow_start: Span,
    /// Share of a deviation from the mean utilization that is corrected in a second.
    pub correction: f64,
}

/// Of `prequal`; defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrequalSettings {
    /// Time between two makings of the pool.
    pub every: Span,
    /// Backends in it.
    pub pool: u32,
    /// How long what a backend said counts.
    pub expiry: Span,
    /// How often a backend is picked until it is heard of again.
    pub uses_most: u32,
    /// From which quantile of requests in flight on a backend is hot.
    pub hot_quantile: f64,
    /// Requests in flight for each processor above the least that are as good as the least.
    pub tie: f64,
}

/// What policies may spend on probes; defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProbesSettings {
    /// For each request.
    pub per_request: f64,
    /// In a second.
    pub per_second: f64,
}

impl WeightedSettings {
    pub(crate) fn put_into(&self, config: &mut ClientConfig) {
        config.pick.weighted = WeightedConfig {
            every: self.every.get(),
            blackout: self.blackout.get(),
            expiry: self.expiry.get(),
            error_penalty: self.error_penalty,
            slow_start: self.slow_start.get(),
            correction: self.correction,
        };
    }
}

impl PrequalSettings {
    pub(crate) fn put_into(&self, config: &mut ClientConfig) {
        config.pick.prequal = PrequalConfig {
            every: self.every.get(),
            pool: self.pool,
            expiry: self.expiry.get(),
            uses_most: self.uses_most,
            hot_quantile: self.hot_quantile,
            tie: self.tie,
        };
    }
}

impl ProbesSettings {
    pub(crate) fn put_into(&self, config: &mut ClientConfig) {
        config.probes = ProbesConfig { per_request: self.per_request, per_second: self.per_second };
    }
}

impl Default for WeightedSettings {
    fn default() -> Self {
        let WeightedConfig { every, blackout, expiry, error_penalty, slow_start, correction } =
            WeightedConfig::default();
        WeightedSettings {
            every: every.into(),
            blackout: blackout.into(),
            expiry: expiry.into(),
            error_penalty,
            slow_start: slow_start.into(),
            correction,
        }
    }
}

impl Default for PrequalSettings {
    fn default() -> Self {
        let PrequalConfig { every, pool, expiry, uses_most, hot_quantile, tie } = PrequalConfig::default();
        PrequalSettings { every: every.into(), pool, expiry: expiry.into(), uses_most, hot_quantile, tie }
    }
}

impl Default for ProbesSettings {
    fn default() -> Self {
        let ProbesConfig { per_request, per_second } = ProbesConfig::default();
        ProbesSettings { per_request, per_second }
    }
}
