//! Whether there is too much, though a little: more is asked for than can be done, and not by chance.
//!
//! From then on the highest criticality goes first in the line, what does not fit waits less long, and the cutoff may engage. All three
//! cost useful work or make somebody wait longer where the load is just what the task can do, so this is surer of itself than the demand: a
//! mean over two seconds more, and two bars. A great step counts at once, and so does what surely fits. Demand alone would not do: what
//! clients held back is told when they come again, a second after it is over. Where processors have idled of late there is not too much.

/// Follows demand over capacity.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    mean: f64,
    /// Share of the processors that idled, of late.
    idle: f64,
    is_too_much: bool,
    /// Seconds for which it has been so.
    lasts: f64,
}

impl Pressure {
    /// Demand over capacity in this tick, whether it has made a step, and the share of the processors that idled.
    pub(crate) fn read(&mut self, seconds: f64, demand: f64, is_step: bool, idle: f64) {
        let is_step = is_step && (demand.min(MOST) - self.mean).abs() > STEP;
        self.idle += (seconds / IDLE_MEMORY).min(1.0) * (idle - self.idle);
        if is_step {
            self.idle = 0.0;
        }
        let demand = demand.min(if self.idle > IDLES { FITS } else { MOST });
        let gain = if is_step || demand <= FITS { 1.0 } else { (seconds / MEMORY).min(1.0) };
        self.mean += gain * (demand - self.mean);
        self.is_too_much = self.mean > if self.is_too_much { UNTIL } else { FROM };
        self.lasts = if self.is_too_much { self.lasts + seconds } else { 0.0 };
    }

    pub(crate) fn is_too_much(&self) -> bool {
        self.is_too_much
    }

    /// For longer than what came at once is remembered: a burst is to be waited for, not refused.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasts > LASTS
    }
}

/// Seconds that the mean is over. With none, chance at the capacity passed for too much often enough on two cores to cost half a percent of
/// the useful work (`scenarios/at-capacity.toml`); with four, critical requests at 1.05 times the capacity wait half as long again.
const MEMORY: f64 = 2.0;
/// Demand over capacity from which on there is too much, and until when.
const FROM: f64 = 1.05;
const UNTIL: f64 = 1.02;
/// What surely fits, and what is as good as any more: else ten times the capacity would be remembered for seconds after it is over.
const FITS: f64 = 0.95;
const MOST: f64 = 1.25;
/// How great a step is that no chance and no client that comes again makes.
const STEP: f64 = 0.4;
/// Share of the processors that idles at no load above the capacity, and the seconds that it is a mean over.
const IDLES: f64 = 0.2;
const IDLE_MEMORY: f64 = 1.0;
/// Seconds: twice what a step is seen within.
const LASTS: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: f64 = 0.0105;

    fn ticks(pressure: &mut Pressure, count: u32, demand: f64) -> bool {
        (0..count).for_each(|_| pressure.read(TICK, demand, false, 0.0));
        pressure.is_too_much()
    }

    #[test]
    fn what_chance_brings_is_not_too_much_and_what_stays_is() {
        let mut pressure = Pressure::default();
        assert!(!ticks(&mut pressure, 1_000, 1.0));
        // A fifth more for a third of a second.
        assert!(!ticks(&mut pressure, 30, 1.2));
        assert!(!ticks(&mut pressure, 1_000, 1.0));

        assert!(ticks(&mut pressure, 300, 1.1));
        assert!(ticks(&mut pressure, 1_000, 1.03), "between the bars it stays as it is");
        assert!(!ticks(&mut pressure, 300, 1.0));
        assert!(!ticks(&mut pressure, 1_000, 1.03));
    }

    #[test]
    fn an_overload_that_is_over_is_forgotten_at_once() {
        let mut pressure = Pressure::default();
        assert!(ticks(&mut pressure, 1_000, 10.0));
        assert!(!ticks(&mut pressure, 1, 0.9));
        // Also one that leaves the task just full: in five seconds, where ten times as much would take twelve.
        assert!(ticks(&mut pressure, 1_000, 10.0) && !ticks(&mut pressure, 500, 1.0));
    }

    #[test]
    fn a_step_counts_at_once_both_ways() {
        let mut pressure = Pressure::default();
        ticks(&mut pressure, 1_000, 0.5);
        pressure.read(TICK, 1.4, true, 0.5);
        assert!(pressure.is_too_much() && !pressure.is_lasting());
        assert!(ticks(&mut pressure, 20, 1.4) && pressure.is_lasting());
        pressure.read(TICK, 0.5, true, 0.0);
        assert!(!pressure.is_too_much());
        // One that chance makes does not.
        ticks(&mut pressure, 1_000, 1.0);
        pressure.read(TICK, 1.2, true, 0.0);
        assert!(!pressure.is_too_much());
    }

    #[test]
    fn what_is_told_late_counts_for_nothing_while_processors_idle() {
        let mut pressure = Pressure::default();
        ticks(&mut pressure, 1_000, 10.0);
        (0..100).for_each(|_| pressure.read(TICK, 1.4, false, 0.9));
        assert!(!pressure.is_too_much());
        assert!(!ticks(&mut pressure, 100, 1.4), "they have been full for a second");
        assert!(ticks(&mut pressure, 150, 1.4));
    }
}
