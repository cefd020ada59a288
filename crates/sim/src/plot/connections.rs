//! Connections of each backend, most first: how evenly clients were dealt.

use super::colour;
use super::panel::{Labels, Mark, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, published_key};
use super::source::Source;
use super::svg::Stroke;
use crate::number::readable;

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<(&str, Vec<f64>)> = source
        .each("connections_by_backend")
        .into_iter()
        .map(|(_, variant, points)| (variant, sorted(points.into_iter().map(|point| point.1.max(0.0)).collect())))
        .collect();
    let marks: Vec<Vec<Mark>> = all.iter().map(|(_, counts)| marks(source, counts)).collect();
    let y = Extent::of(all.iter().flat_map(|(_, counts)| counts.iter().copied()))?.with(0.0);
    let y = marks.iter().flatten().fold(y, |y, mark| y.with(mark.value));

    let mut sheet = Sheet::new(source, "Connections of each backend");
    let mut keys = vec![Key::Fill(BAR, "connections of a backend".to_owned())];
    if !source.figure.published.is_empty() {
        keys.push(published_key());
    }
    sheet.legend(&keys);
    let margin = marks.iter().map(|marks| margin_for(marks)).fold(0.0, f64::max);
    let height = if all.len() == 1 { 320.0 } else { 200.0 };
    let areas = sheet.panels(all.len(), 1, height, margin);
    for (((variant, counts), marks), area) in all.iter().zip(&marks).zip(areas) {
        let numbers = Extent { least: 0.0, most: counts.len() as f64 };
        let panel = Panel::new(area, Scale::exact(numbers, Unit::Plain, 10.0), Scale::linear(y, Unit::Plain, 5.0));
        let words =
            Words { title: source.label(variant), note: "", x: "backends, most connections first", y: "connections" };
        panel.frame(&mut sheet.svg, &words);
        panel.bars(&mut sheet.svg, &vec![0.0; counts.len()], counts, BAR);
        panel.marks(&mut sheet.svg, marks, Labels::Shown);
        panel.axes(&mut sheet.svg);
    }
    Some(sheet)
}

fn marks(source: &Source<'_>, counts: &[f64]) -> Vec<Mark> {
    let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
    let of_mean = |value: f64| if mean > 0.0 { readable(value / mean * 100.0) } else { "–".to_owned() };
    let mut marks =
        vec![Mark { value: mean, label: format!("mean {}", readable(mean)), stroke: Stroke::solid(colour::TEXT, 1.5) }];
    if let Some(extent) = Extent::of(counts.iter().copied()).filter(|extent| extent.most > extent.least) {
        for (name, value) in [("least", extent.least), ("most", extent.most)] {
            let label = format!("{name} {} ({} % of mean)", readable(value), of_mean(value));
            marks.push(Mark { value, label, stroke: Stroke { opacity: 0.6, ..Stroke::solid(colour::BLUE, 1.0) } });
        }
    }
    marks.extend(source.lines(Unit::Plain));
    marks
}

/// The same, most first: numbers of backends mean nothing, and the shape of the distribution shows.
fn sorted(mut counts: Vec<f64>) -> Vec<f64> {
    counts.sort_by(|a, b| b.total_cmp(a));
    counts
}

const BAR: &str = "#a9d3ee";
