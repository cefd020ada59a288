//! What a request costs outside of its handler, as the driver learns it: added to what is told and counted of it.
//!
//! Not to what admission and quotas go by: in a process that also does other things those would be charged to whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The two prices of [`Remainder`](crate::meter::Remainder), in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    per_request: AtomicU64,
    per_kib: AtomicU64,
}

impl Framing {
    /// Both in seconds, never below zero.
    pub(crate) fn set(&self, per_request: f64, per_kib: f64) {
        self.per_request.store((per_request * 1e9) as u64, Ordering::Relaxed);
        self.per_kib.store((per_kib * 1e9) as u64, Ordering::Relaxed);
    }

    /// Of a request that moved so many bytes.
    pub(crate) fn of(&self, bytes: u64) -> Duration {
        let (request, kib) = (self.per_request.load(Ordering::Relaxed), self.per_kib.load(Ordering::Relaxed));
        Duration::from_nanos(request.saturating_add(kib.saturating_mul(bytes) / 1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_pays_for_itself_and_for_what_it_moved() {
        let framing = Framing::default();
        assert_eq!(framing.of(1 << 20), Duration::ZERO, "nothing is known yet");

        framing.set(20e-6, 1e-6);

        assert_eq!(framing.of(0), Duration::from_micros(20));
        assert_eq!(framing.of(10 * 1024), Duration::from_micros(30));
    }
}
