//! How busy this process is: CPU time used over what its processors could have given (A15).
//!
//! What the system does not say is left out: unknown is not zero.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel_core::Time;
use evenkeel_core::server::Usage;
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::Clock;

/// The threads that each have connections of their own, once they run: one of them may be full while the others idle.
pub(crate) type Cores = Arc<OnceLock<Vec<Pid>>>;

/// Reads the CPU time of the process, over the processors it may use: a cgroup's quota counts as fewer of them. Where
/// cores have connections of their own, the busiest one counts if it is busier.
pub(crate) fn of_process(cores: Cores) -> impl FnMut() -> Usage + Send {
    let clock = Clock::new();
    let processors = std::thread::available_parallelism().ok().map(|count| count.get() as f64);
    let (mut all, mut each) = (Meter::default(), Vec::new());
    move || {
        let now = clock.now();
        let cores = cores.get().map_or(&[][..], Vec::as_slice);
        each.resize_with(cores.len(), Meter::default);
        let shares =
            cores.iter().zip(&mut each).filter_map(|(core, meter)| meter.read(now, of_thread(*core)?, Some(1.0)));
        let busiest = shares.fold(None, |most: Option<f64>, share| Some(most.map_or(share, |most| most.max(share))));
        let process = all.read(now, process_cpu(), processors);
        let utilization = process.map(|share| share.max(busiest.unwrap_or_default()));
        Usage { utilization, processors, ..Usage::default() }
    }
}

/// CPU time of this process so far.
pub(crate) fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Time one thread of this process has run; only Linux says.
fn of_thread(thread: Pid) -> Option<Duration> {
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Two readings make a share.
#[derive(Debug, Default)]
struct Meter {
    last: Option<(Time, Duration)>,
}

impl Meter {
    /// CPU in use over CPU there was since the last reading; nothing for the first, and where no time has passed.
    fn read(&mut self, now: Time, used: Duration, processors: Option<f64>) -> Option<f64> {
        let (since, before) = self.last.replace((now, used))?;
        let passed = now.since(since).as_secs_f64();
        let share = used.saturating_sub(before).as_secs_f64() / passed / processors?;
        (passed > 0.0).then_some(share)
    }
}

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
        assert_eq!(meter.read(NOW + 3 * second, 3 * second, None), None);
    }

    #[test]
    fn work_shows_in_the_reading() {
        let mut read = of_process(Cores::default());
        read();
        burn();

        assert!(read().utilization.is_some_and(|share| share > 0.0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_work_of_a_thread_is_its_own() {
        let own = rustix::thread::gettid();
        let idle = std::thread::spawn(rustix::thread::gettid).join().unwrap();
        let before = of_thread(own).unwrap();
        burn();

        assert!(of_thread(own).unwrap() > before);
        assert_eq!(of_thread(idle), None, "one that has ended says nothing");
    }

    fn burn() {
        let before = process_cpu();
        while process_cpu() < before + Duration::from_millis(20) {
            std::hint::black_box(0);
        }
    }
}
