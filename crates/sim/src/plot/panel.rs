//! A rectangle with two axes: frame, grid, tick labels, and what is drawn at values of them.

use super::colour;
use super::scale::{Scale, Unit};
use super::svg::{Anchor, Place, Stroke, Svg, Type};
use crate::number::readable;
use crate::scenario::PublishedLine;

/// Where a panel is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

/// A rectangle with two axes.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) area: Area,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

/// What stands around a panel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words<'a> {
    /// Above it, in bold.
    pub(super) title: &'a str,
    /// Above it, below the title.
    pub(super) note: &'a str,
    pub(super) x: &'a str,
    /// Beside the left axis; where it is empty the numbers are left out too, since the panel to the left has them.
    pub(super) y: &'a str,
}

/// A value across the whole panel, with its label in the margin to the right.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) value: f64,
    pub(super) label: String,
    pub(super) stroke: Stroke,
}

impl Mark {
    /// Says its value, if the label does not.
    pub(super) fn published(line: &PublishedLine, unit: Unit) -> Self {
        let shown = if unit == Unit::Percent { line.value * 100.0 } else { line.value };
        let numbers = line.label.split(|letter: char| !matches!(letter, '0'..='9' | '.' | ','));
        let is_said = numbers.map(|number| number.trim_matches(['.', ','])).any(|number| number == readable(shown));
        let label = if is_said { line.label.clone() } else { format!("{} {}", line.label, unit.written(shown)) };
        Mark { value: line.value, label, stroke: Stroke::dashed(colour::PUBLISHED, 1.5) }
    }
}

impl Panel {
    pub(super) fn new(area: Area, x: Scale, y: Scale) -> Self {
        let (x, y) = (x.onto(area.left, area.right()), y.onto(area.bottom(), area.top));
        Panel { area, x, y }
    }

    pub(super) fn place(&self, (x, y): (f64, f64)) -> Place {
        (self.x.place(x), self.y.place(y))
    }

    /// Grid and labels; drawn before the values.
    pub(super) fn frame(&self, svg: &mut Svg, words: &Words<'_>) {
        let Area { left, top, width, .. } = self.area;
        let (right, bottom) = (self.area.right(), self.area.bottom());
        let grid = Stroke::solid(colour::GRID, 1.0);
        for (value, label) in self.y.ticks() {
            let y = self.y.place(value);
            svg.line((left, y), (right, y), &grid);
            if !words.y.is_empty() {
                svg.text((left - 8.0, y + 4.0), &label, &Type::SMALL.anchored(Anchor::End));
            }
        }
        for (value, label) in self.x.ticks() {
            let x = self.x.place(value);
            svg.line((x, top), (x, bottom), &grid);
            svg.text((x, bottom + 17.0), &label, &Type::SMALL.anchored(Anchor::Middle));
        }
        svg.text((left + width / 2.0, bottom + 36.0), words.x, &Type::BODY.anchored(Anchor::Middle));
        if !words.y.is_empty() {
            let at = (left - Y_LABEL_AWAY, top + self.area.height / 2.0);
            svg.text_upwards(at, words.y, &Type::BODY.anchored(Anchor::Middle));
        }
        let note_height = if words.note.is_empty() { 0.0 } else { 16.0 };
        svg.text((left, top - 8.0 - note_height), &Type::PANEL.fit(words.title, width + 10.0), &Type::PANEL);
        svg.text((left, top - 8.0), words.note, &Type::SMALL);
    }

    /// The axes themselves; drawn after the values, which may lie on them.
    pub(super) fn axes(&self, svg: &mut Svg) {
        let axis = Stroke::solid(colour::AXIS, 1.0);
        let Area { left, top, .. } = self.area;
        let (right, bottom) = (self.area.right(), self.area.bottom());
        svg.line((left, bottom), (right, bottom), &axis);
        svg.line((left, top), (left, bottom), &axis);
    }

    pub(super) fn line(&self, svg: &mut Svg, points: &[(f64, f64)], stroke: &Stroke) {
        let places: Vec<Place> = points.iter().map(|&point| self.place(point)).collect();
        match places[..] {
            // A single value has no line: a short one shows where it is.
            [(x, y)] => svg.line((x - 4.0, y), (x + 4.0, y), stroke),
            _ => svg.polyline(&places, stroke),
        }
    }

    /// What is between two lines over the same `x`.
    pub(super) fn band(&self, svg: &mut Svg, lower: &[(f64, f64)], upper: &[(f64, f64)], fill: &str, opacity: f64) {
        let there = upper.iter().map(|&point| self.place(point));
        let back = lower.iter().rev().map(|&point| self.place(point));
        svg.area(&there.chain(back).collect::<Vec<_>>(), fill, opacity);
    }

