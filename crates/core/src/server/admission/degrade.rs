//! Cheaper answers before refusals (B1): a level that rises with demand over capacity.
//!
//! Demand is what whole answers would take. By what the cheaper ones take, a level that works would look needless, and fall
//! while the line is still full of those it let in.
//!
//! How high the level may be says how much is asked for; how high it is says what its answers save. With a little too much,
//! the highest level would have a task do a quarter of what it can: once it is known what cheaper answers take, the lowest
//! level is enough that brings it below the first step again.

/// How much cheaper answers should be.
#[derive(Debug, Default)]
pub(crate) struct Degrade {
    level: u8,
    /// Seconds for which less was asked for.
    calm: f64,
}

/// What an answer of each level takes of a whole one, from the first level on, as far as is known.
pub(crate) type Parts = [Option<f64>; 3];

impl Degrade {
    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// `pressure` is demand over capacity. Rises at once, falls by one level after a second of calm.
    pub(crate) fn read(&mut self, seconds: f64, pressure: f64, steps: &[f64; 3], parts: &Parts) {
        let wanted = enough(pressure, steps, parts);
        if wanted >= self.level {
            (self.level, self.calm) = (wanted, 0.0);
            return;
        }
        let is_calm = enough(pressure / CALMER, steps, parts) < self.level;
        self.calm = if is_calm { self.calm + seconds } else { 0.0 };
        if self.calm >= CALM_SECONDS {
            (self.level, self.calm) = (self.level - 1, 0.0);
        }
    }
}

/// The lowest level that brings demand below the first step, and no higher than demand allows.
fn enough(pressure: f64, steps: &[f64; 3], parts: &Parts) -> u8 {
    let most = steps.iter().filter(|step| pressure >= **step).count() as u8;
    (0..most).find(|&level| part_of(level, parts).is_some_and(|part| pressure * part < steps[0])).unwrap_or(most)
}

/// What answers of this level take of whole ones: where nobody was asked for it yet, a part of what the next that is known saves.
fn part_of(level: u8, parts: &Parts) -> Option<f64> {
    let known = (0..).zip(parts).skip(usize::from(level).saturating_sub(1));
    let (place, part) = known.filter(|_| level > 0).find_map(|(place, part)| Some((place, (*part)?)))?;
    Some(1.0 - (1.0 - part) * f64::from(level) / f64::from(place + 1))
}

/// How far below its step the pressure must fall.
const CALMER: f64 = 0.9;
const CALM_SECONDS: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [f64; 3] = [0.85, 0.95, 1.05];
    const UNKNOWN: Parts = [None; 3];

    #[test]
    fn it_rises_at_once_and_falls_step_by_step() {
        let mut degrade = Degrade::default();
        for (pressure, level) in [(0.5, 0), (0.9, 1), (1.2, 3), (1.0, 3)] {
            degrade.read(0.01, pressure, &STEPS, &UNKNOWN);
            assert_eq!(degrade.level(), level, "{pressure}");
        }
        for _ in 0..105 {
            degrade.read(0.01, 0.5, &STEPS, &UNKNOWN);
        }
        assert_eq!(degrade.level(), 2);
        // An idle server looks less often.
        for _ in 0..21 {
            degrade.read(0.1, 0.5, &STEPS, &UNKNOWN);
        }
        assert_eq!(degrade.level(), 0);
    }

    #[test]
    fn once_it_is_known_what_answers_save_no_more_is_asked_for_than_is_enough() {
        // A quarter less for each level; only the highest was tried.
        let quarters = [None, None, Some(0.25)];
        for (pressure, expected) in [(0.8, 0), (0.9, 1), (1.1, 1), (1.2, 2), (1.6, 2), (1.8, 3), (9.0, 3)] {
            assert_eq!(enough(pressure, &STEPS, &quarters), expected, "{pressure}");
        }
        // The first level saves next to nothing, as its own answers show.
        assert_eq!(enough(1.1, &STEPS, &[Some(0.99), None, Some(0.25)]), 2);
        // Nobody makes anything cheaper.
        assert_eq!(enough(1.1, &STEPS, &[Some(1.0), Some(1.0), Some(1.0)]), 3);

        let mut degrade = Degrade::default();
        degrade.read(0.01, 1.1, &STEPS, &UNKNOWN);
        assert_eq!(degrade.level(), 3);
        (0..500).for_each(|_| degrade.read(0.01, 1.1, &STEPS, &quarters));
        // With a margin, so that chance does not move it.
        assert_eq!(degrade.level(), 2);
    }
}
