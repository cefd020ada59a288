//! Running a document again: the same seed, the same bytes.

use super::Order;
use crate::document::Document;

/// The order that a document was made by.
pub fn order_of(document: &Document) -> Order {
    Order {
        name: document.scenario.clone(),
        input: document.input.clone(),
        seed: document.seed,
        seeds: Some(document.seeds),
    }
}

/// Where two texts part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The line, counted from 1.
    pub line: usize,
    /// What was kept there; nothing where it had ended.
    pub kept: String,
    /// What came out now.
    pub now: String,
}

/// The first difference between the text that was kept and what comes out now.
pub fn difference(kept: &str, now: &str) -> Option<Difference> {
    if kept == now {
        return None;
    }
    let (mut before, mut after) = (kept.split('\n'), now.split('\n'));
    let mut line = 1;
    loop {
        match (before.next(), after.next()) {
            (Some(one), Some(other)) if one == other => line += 1,
            (one, other) => {
                let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
                return Some(Difference { line, kept: owned(one), now: owned(other) });
            }
        }
    }
}