    /// Lines across at these values. Labels are moved apart where they would overlap.
    pub(super) fn marks(&self, svg: &mut Svg, marks: &[Mark], labels: Labels) {
        let right = self.area.right();
        for mark in marks {
            let y = self.y.place(mark.value);
            svg.line((self.area.left, y), (right, y), &mark.stroke);
        }
        if labels == Labels::Shown {
            let wanted: Vec<f64> = marks.iter().map(|mark| self.y.place(mark.value)).collect();
            for (mark, (y, label_y)) in marks.iter().zip(wanted.iter().zip(apart(&wanted, self.area))) {
                svg.line((right, *y), (right + 8.0, label_y), &Stroke::solid(mark.stroke.colour, 1.0));
                let style = Type::SMALL.coloured(mark.stroke.colour);
                svg.text((right + 11.0, label_y + 4.0), &mark.label, &style);
            }
        }
    }

    /// Lines from top to bottom, each label in a row of its own above the panel.
    pub(super) fn uprights(&self, svg: &mut Svg, marks: &[Mark]) {
        for (row, mark) in marks.iter().rev().enumerate() {
            let x = self.x.place(mark.value);
            let baseline = self.area.top - 6.0 - ROW * row as f64;
            svg.line((x, baseline - 8.0), (x, self.area.bottom()), &mark.stroke);
            let style = Type::SMALL.coloured(mark.stroke.colour).rimmed();
            let is_right = x + style.width(&mark.label) > self.area.right();
            let (at, anchor) = if is_right { (x - 5.0, Anchor::End) } else { (x + 5.0, Anchor::Start) };
            svg.text((at, baseline), &mark.label, &style.anchored(anchor));
        }
    }

    /// Bars over numbers from 0 on, from `base` to `value`; thin ones are one outline, since gaps would hide them.
    pub(super) fn bars(&self, svg: &mut Svg, base: &[f64], values: &[f64], fill: &str) {
        let wide = self.area.width / values.len().max(1) as f64;
        let gap = if wide >= 5.0 { (wide * 0.15).min(4.0) } else { 0.0 };
        let edge = |number: usize| self.area.left + wide * number as f64;
        if gap > 0.0 {
            for (number, (&base, &value)) in base.iter().zip(values).enumerate() {
                let (top, bottom) = (self.y.place(value), self.y.place(base));
                svg.rect((edge(number) + gap / 2.0, top), wide - gap, bottom - top, fill);
            }
        } else {
            let steps = |values: &[f64]| -> Vec<Place> {
                let both = |(number, &value): (usize, &f64)| {
                    let y = self.y.place(value);
                    [(edge(number), y), (edge(number + 1), y)]
                };
                values.iter().enumerate().flat_map(both).collect()
            };
            let mut outline = steps(values);
            outline.extend(steps(base).into_iter().rev());
            svg.area(&outline, fill, 1.0);
        }
    }
}

/// Whether marks say what they are: in a row of panels only the last has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    Shown,
    Hidden,
}

/// How much room to the right the labels of marks take.
pub(super) fn margin_for(marks: &[Mark]) -> f64 {
    let widest = marks.iter().map(|mark| Type::SMALL.width(&mark.label)).fold(0.0, f64::max);
    if marks.is_empty() { 16.0 } else { widest + 20.0 }
}

/// The same heights in the same order, a line of text apart, and within the panel where they fit.
fn apart(wanted: &[f64], area: Area) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut heights = wanted.to_vec();
    let mut lowest = area.bottom() + 4.0;
    for &index in order.iter().rev() {
        heights[index] = heights[index].min(lowest);
        lowest = heights[index] - LINE;
    }
    let mut highest = f64::NEG_INFINITY;
    for &index in &order {
        heights[index] = heights[index].max(highest);
        highest = heights[index] + LINE;
    }
    heights
}

const LINE: f64 = 15.0;
/// From one label above a panel to the next.
pub(super) const ROW: f64 = 16.0;
/// From the left axis to its label: room for seven digits.
pub(super) const Y_LABEL_AWAY: f64 = 58.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_line_says_its_value_once() {
        let label = |label: &str, value, unit| {
            let line = PublishedLine { label: label.to_owned(), value };
            Mark::published(&line, unit).label
        };

        assert_eq!(label("published most", 109.0, Unit::Plain), "published most 109");
        assert_eq!(label("published: 109 of 90", 109.0, Unit::Plain), "published: 109 of 90");
        assert_eq!(label("published p99", 9.0, Unit::Plain), "published p99 9");
        assert_eq!(label("reserved", 0.5, Unit::Percent), "reserved 50 %");
    }

    #[test]
    fn labels_stand_a_line_apart_and_keep_their_order() {
        let area = Area { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };

        let heights = apart(&[50.0, 51.0, 99.0, 100.0, 10.0], area);

        let mut sorted = heights.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 1e-9), "{heights:?}");
        assert!(heights[4] < heights[0] && heights[0] < heights[1] && heights[2] < heights[3]);
    }
}
