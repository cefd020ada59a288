//! Settings of admission: what may refuse, and where it begins to.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::{Criticality, InvalidConfig, Mode};

/// Who is let in when there is too much.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionConfig {
    /// How far each mechanism may go.
    pub modes: Modes,
    /// What a CPU second here is worth, beside the reference machine: costs are multiplied by it. Default 1.
    pub cpu_factor: f64,
    /// Handlers that run at once, as a multiple of the processors; where the dearest take less than a millisecond, of as many
    /// as make one. Default 1.
    pub slots: f64,
    /// Work that may wait while nothing is wrong, as time of all processors: what a burst may bring. Default 120 ms.
    pub burst: Duration,
    /// How long a request that is being cut may wait, as a multiple of what the dearest one in a hundred costs,
    /// or of a millisecond where that is more. Default 1.85.
    pub age: f64,
    /// How long clients may believe a hint. Default 700 ms.
    pub hint_ttl: Duration,
    /// Retries as a share of recent requests from which on the service counts as overloaded (B16). Default 0.04.
    pub retries: f64,
    /// Requests in handlers as a multiple of what is needed when nothing is wrong. Default 3.
    pub limit: f64,
    /// Requests in handlers that no limit goes below. Default 64.
    pub limit_least: u32,
    /// Where each signal of the machine begins to refuse which criticality.
    pub signals: SignalsConfig,
    /// CPU that each customer may use.
    pub quotas: QuotasConfig,
    /// Where answers become cheaper, as demand over capacity: one for each level. Default 0.85, 0.95 and 1.05.
    pub degrade: [f64; 3],
}

/// Off, observe or on, for each mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// None goes further than this: the switch for all at once. Default on.
    pub all: Mode,
    /// Requests whose deadline has passed. Default on.
    pub deadline: Mode,
    /// Customers over their quota. Default on.
    pub quota: Mode,
    /// The cutoff by criticality. Default on.
    pub cutoff: Mode,
    /// The most requests in handlers. Default observe.
    pub limit: Mode,
    /// The line in front of the handlers. Default on.
    pub queue: Mode,
    /// *Don't retry* from the histogram of attempts. Default on.
    pub attempts: Mode,
    /// Levels of cheaper answers. Default on.
    pub degrade: Mode,
    /// Hints to clients. Default on.
    pub hints: Mode,
}

/// Where the signals of the machine begin to refuse. One that cannot be read refuses nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SignalsConfig {
    /// CPU in use over CPU reserved. Default: none, since a task that is full has not too much.
    pub cpu: Option<Thresholds>,
    /// Memory in use over its limit. Default 0.90, 0.93, 0.96 and 0.98.
    pub memory: Option<Thresholds>,
    /// Executor load average: tasks running or ready to run, for each processor. Default: none, the queue acts first.
    pub load: Option<Thresholds>,
    /// The oldest scheduling delay, in seconds. Default 0.5, 0.75, 1 and 2.
    pub delay: Option<Thresholds>,
    /// Share of time in which the system held the process back. Default: none.
    pub throttled: Option<Thresholds>,
    /// Signals of the service, as shares of their capacity. Default 0.85, 0.90, 0.95 and 1.
    pub plugged: Option<Thresholds>,
}

/// From where each criticality is refused, the least one first; all of it from the next one's on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds(pub [f64; 4]);

/// CPU seconds in a second that customers may use on this task (B4).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotasConfig {
    /// For whom none is set by name. Default: no limit.
    pub default: Option<Quota>,
    /// By name.
    pub customers: Vec<(String, Quota)>,
}

/// What one customer may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// Normalised CPU seconds in a second.
    pub cpu: f64,
    /// How much of that each criticality may use, from the least; at most all of it. Default: all of it.
    pub by_criticality: [Option<f64>; 4],
    /// How long it may use twice as much before that counts. Default: until it has used three quarters of what may wait, and 1 s at most:
    /// one that asks for ten times its quota is over it before its burst has filled the line. A customer that asks for no more than a soft
    /// quota, by what its requests cost on average, may be three bursts further ahead: then they are dear by chance.
    pub burst: Option<Duration>,
    /// Refused even while there is room. Default false: a limit bites only while capacity is short.
    pub hard: bool,
}

