//! A signal that refusing does not bring down (B10): one that is stuck, or set wrong, must not close a server for good.
//!
//! A signal of load falls when there is none. One that has hardly anything served of what comes, and does not fall while
//! nothing is in flight, speaks of something else: it is left out until it has been below its first threshold. Where nobody
//! comes it does no harm and stays: memory does not fall in an idle night, and is to be minded in the morning.

use std::time::Duration;

use super::config::Thresholds;
use crate::Time;

/// How long one signal has been standing there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stuck {
    /// For how long it has stood while callers were turned away and nothing was in flight.
    stood: Duration,
    lowest: f64,
    read_at: Option<Time>,
    is_out: bool,
}

/// What the server did between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Callers are turned away, and nothing is in flight.
    Refusing,
    /// The same, but something is in flight that was there before, and none of it ended: streams, or long requests.
    Standing,
    /// Requests come and go, or nobody is turned away.
    Harmless,
}

impl Default for Stuck {
    fn default() -> Self {
        Stuck { stood: Duration::ZERO, lowest: f64::INFINITY, read_at: None, is_out: false }
    }
}

impl Stuck {
    pub(crate) fn is_out(&self) -> bool {
        self.is_out
    }

    /// It reads `value` now, and its mean is `mean`.
    pub(crate) fn read(&mut self, now: Time, value: f64, mean: f64, thresholds: &Thresholds, doing: Doing) {
        // A clock that jumps, or a driver that was held up, is one reading and no more.
        let elapsed = self.read_at.map_or(Duration::ZERO, |at| now.since(at)).min(READING_MOST);
        let cutoff = thresholds.cutoff(mean);
        if self.is_out && cutoff > 0.0 {
            return;
        }
        let fallen = value < self.lowest - FALLS * thresholds.0[3];
        if cutoff < HARDLY_ANYTHING || fallen {
            let lowest = if fallen { value } else { f64::INFINITY };
            *self = Stuck { lowest, read_at: Some(now), ..Stuck::default() };
            return;
        }
        self.read_at = Some(now);
        self.stood += match doing {
            Doing::Refusing => elapsed,
            Doing::Standing => elapsed / STANDING_PART,
            Doing::Harmless => Duration::ZERO,
        };
        self.is_out = self.stood >= STUCK_AFTER;
    }
}

/// For how long callers are turned away and nothing is in flight until it is left out.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(10);
/// What is in flight and does not move may hold what the signal counts: that counts for a sixth, so a minute.
const STANDING_PART: u32 = 6;
/// From here on nine in ten of CRITICAL, which is what requests are by default, are refused.
const HARDLY_ANYTHING: f64 = 2.9;
/// It falls if it is lower than ever by this share of the last threshold.
const FALLS: f64 = 0.01;
/// What one reading can count for; they come ten times a second.
const READING_MOST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds([0.85, 0.90, 0.95, 1.0]);
    const TENTH: Duration = Duration::from_millis(100);

    /// Reads it ten times a second; says after how many readings it was left out.
    fn until_out(readings: u32, value: impl Fn(u32) -> f64, doing: impl Fn(u32) -> Doing) -> Option<u32> {
        let (mut stuck, mut now) = (Stuck::default(), Time::from_secs(100));
        (0..readings).find(|&reading| {
            now = now + TENTH;
            stuck.read(now, value(reading), value(reading), &THRESHOLDS, doing(reading));
            stuck.is_out()
        })
    }

    #[test]
    fn one_that_stands_while_callers_are_turned_away_is_left_out_after_ten_seconds() {
        // The first reading has none before it that it could have stood since.
        assert_eq!(until_out(1_000, |_| 1.1, |_| Doing::Refusing), Some(100));
        assert_eq!(until_out(10_000, |_| 1.1, |_| Doing::Standing), Some(601));
        let half = |reading| if reading % 2 == 0 { Doing::Refusing } else { Doing::Harmless };
        assert_eq!(until_out(1_000, |_| 1.1, half), Some(200), "however little is let in");
    }

    #[test]
    fn one_that_falls_or_that_work_can_explain_or_that_lets_enough_in_is_believed() {
        assert_eq!(until_out(10_000, |_| 1.1, |_| Doing::Harmless), None);
        assert_eq!(until_out(10_000, |_| 0.98, |_| Doing::Refusing), None);
        let draining = |reading: u32| 200.0 - f64::from(reading) * 0.02;
        assert_eq!(until_out(9_900, draining, |_| Doing::Refusing), None);
    }

    #[test]
    fn it_comes_back_when_it_has_been_below_and_a_clock_that_jumps_is_one_reading() {
        let (mut stuck, now) = (Stuck::default(), Time::from_secs(100));
        let hours = [0, 1, 2, 3, 1, 2, 3, 4, 1].map(|hour| now + Duration::from_secs(3_600 * hour));
        for at in hours {
            stuck.read(at, 1.1, 1.1, &THRESHOLDS, Doing::Refusing);
        }
        assert!(!stuck.is_out(), "{stuck:?}");

        for reading in 0..200 {
            stuck.read(now + TENTH * reading, 1.1, 1.1, &THRESHOLDS, Doing::Refusing);
        }
        assert!(stuck.is_out());
        stuck.read(now, 0.9, 0.9, &THRESHOLDS, Doing::Refusing);
        assert!(stuck.is_out(), "it still asks for something");
        stuck.read(now, 0.5, 0.5, &THRESHOLDS, Doing::Refusing);
        stuck.read(now, 1.1, 1.1, &THRESHOLDS, Doing::Refusing);
        assert!(!stuck.is_out());
    }
}
