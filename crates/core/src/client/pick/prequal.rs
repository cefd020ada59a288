//! Prequal (C): by probes of requests in flight and latency.

use crate::InvalidConfig;

/// Settings of the policy `prequal`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrequalConfig {}

impl PrequalConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        Ok(())
    }
}
