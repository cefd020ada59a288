//! Signals of the machine and of the service (B10, B11): above its threshold, each refuses criticalities from below.
//!
//! Bursts are swallowed: a signal counts by its mean over about a second. One that is not there refuses nothing.

use std::time::Duration;

use super::config::{SignalsConfig, Thresholds};
use crate::Time;
use crate::server::Usage;
use crate::stats::DecayingMean;

/// What each signal says.
#[derive(Debug)]
pub(crate) struct Signals {
    means: [DecayingMean; SIGNALS],
}

const SIGNALS: usize = 6;
/// In the order they are kept.
pub(crate) const NAMES: [&str; SIGNALS] = ["cpu", "memory", "load", "delay", "throttled", "plugged"];

impl Default for Signals {
    fn default() -> Self {
        Signals { means: [DecayingMean::new(HALF_LIFE); SIGNALS] }
    }
}

impl Signals {
    pub(crate) fn read(&mut self, now: Time, usage: &Usage, config: &SignalsConfig) {
        let load = usage.runnable.zip(usage.processors).map(|(runnable, processors)| runnable / processors);
        let delay = usage.delay.map(|delay| delay.as_secs_f64());
        let values = [usage.utilization, usage.memory, load, delay, usage.throttled, usage.plugged];
        for ((mean, value), thresholds) in self.means.iter_mut().zip(values).zip(config.all()) {
            match value.filter(|value| value.is_finite() && *value >= 0.0) {
                // However high one reading is, it counts as little more than what refuses all.
                Some(value) => mean.sample(now, thresholds.map_or(value, |thresholds| value.min(thresholds.most()))),
                // What cannot be read any more is not believed for ever.
                None => *mean = DecayingMean::new(HALF_LIFE),
            }
        }
    }

    /// The highest cutoff that a signal asks for, and which.
    pub(crate) fn cutoff(&self, config: &SignalsConfig) -> (f64, Option<&'static str>) {
        let mut highest = (0.0, None);
        for ((mean, thresholds), name) in self.means.iter().zip(config.all()).zip(NAMES) {
            let (Some(value), Some(thresholds)) = (mean.mean(), thresholds) else { continue };
            let cutoff = thresholds.cutoff(value);
            if cutoff > highest.0 {
                highest = (cutoff, Some(name));
            }
        }
        highest
    }

    pub(crate) fn means(&self) -> [(&'static str, Option<f64>); SIGNALS] {
        std::array::from_fn(|place| (NAMES[place], self.means[place].mean()))
    }
}

impl SignalsConfig {
    /// In the order of the signals.
    fn all(&self) -> [Option<Thresholds>; SIGNALS] {
        let SignalsConfig { cpu, memory, load, delay, throttled, plugged } = *self;
        [cpu, memory, load, delay, throttled, plugged]
    }
}

impl Thresholds {
    /// Where the last criticality would be refused as a whole.
    fn most(&self) -> f64 {
        self.0[3] * (1.0 + LAST_WIDTH)
    }

    /// 0 below the first threshold, k at the k-th, and in between in proportion; never all of what matters most.
    pub(crate) fn cutoff(&self, value: f64) -> f64 {
        let Thresholds(steps) = self;
        let Some(place) = steps.iter().rposition(|step| value >= *step) else { return 0.0 };
        let width = match steps.get(place + 1) {
            Some(next) => next - steps[place],
            None => steps[place] * LAST_WIDTH,
        };
        let into = if width > 0.0 { ((value - steps[place]) / width).min(1.0) } else { 1.0 };
        (place as f64 + into).min(MOST)
    }
}

const HALF_LIFE: Duration = Duration::from_millis(693);
/// How much above the last threshold the last class would be refused as a whole.
const LAST_WIDTH: f64 = 0.25;
/// Whatever a signal says, one in ten of what matters most is served: a signal may be wrong.
const MOST: f64 = 3.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_refuses_from_below_and_never_everything() {
        let thresholds = Thresholds([0.8, 0.9, 0.95, 1.0]);
        for (value, expected) in
            [(0.5, 0.0), (0.8, 0.0), (0.85, 0.5), (0.9, 1.0), (0.975, 2.5), (1.0, 3.0), (99.0, 3.9)]
        {
            assert!((thresholds.cutoff(value) - expected).abs() < 1e-9, "{value}: {}", thresholds.cutoff(value));
        }
        let steep = Thresholds([0.9; 4]);
        assert!(steep.cutoff(0.89) == 0.0 && steep.cutoff(0.9) >= 3.0);
    }

    #[test]
    fn bursts_are_swallowed_and_what_cannot_be_read_refuses_nothing() {
        let (mut signals, config) = (Signals::default(), SignalsConfig::default());
        let usage = |memory| Usage { memory, ..Usage::default() };
        let mut now = Time::from_secs(1);
        let mut read = |signals: &mut Signals, memory, ticks: u32| {
            for _ in 0..ticks {
                now = now + Duration::from_millis(100);
                signals.read(now, &usage(memory), &SignalsConfig::default());
            }
        };
        read(&mut signals, Some(0.5), 50);
        read(&mut signals, Some(1.0), 1);
        assert_eq!(signals.cutoff(&config), (0.0, None));
        read(&mut signals, Some(0.99), 100);
        assert!(matches!(signals.cutoff(&config), (cutoff, Some("memory")) if cutoff > 3.0));
        read(&mut signals, Some(f64::NAN), 1);
        assert_eq!(signals.cutoff(&config), (0.0, None));
    }
}
