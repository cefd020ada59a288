//! How loaded this task is, as far as the machine and the program can say (B10, B18).
//!
//! CPU over what is reserved, memory, load and delay of the executor, connections and checks, and what is plugged in.
//! A signal that cannot be read is left out and said so once: unknown is not zero, and never fatal. No value that leaves
//! here is infinite or no number. What the program brings is asked on threads of its own.

mod asked;
mod beat;
mod cgroup;
pub(crate) mod cpu;
mod delay;
mod load;
mod machine;
mod memory;
mod plugged;
mod program;
mod telling;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Running, Usage};
use evenkeel_core::stats::Rate;
use evenkeel_core::{InvalidConfig, Time};

pub use plugged::Signal;

pub(crate) use cpu::{Core, Cores};
pub(crate) use plugged::Closure;

use cgroup::Cgroups;
use machine::Machine;
use plugged::Plugged;
use program::Program;
use telling::Telling;

use crate::clock::Steady;

/// How loaded a task is. What is not known, or not yet, is left out.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Readings {
    /// CPU in use over CPU reserved. Above 1 where more is used than was reserved.
    pub cpu: Option<f64>,
    /// Processors reserved: as configured, else the cgroup's quota, else all that the process may run on.
    pub cpu_reserved: Option<f64>,
    /// Share of the time in which the cgroup's quota was used up, at most 1.
    pub throttled: Option<f64>,
    /// Memory in use over its limit.
    pub memory: Option<f64>,
    /// Handlers that run or could run for each processor, over about a second.
    pub load_average: Option<f64>,
    /// How long a task that is ready waited for its turn, at most since the last reading.
    pub delay: Option<Duration>,
    /// New connections.
    pub connections_per_second: Option<f64>,
    /// Health checks, watches that begin, pings on them, and datagrams of all kinds.
    pub checks_per_second: Option<f64>,
    /// What the program plugged in, over its capacity.
    pub plugged: Vec<(String, Option<f64>)>,
    /// How often something that was plugged in could not be read.
    pub plugged_failures: u64,
    /// Which signals cannot be read, or are not believed, and why.
    pub left_out: Vec<(String, String)>,
}

/// Reads the machine in the program's way.
pub(crate) type UsageSource = Box<dyn FnMut() -> Usage + Send>;

/// What the program said about its signals.
#[derive(Default)]
pub(crate) struct Settings {
    /// What it says counts instead of what the machine says of it.
    pub(crate) usage: Option<UsageSource>,
    /// Nothing is read of the machine.
    pub(crate) without_machine: bool,
    pub(crate) limits: Limits,
    pub(crate) plugged: Vec<Box<dyn Signal>>,
}

/// What the program said that there is of the machine's resources.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Limits {
    pub(crate) reserved_cpu: Option<f64>,
    pub(crate) memory_bytes: Option<u64>,
}

impl Limits {
    fn check(&self) -> Result<(), InvalidConfig> {
        if let Some(processors) = self.reserved_cpu {
            InvalidConfig::unless_in_range("reserved_cpu", processors, RESERVED_LEAST, RESERVED_MOST)?;
        }
        match self.memory_bytes {
            Some(bytes) => InvalidConfig::unless_in_range("memory_limit", bytes, 1, u64::MAX),
            None => Ok(()),
        }
    }
}

/// What a server has counted since it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Nothing where connections are somebody else's.
    pub(crate) connections: Option<u64>,
    pub(crate) checks: u64,
}

impl Counts {
    /// Connections and checks since then.
    pub(crate) fn since(&self, earlier: &Counts) -> u64 {
        let all = |counts: &Counts| counts.connections.unwrap_or(0).wrapping_add(counts.checks);
        all(self).wrapping_sub(all(earlier))
    }
}

/// Samples all of them.
pub(crate) struct Signals {
    machine: Option<Box<Machine>>,
    program: Option<Program>,
    plugged: Vec<Plugged>,
    connections: Rate,
    checks: Rate,
    readings: Readings,
    usage: Usage,
    telling: Telling,
    clock: Steady,
}

impl Signals {
    /// `running` is counted by whoever runs handlers.
    pub(crate) fn new(settings: Settings, cores: Cores, running: Option<Arc<Running>>) -> Result<Self, InvalidConfig> {
        let Settings { usage, without_machine, limits, plugged } = settings;
        limits.check()?;
        let clock = Steady::new();
        let machine = || Box::new(Machine::new(Cgroups::own(), limits, cores, running));
        Ok(Signals {
            machine: (!without_machine).then(machine),
            program: usage.map(|source| Program::new(clock, source)),
            plugged: Plugged::check(clock, plugged)?,
            connections: Rate::new(SMOOTHED_OVER),
            checks: Rate::new(SMOOTHED_OVER),
            readings: Readings::default(),
            usage: Usage::default(),
            telling: Telling::default(),
            clock,
        })
    }

