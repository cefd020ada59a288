//! From text to a scenario that can be run. An error names the line, the field, its value and what would do.

use serde::Deserialize;
use toml::{Table, Value};

use super::closest::one_of;
use super::error::BadScenario;
use super::faults::Fault;
use super::places::{Places, line_at};
use super::set::{both_rate_and_load, missing_place, no_whole, put, taken_apart};
use super::words::in_words;
use super::{Scenario, Variant};

impl Scenario {
    /// Reads and checks a scenario.
    ///
    /// ```
    /// use evenkeel_sim::scenario::Scenario;
    ///
    /// let scenario = Scenario::parse("policy = \"p2c\"\n[clients]\nload = 0.9")?;
    /// assert_eq!(scenario.backends.count, 100);
    ///
    /// let bad = Scenario::parse("[clients]\nlaod = 0.9").unwrap_err();
    /// assert!(bad.to_string().starts_with("line 2: clients.laod: unknown field: use one of count, rate, load,"));
    /// assert!(bad.to_string().ends_with("did you mean \"load\"?"));
    /// # Ok::<(), evenkeel_sim::scenario::BadScenario>(())
    /// ```
    pub fn parse(text: &str) -> Result<Scenario, BadScenario> {
        Scenario::with(text, &[])
    }

    /// Reads a scenario, sets some of its fields otherwise and checks it. Each is `key=value`: the key is a path with
    /// dots, the value is TOML, and words need no quotes.
    ///
    /// ```
    /// use evenkeel_sim::scenario::Scenario;
    ///
    /// let scenario = Scenario::with("duration = \"20s\"", &["clients.load=0.9".to_owned(), "policy=p2c".to_owned()])?;
    /// assert_eq!((scenario.clients.load, scenario.policy.as_str()), (0.9, "p2c"));
    /// # Ok::<(), evenkeel_sim::scenario::BadScenario>(())
    /// ```
    pub fn with(text: &str, set: &[String]) -> Result<Scenario, BadScenario> {
        let places = Places::of(text).map_err(|error| no_toml(text, &error))?;
        let table: Table = toml::from_str(text).map_err(|error| no_toml(text, &error))?;
        let mut root = Value::Table(table);
        let on_its_line = |bad: BadScenario| {
            let line = places.line_of(&bad.field);
            bad.on(line)
        };
        // Before the rest, which would only miss the field that a misspelt one was meant to be.
        known_fault_fields(&root).map_err(on_its_line)?;
        if ["rate", "load"].iter().all(|name| root.get("clients").is_some_and(|clients| clients.get(name).is_some())) {
            return Err(on_its_line(both_rate_and_load("clients.load")));
        }
        let mut scenario: Scenario = toml::from_str(text).map_err(|error| wrong_type(text, &places, &root, &error))?;

        let written = scenario.clone();
        let mut keys = Vec::new();
        for argument in set {
            let (key, value) = taken_apart(argument)?;
            let blamed = |bad: BadScenario| bad.set_by(format!("--set {argument}"));
            keys.push(key);
            if RATE_OR_LOAD.iter().all(|name| keys.contains(name)) {
                return Err(blamed(both_rate_and_load(key)));
            }
            let missing = missing_place(&root, key);
            put(&mut root, key, value).map_err(blamed)?;
            known_fault_fields(&root).map_err(blamed)?;
            scenario = deserialised(&root, key).map_err(|bad| blamed(in_missing(missing, bad)))?;
        }
        scenario.check().map_err(|bad| match keys.iter().rposition(|key| *key == bad.field) {
            Some(position) => bad.set_by(format!("--set {}", set[position])),
            None if bad.value.is_some() && !is_written(&places, &keys, &bad.field) => bad.by_default(),
            None => on_its_line(bad),
        })?;
        // As it is written: what is set otherwise may take a figure away, and then its check is not met.
        written.check_metrics().map_err(on_its_line)?;
        Ok(scenario)
    }

    /// The scenarios that are run: one for each variant, or the scenario itself under no name. Variants have no checks
    /// and figures of their own; those of the whole name theirs.
    pub fn variants(&self) -> Result<Vec<(String, Scenario)>, BadScenario> {
        let alone = Scenario { variants: Vec::new(), checks: Vec::new(), figures: Vec::new(), ..self.clone() };
        if self.variants.is_empty() {
            return Ok(vec![(String::new(), alone)]);
        }
        let root = Value::try_from(&alone).map_err(|error| BadScenario::field("", error.to_string()))?;
        self.variants.iter().enumerate().map(|(place, variant)| variant.applied_to(&root, place)).collect()
    }
}

