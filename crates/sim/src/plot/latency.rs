//! Share of requests slower than so many milliseconds, both axes logarithmic: the tail is most of the picture.

use super::colour;
use super::panel::{Mark, Panel, Words};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet};
use super::source::{Points, Source};

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<(usize, &str, Points)> = source
        .each("latency_above")
        .into_iter()
        .map(|(number, variant, points)| (number, variant, points.into_iter().filter(is_drawn).collect()))
        .collect();
    let points = || all.iter().flat_map(|(_, _, points)| points.iter());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(1.0);
    let published: Vec<Mark> =
        source.figure.published.iter().map(|line| Mark::published(line.value, &line.label)).collect();
    let x = published.iter().filter(|mark| mark.value > 0.0).fold(x, |x, mark| x.with(mark.value));

    let mut sheet = Sheet::new(source, "Requests slower than so much");
    let keys: Vec<Key> = all
        .iter()
        .map(|(number, variant, _)| Key::Line(colour::variant(*number), source.label(variant).to_owned()))
        .filter(|key| !matches!(key, Key::Line(_, label) if label.is_empty()))
        .collect();
    if !keys.is_empty() {
        sheet.legend(&keys);
    }
    let area = sheet.panel(380.0, 30.0, published.len());
    let panel = Panel::new(area, Scale::logarithmic(x, Unit::Plain), Scale::logarithmic(y, Unit::Percent));
    let words = Words { x: "latency, ms", y: "share of requests that take longer", ..Words::default() };
    panel.frame(&mut sheet.svg, &words);
    for (number, _, points) in &all {
        panel.line(&mut sheet.svg, points, &colour::variant(*number));
    }
    panel.uprights(&mut sheet.svg, &published);
    panel.axes(&mut sheet.svg);
    Some(sheet)
}

/// Others have no logarithm, or are about too few requests to mean anything.
fn is_drawn(point: &(f64, f64)) -> bool {
    point.0 > 0.0 && point.1 >= RAREST
}

/// One request in a hundred thousand.
const RAREST: f64 = 1e-5;
