//! CPU time of the thread that asks, as cheaply as the machine can tell.
//!
//! The time-stamp counter where it can be known that the thread was not interrupted since it was last compared with the
//! thread's CPU clock ([`rseq`](super::rseq)); else that clock, at a system call a reading. Which one it is, is found out
//! once in a process, since readings of one must never be subtracted from those of the other.

use std::sync::OnceLock;

use super::rseq::Tsc;
use super::system::thread_time;

/// A reading: only the difference of two on the same thread means something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub(super) u64);

impl Ticks {
    /// Ticks passed since an `earlier` reading on the same thread.
    #[inline]
    pub(super) fn since(self, earlier: Ticks) -> u64 {
        // The counter is compared with the clock again and again, and may be a few ticks behind itself after that.
        let passed = self.0.wrapping_sub(earlier.0);
        if passed.cast_signed() < 0 { 0 } else { passed }
    }

    /// Nanoseconds of CPU since an `earlier` reading on the same thread.
    pub fn nanos_since(self, earlier: Ticks) -> u64 {
        nanos_of(self.since(earlier))
    }
}

/// CPU time this thread has used.
#[inline]
pub fn cpu_now() -> Ticks {
    match SOURCE.get() {
        Some(Source::Counter(tsc)) => Ticks(tsc.now()),
        Some(Source::Clock) => Ticks(thread_nanos()),
        None => first(),
    }
}

/// Which one is in use: `tsc`, or `thread_clock` where that cannot be had or `EVENKEEL_METER=clock` asks for it.
pub fn source() -> &'static str {
    match SOURCE.get_or_init(find) {
        Source::Counter(_) => "tsc",
        Source::Clock => "thread_clock",
    }
}

/// What that many ticks are.
pub(super) fn nanos_of(ticks: u64) -> u64 {
    match SOURCE.get_or_init(find) {
        Source::Counter(tsc) => tsc.nanos_of(ticks),
        Source::Clock => ticks,
    }
}

/// Nanoseconds by the thread's own clock, which the kernel keeps where it has one.
pub(super) fn thread_nanos() -> u64 {
    thread_time().as_nanos() as u64
}

#[derive(Debug)]
enum Source {
    Counter(Tsc),
    Clock,
}

#[cold]
fn first() -> Ticks {
    SOURCE.get_or_init(find);
    cpu_now()
}

fn find() -> Source {
    if std::env::var_os(CHOICE).is_some_and(|chosen| chosen == "clock") {
        return Source::Clock;
    }
    Tsc::find().map_or(Source::Clock, Source::Counter)
}

static SOURCE: OnceLock<Source> = OnceLock::new();
/// For programs where something else wants the thread's restartable sequence for itself, and to see the difference.
const CHOICE: &str = "EVENKEEL_METER";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Runs for as long, by the thread's clock; says how long it was by that clock and by ours.
    fn both(work: impl FnOnce()) -> (f64, f64) {
        let (ours, clock) = (cpu_now(), thread_nanos());
        work();
        let (clock_end, ours_end) = (thread_nanos(), cpu_now());
        (ours_end.nanos_since(ours) as f64, (clock_end - clock) as f64)
    }

    fn burn(nanos: u64) {
        let begin = thread_nanos();
        while thread_nanos() < begin + nanos {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn work_counts_as_the_clock_of_the_thread_counts_it() {
        source();
        // Steal of a virtual machine is in one and not in the other: most of several must agree, not each.
        let agree = (0..21).filter(|_| {
            let (ours, clock) = both(|| burn(2_000_000));
            (ours - clock).abs() <= clock * 0.03
        });

        assert!(agree.count() > 10, "{}", source());
    }

    #[test]
    fn waiting_costs_nothing() {
        source();
        let least = (0..5)
            .map(|_| {
                let (ours, _) = both(|| std::thread::sleep(Duration::from_millis(20)));
                ours
            })
            .fold(f64::INFINITY, f64::min);

        assert!(least < 5e6, "{least} ns of CPU for a nap of 20 ms, by {}", source());
    }

    #[test]
    fn a_reading_before_the_one_it_is_compared_with_is_no_time() {
        assert_eq!(Ticks(5).since(Ticks(7)), 0);
        assert_eq!(Ticks(7).since(Ticks(5)), 2);
        assert_eq!(Ticks(1).since(Ticks(u64::MAX)), 2, "an offset wraps");
    }
}
