//! Ranges: what a number, a count, a time or a name may be.

use std::fmt;

use evenkeel_core::plan::COUNT_MOST;

use crate::scenario::closest::one_of;
use crate::scenario::error::BadScenario;
use crate::scenario::{Mix, Span};

/// `least..=most`; what is no number is in no range.
pub(super) fn within<T: PartialOrd + fmt::Display + Copy>(
    field: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), BadScenario> {
    if value >= least && value <= most {
        return Ok(());
    }
    Err(BadScenario::value(field, value, format!("must be from {least} to {most}")))
}

/// Above 0, and no more than `most`.
pub(super) fn above_zero(field: &str, value: f64, most: f64) -> Result<(), BadScenario> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(BadScenario::value(field, value, format!("must be above 0 and at most {most}")))
}

/// A number of tasks.
pub(super) fn count(field: &str, value: u32) -> Result<(), BadScenario> {
    within(field, value, 1, COUNT_MOST)
}

/// A share of a whole.
pub(super) fn share(field: &str, value: f64) -> Result<(), BadScenario> {
    within(field, value, 0.0, 1.0)
}

/// A time that is some, and no longer than any run.
pub(super) fn some_time(field: &str, value: Span) -> Result<(), BadScenario> {
    if value > Span::ZERO && value <= TIME_MOST {
        return Ok(());
    }
    Err(BadScenario::value(field, value, format!("must be above 0 and at most {TIME_MOST}")))
}

/// A time that may be none.
pub(super) fn any_time(field: &str, value: Span) -> Result<(), BadScenario> {
    within(field, value, Span::ZERO, TIME_MOST)
}

/// How fast something is, as a factor.
pub(super) fn speed(field: &str, value: f64) -> Result<(), BadScenario> {
    within(field, value, 1.0 / FACTOR_MOST, FACTOR_MOST)
}

/// A name out of those known.
pub(super) fn known(field: &str, value: &str, names: &[&str]) -> Result<(), BadScenario> {
    if names.contains(&value) {
        return Ok(());
    }
    Err(BadScenario::value(field, format!("{value:?}"), one_of("", value, names)))
}

/// A name that others refer to: some, and without what paths and figures are taken apart by.
pub(super) fn name(field: &str, value: &str) -> Result<(), BadScenario> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+.%".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return Ok(());
    }
    Err(BadScenario::value(field, format!("{value:?}"), "must be letters, digits and _ - + . %, at least one"))
}

/// Names that must differ.
pub(super) fn unique<'a>(list: &str, part: &str, names: impl Iterator<Item = &'a str>) -> Result<(), BadScenario> {
    let mut seen = Vec::new();
    for (place, name) in names.enumerate() {
        if seen.contains(&name) {
            let what = "there is another one of that name: give it its own";
            return Err(BadScenario::value(format!("{list}.{place}.{part}"), format!("{name:?}"), what));
        }
        seen.push(name);
    }
    Ok(())
}

/// Shares of one whole, which must be something.
pub(super) fn shares<'a>(field: &str, shares: impl Iterator<Item = (String, &'a f64)>) -> Result<(), BadScenario> {
    let mut total = 0.0;
    let mut any = false;
    for (path, &share) in shares {
        within(&path, share, 0.0, SHARE_MOST)?;
        total += share;
        any = true;
    }
    if any && total <= 0.0 {
        return Err(BadScenario::field(field, "all shares are 0: at least one must be above"));
    }
    Ok(())
}

/// A mix by names.
pub(super) fn mix(field: &str, mix: &Mix) -> Result<(), BadScenario> {
    shares(field, mix.iter().map(|(name, share)| (format!("{field}.{name}"), share)))
}

/// Longer than anyone simulates.
pub(super) const TIME_MOST: Span = Span::from_secs(30 * 24 * 3_600);

/// How much more or less of something there may be.
pub(super) const FACTOR_MOST: f64 = 1_000.0;

/// Shares need not add up to 1, so that counts may stand there too.
const SHARE_MOST: f64 = 1e9;
