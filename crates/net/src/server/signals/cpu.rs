//! How busy this process is: CPU time used over what is reserved for it (A15, B10).
//!
//! What the system does not say is left out: unknown is not zero.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::Time;

use super::cgroup::Quota;
use crate::meter::process_time;

/// A thread that has connections of its own, and their runtime.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// Where the system can tell the CPU of a thread.
    pub(crate) thread: Option<i32>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Core {
    /// Of the thread that calls this.
    pub(crate) fn here(runtime: tokio::runtime::Handle) -> Core {
        #[cfg(target_os = "linux")]
        let thread = Some(rustix::thread::gettid().as_raw_nonzero().get());
        #[cfg(not(target_os = "linux"))]
        let thread = None;
        Core { thread, runtime }
    }
}

/// Those threads, once they run: one of them may be full while the others idle.
pub(crate) type Cores = Arc<OnceLock<Vec<Core>>>;

/// Reads the CPU time of the process, and of its cores where those have connections of their own.
#[derive(Debug)]
pub(crate) struct Cpu {
    cores: Cores,
    process: Meter,
    each: Vec<Meter>,
    throttled: Meter,
}

impl Cpu {
    pub(crate) fn new(cores: Cores) -> Self {
        Cpu { cores, process: Meter::default(), each: Vec::new(), throttled: Meter::default() }
    }

    /// CPU in use over CPU reserved since the last reading. The busiest core counts if it is busier.
    pub(crate) fn utilization(&mut self, now: Time, reserved: Option<f64>) -> Option<f64> {
        let cores = self.cores.get().map_or(&[][..], Vec::as_slice);
        self.each.resize_with(cores.len(), Meter::default);
        let shares = cores.iter().zip(&mut self.each);
        let shares = shares.filter_map(|(core, meter)| meter.read(now, of_thread(core.thread?)?, Some(1.0)));
        let busiest = shares.fold(0.0, f64::max);
        self.process.read(now, process_time()?, reserved).map(|share| share.max(busiest))
    }

    /// Share of the time since the last reading in which the quota was used up. Processors that wait at once are added
    /// up by the system, so that it says more than there was: that is all of it.
    pub(crate) fn throttled(&mut self, now: Time, quota: &Quota) -> Result<Option<f64>, String> {
        let share = self.throttled.read(now, quota.throttled()?, Some(1.0));
        Ok(share.map(|share| share.min(1.0)))
    }
}

/// Time one thread of this process has run; only Linux says.
fn of_thread(thread: i32) -> Option<Duration> {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let text = std::fs::read_to_string(path).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Processors this process may run on, whatever its quota.
pub(crate) fn available() -> Option<f64> {
    // The library's own count has the quota in it, rounded to whole processors.
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return Some(f64::from(set.count())).filter(|count| *count > 0.0);
    }
    std::thread::available_parallelism().ok().map(|count| count.get() as f64)
}

/// Two readings make a share.
#[derive(Debug, Default)]
struct Meter {
    last: Option<(Time, Duration)>,
}

impl Meter {
    /// Time used over time there was since the last reading; nothing for the first, where a clock was set back, and
    /// where so little time has passed that it would say nothing.
    fn read(&mut self, now: Time, used: Duration, processors: Option<f64>) -> Option<f64> {
        let (since, before) = *self.last.get_or_insert((now, used));
        let passed = now.since(since);
        if since <= now && passed < APART_LEAST {
            return None;
        }
        self.last = Some((now, used));
        let share = used.checked_sub(before)?.as_secs_f64() / passed.as_secs_f64() / processors?;
        Some(share).filter(|share| share.is_finite() && *share >= 0.0)
    }
}

/// The system counts CPU time by the tick in places, and a tick is up to 10 ms: closer readings would be noise.
const APART_LEAST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);

    #[test]
    fn half_of_two_processors_is_one_of_them() {
        let mut meter = Meter::default();
        let second = Duration::from_secs(1);

        assert_eq!(meter.read(NOW, second, Some(2.0)), None, "nothing to compare with");
        assert_eq!(meter.read(NOW + second, 2 * second, Some(2.0)), Some(0.5));
        assert_eq!(meter.read(NOW + 2 * second, 2 * second, Some(2.0)), Some(0.0), "idle is not unknown");
        assert_eq!(meter.read(NOW + 2 * second, 3 * second, Some(2.0)), None, "no time has passed");
        assert_eq!(meter.read(NOW + 3 * second, 3 * second, Some(2.0)), Some(0.5), "nothing was lost meanwhile");
        assert_eq!(meter.read(NOW + 4 * second, 3 * second, None), None);
    }

    #[test]
    fn clocks_that_jump_say_nothing() {
        let mut meter = Meter::default();
        let second = Duration::from_secs(1);
        meter.read(NOW, 10 * second, Some(1.0));

        assert_eq!(meter.read(Time::from_secs(50), 11 * second, Some(1.0)), None, "time that was set back");
        assert_eq!(meter.read(Time::from_secs(51), 12 * second, Some(1.0)), Some(1.0), "counted from there");
        assert_eq!(meter.read(Time::from_secs(52), 3 * second, Some(1.0)), None, "a counter that began anew");
        assert_eq!(meter.read(Time::from_secs(53), 3 * second, Some(0.0)), None, "nothing of nothing");
        assert_eq!(meter.read(Time::from_secs(54), 4 * second, Some(0.0)), None, "infinite");
        let asleep = Time::from_secs(1_000_054);
        assert!(meter.read(asleep, 4 * second, Some(1.0)).is_some_and(|share| share == 0.0), "suspended");
    }

    #[test]
    fn work_shows_in_the_reading() {
        let mut cpu = Cpu::new(Cores::default());
        cpu.utilization(NOW, Some(1.0));
        burn();

        let share = cpu.utilization(NOW + Duration::from_secs(1), Some(1.0));

        assert!(share.is_some_and(|share| share >= 0.02), "{share:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_work_of_a_thread_is_its_own() {
        let id = || rustix::thread::gettid().as_raw_nonzero().get();
        let own = id();
        let idle = std::thread::spawn(id).join().unwrap();
        let before = of_thread(own).unwrap();
        burn();

        assert!(of_thread(own).unwrap() > before);
        assert_eq!(of_thread(idle), None, "one that has ended says nothing");
    }

    fn burn() {
        let before = process_time().unwrap();
        while process_time().unwrap() < before + Duration::from_millis(20) {
            std::hint::black_box(0);
        }
    }
}
