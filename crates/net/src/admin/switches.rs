//! Switches of overload control, for whoever has only the admin address.
//!
//! What is asked for is read and checked as a whole before anything changes: of two switches in one request either both
//! are set or none. A server that does not answer in time is shown as silent; what it was told holds once it runs again.

use std::fmt;

use evenkeel_core::Mode;
use evenkeel_core::server::Modes;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::state::{ByName, SILENT, by_mechanism};
use crate::server::Look;

/// What a request asks for: `{"all": "off"}`, or `{"server": 2, "limit": "on", "quota": "observe"}`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Switches {
    /// From 1 on, as on the page; `None` is every one.
    pub(crate) server: Option<usize>,
    pub(crate) modes: Vec<(&'static str, Mode)>,
}

impl Switches {
    /// Says what is wrong, if anything is: the field, its value and what it may be.
    pub(crate) fn read(json: &[u8]) -> Result<Switches, String> {
        let Fields(fields) = serde_json::from_slice(json).map_err(|error| format!("{error}; {EXAMPLE}"))?;
        let mut switches = Switches { server: None, modes: Vec::new() };
        let mut known = Vec::new();
        for (field, value) in fields {
            if known.contains(&field) {
                return Err(format!("{field} is given twice: keep one of them"));
            }
            if field == SERVER {
                switches.server = Some(number(&value)?);
            } else {
                switches.modes.push(mechanism(&field, &value)?);
            }
            known.push(field);
        }
        if switches.modes.is_empty() {
            return Err(format!("nothing is to be switched: {EXAMPLE}"));
        }
        Ok(switches)
    }

    pub(crate) fn is_for(&self, server: usize) -> bool {
        self.server.is_none_or(|one| one == server)
    }
}

impl fmt::Display for Switches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, mode)) in self.modes.iter().enumerate() {
            write!(f, "{}{name}={mode}", if place > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

fn number(value: &Value) -> Result<usize, String> {
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| format!("{SERVER} = {value} is not possible: must be a whole number from 1 on"))
}

fn mechanism(field: &str, value: &Value) -> Result<(&'static str, Mode), String> {
    let names = Modes::default().each().map(|(name, _)| name);
    let Some(name) = names.into_iter().find(|name| *name == field) else {
        let names = names.join(", ");
        return Err(format!("{field} = {value} is not possible: there is no such field; use {SERVER}, {names}"));
    };
    let mode = value.as_str().and_then(|text| text.parse().ok());
    let mode = mode.ok_or_else(|| format!("{field} = {value} is not possible: must be \"off\", \"observe\" or \"on\""));
    Ok((name, mode?))
}

/// How the switches of every server stand, as `/admission` gives it: the names here are an interface.
#[derive(Debug, Serialize)]
pub(crate) struct Switchboard {
    /// Whether they can be set here.
    pub(crate) switches: bool,
    pub(crate) servers: Vec<Switched>,
}

/// What a server that does not answer does not say is null.
#[derive(Debug, Serialize)]
pub(crate) struct Switched {
    pub(crate) server: usize,
    pub(crate) phase: &'static str,
    /// As they were set: what each goes back to once `all` is on.
    pub(crate) set: Option<ByName<&'static str>>,
    /// None goes further than `all`.
    pub(crate) in_force: Option<ByName<&'static str>>,
}

impl Switchboard {
    /// `looks` are those of all servers in order, or why there is none.
    pub(crate) fn new(switches: bool, looks: &[Result<Box<Look>, &'static str>]) -> Self {
        let servers = looks.iter().zip(1..).map(|(look, server)| match look {
            Ok(look) => Switched {
                server,
                phase: look.server.phase.as_str(),
                set: Some(by_mechanism(look.modes.each())),
                in_force: Some(by_mechanism(look.modes.in_force())),
            },
            Err(phase) => Switched { server, phase, set: None, in_force: None },
        });
        Switchboard { switches, servers: servers.collect() }
    }

    /// Whether all that were told have answered, or at least one where others have stopped.
    pub(crate) fn has_answers_to(&self, switches: &Switches) -> bool {
        let mut told = self.servers.iter().filter(|one| switches.is_for(one.server));
        told.clone().any(|one| one.set.is_some()) && told.all(|one| one.phase != SILENT)
    }

    /// What holds now where it was switched, on one line.
    pub(crate) fn in_force(&self, switches: &Switches) -> String {
        let told = self.servers.iter().filter(|one| switches.is_for(one.server));
        let each = told.map(|one| match &one.in_force {
            Some(ByName(modes)) => {
                let modes: Vec<_> = modes.iter().map(|(name, mode)| format!("{name}={mode}")).collect();
                format!("server {}: {}", one.server, modes.join(" "))
            }
            None => format!("server {}: {}", one.server, one.phase),
        });
        each.collect::<Vec<_>>().join("; ")
    }
}

/// The fields of an object in order, also those that are there twice.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

const SERVER: &str = "server";
const EXAMPLE: &str =
    "send an object as in {\"all\": \"off\"} or {\"server\": 1, \"limit\": \"on\", \"quota\": \"observe\"}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_in_order() {
        let all = Switches::read(br#"{"all": "off"}"#);
        let some = Switches::read(br#" {"limit": "on", "server": 2, "quota": "observe"} "#);

        assert_eq!(all, Ok(Switches { server: None, modes: vec![("all", Mode::Off)] }));
        let modes = vec![("limit", Mode::On), ("quota", Mode::Observe)];
        assert_eq!(some.as_ref().map(ToString::to_string), Ok("limit=on quota=observe".to_owned()));
        assert_eq!(some, Ok(Switches { server: Some(2), modes }));
    }

    #[test]
    fn what_cannot_be_is_refused_with_field_value_and_what_would_do() {
        let modes = "must be \"off\", \"observe\" or \"on\"";
        for (json, fault) in [
            (r#"{"all": "maybe"}"#, format!("all = \"maybe\" is not possible: {modes}")),
            (r#"{"all": "off", "limit": false}"#, format!("limit = false is not possible: {modes}")),
            (r#"{"limit": "On"}"#, format!("limit = \"On\" is not possible: {modes}")),
            (
                r#"{"limits": "on"}"#,
                "limits = \"on\" is not possible: there is no such field; use server, all, ".into(),
            ),
            (r#"{"server": 0, "all": "on"}"#, "server = 0 is not possible: must be a whole number from 1 on".into()),
            (r#"{"server": "1", "all": "on"}"#, "server = \"1\" is not possible: must be a whole number".into()),
            (r#"{"all": "off", "all": "on"}"#, "all is given twice: keep one of them".into()),
            (r#"{"server": 1}"#, "nothing is to be switched: send an object as in {\"all\": \"off\"}".into()),
            ("{}", "nothing is to be switched: ".into()),
            ("", "EOF while parsing a value".into()),
            ("[]", "invalid type: sequence, expected an object".into()),
            (r#"{"all": "off"} {"all": "on"}"#, "trailing characters".into()),
        ] {
            let told = Switches::read(json.as_bytes()).unwrap_err();
            assert!(told.starts_with(&fault), "{json}: {told}");
        }
    }

    #[test]
    fn an_object_within_objects_ends_somewhere() {
        let deep = format!("{}1{}", "{\"all\":".repeat(600), "}".repeat(600));

        assert!(Switches::read(deep.as_bytes()).unwrap_err().starts_with("recursion limit exceeded"));
    }
}
