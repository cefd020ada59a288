//! The signals of the machine: CPU, memory, and the executor.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::Time;
use evenkeel_core::server::Running;
use tokio::runtime::Handle;

use super::beat::Beat;
use super::cgroup::{Cgroups, Quota};
use super::cpu::{self, Cores, Cpu};
use super::delay::Delay;
use super::load::LoadAverage;
use super::memory::{self, Bound};
use super::{Limits, Readings};
use crate::clock::Steady;

/// Reads the machine.
#[derive(Debug)]
pub(crate) struct Machine {
    given: Limits,
    cgroups: Cgroups,
    cores: Cores,
    cpu: Cpu,
    bounds: Bounds,
    bounds_at: Time,
    load: Option<Arc<LoadAverage>>,
    executor: Executor,
}

/// What limits this process, looked at now and then: it may be changed while it runs.
#[derive(Debug, Default)]
struct Bounds {
    reserved: Option<f64>,
    /// The tightest.
    quota: Option<Quota>,
    memory: Option<Bound>,
    left_out: Vec<(String, String)>,
}

/// Whether somebody looks at the executor.
#[derive(Debug)]
enum Executor {
    /// Not yet.
    Idle,
    Probed(Delay, #[expect(dead_code, reason = "it ends when it is dropped")] Beat),
    Failed(String),
}

impl Machine {
    pub(crate) fn new(cgroups: Cgroups, given: Limits, cores: Cores, running: Option<Arc<Running>>) -> Self {
        let load = running.map(|running| Arc::new(LoadAverage::new(running)));
        let (cpu, executor) = (Cpu::new(Arc::clone(&cores)), Executor::Idle);
        Machine { given, cgroups, cores, cpu, bounds: Bounds::default(), bounds_at: Time::ZERO, load, executor }
    }

    /// Begins to probe the executor. Where cores have runtimes of their own, those; else the caller's.
    pub(crate) fn start(&mut self) {
        let runtimes: Vec<Handle> = match self.cores.get() {
            Some(cores) => cores.iter().map(|core| core.runtime.clone()).collect(),
            None => vec![Handle::current()],
        };
        let clock = Steady::new();
        let (delay, mut probe) = Delay::new(clock, runtimes);
        let load = self.load.clone();
        let beat = Beat::start(clock, move |now| {
            probe(now);
            if let Some(load) = &load {
                load.look(now);
            }
        });
        self.executor = match beat {
            Ok(beat) => Executor::Probed(delay, beat),
            Err(error) => Executor::Failed(format!("no thread to probe from: {error}")),
        };
    }

    /// All is measured against these processors, where the program says how many there are.
    pub(crate) fn sample(&mut self, now: Time, processors: Option<f64>, readings: &mut Readings) {
        if now >= self.bounds_at || self.bounds_at.since(now) > BOUNDS_EVERY {
            self.bounds_at = now + BOUNDS_EVERY;
            self.bounds = Bounds::of(self.given, &self.cgroups);
        }
        readings.left_out.clone_from(&self.bounds.left_out);
        let mut leave_out = |signal: &str, reason| readings.left_out.push((signal.to_owned(), reason));
        let reserved = processors.or(self.bounds.reserved);
        readings.cpu_reserved = reserved;
        readings.cpu = self.cpu.utilization(now, reserved);
        readings.throttled = match &self.bounds.quota {
            Some(quota) => self.cpu.throttled(now, quota).unwrap_or_else(|reason| {
                leave_out("throttled", reason);
                None
            }),
            // Without a quota nobody is throttled, if that much is known.
            None => self.cgroups.knows_cpu().then_some(0.0),
        };
        let memory = self.bounds.memory.as_ref().map(Bound::in_use).transpose().unwrap_or_else(|reason| {
            leave_out("memory", reason);
            None
        });
        readings.memory = memory.filter(|share| share.is_finite());
        if let Executor::Failed(reason) = &self.executor {
            leave_out("delay", reason.clone());
            leave_out("load", reason.clone());
        }
        readings.delay = match &self.executor {
            Executor::Probed(delay, _) => delay.longest(),
            Executor::Idle | Executor::Failed(_) => None,
        };
        readings.load_average = self.load.as_ref().and_then(|load| load.per_processor(reserved));
    }
}

impl Bounds {
    fn of(given: Limits, cgroups: &Cgroups) -> Self {
        let mut left_out = Vec::new();
        let (quotas, limits) = (cgroups.quotas(), cgroups.memory_limits());
        left_out.extend(quotas.left_out.into_iter().map(|reason| ("cpu_quota".to_owned(), reason)));
        left_out.extend(limits.left_out.into_iter().map(|reason| ("memory_limit".to_owned(), reason)));
        let quota = quotas.held.into_iter().min_by(|one, other| one.processors.total_cmp(&other.processors));
        // A quota above what there is to run on grants nothing.
        let granted = [quota.as_ref().map(|quota| quota.processors), cpu::available()];
        let granted = granted.into_iter().flatten().reduce(f64::min);
        let reserved = given.reserved_cpu.or(granted);
        if reserved.is_none() {
            left_out.push(("cpu".to_owned(), "the system does not say how many processors there are".to_owned()));
        }
        if !cgroups.knows_cpu() {
            left_out.push(("throttled".to_owned(), "no cgroup tells".to_owned()));
        }
        let memory = Bound::choose(given.memory_bytes, limits.held, memory::of_machine());
        if memory.is_none() {
            left_out.push(("memory".to_owned(), "neither a cgroup nor the machine says how much there is".to_owned()));
        }
        Bounds { reserved, quota, memory, left_out }
    }
}

/// Limits of a running process are changed by hand or by an autoscaler, so rarely.
const BOUNDS_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const NOW: Time = Time::from_secs(100);

