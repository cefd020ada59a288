//! Every variant side by side: how far its tasks are apart, and how slow its slowest requests are.

use super::colour;
use super::panel::{Area, Mark, Panel, ROW};
use super::scale::{Extent, Scale, Unit};
use super::sheet::{EDGE, Sheet, WIDTH, published_key};
use super::source::Source;
use super::svg::{Anchor, Stroke, Type};
use crate::number::{figure, readable};

/// One column of bars.
struct Column {
    name: &'static str,
    metric: &'static str,
    fill: &'static str,
    /// Where bars begin: the best there can be.
    from: f64,
    values: Vec<Option<f64>>,
    /// What others published for each variant.
    rivals: Vec<Option<f64>>,
    published: Vec<Mark>,
}

impl Column {
    /// Logarithmic where the largest would leave nothing to see of the others; then its name says so.
    fn scale(&self) -> (Scale, &'static str) {
        let known = self.values.iter().chain(&self.rivals).flatten().copied();
        let extent = Extent::of(known.chain(self.published.iter().map(|mark| mark.value)));
        let extent = extent.unwrap_or(Extent { least: self.from, most: self.from });
        if extent.least > self.from && extent.most / extent.least > FAR_APART {
            // A logarithmic axis has no nought: the shortest bar is a factor of two at least.
            let from = if self.from > 0.0 { self.from } else { extent.least / 2.0 };
            return (Scale::logarithmic(Extent { least: from, ..extent }, Unit::Plain, 5.0), ", logarithmic");
        }
        let extent = Extent { least: self.from, most: extent.most.max(self.from + LEAST_EXTENT) };
        (Scale::linear(extent, Unit::Plain, 4.0), "")
    }

    /// What stands behind the bar of this row: its value, and what others published.
    fn texts(&self, row: usize) -> (String, String) {
        let value = self.values[row].map_or("–".to_owned(), |value| figure(self.metric, value, 1.0));
        (value, self.rivals[row].map_or(String::new(), |rival| format!("published {}", readable(rival))))
    }

    fn widest_text(&self) -> f64 {
        let width = |(value, published): (String, String)| Type::BODY.width(&value) + RIVAL.width(&published);
        (0..self.values.len()).map(|row| width(self.texts(row)) + 5.0 * AWAY).fold(NUMBER, f64::max)
    }
}

pub(super) fn draw(source: &Source<'_>) -> Option<Sheet> {
    let columns: Vec<Column> =
        columns(source).into_iter().filter(|one| one.values.iter().any(Option::is_some)).collect();
    if columns.is_empty() {
        return None;
    }
    let mut sheet = Sheet::new(source, "The variants side by side");
    if columns.iter().any(|column| !column.published.is_empty() || column.rivals.iter().any(Option::is_some)) {
        sheet.legend(&[published_key()]);
    }
    let names: Vec<&str> = source.variants.iter().map(|variant| source.label(variant)).collect();
    let widest = names.iter().map(|name| Type::BODY.width(name)).fold(40.0, f64::max).min(WIDTH / 3.0);
    let rows = names.len() as f64;
    let published_rows = columns.iter().map(|column| column.published.len()).max().unwrap_or(0) as f64;
    let head = 30.0 + ROW * published_rows;
    let (left, top) = (EDGE + widest + 12.0, sheet.bottom + head);
    let width = (WIDTH - EDGE - left - BETWEEN * (columns.len() - 1) as f64) / columns.len() as f64;
    for (row, name) in names.iter().enumerate() {
        let middle = top + BAR * (row as f64 + 0.5);
        sheet.svg.text((left - 12.0, middle + 4.0), name, &Type::BODY.anchored(Anchor::End));
    }
    for (number, column) in columns.iter().enumerate() {
        let left = left + (width + BETWEEN) * number as f64;
        // What stands behind the longest bar needs room too.
        let area = Area { left, top, width: width - column.widest_text(), height: BAR * rows };
        draw_column(&mut sheet, column, area);
    }
    sheet.bottom = top + BAR * rows + 30.0;
    Some(sheet)
}

