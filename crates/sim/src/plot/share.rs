//! Share of requests that went to faulted backends, over time: how soon they are left alone, and when they come back.

use super::panel::{Labels, Mark, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, lasting_key};
use super::source::Source;
use super::svg::Stroke;
use super::{colour, event};
use crate::number::readable;

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all = source.each("faulted_share");
    let points = || all.iter().flat_map(|(_, _, points)| points.iter());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(0.0);
    let marks = marks(source);
    let y = marks.iter().fold(y, |y, mark| y.with(mark.value));
    let events = source.events(all.iter().map(|(_, variant, _)| *variant), x);

    let mut sheet = Sheet::new(source, "Share of requests that went to faulted backends");
    let mut keys: Vec<Key> = all
        .iter()
        .map(|(number, variant, _)| Key::Line(colour::variant(*number), source.label(variant).to_owned()))
        .filter(|key| !matches!(key, Key::Line(_, label) if label.is_empty()))
        .collect();
    keys.extend(lasting_key(&events));
    if !keys.is_empty() {
        sheet.legend(&keys);
    }
    let area = sheet.panel(340.0, margin_for(&marks), 0);
    let scale = event::with_room(Scale::linear(y, Unit::Percent, 5.0), y, &events);
    let panel = Panel::new(area, Scale::exact(x, Unit::Plain, 10.0), scale);
    event::shade(&mut sheet.svg, &panel, &events);
    panel.frame(&mut sheet.svg, &Words { x: "time, s", y: "share of requests", ..Words::default() });
    for (number, _, points) in &all {
        panel.line(&mut sheet.svg, points, &colour::variant(*number));
    }
    panel.marks(&mut sheet.svg, &marks, Labels::Shown);
    event::name(&mut sheet.svg, &panel, &events);
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
    fair.into_iter().chain(source.lines(Unit::Percent)).collect()
}