impl Variant {
    fn applied_to(&self, root: &Value, place: usize) -> Result<(String, Scenario), BadScenario> {
        let mut root = root.clone();
        if RATE_OR_LOAD.iter().all(|&name| self.set.contains_key(name)) {
            return Err(both_rate_and_load(&format!("variant.{place}.set.{}", RATE_OR_LOAD[1])));
        }
        for (key, value) in &self.set {
            // The line is that of the variant; the words name the field in it.
            let blamed = |bad: BadScenario| BadScenario::field(format!("variant.{place}.set.{key}"), bad.message);
            let root_key = key.split('.').next().unwrap_or_default();
            if OF_THE_WHOLE.contains(&root_key) {
                let what = format!("{root_key} is the same for all variants: set it outside of them");
                return Err(blamed(BadScenario::field(key, what)));
            }
            let missing = missing_place(&root, key);
            put(&mut root, key, value.clone()).map_err(blamed)?;
            known_fault_fields(&root).map_err(blamed)?;
            deserialised(&root, key).map_err(|bad| blamed(in_missing(missing, bad)))?;
        }
        let scenario = deserialised(&root, "")?;
        scenario.check().map_err(|bad| {
            let what = format!("with it {bad}");
            BadScenario::field(format!("variant.{place}"), what)
        })?;
        Ok((self.name.clone(), scenario))
    }
}

/// What a variant cannot have of its own.
const OF_THE_WHOLE: [&str; 5] = ["about", "seeds", "variant", "check", "figure"];

/// Two ways to say how much is asked for.
const RATE_OR_LOAD: [&str; 2] = ["clients.rate", "clients.load"];

/// An error of something at a place in a list that is not there, if there is such a place.
fn in_missing(place: Option<String>, bad: BadScenario) -> BadScenario {
    match place {
        Some(place) => no_whole(&place, bad),
        None => bad,
    }
}

/// Whether any part of the field's table stands in the text or in an argument.
fn is_written(places: &Places<'_>, keys: &[&str], field: &str) -> bool {
    let first = |path: &str| path.split('.').next().map(str::to_owned);
    places.line_of(field).is_some() || keys.iter().any(|key| first(key) == first(field))
}

/// `key` is what was set last.
fn deserialised(root: &Value, key: &str) -> Result<Scenario, BadScenario> {
    Scenario::deserialize(root.clone())
        .map_err(|error| BadScenario::field("", in_words(error.message(), key, root).message))
}

/// A fault's kind is flattened into it, which serde cannot do and refuse unknown fields as well.
fn known_fault_fields(root: &Value) -> Result<(), BadScenario> {
    let faults = root.get("fault").and_then(Value::as_array);
    for (place, fault) in faults.into_iter().flatten().enumerate() {
        let kind = fault.get("kind").and_then(Value::as_str).unwrap_or_default();
        let known = Fault::fields(kind);
        for name in fault.as_table().into_iter().flat_map(Table::keys) {
            if !known.contains(&name.as_str()) {
                let of = if kind.is_empty() { "a".to_owned() } else { format!("a {kind}") };
                let what = one_of(&format!("unknown field of {of} fault"), name, known);
                return Err(BadScenario::field(format!("fault.{place}.{name}"), what));
            }
        }
    }
    Ok(())
}

fn no_toml(text: &str, error: &toml::de::Error) -> BadScenario {
    let line = error.span().map(|span| line_at(text, span.start));
    let written = line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
    let field = written.split_once('=').map_or("", |(key, _)| key.trim());
    BadScenario::field(field, error.message().replace('\n', "; ")).on(line)
}

/// An error of a field's type or name. Its place is that of the value; an unknown field is looked up by its name,
/// since inside of a kind the place is only that of the whole.
fn wrong_type(text: &str, places: &Places<'_>, root: &Value, error: &toml::de::Error) -> BadScenario {
    let start = error.span().map(|span| span.start);
    let field = start.and_then(|start| places.field_at(start)).unwrap_or_default();
    let line = start.map(|start| line_at(text, start));
    let words = in_words(error.message(), &field, root);
    match words.field {
        Some(inner) if inner != field => {
            let line = places.line_of(&inner).or(line);
            BadScenario::field(inner, words.message).on(line)
        }
        _ => BadScenario::field(field, words.message).on(line),
    }
}
