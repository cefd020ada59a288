//! The page for people: complete in itself, the same every time, what was missed first.
//!
//! A page is left in `target/tmp/report` for people to look at.

use std::path::Path;

use crate::support::document;
use evenkeel_sim::{Document, report};

fn documents() -> Vec<Document> {
    let mut met = document(&[""]);
    "all-met".clone_into(&mut met.scenario);
    met.checks.retain(|check| check.pass);
    vec![met, document(&["round_robin", "least_loaded"])]
}

#[test]
fn the_summary_counts_goals_and_names_missed_ones_first() {
    let page = report::page(&documents());

    assert!(page.contains("2 of 4 goals met"), "{page}");
    let (missed, met) = (page.find("href=\"#made-up\"").unwrap(), page.find("href=\"#all-met\"").unwrap());
    assert!(missed < met);
    assert!(page.contains("the tail of tasks &lt;over&gt; a minute: 71.25, and the goal is ≤ 60"), "{page}");
}

#[test]
fn a_scenario_shows_its_figures_goals_and_command() {
    let page = report::page(&documents());

    assert_eq!(page.matches("<svg").count(), 14);
    assert!(page.contains("<td class=\"miss\">miss</td>") && page.contains("<td class=\"pass\">pass</td>"));
    assert!(page.contains("evenkeel sim run made-up --seed 1"));
    assert!(page.contains("<figcaption>What to see &amp; why it &lt;matters&gt;</figcaption>"));
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn nines_are_honest_and_an_idle_task_is_explained() {
    let plain = report::page(&documents());
    let mut one = document(&["a"]);
    one.metrics.insert("a/served_share".to_owned(), 0.999_82);
    one.metrics.insert("a/spread_1s".to_owned(), 1000.0);

    let page = report::page(&[one]);

    assert!(page.contains("<td class=\"number\">99.98</td>") && page.contains("<td class=\"number\">idle</td>"));
    assert!(page.contains("max/min is “idle”") && !plain.contains("“idle”"));
}

#[test]
fn nothing_is_loaded_from_elsewhere_and_nothing_runs() {
    let page = report::page(&documents());

    let rest = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!rest.contains("http") && !rest.contains("<script") && !rest.contains("url("));
}

#[test]
fn files_are_the_page_the_documents_and_the_figures() {
    let files = report::files(&documents());

    assert_eq!(files, report::files(&documents()));
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["index.html", "all-met.json", "all-met-1-spread.svg"]);
    assert_eq!(names.len(), 1 + 2 * (1 + 7));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, content) in &files {
        std::fs::write(folder.join(name), content).unwrap();
    }
}

#[test]
fn a_picture_that_cannot_be_drawn_is_named() {
    let mut lacking = document(&["a"]);
    assert!(report::undrawn(&lacking).is_empty());
    lacking.series.remove("a/faulted_share");

    let undrawn = report::undrawn(&lacking);

    assert_eq!(undrawn, ["figure 5 of made-up is not drawn: this run has nothing that a share figure shows"]);
}

#[test]
fn a_page_about_nothing_is_a_page() {
    assert!(report::page(&[]).contains("0 of 0 goals met"));
}
