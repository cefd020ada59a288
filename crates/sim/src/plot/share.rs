//! Share of requests that went to faulted backends, over time: how soon they are left alone, and when they come back.

use std::collections::BTreeSet;

use super::panel::{Labels, Mark, Panel, Words, margin_for};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet, lasting_key};
use super::source::{Points, Source};
use super::svg::Stroke;
use super::{colour, event};
use crate::number::readable;
use crate::scenario::{FaultKind, Scenario, selection};

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all = source.each("faulted_share");
    let points = || all.iter().flat_map(|(_, _, points)| points.iter());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(0.0);
    let marks = marks(source, &all);
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

fn marks(source: &Source<'_>, all: &[(usize, &str, Points)]) -> Vec<Mark> {
    let mut fair: Vec<f64> = Vec::new();
    for share in all.iter().filter_map(|(_, variant, _)| fair_share(source.run(variant))) {
        if !fair.contains(&share) {
            fair.push(share);
        }
    }
    let mark = |value: f64| Mark {
        value,
        label: format!("fair share {} %", readable(value * 100.0)),
        stroke: Stroke::dashed(colour::TEXT_SOFT, 1.2),
    };
    fair.into_iter().map(mark).chain(source.lines(Unit::Percent)).collect()
}

/// What all backends that any fault is about would get if nobody cared, as the curve counts them together. Nothing where
/// that is everything, or where their number changes on the way.
fn fair_share(scenario: &Scenario) -> Option<f64> {
    let count = scenario.backends.count;
    let mut faulted: BTreeSet<u32> = BTreeSet::new();
    for fault in &scenario.faults {
        match fault.kind {
            FaultKind::Resize { .. } => return None,
            FaultKind::Policy { .. } => {}
            _ if fault.layer > 0 => {}
            _ => faulted.extend(selection(&fault.backends, count)?),
        }
    }
    let share = faulted.len() as f64 / f64::from(count);
    (share > 0.0 && share < 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fair(faults: &[(&str, &str)]) -> Option<f64> {
        let one = |(kind, backends): &(&str, &str)| {
            format!("[[fault]]\nkind = \"{kind}\"\nat = \"20s\"\nbackends = \"{backends}\"\n")
        };
        let faults: String = faults.iter().map(one).collect();
        fair_share(&Scenario::parse(&format!("backends.count = 20\n{faults}")).unwrap())
    }

    #[test]
    fn the_fair_share_is_that_of_all_faulted_backends_together() {
        assert_eq!(fair(&[("kill", "0")]), Some(0.05));
        assert_eq!(fair(&[("kill", "0-3"), ("hang", "2-5")]), Some(0.3));
        assert_eq!(fair(&[("kill", "0"), ("hang", "all")]), None, "of everything there is no share");
        assert_eq!(fair(&[]), None);
    }

    #[test]
    fn no_share_is_fair_for_long_where_backends_come_and_go() {
        let text =
            "[[fault]]\nkind = \"kill\"\nat = \"20s\"\n[[fault]]\nkind = \"resize\"\nat = \"30s\"\nchange = \"+50%b\"";
        assert_eq!(fair_share(&Scenario::parse(text).unwrap()), None);
    }
}