impl Quota {
    /// So much, with the default burst, while capacity is short.
    pub const fn of_cpu(cpu: f64) -> Quota {
        Quota { cpu, by_criticality: [None; 4], burst: None, hard: false }
    }
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        AdmissionConfig {
            modes: Modes::default(),
            cpu_factor: 1.0,
            slots: 1.0,
            burst: Duration::from_millis(120),
            age: 1.85,
            hint_ttl: Duration::from_millis(700),
            retries: 0.04,
            limit: 3.0,
            limit_least: 64,
            signals: SignalsConfig::default(),
            quotas: QuotasConfig::default(),
            degrade: [0.85, 0.95, 1.05],
        }
    }
}

impl Default for Modes {
    fn default() -> Self {
        let on = Mode::On;
        Modes {
            all: on,
            deadline: on,
            quota: on,
            cutoff: on,
            limit: Mode::Observe,
            queue: on,
            attempts: on,
            degrade: on,
            hints: on,
        }
    }
}

impl Modes {
    /// Each by its name in settings and JSON, the switch for all first, then in the order in which a request meets them.
    ///
    /// ```
    /// let modes = evenkeel_core::server::Modes::default();
    /// assert_eq!(modes.each()[0], ("all", evenkeel_core::Mode::On));
    /// ```
    pub fn each(mut self) -> [(&'static str, Mode); Modes::COUNT] {
        self.each_mut().map(|(name, mode)| (name, *mode))
    }

    /// What each may really do: none goes further than the switch for all.
    pub fn in_force(self) -> [(&'static str, Mode); Modes::COUNT] {
        self.each().map(|(name, mode)| (name, mode.min(self.all)))
    }

    /// The one of that name, to be set; `None` where there is none.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Mode> {
        self.each_mut().into_iter().find(|(known, _)| *known == name).map(|(_, mode)| mode)
    }

    fn each_mut(&mut self) -> [(&'static str, &mut Mode); Modes::COUNT] {
        let Modes { all, deadline, quota, cutoff, limit, queue, attempts, degrade, hints } = self;
        [
            ("all", all),
            ("deadline", deadline),
            ("quota", quota),
            ("cutoff", cutoff),
            ("limit", limit),
            ("queue", queue),
            ("attempts", attempts),
            ("degrade", degrade),
            ("hints", hints),
        ]
    }

    const COUNT: usize = 9;

    /// Whether any mechanism is at work that learns from tick to tick; deadlines do not.
    pub(crate) fn learn(&self) -> bool {
        let Modes { all, deadline: _, quota, cutoff, limit, queue, attempts, degrade, hints } = *self;
        [quota, cutoff, limit, queue, attempts, degrade, hints].into_iter().any(|mode| mode.min(all) != Mode::Off)
    }
}

impl Default for SignalsConfig {
    fn default() -> Self {
        SignalsConfig {
            cpu: None,
            memory: Some(Thresholds([0.90, 0.93, 0.96, 0.98])),
            load: None,
            delay: Some(Thresholds([0.5, 0.75, 1.0, 2.0])),
            throttled: None,
            plugged: Some(Thresholds([0.85, 0.90, 0.95, 1.0])),
        }
    }
}

impl AdmissionConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let (millisecond, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        InvalidConfig::unless_in_range("admission.cpu_factor", self.cpu_factor, 0.01, 100.0)?;
        InvalidConfig::unless_in_range("admission.slots", self.slots, 0.25, 1000.0)?;
        InvalidConfig::unless_in_range("admission.burst", self.burst, millisecond, minute)?;
        InvalidConfig::unless_in_range("admission.age", self.age, 0.5, 100.0)?;
        InvalidConfig::unless_in_range("admission.hint_ttl", self.hint_ttl, 10 * millisecond, minute)?;
        InvalidConfig::unless_in_range("admission.retries", self.retries, 0.001, 1.0)?;
        InvalidConfig::unless_in_range("admission.limit", self.limit, 1.0, 100.0)?;
        InvalidConfig::unless_in_range("admission.limit_least", self.limit_least, 1, 1_000_000)?;
        let [first, second, third] = self.degrade;
        InvalidConfig::unless_in_range("admission.degrade", first, 0.01, 100.0)?;
        InvalidConfig::unless_in_range("admission.degrade", second, first, 100.0)?;
        InvalidConfig::unless_in_range("admission.degrade", third, second, 100.0)?;
        self.signals.check()?;
        self.quotas.check()
    }
}

impl SignalsConfig {
    fn check(&self) -> Result<(), InvalidConfig> {
        let (share, any) = (LEAST_SHARE, LEAST_THRESHOLD);
        for (field, thresholds, lowest) in [
            ("admission.signals.cpu", self.cpu, share),
            ("admission.signals.memory", self.memory, share),
            ("admission.signals.load", self.load, any),
            ("admission.signals.delay", self.delay, any),
            ("admission.signals.throttled", self.throttled, any),
            ("admission.signals.plugged", self.plugged, share),
        ] {
            let Some(Thresholds(steps)) = thresholds else { continue };
            let mut least = lowest;
            for step in steps {
                // A threshold that an idle task is above would answer nothing, ever.
                if !(least..=MOST_THRESHOLD).contains(&step) {
                    return Err(InvalidConfig::new(
                        field,
                        steps,
                        format!(
                            "must rise from SHEDDABLE to CRITICAL_PLUS, from {lowest} to 10000, as in [0.85, 0.90, 0.95, 1.0]"
                        ),
                    ));
                }
                least = step;
            }
        }
        Ok(())
    }
}

impl QuotasConfig {
    fn check(&self) -> Result<(), InvalidConfig> {
        if self.customers.len() > CUSTOMERS_MOST {
            return Err(InvalidConfig::new("admission.quotas.customers", self.customers.len(), "at most 4000 by name"));
        }
        let mut known = BTreeSet::new();
        for (name, _) in &self.customers {
            if name.is_empty() || name.trim() != name {
                let allowed = "must have a name, without blanks around it: that is what requests say";
                return Err(InvalidConfig::new("admission.quotas.customers", name, allowed));
            }
            if !known.insert(name) {
                let allowed = "has a quota already: keep one of them";
                return Err(InvalidConfig::new("admission.quotas.customers", name, allowed));
            }
        }
        let named = self.customers.iter().map(|(_, quota)| ("admission.quotas.customers", quota));
        self.default
            .iter()
            .map(|quota| ("admission.quotas.default", quota))
            .chain(named)
            .try_for_each(|(field, quota)| quota.check(field))
    }
}

impl Quota {
    fn check(&self, field: &'static str) -> Result<(), InvalidConfig> {
        InvalidConfig::unless_in_range(field, self.cpu, LEAST_CPU, 1e6)?;
        if let Some(burst) = self.burst {
            InvalidConfig::unless_in_range(field, burst, Duration::from_millis(10), Duration::from_secs(3600))?;
        }
        for (class, cpu) in Criticality::ALL.into_iter().zip(self.by_criticality) {
            let Some(cpu) = cpu.filter(|cpu| !(LEAST_CPU..=self.cpu).contains(cpu)) else { continue };
            let allowed = format!("must be from {LEAST_CPU} to {}, which is for all criticalities", self.cpu);
            return Err(InvalidConfig::new(field, format_args!("{cpu} for {class}"), allowed));
        }
        Ok(())
    }
}

const LEAST_CPU: f64 = 1e-6;
/// Of a resource: a task that does nothing has some of it already.
const LEAST_SHARE: f64 = 0.1;
const LEAST_THRESHOLD: f64 = 0.01;
const MOST_THRESHOLD: f64 = 10_000.0;
const CUSTOMERS_MOST: usize = 4_000;
