//! The tables of one scenario: its goals, and its main figures by variant.

use std::fmt::Write;

use crate::document::{CheckResult, Document};
use crate::number::{IDLE, figure, precise, readable};
use crate::plot::escaped;
use crate::scenario::Published;

/// What had to come out, beside what did; missed ones first.
pub(super) fn checks_table(checks: &[CheckResult]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let any_published = checks.iter().any(|check| check.published.is_some());
    let mut text = "<h3>Goals</h3>\n<div class=\"wide\"><table>\n<thead><tr><th>verdict</th><th>what</th>\
                    <th class=\"number\">measured</th><th class=\"number\">goal</th>"
        .to_owned();
    text += if any_published { "<th>published</th></tr></thead>\n<tbody>\n" } else { "</tr></thead>\n<tbody>\n" };
    let mut ordered: Vec<&CheckResult> = checks.iter().collect();
    ordered.sort_by_key(|check| check.pass);
    for check in ordered {
        let published = match &check.published {
            Some(Published::Number(value)) => readable(*value),
            Some(Published::Words(words)) => escaped(words),
            None => "–".to_owned(),
        };
        let published = if any_published { format!("<td>{published}</td>") } else { String::new() };
        let measured = check.measured.map_or("–".to_owned(), precise);
        let verdict = if check.pass { "pass" } else { "miss" };
        let _infallible = writeln!(
            text,
            "<tr><td class=\"{verdict}\">{verdict}</td><td>{}</td><td class=\"number\">{measured}</td>\
             <td class=\"number\">{}</td>{published}</tr>",
            escaped(&check.what),
            escaped(&check.goal),
        );
    }
    text + "</tbody></table></div>\n"
}

/// A row for each variant; only columns that some variant has.
pub(super) fn metrics_table(document: &Document) -> String {
    let variants = document.variants();
    let value = |variant: &str, metric: &str| document.metric(variant, metric);
    let columns: Vec<&(&str, &str, f64)> = METRICS
        .iter()
        .filter(|(metric, _, _)| variants.iter().any(|variant| value(variant, metric).is_some()))
        .collect();
    if columns.is_empty() {
        return String::new();
    }
    let mut text =
        "<h3>Figures</h3>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr><th>variant</th>".to_owned();
    for (_, name, _) in &columns {
        let _infallible = write!(text, "<th class=\"number\">{name}</th>");
    }
    text += "</tr></thead>\n<tbody>\n";
    let mut any_idle = false;
    for variant in &variants {
        let _infallible = write!(text, "<tr><td>{}</td>", escaped(document.title_of(variant)));
        for (metric, _, times) in &columns {
            let cell = value(variant, metric).map_or("–".to_owned(), |value| figure(metric, value, *times));
            any_idle |= cell == IDLE;
            let _infallible = write!(text, "<td class=\"number\">{cell}</td>");
        }
        text += "</tr>\n";
    }
    text += "</tbody></table></div>\n";
    if any_idle {
        text += "<p>max/min is “idle” where the least loaded task had next to nothing to do: no number says how far \
                 the most loaded is from it.</p>\n";
    }
    text
}

/// Name, heading, and what it is multiplied by for people.
const METRICS: [(&str, &str, f64); 15] = [
    ("requests", "requests", 1.0),
    ("served_share", "served, %", 100.0),
    ("p50_ms", "p50, ms", 1.0),
    ("p99_ms", "p99, ms", 1.0),
    ("utilization", "utilization, %", 100.0),
    ("spread_1s", "max/min, 1\u{a0}s", 1.0),
    ("spread_60s", "max/min, 60\u{a0}s", 1.0),
    ("most_to_mean", "most/mean", 1.0),
    ("wasted_cores", "cores wasted", 1.0),
    ("fault0_share", "to faulted, %", 100.0),
    ("connections_least", "least connections", 1.0),
    ("connections_mean", "mean", 1.0),
    ("connections_most", "most", 1.0),
    ("connections_lost_share", "connections lost, %", 100.0),
    ("plan_lost_share", "planned, %", 100.0),
];
