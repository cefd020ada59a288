//! The machine's factor, and how it was found.

use crate::support::{document, run};

#[test]
fn it_says_the_factor_and_how_it_was_found() {
    let said = document("calibrate --json");
    let factor = said["factor"].as_f64().unwrap();
    assert!(factor > 0.0 && factor.is_finite(), "{said}");

    let for_people = String::from_utf8(run("calibrate").stdout).unwrap();
    assert!(for_people.contains("factor") && for_people.lines().count() > 1, "{for_people}");
}
