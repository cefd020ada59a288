//! Names of policies that a scenario may use.

use evenkeel_core::PolicyName;

use crate::{admission, baseline};

/// One queue for all cores, which no policy can have: the bound that they are measured against.
pub(crate) const ORACLE: &str = "oracle";

/// Core's own that are built.
pub(crate) fn of_core() -> [&'static str; PolicyName::ALL.len()] {
    PolicyName::ALL.map(PolicyName::as_str)
}

/// Every name there is.
pub(crate) fn all() -> Vec<&'static str> {
    of_core().into_iter().chain(baseline::NAMES.iter().map(|(name, _)| *name)).chain([ORACLE]).collect()
}

/// What a client may hold back by.
pub(crate) fn admissions() -> Vec<&'static str> {
    admission::NAMES.iter().map(|(name, _)| *name).collect()
}
