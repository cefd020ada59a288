//! Fields set otherwise: `clients.load=0.9`, `fault.0.at=5s`, and the `set` of a variant.

use toml::{Table, Value};

use super::error::BadScenario;

/// `key=value` taken apart. The value is TOML; what is none is a string, so that words need no quotes.
pub(crate) fn taken_apart(argument: &str) -> Result<(&str, Value), BadScenario> {
    let wrong = || {
        let what = "write a field, = and a value, as in clients.load=0.9 or fault.0.at=5s";
        BadScenario::field("", what).within(format!("--set {argument}"))
    };
    let (key, text) = argument.split_once('=').ok_or_else(wrong)?;
    let key = key.trim();
    if key.split('.').any(str::is_empty) {
        return Err(wrong());
    }
    let text = text.trim();
    let read = toml::from_str::<Table>(&format!("value = {text}")).ok();
    // More than one field means that the text went on behind a value: it was none.
    let value = read.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    Ok((key, value.unwrap_or_else(|| Value::String(text.to_owned()))))
}

/// Sets the field at a dotted path; numbers are places in a list, counted from 0. A table is merged into what is
/// there, unless it says its `kind`: then it is another one, and the old fields are none of its.
pub(crate) fn put(root: &mut Value, path: &str, value: Value) -> Result<(), BadScenario> {
    let names: Vec<&str> = path.split('.').collect();
    let other = other_of(path, &value)?;
    let mut place = &mut *root;
    for (position, name) in names.iter().enumerate() {
        place = step(place, name, names.get(position + 1), path)?;
    }
    merge(place, value);
    if let (Some(other), Some(Value::Table(clients))) = (other, root.get_mut("clients")) {
        clients.remove(other);
    }
    Ok(())
}

/// `clients.rate` and `clients.load` are two ways to say how much is asked for: whoever sets one of them means that one,
/// and the other is left out.
fn other_of(path: &str, value: &Value) -> Result<Option<&'static str>, BadScenario> {
    let sets = |name: &str| match path.strip_prefix("clients") {
        Some("") => value.get(name).is_some(),
        Some(rest) => rest.strip_prefix('.') == Some(name),
        None => false,
    };
    match (sets("rate"), sets("load")) {
        (true, true) => Err(both_rate_and_load(path)),
        (true, false) => Ok(Some("load")),
        (false, true) => Ok(Some("rate")),
        (false, false) => Ok(None),
    }
}

/// Says that of the two only one may be written.
pub(crate) fn both_rate_and_load(field: &str) -> BadScenario {
    let what = "clients.rate and clients.load both say how much is asked for, and rate alone would count: leave one of them out";
    BadScenario::field(field, what)
}

/// The place in a list that a path leads into and that is not there, as `fault.0` of `fault.0.at` without faults.
pub(crate) fn missing_place(root: &Value, path: &str) -> Option<String> {
    let names: Vec<&str> = path.split('.').collect();
    let mut value = Some(root);
    for (position, name) in names.iter().enumerate().take(names.len() - 1) {
        let is_place = name.bytes().all(|byte| byte.is_ascii_digit());
        value = match value {
            Some(Value::Array(array)) => array.get(name.parse::<usize>().ok()?),
            Some(Value::Table(table)) => table.get(*name),
            _ => None,
        };
        if is_place && value.is_none() {
            return Some(names[..=position].join("."));
        }
    }
    None
}

/// What is wrong with a field of something that is not there, where that cannot be made of the field alone.
pub(crate) fn no_whole(place: &str, bad: BadScenario) -> BadScenario {
    let Some(missing) = bad.message.strip_prefix("missing field").and_then(|rest| rest.split('`').nth(1)) else {
        return bad;
    };
    let whole = match place.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "fault." => r#"{ kind = "kill", at = "5s" }"#.to_owned(),
        "clients.rhythm." => r#"{ kind = "step", at = "20s", times = 2 }"#.to_owned(),
        _ => format!("{{ {missing} = … }}"),
    };
    let message = format!(
        "there is no {place} in this scenario, and a new one needs {missing}: write a whole one, as in {place}={whole}"
    );
    BadScenario { message, ..bad }
}

/// The value called `name` in another; made if it can be.
fn step<'a>(value: &'a mut Value, name: &str, then: Option<&&str>, path: &str) -> Result<&'a mut Value, BadScenario> {
    match value {
        Value::Table(table) => Ok(table.entry(name).or_insert_with(|| empty_for(then))),
        Value::Array(array) => {
            let count = array.len();
            let known = if count == 1 { "there is 1".to_owned() } else { format!("there are {count}") };
            let wrong = || BadScenario::field(path, format!("{name:?} is no place in a list, counted from 0: {known}"));
            let place = name.parse::<usize>().map_err(|_| wrong())?;
            if place == count {
                array.push(empty_for(then));
            }
            array.get_mut(place).ok_or_else(wrong)
        }
        _ => Err(BadScenario::field(path, format!("{name:?} cannot be set: what is before it is no table"))),
    }
}

fn empty_for(next: Option<&&str>) -> Value {
    let is_place = next.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    if is_place { Value::Array(Vec::new()) } else { Value::Table(Table::new()) }
}

fn merge(old: &mut Value, new: Value) {
    match (old, new) {
        (Value::Table(old), Value::Table(new)) if !new.contains_key("kind") => {
            for (key, value) in new {
                match old.get_mut(&key) {
                    Some(place) => merge(place, value),
                    None => drop(old.insert(key, value)),
                }
            }
        }
        (old, new) => *old = new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, argument: &str) -> Value {
        let mut table: Value = Value::Table(toml::from_str(text).unwrap());
        let (key, value) = taken_apart(argument).unwrap();
        put(&mut table, key, value).unwrap();
        table
    }

    #[test]
    fn a_field_is_found_by_names_and_places() {
        let text = "[clients]\nload = 1\n[[fault]]\nat = \"1s\"\n[[fault]]\nat = \"2s\"";
        assert_eq!(after(text, "clients.load=0.9")["clients"]["load"], Value::Float(0.9));
        assert_eq!(after(text, "fault.1.at=5s")["fault"][1]["at"], Value::String("5s".to_owned()));
        assert_eq!(after(text, "fault.0.at=5s")["fault"][1]["at"], Value::String("2s".to_owned()));
        assert_eq!(after("", "a.0.b.c=1")["a"][0]["b"]["c"], Value::Integer(1));
        assert_eq!(after("", "a=1")["a"], Value::Integer(1));
    }

    #[test]
    fn a_table_is_merged_unless_it_is_of_another_kind() {
        let merged = after("[clients]\nload = 1\ncount = 3", "clients={load=2}");
        assert_eq!(merged["clients"].as_table().unwrap().len(), 2);
        let replaced = after("cpu = {kind=\"lognormal\", sigma=1}", "cpu={kind=\"fixed\", mean=\"1ms\"}");
        assert!(replaced["cpu"].get("sigma").is_none());
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        for argument in ["load", "=1", "a..b=1", ".a=1", ""] {
            assert!(taken_apart(argument).is_err(), "{argument}");
        }
        let mut table = Value::Table(toml::from_str("a = 1\nb = [1]").unwrap());
        for path in ["a.b", "b.2", "b.x"] {
            assert!(put(&mut table, path, Value::Integer(1)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_value_that_is_no_toml_is_a_string() {
        for (text, value) in [("a=5s", "5s"), ("a=\"x\"", "x"), ("a=1\nb=2", "1\nb=2"), ("a=", "")] {
            assert_eq!(taken_apart(text).unwrap().1, Value::String(value.to_owned()), "{text}");
        }
    }
}
