//! CPU used by each task, most loaded first. A service is sized for its most loaded task: what the others leave unused
//! below it is paid for and wasted.

use super::colour;
use super::panel::{Labels, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, columns};
use super::source::Source;
use crate::number::readable;

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<(&str, Vec<f64>)> = source
        .each("cpu_used_by_task")
        .into_iter()
        .map(|(_, variant, points)| (variant, sorted(points.into_iter().map(|point| point.1.max(0.0)).collect())))
        .collect();
    let y = Extent::of(all.iter().flat_map(|(_, used)| used.iter().copied()))?.with(0.0);
    let y = source.figure.published.iter().fold(y, |y, line| y.with(line.value));

    let mut sheet = Sheet::new(source, "CPU used and wasted, by task");
    sheet.legend(&[
        Key::Fill(colour::BLUE, "used".to_owned()),
        Key::Fill(WASTED, "wasted: unused up to the most loaded task".to_owned()),
    ]);
    let columns = columns(all.len());
    let marks = source.lines(Unit::Plain);
    let areas = sheet.panels(all.len(), columns, 270.0, margin_for(&marks));
    for (number, ((variant, used), area)) in all.iter().zip(areas).enumerate() {
        let ranks = Extent { least: 0.0, most: used.len() as f64 };
        let panel = Panel::new(area, Scale::exact(ranks, Unit::Plain, 5.0), Scale::linear(y, Unit::Plain, 5.0));
        let y_label = if number % columns == 0 { "cores in use" } else { "" };
        let note = note(used);
        let words = Words { title: source.label(variant), note: &note, x: "tasks, most loaded first", y: y_label };
        panel.frame(&mut sheet.svg, &words);
        let most = vec![used.first().copied().unwrap_or(0.0); used.len()];
        panel.bars(&mut sheet.svg, used, &most, WASTED);
        panel.bars(&mut sheet.svg, &vec![0.0; used.len()], used, colour::BLUE);
        let is_last = number % columns == columns - 1 || number + 1 == all.len();
        let labels = if is_last { Labels::Shown } else { Labels::Hidden };
        panel.marks(&mut sheet.svg, &marks, labels);
        panel.axes(&mut sheet.svg);
    }
    Some(sheet)
}

fn sorted(mut used: Vec<f64>) -> Vec<f64> {
    used.sort_by(|a, b| b.total_cmp(a));
    used
}

fn note(used: &[f64]) -> String {
    let most = used.first().copied().unwrap_or(0.0);
    let reserved = most * used.len() as f64;
    let wasted = reserved - used.iter().sum::<f64>();
    let share = if reserved > 0.0 { wasted / reserved * 100.0 } else { 0.0 };
    format!("wasted {} of {} cores ({} %)", readable(wasted), readable(reserved), readable(share))
}

const WASTED: &str = "#f9dcae";
