//! From a field to its line and back.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The text of a scenario with the place of every field.
pub(crate) struct Places<'a> {
    text: &'a str,
    root: Spanned<DeTable<'a>>,
}

impl<'a> Places<'a> {
    /// Nothing where the text is no TOML.
    pub(crate) fn of(text: &'a str) -> Result<Self, toml::de::Error> {
        Ok(Places { text, root: DeTable::parse(text)? })
    }

    /// The line of a field, or of the nearest thing around it that is written down; nothing where it is all default.
    pub(crate) fn line_of(&self, field: &str) -> Option<usize> {
        let mut names = field.split('.').filter(|name| !name.is_empty());
        let first = names.next()?;
        let (key, mut value) = self.root.get_ref().iter().find(|(key, _)| key.get_ref() == first)?;
        let mut start = key.span().start;
        // A key with dots in it, as in the `set` of a variant, is one name here and several in the path.
        let mut open = String::new();
        for name in names {
            let inner = match value.get_ref() {
                DeValue::Table(table) => {
                    let wanted = if open.is_empty() { name.to_owned() } else { format!("{open}.{name}") };
                    let found = table.iter().find(|(key, _)| *key.get_ref() == wanted);
                    open = wanted;
                    found.map(|(key, value)| (key.span().start, value))
                }
                DeValue::Array(array) => {
                    let place = name.parse::<usize>().ok();
                    place.and_then(|place| array.get(place)).map(|value| (value.span().start, value))
                }
                _ => None,
            };
            if let Some((at, inner)) = inner {
                (start, value) = (at, inner);
                open.clear();
            }
        }
        Some(line_at(self.text, start))
    }

    /// The innermost field that is written at this place of the text.
    pub(crate) fn field_at(&self, at: usize) -> Option<String> {
        field_in_table(self.root.get_ref(), at, "")
    }
}

/// The line of a place in a text, counted from 1.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// The path of a name inside another.
pub(crate) fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn field_in_table(table: &DeTable<'_>, at: usize, path: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let path = joined(path, key.get_ref());
        let here = key.span().contains(&at) || value.span().contains(&at);
        field_in_value(value.get_ref(), at, &path).or_else(|| here.then_some(path))
    })
}

fn field_in_value(value: &DeValue<'_>, at: usize, path: &str) -> Option<String> {
    match value {
        DeValue::Table(table) => field_in_table(table, at, path),
        DeValue::Array(array) => array.iter().enumerate().find_map(|(place, value)| {
            let path = joined(path, &place.to_string());
            field_in_value(value.get_ref(), at, &path).or_else(|| value.span().contains(&at).then_some(path))
        }),
        _ => None,
    }
}
