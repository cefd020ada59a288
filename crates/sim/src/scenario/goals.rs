//! What must come out, and what is drawn.

use serde::{Deserialize, Serialize};

/// The same world with some fields set otherwise, on the same trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Variant {
    /// Its figures are called `name/metric`.
    pub name: String,
    /// Fields and their values, as after `--set`: `{ policy = "round_robin", "clients.load" = 0.9 }`.
    pub set: toml::Table,
}

/// A figure that must come out, averaged over the scenario's seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Check {
    /// Short, unique in the scenario.
    pub id: String,
    /// In words.
    pub what: String,
    /// Which figure; with variants `variant/metric`.
    pub metric: String,
    /// Another figure it is divided by.
    pub over: Option<String>,
    /// Another figure that is taken off.
    pub minus: Option<String>,
    /// Goal.
    pub at_least: Option<f64>,
    /// Goal.
    pub at_most: Option<f64>,
    /// What others published.
    pub published: Option<Published>,
}

/// A published figure: a number, or words where there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number, in the check's unit.
    Number(f64),
    /// Words, as in `up to 2`.
    Words(String),
}

/// A picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Which kind.
    pub kind: FigureKind,
    /// Above it.
    #[serde(default)]
    pub title: String,
    /// Below it: what to see.
    #[serde(default)]
    pub caption: String,
    /// Which variants; all where none is named.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Lines at published values.
    #[serde(default, rename = "published")]
    pub published: Vec<PublishedLine>,
}

/// A published value to be drawn in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedLine {
    /// What stands beside it.
    pub label: String,
    /// Where, on the axis of values.
    pub value: f64,
}

/// The pictures there are. Each is drawn once, with a panel or a line for each variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Utilization of tasks over time: least, mean, most, and some tasks between them (figures 20-1 and 20-6).
    Spread,
    /// CPU used and wasted by task at one time, most loaded first (figure 20-2).
    Waste,
    /// Connections of each backend (figures 20-3 to 20-5).
    Connections,
    /// Share of requests slower than so many milliseconds.
    Latency,
    /// Share of requests that went to faulted backends, over time.
    Share,
    /// Requests per second over time: served, failed, refused.
    Outcomes,
    /// A figure of every variant side by side, as bars: max/min of utilization and p99.
    Compare,
}
