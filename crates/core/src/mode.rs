//! Off, observe or on, for every mechanism that can refuse, divert or cut (DESIGN §6.18).

use std::fmt;
use std::str::FromStr;

/// How far a mechanism may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Does not even look.
    Off = 0,
    /// Decides and counts what it would have done, and changes nothing.
    Observe = 1,
    /// Decides.
    #[default]
    On = 2,
}

impl Mode {
    /// In order.
    pub const ALL: [Mode; 3] = [Mode::Off, Mode::Observe, Mode::On];

    /// The name in configuration, labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::On => "on",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text is none of the three names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMode;

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown mode: use off, observe or on")
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or(UnknownMode)
    }
}
