//! Which scenario is meant: one of the catalog by name, or a file.

use std::fs;
use std::path::Path;

use evenkeel_sim::catalog;

use crate::failure::Failure;

/// A scenario's name and text.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// One of the catalog, or a file that ends in `.toml`, which is called as the file is.
pub(crate) fn find(scenario: &str) -> Result<Named, Failure> {
    let path = Path::new(scenario);
    if is_file(scenario) {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::Usage(format!("cannot read the scenario {scenario}: {error}")))?;
        let name = path.file_stem().map_or(scenario.into(), |stem| stem.to_string_lossy());
        return Ok(Named { name: name.into_owned(), text });
    }
    Ok(Named { name: scenario.to_owned(), text: in_catalog(scenario)?.to_owned() })
}

/// Whether it is a file by its name.
pub(crate) fn is_file(scenario: &str) -> bool {
    Path::new(scenario).extension().is_some_and(|extension| extension == "toml")
}

/// The text of one of the catalog; where there is none of that name, those that may have been meant are listed.
pub(crate) fn in_catalog(name: &str) -> Result<&'static str, Failure> {
    catalog::text(name).ok_or_else(|| {
        let near = near(name, &catalog::names());
        let near = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(", ")) };
        Failure::Usage(format!(
            "there is no scenario {name:?}: {near}`evenkeel sim list` names all; the name of a file ends in .toml"
        ))
    })
}

/// The one that a slip of the finger was meant to be, and those that have a longer word in common.
fn near<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let words = |name: &str| -> Vec<String> {
        let long = name.split(['-', '_', ' ']).filter(|word| word.len() > 2);
        long.map(str::to_lowercase).collect()
    };
    let asked = words(name);
    let nearest = catalog::nearest(name, names);
    let is_alike = |known: &&str| words(known).iter().any(|word| asked.contains(word));
    let alike = names.iter().copied().filter(is_alike).filter(|known| Some(*known) != nearest);
    nearest.into_iter().chain(alike).take(NEAR_MOST).collect()
}

const NEAR_MOST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_those_near_it() {
        // None that there is, so that nothing depends on those.
        let known = ["picture-1", "picture-5", "quick-task", "oranges"];

        assert_eq!(near("picture", &known), ["picture-1", "picture-5"]);
        assert_eq!(near("oragnes", &known), ["oranges"]);
        assert_eq!(near("task_quick", &known), ["quick-task"]);
        assert!(near("spraed", &known).is_empty());
        assert!(near("xyz", &known).is_empty());
    }
}
