//! Figures: well formed, labelled, the same every time, and drawn from anything.
//!
//! The pictures are left in `target/tmp` for people to look at.

use std::path::Path;

use crate::support::{KINDS, document, figure};
use evenkeel_sim::scenario::FigureKind;
use evenkeel_sim::{Document, Series, plot};

/// All that is written in a figure; panics where it is no XML.
fn words(svg: &str) -> Vec<String> {
    let parsed = roxmltree::Document::parse(svg).unwrap_or_else(|error| panic!("{error}\n{svg}"));
    assert_eq!(parsed.root_element().tag_name().name(), "svg");
    parsed.descendants().filter_map(|node| node.text()).map(|text| text.trim().to_owned()).collect()
}

#[test]
fn every_kind_is_drawn_with_its_labels() {
    let cases: [(&str, &[&str]); 4] = [
        ("one", &[""]),
        ("two", &["round_robin", "least_loaded"]),
        ("three", &["weighted_round_robin", "least_loaded", "prequal"]),
        ("five", &["a", "b", "c", "d", "e"]),
    ];
    for (name, variants) in cases {
        let document = document(variants);
        for kind in KINDS {
            let svg = plot::draw(&document, &figure(kind)).unwrap();

            let words = words(&svg);
            let has = |text: &str| words.iter().any(|word| word.contains(text));
            assert!(has(&format!("{kind:?} of \"tasks\" & more")), "{kind:?}: {words:?}");
            assert!(variants.iter().all(|variant| has(variant)), "{kind:?}: {words:?}");
            assert!(figure(kind).published.iter().all(|line| has(&line.label)), "{kind:?}: {words:?}");
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{kind:?}.svg"));
            std::fs::write(file, svg).unwrap();
        }
    }
}

#[test]
fn axes_name_what_they_count() {
    let document = document(&["round_robin", "least_loaded"]);
    for (kind, label) in [
        (FigureKind::Spread, "utilization of a task's cores"),
        (FigureKind::Spread, "time, s"),
        (FigureKind::Spread, "max/min: 2.05 over 1 s, 1.7 over 60 s"),
        (FigureKind::Waste, "cores in use"),
        (FigureKind::Waste, "wasted 231 of 756 cores (30.6 %)"),
        (FigureKind::Connections, "mean 29.2"),
        (FigureKind::Latency, "latency, ms"),
        (FigureKind::Share, "fair share 1 %"),
        (FigureKind::Outcomes, "requests per second"),
        (FigureKind::Compare, "99th percentile of latency, ms"),
    ] {
        let words = words(&plot::draw(&document, &figure(kind)).unwrap());

        assert!(words.iter().any(|word| word == label), "{kind:?} lacks {label:?}: {words:?}");
    }
}

#[test]
fn what_is_not_quite_so_does_not_read_as_if_it_were() {
    let mut document = document(&["a", "b"]);
    for (name, value) in [("a/served_share", 0.999_82), ("b/served_share", 1.0), ("a/spread_1s", 1000.0)] {
        document.metrics.insert(name.to_owned(), value);
    }
    document.metrics.insert("a/spread_60s".to_owned(), 1000.0);
    let drawn = |kind| words(&plot::draw(&document, &figure(kind)).unwrap());

    let outcomes = drawn(FigureKind::Outcomes);
    assert!(outcomes.contains(&"served: 99.98 %".to_owned()) && outcomes.contains(&"served: 100 %".to_owned()));
    assert!(drawn(FigureKind::Spread).contains(&"max/min: idle over 1 s, idle over 60 s".to_owned()));
    assert!(drawn(FigureKind::Compare).contains(&"idle".to_owned()));
}

#[test]
fn a_figure_says_which_of_several_seeds_it_shows() {
    let mut document = document(&["a", "b"]);
    let drawn = |document: &Document, kind| words(&plot::draw(document, &figure(kind)).unwrap());
    assert!(!drawn(&document, FigureKind::Connections).iter().any(|word| word.contains("seeds")));
    document.seeds = 400;

    for (kind, seeds) in [
        (FigureKind::Connections, "first of 400 seeds"),
        (FigureKind::Outcomes, "first of 400 seeds; numbers are means of all"),
        (FigureKind::Compare, "means of 400 seeds"),
    ] {
        assert!(drawn(&document, kind).contains(&seeds.to_owned()), "{kind:?}");
    }
}

#[test]
fn the_same_document_gives_the_same_bytes() {
    for kind in KINDS {
        let drawn = || plot::draw(&document(&["a", "b"]), &figure(kind));

        assert_eq!(drawn(), drawn(), "{kind:?}");
    }
}

#[test]
fn variants_stand_in_the_order_of_the_scenario_or_of_the_figure() {
    let document = document(&["zebra", "ant"]);
    let of_scenario = plot::draw(&document, &figure(FigureKind::Spread)).unwrap();
    let mut spec = figure(FigureKind::Spread);
    spec.variants = vec!["ant".to_owned()];
    let of_figure = plot::draw(&document, &spec).unwrap();

    assert!(of_scenario.find(">zebra<").unwrap() < of_scenario.find(">ant<").unwrap());
    assert!(of_figure.contains(">ant<") && !of_figure.contains(">zebra<"));
}

#[test]
fn what_a_check_says_was_published_stands_on_the_bar_of_its_variant() {
    let mut document = document(&["a", "b"]);
    let mut spec = figure(FigureKind::Compare);
    spec.published.clear();
    let without = plot::draw(&document, &spec).unwrap();
    document.input.toml +=
        "[[check]]\nid = \"x\"\nwhat = \"x\"\nmetric = \"b/p99_ms\"\nat_most = 90.0\npublished = 50.0\n";

    let with = plot::draw(&document, &spec).unwrap();

    assert!(!words(&without).contains(&"published".to_owned()) && words(&with).contains(&"published".to_owned()));
    // One on the bar, one in the legend.
    assert_eq!(with.matches("stroke-dasharray").count(), 2);
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-rivals.svg"), with).unwrap();
}

#[test]
fn what_has_no_series_has_no_figure() {
    let mut empty = document(&["a"]);
    empty.series.clear();
    empty.metrics.clear();

    assert!(KINDS.into_iter().all(|kind| plot::draw(&empty, &figure(kind)).is_none()));
}

#[test]
fn absurd_values_never_panic() {
    let values: [&[f64]; 8] = [
        &[],
        &[5.0],
        &[0.0, 0.0, 0.0],
        &[-1.0, -2.0],
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
        &[1.0, f64::NAN, 2.0],
        &[1e308, -1e308, 5e-324],
        &[0.7; 3],
    ];
    for y in values {
        for x in values {
            let absurd = with_values(document(&["<a & b>", "c"]), x, y);
            for kind in KINDS {
                let mut spec = figure(kind);
                for line in &mut spec.published {
                    line.value = y.first().copied().unwrap_or(f64::NAN);
                }
                if let Some(svg) = plot::draw(&absurd, &spec) {
                    words(&svg);
                }
            }
        }
    }
}

/// The same document with these points everywhere.
fn with_values(mut document: Document, x: &[f64], y: &[f64]) -> Document {
    for series in document.series.values_mut() {
        *series = Series { unit: "<unit>".to_owned(), x: x.to_vec(), y: y.to_vec() };
    }
    for value in document.metrics.values_mut() {
        *value = y.first().copied().unwrap_or(f64::NAN);
    }
    "no toml [".clone_into(&mut document.input.toml);
    document
}
