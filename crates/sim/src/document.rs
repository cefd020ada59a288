//! What a run gives: figures, checks, series. One JSON document, the same bytes for the same input.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::scenario::{FigureSpec, Published};

/// The result of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Its name.
    pub scenario: String,
    /// What it is about.
    pub about: String,
    /// The first seed.
    pub seed: u64,
    /// How many, from the first on; figures are means over them.
    pub seeds: u32,
    /// What it was run from: everything a replay needs.
    pub input: Input,
    /// Figures by name; with variants `variant/metric`.
    pub metrics: BTreeMap<String, f64>,
    /// What had to come out, and what did.
    pub checks: Vec<CheckResult>,
    /// What is drawn, of the first seed.
    pub series: BTreeMap<String, Series>,
    /// The pictures asked for.
    pub figures: Vec<FigureSpec>,
    /// A hash of every event of every run, `variant` or `variant/seed` to hexadecimal.
    pub trace: BTreeMap<String, String>,
}

/// What a document was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The text of the scenario.
    pub toml: String,
    /// Fields set otherwise, as `key=value`.
    pub set: Vec<String>,
    /// The one policy asked for, instead of the variants.
    pub policy: Option<String>,
}

/// A check and its figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// As in the scenario.
    pub id: String,
    /// In words.
    pub what: String,
    /// What others published.
    pub published: Option<Published>,
    /// What it is measured against, as in `≤ 0.015` or `0.94 … 1.06`.
    pub goal: String,
    /// What came out; nothing where the figure does not exist.
    pub measured: Option<f64>,
    /// Whether that meets the goal.
    pub pass: bool,
}

/// Points to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What `y` is counted in.
    pub unit: String,
    /// Seconds, ranks, backends or milliseconds, by kind.
    pub x: Vec<f64>,
    /// Values.
    pub y: Vec<f64>,
}
