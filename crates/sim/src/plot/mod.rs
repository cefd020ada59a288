//! Figures for people: each is one SVG, drawn from a document and nothing else, the same bytes every time.
//!
//! The writer is our own. `kuva` 0.6 was read: it brings 95,000 lines and a calendar, and takes its logarithms from the
//! platform, so that its bytes differ between machines. What seven kinds of figures need is a few hundred lines.

mod colour;
mod compare;
mod connections;
mod event;
mod latency;
mod outcomes;
mod panel;
mod scale;
mod share;
mod sheet;
mod source;
mod spread;
mod svg;
mod waste;

pub(crate) use svg::escaped;

use crate::document::Document;
use crate::scenario::{FigureKind, FigureSpec};
use source::Source;

/// One figure as a complete SVG; nothing where the document has no series for it.
pub fn draw(document: &Document, figure: &FigureSpec) -> Option<String> {
    let source = Source::new(document, figure);
    let sheet = match figure.kind {
        FigureKind::Spread => spread::draw(&source),
        FigureKind::Waste => waste::draw(&source),
        FigureKind::Connections => connections::draw(&source),
        FigureKind::Latency => latency::draw(&source),
        FigureKind::Share => share::draw(&source),
        FigureKind::Outcomes => outcomes::draw(&source),
        FigureKind::Compare => compare::draw(&source),
    };
    sheet.map(sheet::Sheet::finish)
}
