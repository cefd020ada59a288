//! How fast something may go on: a rate with room for bursts, kept as one moment.

use std::time::Duration;

use evenkeel_core::Time;

/// So many a second, and so many at once.
#[derive(Debug)]
pub(crate) struct Pace {
    each: Duration,
    burst: Duration,
    /// When all that was taken so far is paid for.
    paid_at: Time,
}

impl Pace {
    /// Neither may be 0.
    pub(crate) fn new(per_second: u32, at_once: u32) -> Self {
        let each = Duration::from_secs(1) / per_second;
        Pace { each, burst: each * at_once, paid_at: Time::ZERO }
    }

    /// So many have gone by; more than there was room for makes the next ones wait longer.
    pub(crate) fn take(&mut self, now: Time, count: u32) {
        self.on_clock(now);
        self.paid_at = self.paid_at.max(now) + self.each * count;
    }

    /// Takes one if there is room.
    pub(crate) fn try_take(&mut self, now: Time) -> bool {
        let may = self.opens_at(now).is_none();
        if may {
            self.take(now, 1);
        }
        may
    }

    /// When there is room again; `None` where there is.
    pub(crate) fn opens_at(&mut self, now: Time) -> Option<Time> {
        self.on_clock(now);
        let over = (self.paid_at.since(now) + self.each).checked_sub(self.burst)?;
        (over > Duration::ZERO).then(|| now + over)
    }

    /// A clock that was set back costs no more than a burst.
    fn on_clock(&mut self, now: Time) {
        if self.paid_at.since(now) > self.burst * 2 {
            self.paid_at = now + self.burst;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);

    #[test]
    fn a_burst_goes_by_and_then_the_rate() {
        let mut pace = Pace::new(1_000, 10);
        let taken = (0..100).filter(|_| pace.try_take(NOW)).count();
        assert_eq!(taken, 10);
        assert_eq!(pace.opens_at(NOW), Some(NOW + Duration::from_millis(1)));

        let later = (1..=100).filter(|&millis| pace.try_take(NOW + Duration::from_millis(millis))).count();
        assert_eq!(later, 100);
        assert_eq!((0..100).filter(|_| pace.try_take(Time::from_secs(200))).count(), 10, "rest saves up one burst");
    }

    #[test]
    fn too_many_at_once_are_waited_for() {
        let mut pace = Pace::new(1_000, 10);
        pace.take(NOW, 15);

        assert_eq!(pace.opens_at(NOW), Some(NOW + Duration::from_millis(6)));
        assert_eq!(pace.opens_at(NOW + Duration::from_millis(6)), None);
    }

    #[test]
    fn a_clock_that_is_set_back_closes_it_for_a_moment_only() {
        let mut pace = Pace::new(1_000, 10);
        pace.take(Time::from_secs(1_000_000), 10);

        assert_eq!(pace.opens_at(NOW), Some(NOW + Duration::from_millis(1)));
    }
}
