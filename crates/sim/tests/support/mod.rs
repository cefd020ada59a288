//! A document as the laboratory gives it, made up: every figure, two variants, a fault, checks met and missed.

#![allow(dead_code, reason = "each test file uses its part of it")]

use std::collections::BTreeMap;
use std::fmt::Write;

use evenkeel_core::Rng;
use evenkeel_sim::scenario::{FigureKind, FigureSpec, Published, PublishedLine};
use evenkeel_sim::{CheckResult, Document, Input, Series};

pub(crate) const KINDS: [FigureKind; 7] = [
    FigureKind::Spread,
    FigureKind::Waste,
    FigureKind::Connections,
    FigureKind::Latency,
    FigureKind::Share,
    FigureKind::Outcomes,
    FigureKind::Compare,
];

/// Every kind of figure, of these variants.
pub(crate) fn document(variants: &[&str]) -> Document {
    let mut document = Document {
        scenario: "made-up".to_owned(),
        about: "Two policies on the same trace, one of a hundred tasks slow".to_owned(),
        seed: 1,
        seeds: 1,
        input: Input { toml: toml(variants), set: Vec::new(), policy: None },
        metrics: BTreeMap::new(),
        checks: checks(),
        series: BTreeMap::new(),
        figures: KINDS.into_iter().map(figure).collect(),
        trace: BTreeMap::new(),
    };
    for (number, variant) in variants.iter().enumerate() {
        fill(&mut document, variant, number);
    }
    document
}

pub(crate) fn figure(kind: FigureKind) -> FigureSpec {
    let lines: &[(&str, f64)] = match kind {
        FigureKind::Spread => &[("reserved", 1.0)],
        FigureKind::Connections => &[("published least 50 %", 15.0), ("published most 150 %", 45.0)],
        FigureKind::Latency => &[("published p99 80 ms", 80.0), ("published p50 11 ms", 11.0)],
        FigureKind::Compare => &[("published: up to 2", 2.0), ("published p99 80 ms", 80.0)],
        _ => &[],
    };
    let published = lines.iter().map(|&(label, value)| PublishedLine { label: label.to_owned(), value }).collect();
    let caption = "What to see & why it <matters>".to_owned();
    FigureSpec { kind, title: format!("{kind:?} of \"tasks\" & more"), caption, variants: Vec::new(), published }
}

fn toml(variants: &[&str]) -> String {
    let mut text = "[[fault]]\nkind = \"slow\"\nspeed = 0.5\nat = \"40s\"\nlasts = \"20s\"\n".to_owned();
    for variant in variants.iter().filter(|variant| !variant.is_empty()) {
        let _infallible = write!(text, "[[variant]]\nname = \"{variant}\"\nset = {{}}\n");
    }
    text
}

fn checks() -> Vec<CheckResult> {
    let check = |id: &str, published, goal: &str, measured, pass| CheckResult {
        id: id.to_owned(),
        what: format!("the {id} of tasks <over> a minute"),
        published,
        goal: goal.to_owned(),
        measured,
        pass,
    };
    vec![
        check("spread", Some(Published::Words("up to 2".to_owned())), "≤ 1.2", Some(1.0512), true),
        check("tail", Some(Published::Number(80.0)), "≤ 60", Some(71.25), false),
        check("lost", None, "≤ 0", None, false),
    ]
}

fn fill(document: &mut Document, variant: &str, number: usize) {
    let mut rng = Rng::for_stream(7, number as u64);
    let width = if number == 0 { 0.35 } else { 0.06 };
    let name = |name: &str| if variant.is_empty() { name.to_owned() } else { format!("{variant}/{name}") };
    let mut put = |series: &str, unit: &str, points: Vec<(f64, f64)>| {
        let (x, y) = points.into_iter().unzip();
        document.series.insert(name(series), Series { unit: unit.to_owned(), x, y });
    };
    let mut over_time = |level: f64, noise: f64| -> Vec<(f64, f64)> {
        (10..100).map(|second| (f64::from(second), level + noise * (rng.unit() - 0.5))).collect()
    };
    put("utilization_least", "share", over_time(0.7 - width, 0.04));
    put("utilization_mean", "share", over_time(0.7, 0.02));
    put("utilization_most", "share", over_time(0.7 + width * 0.7, 0.04));
    for task in 0..12 {
        put(&format!("task_{task}"), "share", over_time(0.7 + width * (f64::from(task) / 12.0 - 0.5), width / 3.0));
    }
    put("faulted_share", "share", (10..100).map(|s| (f64::from(s), faulted(s, number))).collect());
    put("served", "1/s", over_time(950.0, 60.0));
    put("refused", "1/s", (10..100).map(|s| (f64::from(s), if (40..60).contains(&s) { 180.0 } else { 0.0 })).collect());
    put("failed", "1/s", (10..100).map(|s| (f64::from(s), if (40..45).contains(&s) { 90.0 } else { 4.0 })).collect());
    let used = |rank: i32| (f64::from(rank), 8.0 * (0.7 + width * (0.7 - f64::from(rank) / 60.0)));
    put("cpu_used_by_task", "cores", (0..if number == 0 { 100 } else { 40 }).map(used).collect());
    let slower = |step: i32| {
        let x = 2.0 * libm::pow(1.08, f64::from(step));
        (x, (1.0 / (1.0 + libm::pow(x / 10.0, if number == 0 { 3.0 } else { 4.0 }))).max(0.0))
    };
    put("latency_above", "share", (0..90).map(slower).filter(|point| point.1 > 2e-6).collect());
    let mut dealt = Rng::for_stream(9, number as u64);
    let spread = if number == 0 { 30 } else { 3 };
    put(
        "connections_by_backend",
        "connections",
        (0..300).map(|backend| (f64::from(backend), f64::from(30 - spread / 2 + dealt.below(spread)))).collect(),
    );
    for (metric, value) in [
        ("served_share", 0.998 - 0.01 * number as f64),
        ("p50_ms", 11.2),
        ("p99_ms", 71.25 + 30.0 * number as f64),
        ("utilization", 0.7012),
        ("spread_1s", 1.0 + width * 3.0),
        ("spread_60s", 1.0 + width * 2.0),
        ("wasted_cores", 181.3),
        ("fault0_fair", 0.01),
        ("requests", 123_456.0),
    ] {
        document.metrics.insert(name(metric), value);
    }
}

fn faulted(second: i32, number: usize) -> f64 {
    let is_faulted = (41..60).contains(&second);
    if is_faulted { [0.001, 0.02, 0.006][number % 3] } else { 0.01 }
}
