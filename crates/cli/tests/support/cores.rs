//! Who runs where: a server has a processor for itself, as far as other programs of the machine leave it one.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Which processors a process is started on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The first one.
    Server,
    /// All others, if there are any.
    Callers,
}

/// The number of the processor that servers have.
pub(crate) fn of_servers() -> usize {
    let all = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)).unwrap()
}

/// Starts a process there. It inherits what the thread that starts it may use at that moment, so that it never sees more
/// processors than it has.
pub(crate) fn on<T>(side: Side, start: impl FnOnce() -> T) -> T {
    let all = sched_getaffinity(None).unwrap();
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core));
    let first = cores.next().unwrap();
    let mut chosen = CpuSet::new();
    match side {
        Side::Server => chosen.set(first),
        Side::Callers => cores.for_each(|core| chosen.set(core)),
    }
    if chosen.count() == 0 {
        return start();
    }
    sched_setaffinity(None, &chosen).unwrap();
    let started = start();
    sched_setaffinity(None, &all).unwrap();
    started
}
