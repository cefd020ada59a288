//! `level`: an estimate of runnable work on each core, biased by what evens out utilization.

use crate::InvalidConfig;

/// Settings of the policy `level`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelConfig {}

impl LevelConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        Ok(())
    }
}
