//! What a figure reads from a document: series and metrics by variant, in the order of the scenario.

use std::collections::BTreeSet;

use crate::document::Document;
use crate::scenario::{FigureSpec, Scenario};

/// Points of one line; both of each are numbers.
pub(super) type Points = Vec<(f64, f64)>;

/// A document as one figure sees it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    document: &'a Document,
    pub(super) figure: &'a FigureSpec,
    pub(super) variants: Vec<String>,
    /// When the first fault begins and ends, in seconds.
    pub(super) fault: Option<(f64, Option<f64>)>,
}

impl<'a> Source<'a> {
    pub(super) fn new(document: &'a Document, figure: &'a FigureSpec) -> Self {
        let scenario = scenario_of(document);
        let fault = scenario
            .as_ref()
            .and_then(|scenario| scenario.faults.first())
            .map(|fault| (fault.at.seconds(), fault.lasts.map(|lasts| fault.at.seconds() + lasts.seconds())));
        let there = variants(document);
        let asked: Vec<String> = figure.variants.iter().filter(|name| there.contains(name)).cloned().collect();
        let variants = if asked.is_empty() { there } else { asked };
        Source { document, figure, variants, fault }
    }

    /// Nothing where there is no such series, or no number in it.
    pub(super) fn series(&self, variant: &str, name: &str) -> Option<Points> {
        let series = self.document.series.get(&full_name(variant, name))?;
        let points = series.x.iter().copied().zip(series.y.iter().copied());
        let points: Points = points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        if points.is_empty() { None } else { Some(points) }
    }

    /// Of every variant that has it, with the number of the variant.
    pub(super) fn each(&self, name: &str) -> Vec<(usize, &str, Points)> {
        let all = self.variants.iter().enumerate();
        all.filter_map(|(number, variant)| Some((number, variant.as_str(), self.series(variant, name)?))).collect()
    }

    /// The first of these figures that is there and a number.
    pub(super) fn metric(&self, variant: &str, names: &[&str]) -> Option<f64> {
        let mut found = names.iter().filter_map(|name| self.document.metrics.get(&full_name(variant, name)).copied());
        found.find(|value| value.is_finite())
    }

    /// What people call it: its own name, or the one policy that was asked for.
    pub(super) fn label<'b>(&'b self, variant: &'b str) -> &'b str {
        if variant.is_empty() { self.document.input.policy.as_deref().unwrap_or_default() } else { variant }
    }
}

/// Those of a document in the order of its scenario; one without a name where there are none.
pub(crate) fn variants(document: &Document) -> Vec<String> {
    let keys = document.metrics.keys().chain(document.series.keys());
    let mut there: BTreeSet<&str> = keys.map(|key| key.rsplit_once('/').map_or("", |(variant, _)| variant)).collect();
    let declared = scenario_of(document).map(|scenario| scenario.variants).unwrap_or_default();
    let mut ordered: Vec<String> = Vec::new();
    for variant in declared {
        if there.remove(variant.name.as_str()) {
            ordered.push(variant.name);
        }
    }
    if !ordered.is_empty() {
        there.remove("");
    }
    ordered.extend(there.into_iter().map(str::to_owned));
    if ordered.is_empty() { vec![String::new()] } else { ordered }
}

/// As a document calls a series or a metric of a variant.
pub(crate) fn full_name(variant: &str, name: &str) -> String {
    if variant.is_empty() { name.to_owned() } else { format!("{variant}/{name}") }
}

/// A document of another version may have a text that is none any more: then its order is that of names.
fn scenario_of(document: &Document) -> Option<Scenario> {
    toml::from_str(&document.input.toml).ok()
}
