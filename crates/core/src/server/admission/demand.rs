//! How much is asked for (B10, and what autoscalers want to know): CPU in a second, by criticality, refused or not.
//!
//! A mean over a second is steady enough to decide by, but late by a second when the load steps. So the last tenth of a
//! second is watched beside it: where that differs by more than chance explains, the mean jumps to it.

use std::collections::VecDeque;

use crate::server::counts::Totals;

/// Demand by criticality, in CPU seconds a second.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    rates: [f64; 4],
    recent: VecDeque<Tick>,
    /// Ticks for which the window alone decides, after a step: until what was before it has left.
    stepping: [usize; 4],
}

/// What came in one tick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tick {
    pub(crate) seconds: f64,
    /// CPU seconds expected, by criticality, and the sum of their squares.
    pub(crate) work: [f64; 4],
    pub(crate) squares: [f64; 4],
}

impl Tick {
    pub(crate) fn between(before: &Totals, now: &Totals, seconds: f64) -> Tick {
        let nanos = |class: usize| now.asked_work[class].wrapping_sub(before.asked_work[class]) as f64 * 1e-9;
        let squares = |class: usize| now.asked_squares[class].wrapping_sub(before.asked_squares[class]) as f64 * 1e-12;
        Tick { seconds, work: std::array::from_fn(nanos), squares: std::array::from_fn(squares) }
    }

    /// The same, were all that came answered in full.
    pub(crate) fn in_full(&self, before: &Totals, now: &Totals) -> Tick {
        let nanos = |class: usize| now.saved_work[class].wrapping_sub(before.saved_work[class]) as f64 * 1e-9;
        let squares = |class: usize| now.saved_squares[class].wrapping_sub(before.saved_squares[class]) as f64 * 1e-12;
        Tick {
            seconds: self.seconds,
            work: std::array::from_fn(|class| self.work[class] + nanos(class)),
            squares: std::array::from_fn(|class| self.squares[class] + squares(class)),
        }
    }

    pub(crate) fn sum(&self) -> f64 {
        self.work.iter().sum()
    }

    /// The standard deviation of the sum, were arrivals independent.
    pub(crate) fn sigma(&self) -> f64 {
        self.squares.iter().sum::<f64>().sqrt()
    }
}

impl Demand {
    pub(crate) fn read(&mut self, tick: Tick) {
        self.recent.push_back(tick);
        if self.recent.len() > TICKS {
            self.recent.pop_front();
        }
        let seconds: f64 = self.recent.iter().map(|tick| tick.seconds).sum();
        for class in 0..4 {
            let work: f64 = self.recent.iter().map(|tick| tick.work[class]).sum();
            let squares: f64 = self.recent.iter().map(|tick| tick.squares[class]).sum();
            let expected = self.rates[class] * seconds;
            // One request more or less is never a step.
            let lump = if work > 0.0 { squares / work } else { 0.0 };
            let chance = CHANCE * (squares.max(expected * lump)).sqrt() + 2.0 * lump;
            if self.recent.len() == TICKS && (work - expected).abs() > chance {
                self.stepping[class] = TICKS;
            }
            if self.stepping[class] > 0 {
                self.stepping[class] -= 1;
                self.rates[class] = work / seconds;
            } else {
                let gain = (tick.seconds / MEMORY).min(1.0);
                self.rates[class] += gain * (tick.work[class] / tick.seconds - self.rates[class]);
            }
        }
    }

    /// What was counted at prices that were wrong by this factor.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.rates = self.rates.map(|rate| rate * factor);
        for tick in &mut self.recent {
            tick.work = tick.work.map(|work| work * factor);
            tick.squares = tick.squares.map(|square| square * factor * factor);
        }
    }

    /// In CPU seconds a second.
    pub(crate) fn rates(&self) -> [f64; 4] {
        self.rates
    }

    /// Whether what came before the last tenth of a second says nothing of now.
    pub(crate) fn is_stepping(&self) -> bool {
        self.stepping.iter().any(|ticks| *ticks > 0)
    }

    /// Of this criticality and all above it.
    pub(crate) fn from(&self, class: usize) -> f64 {
        self.rates[class..].iter().sum()
    }
}

/// Ticks that are watched for a step: about a tenth of a second.
const TICKS: usize = 10;
/// Seconds that the mean is over.
const MEMORY: f64 = 1.0;
/// Standard deviations that chance explains.
const CHANCE: f64 = 3.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(requests: f64) -> Tick {
        let cost = 0.004;
        Tick {
            seconds: 0.0105,
            work: [0.0, 0.0, requests * cost, 0.0],
            squares: [0.0, 0.0, requests * cost * cost, 0.0],
        }
    }

    #[test]
    fn a_step_is_seen_within_a_tenth_of_a_second_and_chance_is_not() {
        let mut demand = Demand::default();
        for number in 0..500 {
            demand.read(tick(if number % 2 == 0 { 18.0 } else { 24.0 }));
        }
        let steady = demand.rates()[2];
        assert!((steady - 8.0).abs() < 0.5, "{steady}");

        for _ in 0..10 {
            demand.read(tick(210.0));
        }
        assert!(demand.rates()[2] > 76.0, "{:?}", demand.rates());
        assert!(demand.from(3) == 0.0 && demand.from(0) > 76.0);
    }
}
