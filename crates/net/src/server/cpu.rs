//! How busy this process is: CPU time used over what its processors could have given (A15).
//!
//! What the system does not say is left out: unknown is not zero.

use std::time::Duration;

use evenkeel_core::Time;
use evenkeel_core::server::Usage;
use rustix::time::{ClockId, clock_gettime};

use crate::clock::Clock;

/// Reads the CPU time of the process, over the processors it may use: a cgroup's quota counts as fewer of them.
pub(crate) fn of_process() -> impl FnMut() -> Usage + Send {
    let clock = Clock::new();
    let processors = std::thread::available_parallelism().ok().map(|count| count.get() as f64);
    let mut meter = Meter::default();
    move || Usage { utilization: meter.read(clock.now(), cpu_time(), processors), processors, runnable: None }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
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
        let mut read = of_process();
        read();
        let before = cpu_time();
        while cpu_time() < before + Duration::from_millis(20) {
            std::hint::black_box(0);
        }

        assert!(read().utilization.is_some_and(|share| share > 0.0));
    }
}
