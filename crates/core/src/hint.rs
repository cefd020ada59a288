//! What a task tells its clients of its admission (B7), so that they settle in a round trip instead of a window.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::{Cutoff, Time};

/// What this task is admitting now, and for how long that may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// What it refuses.
    pub cutoff: Cutoff,
    /// How long it holds.
    pub ttl: Duration,
}

/// What one client was told last; the driver keeps one for each connection.
#[derive(Debug)]
pub struct LastHint(AtomicU64);

impl Default for LastHint {
    fn default() -> Self {
        LastHint(AtomicU64::new(0))
    }
}

impl LastHint {
    /// Whether a client that was told so is to hear of this now: something else holds, or what it heard grows old.
    pub(crate) fn is_due(&self, now: Time, hint: Hint) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let (told, millis) = (Cutoff::from_bits((word >> 32) as u32), word as u32);
        let differs = (told.value() - hint.cutoff.value()).abs() > DIFFERS;
        // Nobody needs to hear over and over that nothing is refused.
        let is_old = hint.cutoff > Cutoff::NOTHING
            && u128::from(millis_of(now).wrapping_sub(millis)) >= hint.ttl.as_millis() / 4;
        let ends = told > Cutoff::NOTHING && hint.cutoff == Cutoff::NOTHING;
        differs || is_old || ends
    }

    /// It was told so.
    pub fn tell(&self, now: Time, hint: Hint) {
        self.0.store(u64::from(hint.cutoff.bits()) << 32 | u64::from(millis_of(now)), Ordering::Relaxed);
    }
}

/// Wraps after 49 days: a hint is then told once more than needed.
fn millis_of(now: Time) -> u32 {
    (now.nanos() / 1_000_000) as u32
}

/// A cutoff that moved less than this is the same to a client.
const DIFFERS: f64 = 0.02;
