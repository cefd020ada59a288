//! Share of requests slower than so many milliseconds, both axes logarithmic: the tail is most of the picture.

use super::colour;
use super::panel::{Mark, Panel, Words};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{Key, Sheet};
use super::source::{Points, Source};
use super::svg::{Place, Stroke};
use crate::number::readable;

struct Curve<'a> {
    number: usize,
    variant: &'a str,
    points: Points,
    /// Where nothing is slower any more; not known where the rest is too rare to be drawn.
    end: Option<f64>,
}

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let all: Vec<Curve<'_>> = source
        .each("latency_above")
        .into_iter()
        .filter_map(|(number, variant, points)| curve(source, number, variant, &points))
        .collect();
    let points = || all.iter().flat_map(|curve| curve.points.iter());
    let x = Extent::of(points().map(|point| point.0))?;
    let y = Extent::of(points().map(|point| point.1))?.with(HIGHEST_FLOOR);
    let marks: Vec<Mark> = deadline(source, &all).into_iter().chain(source.lines(Unit::Plain)).collect();
    let x = marks.iter().filter(|mark| mark.value > 0.0).fold(x, |x, mark| x.with(mark.value));

    let mut sheet = Sheet::new(source, "Requests slower than so much");
    let keys: Vec<Key> = all
        .iter()
        .map(|curve| Key::Line(colour::variant(curve.number), source.label(curve.variant).to_owned()))
        .filter(|key| !matches!(key, Key::Line(_, label) if label.is_empty()))
        .collect();
    if !keys.is_empty() {
        sheet.legend(&keys);
    }
    let area = sheet.panel(380.0, 30.0, marks.len());
    let panel = Panel::new(area, Scale::logarithmic(x, Unit::Plain, 10.0), Scale::logarithmic(y, Unit::Percent, 8.0));
    let words = Words { x: "latency, ms", y: "share of requests that take longer", ..Words::default() };
    panel.frame(&mut sheet.svg, &words);
    panel.uprights(&mut sheet.svg, &marks);
    for (curve, fall) in all.iter().zip(falls(&panel, &all)) {
        let mut places: Vec<Place> = curve.points.iter().map(|&point| panel.place(point)).collect();
        if let (Some(fall), Some(last)) = (fall, places.last_mut()) {
            last.0 = fall;
            places.push((fall, area.bottom()));
        }
        sheet.svg.polyline(&places, &colour::variant(curve.number));
    }
    panel.axes(&mut sheet.svg);
    Some(sheet)
}

/// From where all requests are slower to where none is.
fn curve<'a>(source: &Source<'_>, number: usize, variant: &'a str, series: &Points) -> Option<Curve<'a>> {
    let mut points: Points = series.iter().copied().filter(is_drawn).collect();
    let (&first, &last) = (points.first()?, points.last()?);
    points.insert(0, (first.0, 1.0));
    let mut end = (series.last() == Some(&last)).then_some(last.0);
    if let (Some(end), Some((deadline, share))) = (end.as_mut(), expired(source, variant)) {
        // Those who gave up are no point of the series: nobody waits longer.
        if *end < deadline {
            *end = deadline;
            points.push((last.0, share.min(last.1)));
        }
    }
    points.extend(end.map(|end| (end, points.last().map_or(last.1, |point| point.1))));
    Some(Curve { number, variant, points, end })
}

/// Others have no logarithm, or are about too few requests to mean anything.
fn is_drawn(point: &(f64, f64)) -> bool {
    point.0 > 0.0 && point.1 >= RAREST
}

/// The deadline in milliseconds, and the share of requests that reached it; nothing where too few did.
fn expired(source: &Source<'_>, variant: &str) -> Option<(f64, f64)> {
    let (expired, served) = (source.metric(variant, "expired")?, source.metric(variant, "served")?);
    let share = expired / (expired + served);
    (share >= RAREST).then(|| (source.run(variant).clients.deadline.seconds() * 1e3, share))
}

/// Where callers give up, if curves end there.
fn deadline(source: &Source<'_>, all: &[Curve<'_>]) -> Option<Mark> {
    let reached = |curve: &&Curve<'_>| expired(source, curve.variant).map(|(deadline, _)| deadline) == curve.end;
    let value = all.iter().filter(|curve| curve.end.is_some()).find(reached)?.end?;
    let label = format!("deadline {} ms", readable(value));
    Some(Mark { value, label, stroke: Stroke::dashed(colour::TEXT_SOFT, 1.0) })
}

/// Where each curve falls to nothing. Those that end at the same time fall side by side, or only one would be seen.
fn falls(panel: &Panel, all: &[Curve<'_>]) -> Vec<Option<f64>> {
    let ends: Vec<Option<f64>> = all.iter().map(|curve| curve.end.map(|end| panel.x.place(end))).collect();
    let is_near = |a: f64, b: &Option<f64>| b.is_some_and(|b| (a - b).abs() < SIDE_BY_SIDE);
    ends.iter()
        .enumerate()
        .map(|(index, end)| {
            let end = (*end)?;
            // To the left: the deadline is often the end of the axis.
            let after = ends[index + 1..].iter().filter(|other| is_near(end, other)).count() as f64;
            Some(end - after * SIDE_BY_SIDE)
        })
        .collect()
}

/// One request in a hundred thousand.
const RAREST: f64 = 1e-5;
/// The axis of shares reaches down to this at least.
const HIGHEST_FLOOR: f64 = 1e-3;
/// From one falling line to the next, in pixels: too little to be read as a difference.
const SIDE_BY_SIDE: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::super::panel::Area;
    use super::*;

    #[test]
    fn curves_that_end_at_the_same_time_fall_side_by_side() {
        let curve = |end| Curve { number: 0, variant: "", points: Points::new(), end };
        let area = Area { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };
        let scale = || Scale::logarithmic(Extent { least: 1.0, most: 100.0 }, Unit::Plain, 10.0);

        let falls = falls(&Panel::new(area, scale(), scale()), &[100.0, 10.0, 100.0].map(|end| curve(Some(end))));

        assert_eq!(falls, [Some(97.0), Some(50.0), Some(100.0)]);
    }
}
