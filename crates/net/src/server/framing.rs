//! What a request costs outside of its handler, as the driver learns it: added to what is told of it.
//!
//! Not to what admission, quotas and tallies go by: in a process that also does other things those would be charged to
//! whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The two prices of [`Remainder`](crate::meter::Remainder), in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Framing {
    nanos_per_request: AtomicU64,
    nanos_per_kib: AtomicU64,
}

impl Framing {
    pub(crate) fn set(&self, seconds_per_request: f64, seconds_per_kib: f64) {
        self.nanos_per_request.store((seconds_per_request * 1e9) as u64, Ordering::Relaxed);
        self.nanos_per_kib.store((seconds_per_kib * 1e9) as u64, Ordering::Relaxed);
    }

    /// Of a request that moved so many bytes.
    pub(crate) fn of(&self, bytes: u64) -> Duration {
        let [request, kib] = [&self.nanos_per_request, &self.nanos_per_kib].map(|price| price.load(Ordering::Relaxed));
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
