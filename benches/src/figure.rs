//! A figure over the rounds, and what was aimed at; a table of them for people.

use std::fmt;

use serde_json::{Value, json};

/// What a figure is to be. Missing it is a result, not a failure.
#[derive(Clone, Copy, Debug)]
pub enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Aim::AtLeast(least) => value >= least,
            Aim::AtMost(most) => value <= most,
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, value) = match self {
            Aim::AtLeast(least) => ('≥', least),
            Aim::AtMost(most) => ('≤', most),
        };
        f.pad(&format!("{sign} {value:.2}"))
    }
}

/// One number a round.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: String,
    pub unit: &'static str,
    pub median: f64,
    pub least: f64,
    pub most: f64,
    pub aim: Option<Aim>,
}

impl Figure {
    pub fn new(name: String, unit: &'static str, mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let (least, most, middle) = (rounds[0], rounds[rounds.len() - 1], rounds.len() / 2);
        let median = if rounds.len().is_multiple_of(2) {
            f64::midpoint(rounds[middle - 1], rounds[middle])
        } else {
            rounds[middle]
        };
        Figure { name, unit, median, least, most, aim: None }
    }

    #[must_use]
    pub fn aimed(self, aim: Aim) -> Self {
        Figure { aim: Some(aim), ..self }
    }

    /// Whether the median is as aimed at; `None` where nothing was.
    pub fn is_met(&self) -> Option<bool> {
        self.aim.map(|aim| aim.is_met_by(self.median))
    }

    pub fn json(&self) -> Value {
        let Figure { name, unit, median, least, most, aim } = self;
        let aim = aim.map(|aim| match aim {
            Aim::AtLeast(least) => json!({ "at_least": least, "met": aim.is_met_by(*median) }),
            Aim::AtMost(most) => json!({ "at_most": most, "met": aim.is_met_by(*median) }),
        });
        json!({ "figure": name, "unit": unit, "median": median, "least": least, "most": most, "aim": aim })
    }
}

/// A row for each, and how many aims were met.
pub fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    let header = format!("{:width$}  {:>9}  {:>9}  {:>9}  {:<17}  aim", "", "median", "least", "most", "unit");
    let line = |figure: &Figure| {
        let Figure { name, unit, median, least, most, aim } = figure;
        let aim = aim.map_or_else(String::new, |aim| aim.to_string());
        let verdict = figure.is_met().map_or("", |is_met| if is_met { "met" } else { "MISSED" });
        let line = format!("{name:width$}  {median:>9.2}  {least:>9.2}  {most:>9.2}  {unit:<17}  {aim:<7}  {verdict}");
        line.trim_end().to_owned()
    };
    let judged: Vec<bool> = figures.iter().filter_map(Figure::is_met).collect();
    let met = judged.iter().filter(|&&is_met| is_met).count();
    let end = format!("{met} of {} aims met", judged.len());
    std::iter::once(header).chain(figures.iter().map(line)).chain([end]).collect::<Vec<_>>().join("\n")
}
