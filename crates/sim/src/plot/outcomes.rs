//! Requests per second over time by what became of them, on top of each other: together they are what was asked.

use super::panel::{Labels, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, columns, lasting_key, published_key};
use super::source::{Points, Source};
use super::{colour, event};
use crate::number;

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<(&str, Vec<Points>)> =
        source.variants.iter().filter_map(|variant| Some((variant.as_str(), layers(source, variant)?))).collect();
    let points = || all.iter().flat_map(|(_, layers)| layers.iter().flatten());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(0.0);
    let published = source.lines(Unit::Plain);
    let y = published.iter().fold(y, |y, mark| y.with(mark.value));
    let events = source.events(all.iter().map(|(variant, _)| *variant), x);

    let mut sheet = Sheet::new(source, "What became of requests");
    let mut keys: Vec<Key> = OUTCOMES.iter().map(|&(name, fill)| Key::Fill(fill, name.to_owned())).collect();
    keys.extend(lasting_key(&events));
    if !published.is_empty() {
        keys.push(published_key());
    }
    sheet.legend(&keys);
    let columns = columns(all.len());
    let areas = sheet.panels(all.len(), columns, 280.0, margin_for(&published));
    for (number, ((variant, layers), area)) in all.iter().zip(areas).enumerate() {
        let ticks = if columns > 2 { 4.0 } else { 6.0 };
        let scale = event::with_room(Scale::linear(y, Unit::Plain, 5.0), y, &events);
        let panel = Panel::new(area, Scale::exact(x, Unit::Plain, ticks), scale);
        let events = source.events([*variant], x);
        event::shade(&mut sheet.svg, &panel, &events);
        let y_label = if number % columns == 0 { "requests per second" } else { "" };
        let note = source
            .metric(variant, "served_share")
            .map_or(String::new(), |share| format!("served: {} %", number::figure("served_share", share, 100.0)));
        let words = Words { title: source.label(variant), note: &note, x: "time, s", y: y_label };
        panel.frame(&mut sheet.svg, &words);
        for (index, (_, fill)) in OUTCOMES.iter().enumerate() {
            panel.band(&mut sheet.svg, &layers[index], &layers[index + 1], fill, 0.85);
        }
        let is_last = number % columns == columns - 1 || number + 1 == all.len();
        panel.marks(&mut sheet.svg, &published, if is_last { Labels::Shown } else { Labels::Hidden });
        event::name(&mut sheet.svg, &panel, &events);
        panel.axes(&mut sheet.svg);
    }
    Some(sheet)
}

/// Heights of what is below each outcome: nothing, served, served and refused, all.
fn layers(source: &Source<'_>, variant: &str) -> Option<Vec<Points>> {
    let served = source.series(variant, OUTCOMES[0].0)?;
    let mut layers: Vec<Points> = vec![served.iter().map(|&(x, _)| (x, 0.0)).collect()];
    for (name, _) in OUTCOMES {
        let series = source.series(variant, name).unwrap_or_default();
        let below = layers.last()?;
        let above = below.iter().enumerate().map(|(index, &(x, y))| {
            // All three have a value for each second; one that is shorter has none for the rest.
            (x, y + series.get(index).map_or(0.0, |point| point.1.max(0.0)))
        });
        let above = above.collect();
        layers.push(above);
    }
    Some(layers)
}

const OUTCOMES: [(&str, &str); 3] =
    [("served", colour::SKY), ("refused", colour::ORANGE), ("failed", colour::VERMILION)];
