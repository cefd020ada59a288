//! Time as a number the driver hands in.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds since a moment of the driver's choosing, the same for everything it drives.
///
/// Differences saturate: a clock that jumps back makes no time pass, and never makes anything panic.
///
/// ```
/// use evenkeel_core::Time;
/// use std::time::Duration;
///
/// let start = Time::from_secs(5);
/// assert_eq!((start + Duration::from_millis(3)).since(start), Duration::from_millis(3));
/// assert_eq!(Time::ZERO.since(start), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The moment the driver counts from.
    pub const ZERO: Time = Time(0);
    /// Later than any moment: what has no deadline ends then.
    pub const NEVER: Time = Time(u64::MAX);

    /// This many nanoseconds after [`Time::ZERO`].
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// This many milliseconds after [`Time::ZERO`].
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis.saturating_mul(1_000_000))
    }

    /// This many seconds after [`Time::ZERO`].
    pub const fn from_secs(secs: u64) -> Self {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since [`Time::ZERO`].
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; nothing if it has not been yet.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The same distance from `after` as this is from `before`, for a clock that was set; saturates at both ends.
    pub(crate) fn moved(self, before: Time, after: Time) -> Time {
        if self >= before {
            return after + self.since(before);
        }
        Time(after.0.saturating_sub(before.0 - self.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(saturating_nanos(span)))
    }
}

/// Threads read the clock a little apart, and answers overtake each other; more than this is a clock that was set back.
pub(crate) const CLOCK_JUMP: Duration = Duration::from_secs(1);

/// How many ticks ago `stamp` was, both in ticks that wrap: 0 where it is up to `ahead_most` ahead, since threads read the
/// clock a little apart; `None` where it is further ahead, by a clock that was set back, or is older than half of the round.
#[inline]
pub(crate) const fn ticks_since(now: u32, stamp: u32, ahead_most: u32) -> Option<u32> {
    let elapsed = now.wrapping_sub(stamp);
    if elapsed <= u32::MAX / 2 {
        return Some(elapsed);
    }
    if stamp.wrapping_sub(now) <= ahead_most { Some(0) } else { None }
}

/// The span in nanoseconds, at most `u64::MAX` (584 years).
pub(crate) fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_wrap_and_a_stamp_ahead_is_now_or_of_another_clock() {
        assert_eq!([ticks_since(7, 3, 9), ticks_since(2, u32::MAX, 9)], [Some(4), Some(3)]);
        assert_eq!([ticks_since(3, 12, 9), ticks_since(3, 13, 9)], [Some(0), None]);
        assert_eq!(ticks_since(u32::MAX / 2 + 9, 5, 9), None, "half of the round ago");
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::from_secs(3) + Duration::MAX, Time::NEVER);
        assert_eq!(Time::from_secs(u64::MAX), Time::NEVER);
        assert_eq!(Time::from_secs(1).since(Time::NEVER), Duration::ZERO);
        assert_eq!(Time::from_secs(9).moved(Time::from_secs(10), Time::from_secs(4)), Time::from_secs(3));
        assert_eq!(Time::from_secs(9).moved(Time::from_secs(20), Time::from_secs(4)), Time::ZERO);
        assert_eq!(Time::from_secs(12).moved(Time::from_secs(10), Time::from_secs(4)), Time::from_secs(6));
    }
}
