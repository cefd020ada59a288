//! Utilization of tasks over time: how far the least and the most loaded are apart.

use super::panel::{Labels, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, columns, lasting_key, published_key};
use super::source::{Points, Source};
use super::svg::Stroke;
use super::{colour, event};
use crate::number;

struct Lines<'a> {
    variant: &'a str,
    least: Points,
    mean: Points,
    most: Points,
    tasks: Vec<Points>,
}

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<Lines<'_>> = source.variants.iter().filter_map(|variant| lines(source, variant)).collect();
    let x = Extent::of(all.iter().flat_map(|one| one.most.iter().map(|point| point.0)))?;
    let y = Extent::of(all.iter().flat_map(|one| one.most.iter().map(|point| point.1)))?;
    let published = source.lines(Unit::Percent);
    let y = published.iter().fold(y.with(0.0), |y, mark| y.with(mark.value));
    let events = source.events(all.iter().map(|one| one.variant), x);

    let mut sheet = Sheet::new(source, "Utilization of tasks over time");
    let mut keys = vec![
        Key::Fill(BAND, "least to most loaded task".to_owned()),
        Key::Line(MEAN, "mean of all".to_owned()),
        Key::Line(TASK, "single tasks".to_owned()),
    ];
    keys.extend(lasting_key(&events));
    if !published.is_empty() {
        keys.push(published_key());
    }
    sheet.legend(&keys);
    let columns = columns(all.len());
    let areas = sheet.panels(all.len(), columns, 290.0, margin_for(&published));
    for (number, (one, area)) in all.iter().zip(areas).enumerate() {
        let ticks = if columns > 2 { 4.0 } else { 6.0 };
        let scale = event::with_room(Scale::linear(y, Unit::Percent, 5.0), y, &events);
        let panel = Panel::new(area, Scale::exact(x, Unit::Plain, ticks), scale);
        let y_label = if number % columns == 0 { "utilization of a task's cores" } else { "" };
        let note = note(source, one.variant);
        let words = Words { title: source.label(one.variant), note: &note, x: "time, s", y: y_label };
        let events = source.events([one.variant], x);
        event::shade(&mut sheet.svg, &panel, &events);
        panel.frame(&mut sheet.svg, &words);
        panel.band(&mut sheet.svg, &one.least, &one.most, BAND, 1.0);
        for task in &one.tasks {
            panel.line(&mut sheet.svg, task, &TASK);
        }
        panel.line(&mut sheet.svg, &one.mean, &MEAN);
        let is_last = number % columns == columns - 1 || number + 1 == all.len();
        let labels = if is_last { Labels::Shown } else { Labels::Hidden };
        panel.marks(&mut sheet.svg, &published, labels);
        event::name(&mut sheet.svg, &panel, &events);
        panel.axes(&mut sheet.svg);
    }
    Some(sheet)
}

fn lines<'a>(source: &Source<'_>, variant: &'a str) -> Option<Lines<'a>> {
    let series = |name: &str| source.series(variant, name);
    let (least, most) = (series("utilization_least")?, series("utilization_most")?);
    let mean = series("utilization_mean").unwrap_or_default();
    let tasks = (0..TASKS).filter_map(|task| series(&format!("task_{task}"))).collect();
    Some(Lines { variant, least, mean, most, tasks })
}

/// What the picture comes to, in numbers.
fn note(source: &Source<'_>, variant: &str) -> String {
    let of = |name: &str, over: &str| {
        source.metric(variant, name).map(|value| format!("{} over {over}", number::figure(name, value, 1.0)))
    };
    let known: Vec<String> = [of("spread_1s", "1 s"), of("spread_60s", "60 s")].into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!("max/min: {}", known.join(", ")) }
}

/// As many as can be followed by eye.
const TASKS: usize = 12;
const BAND: &str = "#cfe3f2";
const MEAN: Stroke = Stroke::solid(colour::BLUE, 2.4);
const TASK: Stroke = Stroke { opacity: 0.7, ..Stroke::solid("#777777", 0.9) };
