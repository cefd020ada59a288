//! With a runner that knows what it gives.

use super::*;

const TWO_VARIANTS: &str = r#"
about = "two"
seeds = 3
[[variant]]
name = "one"
[[variant]]
name = "two"
set = { policy = "p2c", "clients.load" = 0.5 }
[[check]]
id = "load"
metric = "two/utilization"
over = "one/utilization"
at_most = 0.8
[[figure]]
kind = "spread"
variants = ["two"]
"#;

/// The load and the seed as figures, and the seed as what is drawn.
fn echo(scenario: &Scenario, seed: u64, progress: &mut dyn FnMut(f64)) -> RunResult {
    progress(0.5);
    let mut metrics =
        BTreeMap::from([("utilization".to_owned(), scenario.clients.load), ("seed".to_owned(), seed as f64)]);
    metrics.insert("odd".to_owned(), if seed == 8 { f64::INFINITY } else { 1.0 });
    if seed == 9 {
        metrics.insert("p99_ms".to_owned(), 4.0);
    }
    let drawn = Series { unit: "seed".to_owned(), x: vec![0.0], y: vec![seed as f64] };
    RunResult { metrics, series: BTreeMap::from([("drawn".to_owned(), drawn)]), trace: seed, ..RunResult::default() }
}

fn order() -> Order {
    let input = Input { toml: TWO_VARIANTS.to_owned(), ..Input::default() };
    Order { name: "two".to_owned(), input, seed: 7, seeds: None }
}

fn ran(order: &Order, threads: usize) -> Document {
    run_with(order, threads, &|_| {}, &echo).unwrap()
}

#[test]
fn figures_are_means_over_seeds_and_pictures_are_of_the_first() {
    let document = ran(&order(), 1);

    assert_eq!((document.metrics["one/seed"], document.metrics["two/utilization"]), (8.0, 0.5));
    assert_eq!(document.series["two/drawn"].y, [7.0]);
    assert_eq!(document.trace.len(), 6);
    assert_eq!(document.trace["two/9"], "0000000000000009");
    assert!(document.checks[0].pass);
}

#[test]
fn a_figure_that_is_missing_or_infinite_with_one_seed_has_no_mean_and_its_check_is_not_met() {
    let mut order = order();
    order.input.toml += "[[check]]\nid = \"rare\"\nmetric = \"one/p99_ms\"\nat_most = 9\n";

    let document = ran(&order, 1);

    assert!(!document.metrics.contains_key("one/p99_ms"));
    assert!(!document.metrics.contains_key("one/odd"));
    assert_eq!((document.checks[1].measured, document.checks[1].pass), (None, false));
    order.seed = 9;
    assert!(!ran(&order, 1).metrics.contains_key("one/p99_ms"), "there with the first seed only");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    assert_eq!(ran(&order(), 1).to_json(), ran(&order(), 8).to_json());
}

#[test]
fn more_seeds_than_the_scenario_wants_are_run_and_never_fewer() {
    assert_eq!(ran(&Order { seeds: Some(5), ..order() }, 2).seeds, 5);
    assert_eq!(ran(&Order { seeds: Some(1), ..order() }, 2).seeds, 3);
    let bad = run(&Order { seeds: Some(u32::MAX), ..order() }, 1, &|_| {}).unwrap_err().to_string();
    assert_eq!(bad, "--seeds 4294967295: must be from 1 to 10000");
}

#[test]
fn one_policy_takes_the_place_of_the_variants() {
    let mut order = order();
    order.input.policy = Some("p2c".to_owned());

    let document = ran(&order, 1);

    assert_eq!(document.metrics.get("utilization"), Some(&0.7));
    assert!(document.checks.is_empty(), "a check of a variant that was not run is left out");
    assert!(document.figures[0].variants.is_empty());
    assert_eq!(document.trace.keys().collect::<Vec<_>>(), ["7", "8", "9"]);
}

#[test]
fn an_unknown_policy_is_refused_with_its_argument() {
    let mut order = order();
    order.input.policy = Some("p3c".to_owned());

    let bad = run(&order, 1, &|_| {}).unwrap_err().to_string();

    assert!(bad.starts_with("--policy p3c: use one of round_robin,"), "{bad}");
    assert!(bad.ends_with("did you mean \"p2c\"?"), "{bad}");
}

#[test]
fn progress_rises_to_one() {
    let told = Mutex::new(Vec::new());

    run_with(&order(), 1, &|share| told.lock().unwrap().push(share), &echo).unwrap();

    let told = told.into_inner().unwrap();
    assert!(told.is_sorted());
    assert_eq!(told.last(), Some(&1.0));
}

#[test]
fn a_document_that_was_read_back_is_run_again_to_the_same_bytes() {
    let mut order = order();
    order.input.set = vec!["clients.zipf=1.5".to_owned()];
    let kept = ran(&order, 2).to_json();

    let read: Document = serde_json::from_str(&kept).unwrap();
    let now = ran(&order_of(&read), 1).to_json();

    assert_eq!(difference(&kept, &now), None);
    let other = difference(&kept, &kept.replace("\"seed\": 7", "\"seed\": 8")).unwrap();
    assert_eq!((other.kept.trim(), other.now.trim()), ("\"seed\": 7,", "\"seed\": 8,"));
}
