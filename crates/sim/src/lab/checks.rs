//! What had to come out, and what did.

use std::collections::BTreeMap;

use crate::document::CheckResult;
use crate::scenario::Check;

/// Every check with its figure. One whose figure does not exist has failed; with `only_known` it is left out instead,
/// since it is about a variant that was not run.
pub(super) fn evaluated(checks: &[Check], metrics: &BTreeMap<String, f64>, only_known: bool) -> Vec<CheckResult> {
    let results = checks.iter().map(|check| {
        let measured = measured(check, metrics);
        CheckResult {
            id: check.id.clone(),
            what: check.what.clone(),
            published: check.published.clone(),
            goal: goal(check),
            measured,
            pass: measured.is_some_and(|measured| is_met(check, measured)),
        }
    });
    results.filter(|result| result.measured.is_some() || !only_known).collect()
}

/// The figure, less what is taken off, over what it is divided by.
fn measured(check: &Check, metrics: &BTreeMap<String, f64>) -> Option<f64> {
    let mut value = *metrics.get(&check.metric)?;
    if let Some(minus) = &check.minus {
        value -= metrics.get(minus)?;
    }
    if let Some(over) = &check.over {
        value /= metrics.get(over)?;
    }
    value.is_finite().then_some(value)
}

fn is_met(check: &Check, measured: f64) -> bool {
    check.at_least.is_none_or(|least| measured >= least) && check.at_most.is_none_or(|most| measured <= most)
}

fn goal(check: &Check) -> String {
    match (check.at_least, check.at_most) {
        (Some(least), Some(most)) if least.to_bits() == most.to_bits() => format!("= {least}"),
        (Some(least), Some(most)) => format!("{least} … {most}"),
        (Some(least), None) => format!("≥ {least}"),
        (None, Some(most)) => format!("≤ {most}"),
        // Refused when the scenario was read.
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at_least: Option<f64>, at_most: Option<f64>) -> Check {
        Check { id: "x".to_owned(), metric: "share".to_owned(), at_least, at_most, ..Check::default() }
    }

    fn result(check: Check) -> CheckResult {
        let metrics = [("share", 0.5), ("other", 0.25), ("none", 0.0)].map(|(name, value)| (name.to_owned(), value));
        evaluated(&[check], &BTreeMap::from(metrics), false).remove(0)
    }

    #[test]
    fn a_goal_reads_as_it_is_tested() {
        for (least, most, goal, pass) in [
            (Some(0.5), None, "≥ 0.5", true),
            (None, Some(0.015), "≤ 0.015", false),
            (Some(-0.01), Some(0.51), "-0.01 … 0.51", true),
            (Some(10.0), Some(10.0), "= 10", false),
            (Some(0.5), Some(0.5), "= 0.5", true),
        ] {
            let result = result(check(least, most));
            assert_eq!((result.goal.as_str(), result.pass), (goal, pass));
        }
    }

    #[test]
    fn another_figure_is_taken_off_before_one_divides() {
        let other = || Some("other".to_owned());
        let both = Check { over: other(), minus: other(), ..check(None, Some(1.0)) };
        assert_eq!(result(both).measured, Some(1.0));
    }

    #[test]
    fn what_cannot_be_measured_has_failed_or_is_left_out() {
        let unknown = Check { metric: "nothing".to_owned(), ..check(Some(0.0), None) };
        let by_nothing = Check { over: Some("none".to_owned()), ..check(Some(0.0), None) };
        assert!(evaluated(std::slice::from_ref(&unknown), &BTreeMap::new(), true).is_empty());
        for check in [unknown, by_nothing] {
            let result = result(check);
            assert_eq!((result.measured, result.pass), (None, false));
        }
    }
}
