//! Weighted round robin (A15): in proportion to what each backend can do, from load reports.

use crate::InvalidConfig;

/// Settings of the policy `weighted`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WeightedConfig {}

impl WeightedConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        Ok(())
    }
}
