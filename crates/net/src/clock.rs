//! The one file that reads a clock: core is told what time it is, and this is who tells it.
//!
//! Obeys tokio's paused time, so tests that pause the clock pause everything that decides.

use std::time::Duration;

use evenkeel_core::Time;
use tokio::time::Instant;

/// Turns tokio's instants into core's [`Time`] and back. Copies of one clock agree, two clocks do not.
///
/// ```
/// use evenkeel::clock::Clock;
/// use std::time::Duration;
///
/// let clock = Clock::new();
/// let deadline = clock.now() + Duration::from_secs(3);
/// assert_eq!(clock.time_of(clock.instant_of(deadline)), deadline);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that stands at one day now, so that what happened before it was made still has a time.
    #[expect(clippy::new_without_default, reason = "two defaults would disagree about the time")]
    pub fn new() -> Self {
        Clock { epoch: Instant::now() }
    }

    /// What core is told.
    pub fn now(self) -> Time {
        self.time_of(Instant::now())
    }

    /// Milliseconds, wrapping around, as datagrams say it.
    pub(crate) fn millis(self) -> u32 {
        (self.now().nanos() / 1_000_000) as u32
    }

    /// Nanoseconds since 1970 by the machine's clock: a process that starts later has a higher number. Not of this
    /// clock, and obeys no paused time.
    pub(crate) fn unix_nanos() -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX).max(1))
    }

    /// More than a day before the clock was made is [`Time::ZERO`].
    pub fn time_of(self, instant: Instant) -> Time {
        match instant.checked_duration_since(self.epoch) {
            Some(after) => EPOCH + after,
            None => Time::ZERO + EPOCH.since(Time::ZERO).saturating_sub(self.epoch.duration_since(instant)),
        }
    }

    /// Never more than thirty years ahead: not every platform can name the instant of [`Time::NEVER`].
    pub fn instant_of(self, time: Time) -> Instant {
        let after = time.since(EPOCH).min(AHEAD_MOST);
        let before = EPOCH.since(time);
        self.epoch.checked_add(after).and_then(|instant| instant.checked_sub(before)).unwrap_or(self.epoch)
    }
}

/// Time as the machine counts it, for what is measured across threads and runtimes: obeys no paused time, and is of no
/// [`Clock`]. Copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    epoch: std::time::Instant,
}

impl Steady {
    pub(crate) fn new() -> Self {
        Steady { epoch: std::time::Instant::now() }
    }

    /// Never [`Time::ZERO`].
    pub(crate) fn now(self) -> Time {
        EPOCH + self.epoch.elapsed()
    }
}

/// The time at which a clock starts: one day.
const EPOCH: Time = Time::from_secs(24 * 60 * 60);
/// As tokio's own timers: later is never.
const AHEAD_MOST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_passes_only_when_tokio_says_so() {
        let clock = Clock::new();
        let start = clock.now();

        tokio::time::advance(Duration::from_millis(250)).await;

        assert_eq!(clock.now().since(start), Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn instants_before_the_clock_keep_their_distance() {
        let clock = Clock::new();
        let Some(earlier) = Instant::now().checked_sub(Duration::from_secs(60)) else {
            return;
        };

        assert_eq!(clock.now().since(clock.time_of(earlier)), Duration::from_secs(60));
        assert_eq!(clock.instant_of(clock.time_of(earlier)), earlier);
    }

    #[tokio::test(start_paused = true)]
    async fn the_far_ends_saturate() {
        let clock = Clock::new();

        let far = clock.instant_of(Time::NEVER);

        assert_eq!(far.duration_since(Instant::now()), AHEAD_MOST);
        assert!(clock.instant_of(Time::ZERO) <= Instant::now());
    }
}