    fn machine(fixture: &str, given: Limits) -> Machine {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cgroup").join(fixture);
        let membership = std::fs::read_to_string(tree.join("membership")).unwrap_or_default();
        Machine::new(Cgroups::find(&membership, &tree.join("sys")), given, Cores::default(), None)
    }

    fn second_sample(mut machine: Machine) -> Readings {
        let mut readings = Readings::default();
        machine.sample(NOW, None, &mut readings);
        assert_eq!(readings.cpu, None, "nothing to compare with");
        machine.sample(NOW + Duration::from_millis(100), None, &mut readings);
        readings
    }

    #[test]
    fn reserved_is_what_was_said_then_the_quota_then_what_there_is() {
        let said = Limits { reserved_cpu: Some(0.25), memory_bytes: None };
        let available = cpu::available();

        for (fixture, given, reserved) in [
            ("v1", said, Some(0.25)),
            ("v1", Limits::default(), Some(0.5)),
            ("v1_unlimited", Limits::default(), available),
            ("nothing", Limits::default(), available),
        ] {
            assert_eq!(second_sample(machine(fixture, given)).cpu_reserved, reserved, "{fixture}");
        }
        let capped = second_sample(machine("v2_nested", Limits::default())).cpu_reserved;
        assert_eq!(capped, available.map(|count| count.min(1.5)));
    }

    #[test]
    fn what_can_be_read_is_and_the_rest_has_a_reason() {
        let readings = second_sample(machine("v1", Limits::default()));
        assert!(readings.cpu.is_some() && readings.memory == Some(0.5), "{readings:?}");
        assert_eq!((readings.throttled, &readings.left_out[..]), (Some(0.0), &[][..]));

        let broken = second_sample(machine("broken_v2", Limits::default()));
        assert!(broken.cpu.is_some_and(f64::is_finite));
        assert_eq!((broken.throttled, broken.memory), (None, None));
        let names: Vec<&str> = broken.left_out.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["cpu_quota", "memory_limit", "throttled", "memory"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }

        let zeros = second_sample(machine("broken_v1", Limits::default()));
        assert_eq!(zeros.throttled, Some(0.0));
        assert!(zeros.memory.is_some_and(|share| share < 1.0), "of the machine: {zeros:?}");
    }

    #[test]
    fn without_cgroups_the_machine_itself_is_read() {
        let readings = second_sample(machine("nothing", Limits::default()));

        assert_eq!(readings.throttled, None);
        assert!(readings.cpu.is_some() && readings.memory.is_some(), "{readings:?}");
    }

    #[test]
    fn a_clock_that_jumps_back_does_not_keep_old_bounds_for_ever() {
        let mut machine = machine("v1", Limits::default());
        let mut readings = Readings::default();
        machine.sample(Time::from_secs(1_000_000), None, &mut readings);
        machine.bounds = Bounds::default();

        machine.sample(NOW, None, &mut readings);

        assert!(readings.cpu_reserved.is_some());
        assert_eq!(readings.cpu, None);
    }
}
