//! What is wrong with a scenario, in words that say where and what would do.

use std::fmt;

/// A scenario that cannot be run: where it is wrong, what stands there, what would do instead.
///
/// ```
/// use evenkeel_sim::scenario::Scenario;
///
/// let bad = Scenario::parse("[clients]\nload = -1").unwrap_err();
/// assert_eq!(
///     bad.to_string(),
///     "line 2: clients.load = -1 is not possible: must be above 0 and at most 100"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScenario {
    /// The line of the text, counted from 1, where there is one to blame.
    pub line: Option<usize>,
    /// What it stands in, where that is not the scenario itself: `--set clients.load=x`, `variant "p2c"`.
    pub within: Option<String>,
    /// The field, by its path: `clients.load`, `fault.0.at`. Empty where it is no field's fault.
    pub field: String,
    /// What it was set to, where that is known.
    pub value: Option<String>,
    /// What it may be, or how to mend it.
    pub message: String,
}

impl BadScenario {
    /// A field that cannot have this value.
    pub(crate) fn value(field: impl Into<String>, value: impl fmt::Display, message: impl Into<String>) -> Self {
        BadScenario { value: Some(value.to_string()), ..BadScenario::field(field, message) }
    }

    /// Something wrong with a field, or with what it lacks.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        BadScenario { line: None, within: None, field: field.into(), value: None, message: message.into() }
    }

    /// The same, found on a line.
    pub(crate) fn on(self, line: Option<usize>) -> Self {
        BadScenario { line, ..self }
    }

    /// The same, standing in something else.
    pub(crate) fn within(self, what: impl Into<String>) -> Self {
        BadScenario { within: Some(what.into()), ..self }
    }

    /// The same, of a field that nobody wrote down.
    pub(crate) fn by_default(self) -> Self {
        let message = format!("{}; {} is not set, and this is its default", self.message, self.field);
        BadScenario { message, ..self }
    }

    /// The same, blamed on an argument that sets this very field, whose words already name field and value.
    pub(crate) fn set_by(self, argument: impl Into<String>) -> Self {
        BadScenario { field: String::new(), value: None, line: None, ..self.within(argument) }
    }
}

impl fmt::Display for BadScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if let Some(within) = &self.within {
            write!(f, "{within}: ")?;
        }
        match (&self.value, self.field.is_empty()) {
            // Said once is enough.
            (Some(value), false) if self.message.starts_with("not possible") => {
                write!(f, "{} = {value} is ", self.field)?;
            }
            (Some(value), false) => write!(f, "{} = {value} is not possible: ", self.field)?,
            (None, false) => write!(f, "{}: ", self.field)?,
            (_, true) => {}
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for BadScenario {}
