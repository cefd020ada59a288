//! What a figure reads from a document: points and figures of the variants it shows.

use super::event::Event;
use super::panel::Mark;
use super::scale::{Extent, Unit};
use crate::by_variant::full_name;
use crate::document::Document;
use crate::scenario::{Check, FigureKind, FigureSpec, Published, Scenario};

/// Points of one line; both of each are numbers.
pub(super) type Points = Vec<(f64, f64)>;

/// A document as one figure sees it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    document: &'a Document,
    pub(super) figure: &'a FigureSpec,
    pub(super) variants: Vec<String>,
    /// The whole, as it was ordered.
    scenario: Scenario,
    /// What each variant was run from.
    runs: Vec<(String, Scenario)>,
}

impl<'a> Source<'a> {
    pub(super) fn new(document: &'a Document, figure: &'a FigureSpec) -> Self {
        let mut scenario = document.origin().unwrap_or_default();
        if let Some(policy) = &document.input.policy {
            scenario.policy.clone_from(policy);
            scenario.variants.clear();
        }
        let runs = scenario.variants().unwrap_or_default();
        let there = document.variants();
        let asked: Vec<String> = figure.variants.iter().filter(|name| there.contains(name)).cloned().collect();
        let variants = if asked.is_empty() { there } else { asked };
        Source { document, figure, variants, scenario, runs }
    }

    /// Nothing where there is no such series, or no number in it.
    pub(super) fn series(&self, variant: &str, name: &str) -> Option<Points> {
        let series = self.document.series_of(variant, name)?;
        let points = series.x.iter().copied().zip(series.y.iter().copied());
        let points: Points = points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        if points.is_empty() { None } else { Some(points) }
    }

    /// Of every variant that has it, with the number of the variant.
    pub(super) fn each(&self, name: &str) -> Vec<(usize, &str, Points)> {
        let all = self.variants.iter().enumerate();
        all.filter_map(|(number, variant)| Some((number, variant.as_str(), self.series(variant, name)?))).collect()
    }

    /// Nothing where there is none, or no number.
    pub(super) fn metric(&self, variant: &str, name: &str) -> Option<f64> {
        self.document.metric(variant, name).filter(|value| value.is_finite())
    }

    /// What others published for this very figure, as a check of the scenario has it.
    pub(super) fn published(&self, variant: &str, name: &str) -> Option<f64> {
        let metric = full_name(variant, name);
        let of_it = |check: &&Check| check.metric == metric && check.over.is_none() && check.minus.is_none();
        self.scenario.checks.iter().filter(of_it).find_map(|check| match check.published {
            Some(Published::Number(value)) if value.is_finite() => Some(value),
            _ => None,
        })
    }

    /// What it was run from.
    pub(super) fn run(&self, variant: &str) -> &Scenario {
        self.runs.iter().find(|(name, _)| name == variant).map_or(&self.scenario, |(_, run)| run)
    }

    /// What goes wrong or is changed in any of these, each once.
    pub(super) fn events<'b>(&self, variants: impl IntoIterator<Item = &'b str>, time: Extent) -> Vec<Event> {
        let mut events: Vec<Event> = Vec::new();
        for event in variants.into_iter().flat_map(|variant| Event::all(self.run(variant), time)) {
            if !events.contains(&event) {
                events.push(event);
            }
        }
        events
    }

    /// The published lines of this figure; `unit` is that of the axis they lie on.
    pub(super) fn lines(&self, unit: Unit) -> Vec<Mark> {
        self.figure.published.iter().map(|line| Mark::published(line, unit)).collect()
    }

    /// Which of several seeds are seen: series are of the first, figures are means.
    pub(super) fn seeds(&self) -> Option<String> {
        let seeds = self.document.seeds;
        let words = match self.figure.kind {
            FigureKind::Compare => format!("means of {seeds} seeds"),
            FigureKind::Spread | FigureKind::Outcomes => format!("first of {seeds} seeds; numbers are means of all"),
            _ => format!("first of {seeds} seeds"),
        };
        (seeds > 1).then_some(words)
    }

    /// Empty where nothing has to be told apart.
    pub(super) fn label<'b>(&'b self, variant: &'b str) -> &'b str {
        if variant.is_empty() && self.document.input.policy.is_none() { "" } else { self.document.title_of(variant) }
    }
}