fn draw_column(sheet: &mut Sheet, column: &Column, area: Area) {
    let (scale, kind) = column.scale();
    let panel = Panel::new(area, scale, Scale::exact(Extent { least: 0.0, most: 1.0 }, Unit::Plain, 1.0));
    let svg = &mut sheet.svg;
    let published_height = ROW * column.published.len() as f64;
    svg.text((area.left, area.top - 12.0 - published_height), &format!("{}{kind}", column.name), &Type::PANEL);
    for (value, label) in panel.x.ticks() {
        let x = panel.x.place(value);
        svg.line((x, area.top), (x, area.bottom()), &Stroke::solid(colour::GRID, 1.0));
        svg.text((x, area.bottom() + 17.0), &label, &Type::SMALL.anchored(Anchor::Middle));
    }
    let ends: Vec<f64> =
        column.values.iter().map(|value| value.map_or(area.left, |value| panel.x.place(value))).collect();
    for (row, end) in ends.iter().enumerate() {
        svg.rect((area.left, area.top + BAR * row as f64 + 5.0), end - area.left, BAR - 10.0, column.fill);
    }
    panel.uprights(svg, &column.published);
    for (row, rival) in column.rivals.iter().enumerate() {
        if let Some(rival) = rival {
            let (x, top) = (panel.x.place(*rival), area.top + BAR * row as f64);
            let (from, to) = ((x, top + 1.0), (x, top + BAR - 1.0));
            svg.line(from, to, &Stroke::solid(colour::PAPER, 6.0));
            svg.line(from, to, &Stroke::dashed(colour::PUBLISHED, 2.5));
        }
    }
    for (row, (end, rival)) in ends.iter().zip(&column.rivals).enumerate() {
        let (text, published) = column.texts(row);
        let left = rival.map_or(*end, |rival| panel.x.place(rival).max(*end)) + AWAY;
        let baseline = area.top + BAR * (row as f64 + 0.5) + 4.0;
        svg.text((left, baseline), &text, &Type::BODY.rimmed());
        svg.text((left + Type::BODY.width(&text) + 2.0 * AWAY, baseline), &published, &RIVAL);
    }
    svg.line((area.left, area.top), (area.left, area.bottom()), &Stroke::solid(colour::AXIS, 1.0));
}

fn columns(source: &Source<'_>) -> [Column; 2] {
    let values = |name: &str| -> Vec<Option<f64>> {
        source.variants.iter().map(|variant| source.metric(variant, name)).collect()
    };
    let rivals = |name: &str| -> Vec<Option<f64>> {
        source.variants.iter().map(|variant| source.published(variant, name)).collect()
    };
    let published = |wants_latency: bool| -> Vec<Mark> {
        source.lines(Unit::Plain).into_iter().filter(|mark| is_latency(&mark.label) == wants_latency).collect()
    };
    let spread = spread_name(source);
    [
        Column {
            name: "utilization, max/min (1 is even)",
            metric: spread,
            fill: colour::BLUE,
            from: 1.0,
            values: values(spread),
            rivals: rivals(spread),
            published: published(false),
        },
        Column {
            name: "99th percentile of latency, ms",
            metric: "p99_ms",
            fill: colour::GREEN,
            from: 0.0,
            values: values("p99_ms"),
            rivals: rivals("p99_ms"),
            published: published(true),
        },
    ]
}

/// Over a minute, but over the whole time where that is what others published or all there is.
fn spread_name(source: &Source<'_>) -> &'static str {
    let any = |has: &dyn Fn(&str) -> bool| source.variants.iter().any(|variant| has(variant));
    let is_published = any(&|variant| source.published(variant, "spread").is_some());
    let has_minutes = any(&|variant| source.metric(variant, "spread_60s").is_some());
    if has_minutes && !is_published { "spread_60s" } else { "spread" }
}

/// A published line has one value and this figure two axes: those that speak of time belong to the second.
fn is_latency(label: &str) -> bool {
    label.split(|character: char| !character.is_alphanumeric()).any(|word| matches!(word, "ms" | "p99" | "latency"))
}

const BAR: f64 = 34.0;
const BETWEEN: f64 = 30.0;
const NUMBER: f64 = 64.0;
/// From a bar to its number.
const AWAY: f64 = 6.0;
/// Where all are as good as can be an axis has to show something.
const LEAST_EXTENT: f64 = 0.01;
const RIVAL: Type = Type::SMALL.coloured(colour::PUBLISHED).rimmed();
/// The largest over the least from which on a linear axis hides the least.
const FAR_APART: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_far_apart_have_a_logarithmic_axis_and_it_says_so() {
        let kind = |values: &[f64], from| {
            let values: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let rivals = vec![None; values.len()];
            Column { name: "", metric: "", fill: "", from, values, rivals, published: Vec::new() }.scale().1
        };

        assert_eq!(kind(&[100.0, 10_008.0], 0.0), ", logarithmic");
        assert_eq!(kind(&[100.0, 1_000.0], 0.0), "");
        assert_eq!(kind(&[0.0, 1_000.0], 0.0), "", "nought has no logarithm");
    }
}
