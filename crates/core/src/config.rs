//! A bad value is refused, never clamped and never warned about.

use std::fmt;

/// A configuration value that cannot work, with what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    /// The field, by its path: `flow.active_max`.
    pub field: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be, or how to mend it.
    pub allowed: String,
}

impl InvalidConfig {
    /// Refuses a `value` outside `least..=most`, naming `field`: for settings of drivers, which read like core's.
    pub fn unless_in_range<T: PartialOrd + fmt::Debug + Copy>(
        field: &'static str,
        value: T,
        least: T,
        most: T,
    ) -> Result<(), InvalidConfig> {
        if value >= least && value <= most {
            return Ok(());
        }
        Err(InvalidConfig::new(field, value, format!("must be from {least:?} to {most:?}")))
    }

    pub(crate) fn new(field: &'static str, value: impl fmt::Debug, allowed: impl Into<String>) -> Self {
        InvalidConfig { field, value: format!("{value:?}"), allowed: allowed.into() }
    }
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} is not possible: {}", self.field, self.value, self.allowed)
    }
}

impl std::error::Error for InvalidConfig {}
