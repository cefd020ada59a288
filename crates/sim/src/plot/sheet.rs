//! One figure: its title, its legend, and room for panels below.

use super::colour;
use super::event::Event;
use super::panel::{Area, ROW, Y_LABEL_AWAY};
use super::source::Source;
use super::svg::{Stroke, Svg, Type};

/// What is drawn so far, and where it goes on.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) svg: Svg,
    title: String,
    about: String,
    /// Down to where it is full.
    pub(super) bottom: f64,
}

/// An entry of a legend.
#[derive(Clone, Debug)]
pub(super) enum Key {
    Line(Stroke, String),
    Fill(&'static str, String),
}

impl Sheet {
    pub(super) fn new(source: &Source<'_>, title: &str) -> Self {
        let asked = source.figure.title.trim();
        let title = if asked.is_empty() { title } else { asked };
        let mut svg = Svg::default();
        let mut bottom = 14.0;
        for line in Type::TITLE.wrap(title, WIDTH - 2.0 * EDGE) {
            bottom += 22.0;
            svg.text((EDGE, bottom), &line, &Type::TITLE);
        }
        if let Some(seeds) = source.seeds() {
            bottom += 19.0;
            svg.text((EDGE, bottom), &seeds, &Type::SMALL);
        }
        Sheet { svg, title: title.to_owned(), about: source.figure.caption.clone(), bottom: bottom + 8.0 }
    }

    /// Keys in a row, or in several where they are too many.
    pub(super) fn legend(&mut self, keys: &[Key]) {
        let mut left = EDGE;
        let mut baseline = self.bottom + 15.0;
        for key in keys {
            let (Key::Line(_, label) | Key::Fill(_, label)) = key;
            let width = SAMPLE + 6.0 + Type::BODY.width(label) + 18.0;
            if left > EDGE && left + width > WIDTH - EDGE {
                left = EDGE;
                baseline += 20.0;
            }
            match key {
                Key::Line(stroke, _) => {
                    self.svg.line((left, baseline - 4.0), (left + SAMPLE, baseline - 4.0), stroke);
                }
                Key::Fill(fill, _) => self.svg.rect((left, baseline - 10.0), SAMPLE, 12.0, fill),
            }
            self.svg.text((left + SAMPLE + 6.0, baseline), label, &Type::BODY);
            left += width;
        }
        self.bottom = baseline + 8.0;
    }

    /// Room for one panel without a title, but with so many rows of labels above it.
    pub(super) fn panel(&mut self, height: f64, right: f64, rows: usize) -> Area {
        let left = EDGE + Y_LABEL_AWAY;
        let top = self.bottom + 16.0 + ROW * rows as f64;
        let area = Area { left, top, width: WIDTH - left - right.min(WIDTH / 3.0), height };
        self.bottom = area.bottom() + PANEL_FOOT;
        area
    }

    /// Rooms for `count` panels in rows of `columns`; `right` is what the labels beside the last one take.
    pub(super) fn panels(&mut self, count: usize, columns: usize, height: f64, right: f64) -> Vec<Area> {
        let columns = columns.clamp(1, count.max(1));
        let left = EDGE + Y_LABEL_AWAY;
        let room = (WIDTH - left - right.min(WIDTH / 3.0)) - BETWEEN * (columns - 1) as f64;
        let width = room / columns as f64;
        let above = self.bottom + PANEL_HEAD;
        let below = PANEL_HEAD + height + PANEL_FOOT;
        let area = |number: usize| Area {
            left: left + (width + BETWEEN) * (number % columns) as f64,
            top: above + below * (number / columns) as f64,
            width,
            height,
        };
        let areas: Vec<Area> = (0..count).map(area).collect();
        self.bottom = areas.last().map_or(self.bottom, |area| area.bottom() + PANEL_FOOT);
        areas
    }

    pub(super) fn finish(self) -> String {
        self.svg.finish(WIDTH, self.bottom + 8.0, &self.title, &self.about)
    }
}

/// The same for the line of a published value.
pub(super) fn published_key() -> Key {
    Key::Line(Stroke::dashed(colour::PUBLISHED, 1.5), "published".to_owned())
}

/// The shade of what lasts for a time, if anything does.
pub(super) fn lasting_key(events: &[Event]) -> Option<Key> {
    let any = events.iter().any(Event::lasts);
    any.then(|| Key::Fill(colour::SHADE, "while a fault lasts".to_owned()))
}

/// How many panels stand side by side: two rows where they would be too narrow.
pub(super) fn columns(count: usize) -> usize {
    match count {
        0..=3 => count.max(1),
        4 => 2,
        _ => 3,
    }
}

pub(super) const WIDTH: f64 = 960.0;
pub(super) const EDGE: f64 = 20.0;
const SAMPLE: f64 = 24.0;
const BETWEEN: f64 = 26.0;
/// Title and note above a panel.
const PANEL_HEAD: f64 = 44.0;
/// Tick labels and the axis' name below it.
const PANEL_FOOT: f64 = 46.0;
