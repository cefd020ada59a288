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
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stack::Tonic => "tonic",
            Stack::Evenkeel => "evenkeel",
            Stack::Hyper => "hyper",
            Stack::H2 => "h2",
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
            _ => Err(format!("no stack {text}")),
        }
    }
}