    /// Begins to probe the executor and to ask what is plugged in; to be called inside the runtime that serves. Waits a moment
    /// for the first answers, so that the first sample has them.
    pub(crate) fn start(&mut self) {
        if let Some(machine) = &mut self.machine {
            machine.start();
        }
        if let Some(program) = &mut self.program {
            program.start();
        }
        self.plugged.iter_mut().for_each(|plugged| plugged.asked.start());
        self.wait_for_first(self.clock.now() + FIRST_MOST);
    }

    fn wait_for_first(&self, until: Time) {
        if let Some(program) = &self.program {
            program.wait_for_first(until);
        }
        self.plugged.iter().for_each(|plugged| plugged.asked.wait_for_first(until));
    }

    /// Reads all of it; to be called every 100 ms or so.
    pub(crate) fn sample(&mut self, now: Time, counts: Counts) -> &Readings {
        let readings = &mut self.readings;
        readings.left_out.clear();
        let processors = self.program.as_mut().and_then(Program::listen);
        if let Some(machine) = &mut self.machine {
            machine.sample(now, processors, readings);
        }
        if let Some(program) = &self.program {
            program.override_in(readings);
        }
        readings.leave_out_impossible_cpu();
        self.usage = Usage { plugged: self.program.as_ref().and_then(Program::plugged), ..readings.usage() };
        readings.plugged.clear();
        for plugged in &mut self.plugged {
            let read = plugged.asked.last();
            readings.plugged.push((plugged.name.clone(), read.as_ref().and_then(|read| read.as_ref().ok()).copied()));
            if let Some(Err(reason)) = read {
                readings.plugged_failures += 1;
                readings.left_out.push((plugged.name.clone(), reason));
            }
        }
        if let Some(count) = counts.connections {
            self.connections.read(now, count);
        }
        self.checks.read(now, counts.checks);
        readings.connections_per_second = self.connections.per_second();
        readings.checks_per_second = self.checks.per_second();
        readings
    }

    /// These are left out besides, since refusing does not bring them down; says so of all that are.
    pub(crate) fn leave_out<'a>(&mut self, now: Time, stuck: impl Iterator<Item = &'a str>) {
        let why = "it asks for nearly everything to be refused, and does not fall while callers are turned away";
        let left_out = &mut self.readings.left_out;
        for name in stuck {
            // One that hangs or panics meanwhile is left out for that.
            if left_out.iter().all(|(other, _)| other != name) {
                left_out.push((name.to_owned(), why.to_owned()));
            }
        }
        self.telling.tell(now, &self.readings.left_out);
    }

    /// The last sample.
    pub(crate) fn readings(&self) -> &Readings {
        &self.readings
    }

    /// What core is told of the last sample.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }
}

impl Readings {
    /// What core is told of them.
    fn usage(&self) -> Usage {
        let Readings { cpu: utilization, cpu_reserved: processors, memory, throttled, delay, .. } = *self;
        let runnable = self.load_average.zip(processors).map(|(load, processors)| load * processors);
        Usage { utilization, processors, runnable, memory, throttled, delay, ..Usage::default() }
    }

    /// Far more CPU than was reserved: whoever reserved so little meant something else, and no report has room for it.
    fn leave_out_impossible_cpu(&mut self) {
        if let Some(cpu) = self.cpu.filter(|cpu| *cpu > CPU_BELIEVED_MOST) {
            self.cpu = None;
            let why = format!("{cpu:.0} times the CPU that is reserved is in use: reserve more");
            self.left_out.push(("cpu".to_owned(), why));
        }
    }
}

