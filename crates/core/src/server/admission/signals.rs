//! Signals of the machine and of the service (B10, B11): above its threshold, each refuses criticalities from below.
//!
//! Bursts are swallowed: a signal counts by its mean over about a second. One that is not there refuses nothing.

use std::time::Duration;

use super::config::{SignalsConfig, Thresholds};
use super::stuck::{Doing, Stuck};
use crate::Time;
use crate::server::Usage;
use crate::stats::DecayingMean;

/// What each signal says: those of the machine, then those that the service plugged in.
#[derive(Debug)]
pub(crate) struct Signals {
    machine: [Heard; MACHINE],
    plugged: Vec<(String, Heard)>,
}

/// One signal, as it was heard of late.
#[derive(Clone, Copy, Debug)]
struct Heard {
    mean: DecayingMean,
    stuck: Stuck,
}

const MACHINE: usize = 6;
/// In the order they are kept. The last is what a source of usage says of the service as a whole.
const NAMES: [&str; MACHINE] = ["cpu", "memory", "load", "delay", "throttled", "plugged"];

impl Default for Signals {
    fn default() -> Self {
        Signals { machine: [Heard::default(); MACHINE], plugged: Vec::new() }
    }
}

impl Signals {
    /// What the machine and the service say now, while the server did so much.
    pub(crate) fn read(
        &mut self,
        now: Time,
        usage: &Usage,
        plugged: &[(String, Option<f64>)],
        config: &SignalsConfig,
        doing: Doing,
    ) {
        let load = usage.runnable.zip(usage.processors).map(|(runnable, processors)| runnable / processors);
        let delay = usage.delay.map(|delay| delay.as_secs_f64());
        let values = [usage.utilization, usage.memory, load, delay, usage.throttled, usage.plugged];
        for ((heard, value), thresholds) in self.machine.iter_mut().zip(values).zip(config.all()) {
            heard.read(now, value, thresholds, doing);
        }
        if !self.plugged.iter().map(|(name, _)| name).eq(plugged.iter().map(|(name, _)| name)) {
            self.plugged = plugged.iter().map(|(name, _)| (name.clone(), Heard::default())).collect();
        }
        for ((_, heard), (_, value)) in self.plugged.iter_mut().zip(plugged) {
            heard.read(now, *value, config.plugged, doing);
        }
    }

    /// The highest cutoff that a signal asks for, and which.
    pub(crate) fn cutoff(&self, config: &SignalsConfig) -> (f64, Option<&str>) {
        let machine = NAMES.into_iter().zip(&self.machine).zip(config.all());
        let plugged = self.plugged.iter().map(|(name, heard)| ((name.as_str(), heard), config.plugged));
        let mut highest = (0.0, None);
        for ((name, heard), thresholds) in machine.chain(plugged) {
            let cutoff = heard.cutoff(thresholds);
            if cutoff > highest.0 {
                highest = (cutoff, Some(name));
            }
        }
        highest
    }

    pub(crate) fn means(&self) -> Vec<(String, Option<f64>)> {
        self.all().map(|(name, heard)| (name.to_owned(), heard.mean.mean())).collect()
    }

    /// Those that are left out because refusing does not bring them down.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = &str> {
        self.all().filter(|(_, heard)| heard.stuck.is_out()).map(|(name, _)| name)
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Heard)> {
        let plugged = self.plugged.iter().map(|(name, heard)| (name.as_str(), heard));
        NAMES.into_iter().zip(&self.machine).chain(plugged)
    }
}

impl Default for Heard {
    fn default() -> Self {
        Heard { mean: DecayingMean::new(HALF_LIFE), stuck: Stuck::default() }
    }
}

impl Heard {
    fn read(&mut self, now: Time, value: Option<f64>, thresholds: Option<Thresholds>, doing: Doing) {
        let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) else {
            // What cannot be read any more is not believed for ever.
            self.mean = DecayingMean::new(HALF_LIFE);
            return;
        };
        let Some(thresholds) = thresholds else {
            self.mean.sample(now, value);
            self.stuck = Stuck::default();
            return;
        };
        // However high one reading is, it counts as little more than what refuses all.
        self.mean.sample(now, value.min(thresholds.most()));
        if let Some(mean) = self.mean.mean() {
            self.stuck.read(now, value, mean, &thresholds, doing);
        }
    }

    fn cutoff(&self, thresholds: Option<Thresholds>) -> f64 {
        match (self.mean.mean(), thresholds) {
            (Some(mean), Some(thresholds)) if !self.stuck.is_out() => thresholds.cutoff(mean),
            _ => 0.0,
        }
    }
}

impl SignalsConfig {
    /// In the order of the signals.
    fn all(&self) -> [Option<Thresholds>; MACHINE] {
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
                signals.read(now, &usage(memory), &[], &SignalsConfig::default(), Doing::Harmless);
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

    #[test]
    fn each_plugged_signal_is_judged_alone_and_asks_by_its_name() {
        let (mut signals, config) = (Signals::default(), SignalsConfig::default());
        let mut now = Time::from_secs(1);
        let mut read = |signals: &mut Signals, wrong, right, ticks: u32| {
            for _ in 0..ticks {
                now = now + Duration::from_millis(100);
                let plugged = [("wrong".to_owned(), wrong), ("right".to_owned(), Some(right))];
                signals.read(now, &Usage::default(), &plugged, &SignalsConfig::default(), Doing::Refusing);
            }
        };
        read(&mut signals, Some(9.0), 0.92, 50);
        assert!(matches!(signals.cutoff(&config), (cutoff, Some("wrong")) if cutoff > 3.0));

        read(&mut signals, Some(9.0), 0.92, 60);
        assert_eq!(signals.stuck().collect::<Vec<_>>(), ["wrong"]);
        assert!(matches!(signals.cutoff(&config), (cutoff, Some("right")) if (1.0..2.0).contains(&cutoff)));

        read(&mut signals, None, 0.92, 1);
        read(&mut signals, Some(9.0), 0.92, 1);
        assert_eq!(signals.stuck().count(), 1, "not because it fell silent");
        read(&mut signals, Some(0.1), 0.1, 100);
        assert_eq!((signals.stuck().count(), signals.cutoff(&config)), (0, (0.0, None)));
    }
}
