//! CPU time as the system keeps it: the one file that asks for it.
//!
//! Unix has clocks for it. Elsewhere the time of a thread is the time that passes, too much where threads share a processor, and
//! the time of the process is not known: what is learned from it, such as the capacity of a server, stays as it began.

use std::time::Duration;

/// CPU time of the thread that asks, some microseconds exact.
pub fn thread_time() -> Duration {
    platform::thread_time()
}

/// CPU time of this process so far, where the system tells: one system call, 0.8 us on a virtual machine.
pub fn process_time() -> Option<Duration> {
    platform::process_time()
}

#[cfg(unix)]
mod platform {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub(super) fn thread_time() -> Duration {
        read(ClockId::ThreadCPUTime)
    }

    #[expect(clippy::unnecessary_wraps, reason = "other systems do not tell")]
    pub(super) fn process_time() -> Option<Duration> {
        Some(read(ClockId::ProcessCPUTime))
    }

    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        // A time of this kind is never negative.
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
}

#[cfg(not(unix))]
mod platform {
    use std::sync::OnceLock;
    use std::time::Duration;

    use evenkeel_core::Time;

    use crate::clock::Steady;

    pub(super) fn thread_time() -> Duration {
        static CLOCK: OnceLock<Steady> = OnceLock::new();
        CLOCK.get_or_init(Steady::new).now().since(Time::ZERO)
    }

    pub(super) fn process_time() -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_of_the_thread_and_of_its_process() {
        let (process, thread) = (process_time(), thread_time());
        while thread_time() < thread + Duration::from_millis(5) {
            std::hint::spin_loop();
        }

        let both = process.zip(process_time());
        assert!(both.is_none_or(|(before, after)| after >= before + Duration::from_millis(5)), "{both:?}");
        assert_eq!(process.is_some(), cfg!(unix));
    }
}