/// Times the CPU reserved that can be in use: more than a large machine has for a process with the smallest share of one.
const CPU_BELIEVED_MOST: f64 = 100.0;
/// How long a server that begins waits for what is plugged in, all together.
const FIRST_MOST: Duration = Duration::from_millis(20);
/// Less could do nothing.
const RESERVED_LEAST: f64 = 0.001;
/// More than any machine has.
const RESERVED_MOST: f64 = 65_536.0;
/// As the load average, so that a burst of connections is seen with what it causes.
const SMOOTHED_OVER: Duration = Duration::from_millis(693);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);
    const TENTH: Duration = Duration::from_millis(100);

    fn signals(settings: Settings) -> Signals {
        let mut signals = Signals::new(settings, Cores::default(), None).unwrap();
        if let Some(program) = &mut signals.program {
            program.start();
        }
        signals.plugged.iter_mut().for_each(|plugged| plugged.asked.start());
        signals.wait_for_first(Time::NEVER);
        signals
    }

    fn plug(name: &str, read: impl FnMut() -> f64 + Send + 'static) -> Box<dyn Signal> {
        Box::new(Closure { name: name.to_owned(), capacity: 10.0, read })
    }

    fn counts(connections: u64, checks: u64) -> Counts {
        Counts { connections: Some(connections), checks }
    }

    #[test]
    fn limits_that_cannot_be_divided_by_are_refused() {
        let refused = |limits| {
            let settings = Settings { limits, ..Settings::default() };
            Signals::new(settings, Cores::default(), None).err().map(|error| error.field)
        };
        for reserved in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(refused(Limits { reserved_cpu: Some(reserved), memory_bytes: None }), Some("reserved_cpu"));
        }
        assert_eq!(refused(Limits { reserved_cpu: None, memory_bytes: Some(0) }), Some("memory_limit"));
        assert_eq!(refused(Limits { reserved_cpu: Some(0.5), memory_bytes: Some(1) }), None);
    }

    fn said(usage: Usage) -> Settings {
        Settings { usage: Some(Box::new(move || usage)), ..Settings::default() }
    }

    #[test]
    fn what_the_program_says_counts_and_the_rest_is_read() {
        let mut signals = signals(said(Usage {
            processors: Some(4.0),
            utilization: Some(0.5),
            plugged: Some(0.7),
            ..Usage::default()
        }));

        signals.sample(NOW, counts(0, 0));
        let readings = signals.sample(NOW + TENTH, counts(0, 0)).clone();

        assert_eq!((readings.cpu, readings.cpu_reserved), (Some(0.5), Some(4.0)));
        assert!(readings.memory.is_some(), "{readings:?}");
        let Usage { utilization, processors, memory, plugged, .. } = signals.usage();
        assert_eq!((utilization, processors, plugged), (Some(0.5), Some(4.0), Some(0.7)));
        assert_eq!(memory, readings.memory);
    }

    #[test]
    fn without_the_machine_only_what_the_program_says_is_known() {
        let spoken = Usage { utilization: Some(0.5), runnable: Some(3.0), processors: Some(2.0), ..Usage::default() };
        let mut signals = signals(Settings { without_machine: true, ..said(spoken) });

        let readings = signals.sample(NOW, counts(0, 0)).clone();

        assert_eq!(signals.usage(), spoken);
        assert_eq!((readings.cpu, readings.load_average), (Some(0.5), Some(1.5)));
        assert_eq!((readings.memory, readings.delay, &readings.left_out[..]), (None, None, &[][..]));
    }

    #[test]
    fn nonsense_of_the_program_does_not_leave() {
        let spoken =
            Usage { utilization: Some(f64::NAN), processors: Some(0.0), runnable: Some(1.0), ..Usage::default() };
        let mut signals = signals(said(spoken));

        let readings = signals.sample(NOW, counts(0, 0));

        assert_eq!((readings.cpu, readings.load_average), (None, None));
    }

    #[test]
    fn far_more_cpu_than_was_reserved_is_left_out_and_said_so() {
        let mut signals = signals(said(Usage { utilization: Some(140.0), ..Usage::default() }));

        let readings = signals.sample(NOW, counts(0, 0)).clone();

        assert_eq!((readings.cpu, signals.usage().utilization), (None, None));
        let why = "140 times the CPU that is reserved is in use: reserve more";
        assert!(readings.left_out.contains(&("cpu".to_owned(), why.to_owned())), "{readings:?}");
    }

    #[test]
    fn connections_and_checks_are_rates() {
        let mut signals = signals(Settings::default());
        assert_eq!(signals.sample(NOW, counts(7, 1000)).checks_per_second, None, "nothing to compare with");

        let readings = signals.sample(NOW + TENTH, counts(17, 1001));

        let near = |rate: Option<f64>, goal: f64| rate.is_some_and(|rate| (rate - goal).abs() < 1e-6);
        assert!(near(readings.connections_per_second, 100.0), "{readings:?}");
        assert!(near(readings.checks_per_second, 10.0), "{readings:?}");
        let hidden = Counts { connections: None, checks: 0 };
        let mut layer = self::signals(Settings::default());
        layer.sample(NOW, hidden);
        assert_eq!(layer.sample(NOW + TENTH, hidden).connections_per_second, None);
    }

    #[test]
    fn a_plugged_signal_that_fails_is_left_out_counted_and_harms_no_other() {
        let plugged = vec![plug("good", || 5.0), plug("bad", || f64::NAN), plug("worse", || panic!("no"))];
        let mut signals = signals(Settings { plugged, ..Settings::default() });

        signals.sample(NOW, counts(0, 0));
        signals.sample(NOW + TENTH, counts(0, 0));
        signals.leave_out(NOW, ["memory", "worse"].into_iter());
        let readings = signals.readings().clone();

        let expected = [("good", Some(0.5)), ("bad", None), ("worse", None)];
        assert_eq!(readings.plugged, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(readings.plugged_failures, 4);
        assert_eq!(readings.left_out.len(), 3, "each once: {readings:?}");
        let why = |name| readings.left_out.iter().find(|(left_out, _)| left_out == name).map(|(_, why)| why.as_str());
        assert_eq!((why("good"), why("worse")), (None, Some("it panicked")));
        assert!(why("memory").is_some_and(|why| why.contains("does not fall")), "{readings:?}");
        let said = ["good", "bad", "worse", "memory"].map(|name| signals.telling.has_said(name));
        assert_eq!(said, [false, true, true, true]);
    }
}
