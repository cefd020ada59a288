//! Variants, checks and figures: whether what they name is there.

use super::range::{known, name, unique};
use crate::scenario::error::BadScenario;
use crate::scenario::{Check, Scenario};

impl Scenario {
    pub(super) fn check_goals(&self) -> Result<(), BadScenario> {
        let variants: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        for (place, variant) in variants.iter().enumerate() {
            name(&format!("variant.{place}.name"), variant)?;
        }
        unique("variant", "name", variants.iter().copied())?;
        for (place, check) in self.checks.iter().enumerate() {
            check.check(&format!("check.{place}"), &variants)?;
        }
        unique("check", "id", self.checks.iter().map(|check| check.id.as_str()))?;
        for (place, figure) in self.figures.iter().enumerate() {
            let path = format!("figure.{place}.variants");
            if let (false, true) = (figure.variants.is_empty(), variants.is_empty()) {
                return Err(BadScenario::field(path, "there are no variants in this scenario: leave it out"));
            }
            figure.variants.iter().try_for_each(|variant| known(&path, variant, &variants))?;
            for (line, published) in figure.published.iter().enumerate() {
                finite(&format!("figure.{place}.published.{line}.value"), Some(published.value))?;
            }
        }
        Ok(())
    }

    /// Whether runs can have the figures that checks are about: else all of it would run before anybody is told.
    pub(in crate::scenario) fn check_metrics(&self) -> Result<(), BadScenario> {
        // What a variant sets wrong is told when it is about to run, with what was set by hand.
        let Ok(variants) = self.variants() else { return Ok(()) };
        for (place, check) in self.checks.iter().enumerate() {
            for (part, metric) in check.parts() {
                let (variant, figure) = metric.split_once('/').unwrap_or(("", metric));
                let run = variants.iter().find(|(name, _)| name == variant);
                if let Some(what) = run.and_then(|(_, run)| run.wrong_metric(figure)) {
                    let field = format!("check.{place}.{part}");
                    return Err(BadScenario::value(field, format!("{metric:?}"), what));
                }
            }
        }
        Ok(())
    }
}

impl Check {
    /// The figures it is about, by the fields that name them.
    fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parts = [("metric", Some(&self.metric)), ("over", self.over.as_ref()), ("minus", self.minus.as_ref())];
        parts.into_iter().filter_map(|(part, metric)| Some((part, metric?.as_str())))
    }

    fn check(&self, path: &str, variants: &[&str]) -> Result<(), BadScenario> {
        let field = |part: &str| format!("{path}.{part}");
        name(&field("id"), &self.id)?;
        for (part, metric) in self.parts() {
            let (variant, figure) = metric.split_once('/').unwrap_or(("", metric));
            if variants.is_empty() && !variant.is_empty() {
                let what = "there are no variants in this scenario: name the figure alone";
                return Err(BadScenario::value(field(part), format!("{metric:?}"), what));
            }
            if !variants.is_empty() && variant.is_empty() {
                let what = format!("say of which variant, as in {:?}", format!("{}/{metric}", variants[0]));
                return Err(BadScenario::value(field(part), format!("{metric:?}"), what));
            }
            if !variant.is_empty() {
                known(&field(part), variant, variants)?;
            }
            name(&field(part), figure)?;
        }
        finite(&field("at_least"), self.at_least)?;
        finite(&field("at_most"), self.at_most)?;
        match (self.at_least, self.at_most) {
            (None, None) => Err(BadScenario::field(path, "a check needs a goal: at_least, at_most or both")),
            (Some(least), Some(most)) if least > most => Err(BadScenario::value(
                field("at_least"),
                least,
                format!("must be no more than at_most, which is {most}"),
            )),
            _ => Ok(()),
        }
    }
}

fn finite(field: &str, value: Option<f64>) -> Result<(), BadScenario> {
    match value.filter(|value| !value.is_finite()) {
        Some(value) => Err(BadScenario::value(field, value, "must be a number")),
        None => Ok(()),
    }
}
