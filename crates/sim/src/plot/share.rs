//! Share of requests that went to faulted backends, over time: how soon they are left alone, and when they come back.

use super::colour;
use super::panel::{Labels, Mark, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet};
use super::source::Source;
use super::svg::{Stroke, Svg, Type};
use crate::number::readable;

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all = source.each("faulted_share");
    let points = || all.iter().flat_map(|(_, _, points)| points.iter());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(0.0);
    let marks = marks(source);
    let y = marks.iter().fold(y, |y, mark| y.with(mark.value));

    let mut sheet = Sheet::new(source, "Share of requests that went to faulted backends");
    let mut keys: Vec<Key> = all
        .iter()
        .map(|(number, variant, _)| Key::Line(colour::variant(*number), source.label(variant).to_owned()))
        .filter(|key| !matches!(key, Key::Line(_, label) if label.is_empty()))
        .collect();
    if source.fault.is_some_and(|(_, end)| end.is_some()) {
        keys.push(Key::Fill(colour::SHADE, "while the fault lasts".to_owned()));
    }
    if !keys.is_empty() {
        sheet.legend(&keys);
    }
    let area = sheet.panel(340.0, margin_for(&marks), 0);
    let panel = Panel::new(area, Scale::exact(x, Unit::Plain, 10.0), Scale::linear(y, Unit::Percent, 5.0));
    shade_fault(&mut sheet.svg, &panel, source.fault, x);
    panel.frame(&mut sheet.svg, &Words { x: "time, s", y: "share of requests", ..Words::default() });
    for (number, _, points) in &all {
        panel.line(&mut sheet.svg, points, &colour::variant(*number));
    }
    panel.marks(&mut sheet.svg, &marks, Labels::Shown);
    panel.axes(&mut sheet.svg);
    Some(sheet)
}

fn marks(source: &Source<'_>) -> Vec<Mark> {
    let fair = source.variants.iter().find_map(|variant| source.metric(variant, "fault0_fair"));
    let fair = fair.map(|value| Mark {
        value,
        label: format!("fair share {} %", readable(value * 100.0)),
        stroke: Stroke::dashed(colour::TEXT_SOFT, 1.2),
    });
    let published = source.figure.published.iter().map(|line| Mark::published(line.value, &line.label));
    fair.into_iter().chain(published).collect()
}

/// The time of the fault in another shade; only its onset where it has no end.
pub(super) fn shade_fault(svg: &mut Svg, panel: &Panel, fault: Option<(f64, Option<f64>)>, x: Extent) {
    let Some((onset, end)) = fault.filter(|(onset, _)| (x.least..x.most).contains(onset)) else {
        return;
    };
    let (left, top) = (panel.x.place(onset), panel.area.top);
    if let Some(end) = end {
        svg.rect((left, top), panel.x.place(end) - left, panel.area.height, colour::SHADE);
    } else {
        svg.line((left, top), (left, panel.area.bottom()), &Stroke::dashed(colour::AXIS, 1.0));
        svg.text((left + 5.0, top + 14.0), "fault", &Type::SMALL.rimmed());
    }
}
