//! The clocks of a measurement, and cores to pin threads to.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// CPU time of this thread: what others run on the same core meanwhile does not count.
pub fn thread_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has a CPU clock for each thread").into()
}

/// CPU time of all threads of this process.
pub fn process_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("Linux has a CPU clock for each process").into()
}

/// The cores this process may use.
pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).expect("a process may ask for its own cores");
    (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect()
}

/// Keeps this thread on `core`.
pub fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core).expect("the core is one of those allowed");
    sched_setaffinity(Pid::from_raw(0), &set).expect("a thread may pin itself to an allowed core");
}
