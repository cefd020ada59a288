//! Retries.

use evenkeel_core::ClientConfig;

use super::range::within;
use crate::scenario::error::BadScenario;
use crate::scenario::{ORACLE, Scenario, Switch};

impl Scenario {
    pub(super) fn check_retry(&self) -> Result<(), BadScenario> {
        let retry = &self.retry;
        let core = ClientConfig { retry: retry.config(), ..ClientConfig::default() };
        // What core calls `retry.share` has the same name here.
        core.check().map_err(|bad| BadScenario::value(bad.field, bad.value, bad.allowed))?;
        if let Some(naive) = retry.naive {
            within("retry.naive", naive, 1, 10)?;
            if retry.mode != Switch::Off {
                let what = "clients retry in one of the two ways: leave retry.mode off";
                return Err(BadScenario::value("retry.naive", naive, what));
            }
        }
        if !retry.is_off() && self.policy == ORACLE {
            let what = "one queue for all cores refuses nobody: leave retry.mode off";
            return Err(BadScenario::value("policy", format!("{ORACLE:?}"), what));
        }
        Ok(())
    }
}
