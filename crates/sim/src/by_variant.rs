//! What a document has of each variant, in the order of its scenario.

use std::collections::BTreeSet;

use crate::document::{Document, Series};
use crate::scenario::Scenario;

impl Document {
    /// Its variants in the order of the scenario; one without a name where there are none.
    pub fn variants(&self) -> Vec<String> {
        let keys = self.metrics.keys().chain(self.series.keys());
        let mut there: BTreeSet<&str> =
            keys.map(|key| key.rsplit_once('/').map_or("", |(variant, _)| variant)).collect();
        let declared = self.origin().map(|scenario| scenario.variants).unwrap_or_default();
        let mut ordered: Vec<String> = Vec::new();
        for variant in declared {
            if there.remove(variant.name.as_str()) {
                ordered.push(variant.name);
            }
        }
        ordered.extend(there.into_iter().map(str::to_owned));
        if ordered.is_empty() { vec![String::new()] } else { ordered }
    }

    /// A figure of a variant; nothing where there is none.
    pub fn metric(&self, variant: &str, name: &str) -> Option<f64> {
        self.metrics.get(&full_name(variant, name)).copied()
    }

    /// What people call a variant: by its name, by the one policy that was asked for, or by the scenario's.
    pub fn title_of<'a>(&'a self, variant: &'a str) -> &'a str {
        let policy = self.input.policy.as_deref().unwrap_or("as written");
        if variant.is_empty() { policy } else { variant }
    }

    pub(crate) fn series_of(&self, variant: &str, name: &str) -> Option<&Series> {
        self.series.get(&full_name(variant, name))
    }

    /// The scenario it was made from. A document of another version may have a text that is none any more.
    pub(crate) fn origin(&self) -> Option<Scenario> {
        Scenario::with(&self.input.toml, &self.input.set).ok()
    }
}

/// As a document calls a series or a figure of a variant.
pub(crate) fn full_name(variant: &str, name: &str) -> String {
    if variant.is_empty() { name.to_owned() } else { format!("{variant}/{name}") }
}
