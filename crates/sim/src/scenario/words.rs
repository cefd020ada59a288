//! What serde says of a field, in words for people: what to write, not which type was expected.

use serde::Deserialize;
use toml::{Table, Value};

use super::Scenario;
use super::closest::{closest, one_of};
use super::places::joined;

/// What is wrong, and with which field where it is another one than serde blames.
pub(super) struct Words {
    pub(super) field: Option<String>,
    pub(super) message: String,
}

/// `field` is what serde blames, `root` what was read.
pub(super) fn in_words(message: &str, field: &str, root: &Value) -> Words {
    let alone = |message: String| Words { field: None, message };
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (true, [name, known @ ..]) = (message.starts_with("unknown field"), quoted.as_slice()) {
        let inner = if field.rsplit('.').next() == Some(name) { field.to_owned() } else { joined(field, name) };
        return Words { field: Some(inner), message: one_of("unknown field", name, known) };
    }
    if let (true, [name, known @ ..]) = (message.starts_with("unknown variant"), quoted.as_slice()) {
        return alone(one_of(&format!("unknown kind {name:?}"), name, known));
    }
    if let (true, [missing]) = (message.starts_with("missing field"), quoted.as_slice()) {
        let there = at(root, field).and_then(Value::as_table).into_iter().flat_map(Table::keys);
        if let Some(slip) = there.into_iter().find(|name| closest(name, [*missing]).is_some()) {
            let message = format!("unknown field: did you mean {missing:?}?");
            return Words { field: Some(joined(field, slip)), message };
        }
        return alone(message.to_owned());
    }
    if message.contains("untagged enum Published") {
        return alone("write a number, or words in quotes".to_owned());
    }
    if message.contains("wanted string or table") {
        return alone("write the name of a kind, in quotes".to_owned());
    }
    let Some((given, expected)) = wrong_type(message) else { return alone(message.replace('\n', "; ")) };
    let inner = at(root, field).and_then(Value::as_table).and_then(|table| written_as(table, given));
    let message = format!("write {}, not {}", wanted(message, expected, given, field), named(given));
    Words { field: inner.map(|name| joined(field, name)), message }
}

/// What was written and what was expected, of `invalid type: integer 3, expected u32` and the like.
fn wrong_type(message: &str) -> Option<(&str, &str)> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    rest.trim().rsplit_once(", expected ")
}

fn wanted(message: &str, expected: &str, given: &str, field: &str) -> String {
    match expected.trim() {
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "u32" if message.starts_with("invalid value") => format!("a whole number from 0 to {}", u32::MAX),
        "u32" => "a whole number".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "variant identifier" => "the name of a kind, in quotes".to_owned(),
        "a map" => "a table of names and values, as in { name = 0.5 }".to_owned(),
        "a sequence" => list(field),
        "internally tagged enum Distribution" => distribution(given),
        "internally tagged enum Rhythm" => r#"a table, as in { kind = "step", at = "20s", times = 2 }"#.to_owned(),
        other if other.starts_with("struct ") => table(field),
        other => other.to_owned(),
    }
}

/// The field of a table that was written so: of a fault, serde blames only the whole.
fn written_as<'a>(table: &'a Table, given: &str) -> Option<&'a str> {
    let is_it = |value: &Value| match value {
        Value::String(text) => given == format!("string {text:?}"),
        Value::Integer(number) => given == format!("integer `{number}`"),
        Value::Float(number) => given == format!("floating point `{number:?}`"),
        Value::Boolean(truth) => given == format!("boolean `{truth}`"),
        _ => false,
    };
    table.iter().find(|(_, value)| is_it(value)).map(|(name, _)| name.as_str())
}

/// What was written, without its type in Rust.
fn named(given: &str) -> String {
    let in_ticks = given.split('`').nth(1);
    match (given.split_whitespace().next(), in_ticks) {
        (Some("string"), _) => format!("the text{}", given.trim_start_matches("string")),
        (Some("map"), _) => "a table".to_owned(),
        (Some("sequence"), _) => "a list".to_owned(),
        (_, Some(value)) => value.to_owned(),
        _ => given.to_owned(),
    }
}

/// `[[fault]]` and its like stand once for each; other lists are written in one place.
fn list(field: &str) -> String {
    if field.is_empty() || field.contains('.') { "a list in [ ]".to_owned() } else { format!("[[{field}]] above each") }
}

fn distribution(given: &str) -> String {
    let text = given.split('"').nth(1).filter(|text| humantime::parse_duration(text).is_ok());
    format!("{{ kind = \"fixed\", mean = {:?} }} or another kind", text.unwrap_or("10ms"))
}

/// A table and its fields, which serde lists when it is asked for one that cannot be.
fn table(field: &str) -> String {
    let nobody = Value::Table(Table::from_iter([("?".to_owned(), Value::Integer(0))]));
    let nested = field.rsplit('.').filter(|name| !name.is_empty()).fold(nobody, |inner, name| {
        let is_place = name.bytes().all(|byte| byte.is_ascii_digit());
        if is_place { Value::Array(vec![inner]) } else { Value::Table(Table::from_iter([(name.to_owned(), inner)])) }
    });
    let said = Scenario::deserialize(nested).map_or_else(|error| error.message().to_owned(), |_| String::new());
    let known: Vec<&str> = said.split('`').skip(1).step_by(2).skip(1).collect();
    let is_plain = !field.is_empty() && !field.contains('.');
    let what = if is_plain { format!("a table [{field}]") } else { "a table { … }".to_owned() };
    if known.is_empty() { what } else { format!("{what} with fields {}", known.join(", ")) }
}

/// What stands at a path.
fn at<'a>(root: &'a Value, field: &str) -> Option<&'a Value> {
    field.split('.').filter(|name| !name.is_empty()).try_fold(root, |value, name| match value {
        Value::Array(array) => array.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}
