//! Who is refused first (DESIGN §6.13): one number for each request, compared with one number for each task.
//!
//! A root request draws a [`Lot`] once; every call it causes, at every hop and every attempt, has the same. With its
//! criticality it makes a [`Priority`]; a task refuses what is below its [`Cutoff`]. Client and server that compare the
//! same two numbers agree, so nothing is thinned twice, and the calls of one root request are refused or served together.

use crate::{Criticality, Rng};

/// Drawn once for each root request, and carried by every call it causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lot(pub u16);

impl Lot {
    /// A fresh one.
    pub fn draw(rng: &mut Rng) -> Lot {
        Lot((rng.next_u64() >> 48) as u16)
    }
}

/// Where a request stands among all others: by criticality, then by lot. The lowest are refused first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u32);

impl Priority {
    /// Of a request.
    #[inline]
    pub const fn new(criticality: Criticality, lot: Lot) -> Priority {
        Priority(((criticality as u32) << 16) | lot.0 as u32)
    }
}

/// What is refused: in [0, 4], its whole part refuses criticalities from below, its fraction that share of the next.
///
/// ```
/// use evenkeel_core::{Criticality, Cutoff, Lot, Priority};
///
/// let cutoff = Cutoff::new(1.25);
/// assert!(!cutoff.admits(Priority::new(Criticality::Sheddable, Lot(u16::MAX))));
/// assert!(!cutoff.admits(Priority::new(Criticality::SheddablePlus, Lot(0x3fff))));
/// assert!(cutoff.admits(Priority::new(Criticality::SheddablePlus, Lot(0x4000))));
/// assert!(cutoff.admits(Priority::new(Criticality::Critical, Lot(0))));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cutoff(u32);

impl Cutoff {
    /// Refuses nothing.
    pub const NOTHING: Cutoff = Cutoff(0);
    /// Refuses everything.
    pub const EVERYTHING: Cutoff = Cutoff(4 << 16);

    /// The nearest there is; what is no number refuses nothing.
    pub fn new(value: f64) -> Cutoff {
        // A cast of what is not a number is 0.
        Cutoff((value.clamp(0.0, 4.0) * f64::from(1 << 16)).round() as u32)
    }

    /// From 0 to 4.
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(1 << 16)
    }

    /// Whether a request of this priority is let in.
    #[inline]
    pub const fn admits(self, priority: Priority) -> bool {
        priority.0 >= self.0
    }

    /// Whether some of this criticality are refused.
    pub const fn cuts(self, criticality: Criticality) -> bool {
        (criticality as u32) << 16 < self.0
    }

    /// Share of this criticality that is let in.
    pub(crate) fn admitted(self, criticality: Criticality) -> f64 {
        1.0 - (self.value() - criticality.index() as f64).clamp(0.0, 1.0)
    }

    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Cutoff {
        Cutoff(bits.min(Cutoff::EVERYTHING.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_refuses_its_share_of_one_class_and_nothing_above() {
        let cutoff = Cutoff::new(2.3);
        for level in Criticality::ALL {
            let refused = (0..=u16::MAX).filter(|&lot| !cutoff.admits(Priority::new(level, Lot(lot)))).count();
            let share = refused as f64 / 65_536.0;
            let expected = (2.3 - level.index() as f64).clamp(0.0, 1.0);
            assert!((share - expected).abs() < 1e-4, "{level}: {share}");
            assert_eq!(cutoff.cuts(level), expected > 0.0);
            assert!((cutoff.admitted(level) - (1.0 - share)).abs() < 1e-4);
        }
    }

    #[test]
    fn the_ends_refuse_nothing_and_everything_and_nonsense_refuses_nothing() {
        let (least, most) =
            (Priority::new(Criticality::Sheddable, Lot(0)), Priority::new(Criticality::CriticalPlus, Lot(u16::MAX)));
        assert!(Cutoff::NOTHING.admits(least) && !Cutoff::EVERYTHING.admits(most));
        assert_eq!([f64::NAN, -1.0].map(Cutoff::new), [Cutoff::NOTHING; 2]);
        assert_eq!(Cutoff::new(9.0), Cutoff::EVERYTHING);
        assert!((Cutoff::new(1.7).value() - 1.7).abs() < 1e-4);
    }
}
