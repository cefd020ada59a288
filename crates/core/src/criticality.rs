//! How much a request matters (B8): four levels that travel with it.

use std::fmt;
use std::str::FromStr;

/// What is refused first when there is too much. Ordered: `Sheddable` is the least.
///
/// ```
/// use evenkeel_core::Criticality;
///
/// assert!(Criticality::Sheddable < Criticality::CriticalPlus);
/// assert_eq!("SHEDDABLE_PLUS".parse(), Ok(Criticality::SheddablePlus));
/// assert_eq!(Criticality::default().as_str(), "CRITICAL");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Criticality {
    /// Partial, sometimes full unavailability is expected.
    Sheddable = 0,
    /// Batch work: it can come back in minutes or hours.
    SheddablePlus = 1,
    /// Users notice when it fails. What serving jobs send unless they say otherwise.
    #[default]
    Critical = 2,
    /// Users notice badly.
    CriticalPlus = 3,
}

impl Criticality {
    /// From the least to the most.
    pub const ALL: [Criticality; 4] =
        [Criticality::Sheddable, Criticality::SheddablePlus, Criticality::Critical, Criticality::CriticalPlus];

    /// 0 for the least, 3 for the most: a place in an array of four.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name on the wire, in configuration and in labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Criticality::Sheddable => "SHEDDABLE",
            Criticality::SheddablePlus => "SHEDDABLE_PLUS",
            Criticality::Critical => "CRITICAL",
            Criticality::CriticalPlus => "CRITICAL_PLUS",
        }
    }
}

impl fmt::Display for Criticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text is none of the four names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCriticality;

impl fmt::Display for UnknownCriticality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown criticality: use CRITICAL_PLUS, CRITICAL, SHEDDABLE_PLUS or SHEDDABLE")
    }
}

impl std::error::Error for UnknownCriticality {}

impl FromStr for Criticality {
    type Err = UnknownCriticality;

    /// The names of the wire, in any case: what was meant is clear, and counting it as absent would make `sheddable` critical.
    fn from_str(text: &str) -> Result<Self, UnknownCriticality> {
        let named = Criticality::ALL.into_iter().find(|level| level.as_str().eq_ignore_ascii_case(text));
        named.ok_or(UnknownCriticality)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_nothing_else_does() {
        for level in Criticality::ALL {
            assert_eq!(level.as_str().parse(), Ok(level));
            assert_eq!(Criticality::ALL[level.index()], level);
        }
        assert_eq!("critical".parse(), Ok(Criticality::Critical));
        assert_eq!("Sheddable_Plus".parse(), Ok(Criticality::SheddablePlus));
        for unknown in ["", "critical ", "sheddable-plus", "urgent"] {
            assert_eq!(unknown.parse::<Criticality>(), Err(UnknownCriticality), "{unknown:?}");
        }
    }
}
