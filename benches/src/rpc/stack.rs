//! Whose client or server is measured.

use std::fmt;
use std::str::FromStr;

/// Whose client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Tonic,
    Evenkeel,
    /// Hyper's connections in turn: what is below both.
    Hyper,
    /// The connections of the h2 crate in turn: what is below hyper.
    H2,
    /// Our server with admission switched off.
    Off,
    /// Our server, refusing every call.
    Refusing,
    /// Hyper's server, answering every call with the same few headers.
    Static,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stack::Tonic => "tonic",
            Stack::Evenkeel => "evenkeel",
            Stack::Hyper => "hyper",
            Stack::H2 => "h2",
            Stack::Off => "evenkeel_off",
            Stack::Refusing => "evenkeel_refusing",
            Stack::Static => "static",
        })
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tonic" => Ok(Stack::Tonic),
            "evenkeel" => Ok(Stack::Evenkeel),
            "hyper" => Ok(Stack::Hyper),
            "h2" => Ok(Stack::H2),
            "evenkeel_off" => Ok(Stack::Off),
            "evenkeel_refusing" => Ok(Stack::Refusing),
            "static" => Ok(Stack::Static),
            _ => Err(format!("no stack {text}")),
        }
    }
}
