//! Cheaper answers before refusals (B1): a level that rises with demand over capacity.
//!
//! Demand is what whole answers would take. By what the cheaper ones take, a level that works would look needless, and fall
//! while the line is still full of those it let in.

/// How much cheaper answers should be.
#[derive(Debug, Default)]
pub(crate) struct Degrade {
    level: u8,
    /// Seconds for which less was asked for.
    calm: f64,
}

impl Degrade {
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// `pressure` is demand over capacity. Rises at once, falls by one level after a second of calm.
    pub(crate) fn read(&mut self, seconds: f64, pressure: f64, steps: &[f64; 3]) {
        let wanted = steps.iter().filter(|step| pressure >= **step).count() as u8;
        if wanted >= self.level {
            (self.level, self.calm) = (wanted, 0.0);
            return;
        }
        let below = steps.get(usize::from(self.level) - 1).is_some_and(|step| pressure < step * CALMER);
        self.calm = if below { self.calm + seconds } else { 0.0 };
        if self.calm >= CALM_SECONDS {
            (self.level, self.calm) = (self.level - 1, 0.0);
        }
    }
}

/// How far below its step the pressure must fall.
const CALMER: f64 = 0.9;
const CALM_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_at_once_and_falls_step_by_step() {
        let (mut degrade, steps) = (Degrade::default(), [0.85, 0.95, 1.05]);
        for (pressure, level) in [(0.5, 0), (0.9, 1), (1.2, 3), (1.0, 3)] {
            degrade.read(0.01, pressure, &steps);
            assert_eq!(degrade.level(), level, "{pressure}");
        }
        for _ in 0..105 {
            degrade.read(0.01, 0.5, &steps);
        }
        assert_eq!(degrade.level(), 2);
        // An idle server looks less often.
        for _ in 0..21 {
            degrade.read(0.1, 0.5, &steps);
        }
        assert_eq!(degrade.level(), 0);
    }
}
