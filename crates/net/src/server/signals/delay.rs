//! How long a task that is ready waits for its turn (B10).
//!
//! Two probes for each runtime, every 10 ms. One from inside yields once and so meets the queue of a worker; one from
//! outside is spawned by another thread and meets the queue that all workers share. Either alone is blind to the other's
//! backlog: 4 ms inside read as 0.5 outside. A probe that has not come back yet counts by its age, or a full stop would
//! look like calm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::Time;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::beat::BEAT;
use crate::clock::Steady;

/// The probes of one server; end with this value.
#[derive(Debug)]
pub(crate) struct Delay {
    clock: Steady,
    probes: Vec<Arc<Probe>>,
    inside: Vec<AbortHandle>,
}

impl Delay {
    /// Gives what a [`Beat`](super::beat::Beat) has to do for the probes from outside.
    pub(crate) fn start(clock: Steady, runtimes: &[Handle]) -> (Self, impl FnMut(Time) + Send + use<>) {
        let (mut probes, mut inside, mut outside) = (Vec::new(), Vec::new(), Vec::new());
        for runtime in runtimes {
            let (within, without) = (Arc::new(Probe::default()), Arc::new(Probe::default()));
            inside.push(runtime.spawn(probe_inside(clock, Arc::clone(&within))).abort_handle());
            outside.push((runtime.clone(), Arc::clone(&without)));
            probes.extend([within, without]);
        }
        let beat = move |now| {
            for (runtime, probe) in outside.iter().filter(|(_, probe)| !probe.is_pending()) {
                let sent = Sent::new(clock, Arc::clone(probe), now);
                runtime.spawn(async move { drop(sent) });
            }
        };
        (Delay { clock, probes, inside }, beat)
    }

    /// The longest since the last reading, and of those that are still under way.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.probes.iter().filter_map(|probe| probe.longest(now)).max()
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.inside.iter().for_each(AbortHandle::abort);
    }
}

async fn probe_inside(clock: Steady, probe: Arc<Probe>) {
    loop {
        let sent = Sent::new(clock, Arc::clone(&probe), clock.now());
        tokio::task::yield_now().await;
        drop(sent);
        tokio::time::sleep(BEAT).await;
    }
}

/// One at a time is under way.
#[derive(Debug)]
struct Probe {
    /// When it was sent, in nanoseconds; zero while none is.
    since: AtomicU64,
    last: AtomicU64,
    /// The longest since the last reading.
    longest: AtomicU64,
}

impl Default for Probe {
    fn default() -> Self {
        Probe { since: AtomicU64::new(0), last: AtomicU64::new(NEVER), longest: AtomicU64::new(0) }
    }
}

impl Probe {
    fn is_pending(&self) -> bool {
        self.since.load(Ordering::Acquire) != 0
    }

    fn on_sent(&self, now: Time) {
        self.since.store(now.nanos().max(1), Ordering::Release);
    }

    fn on_back(&self, now: Time) {
        let took = now.nanos().saturating_sub(self.since.load(Ordering::Acquire));
        self.last.store(took, Ordering::Relaxed);
        self.longest.fetch_max(took, Ordering::Relaxed);
        // Last: whoever sees that none is pending sees how long it took.
        self.since.store(0, Ordering::Release);
    }

    fn longest(&self, now: Time) -> Option<Duration> {
        let age = match self.since.load(Ordering::Acquire) {
            0 => None,
            since => Some(now.nanos().saturating_sub(since)),
        };
        let last = Some(self.last.load(Ordering::Relaxed)).filter(|last| *last != NEVER);
        let longest = last.map(|last| last.max(self.longest.swap(0, Ordering::Relaxed)));
        age.max(longest).map(Duration::from_nanos)
    }
}

/// A probe under way: back when it has run, and also when its runtime ends without.
struct Sent {
    clock: Steady,
    probe: Arc<Probe>,
}

impl Sent {
    fn new(clock: Steady, probe: Arc<Probe>, now: Time) -> Self {
        probe.on_sent(now);
        Sent { clock, probe }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        self.probe.on_back(self.clock.now());
    }
}

/// No probe has come back yet.
const NEVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::super::beat::Beat;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn one_that_is_not_back_counts_by_its_age() {
        let (probe, now) = (Probe::default(), Time::from_secs(1));
        assert_eq!(probe.longest(now), None, "unknown is not zero");

        probe.on_sent(now);
        assert_eq!(probe.longest(now + 50 * MS), Some(50 * MS));
        probe.on_back(now + 70 * MS);
        probe.on_sent(now + 80 * MS);
        probe.on_back(now + 81 * MS);

        assert_eq!(probe.longest(now + 90 * MS), Some(70 * MS), "short ones since do not hide it");
        assert_eq!(probe.longest(now + 90 * MS), Some(MS), "but it is told once");
        probe.on_sent(now + 100 * MS);
        assert_eq!(probe.longest(now), Some(MS), "a clock that jumped back is not a delay");
    }

    #[test]
    fn a_runtime_that_is_blocked_shows() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clock = Steady::new();
            let (delay, beat) = Delay::start(clock, &[Handle::current()]);
            let _beat = Beat::start(clock, beat).unwrap();
            while delay.longest().is_none() {
                tokio::task::yield_now().await;
            }

            let (blocking, since) = (200 * MS, clock.now());
            while clock.now().since(since) < blocking {
                std::thread::park_timeout(MS);
            }

            let seen = delay.longest().unwrap();
            assert!(seen >= blocking / 2, "{seen:?}");
            let calm = async {
                while delay.longest().unwrap() > 20 * MS {
                    tokio::time::sleep(MS).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), calm).await.expect("it passes");
        });
    }

    #[test]
    fn probes_end_with_their_runtime_and_with_their_owner() {
        let clock = Steady::new();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (delay, mut beat) = Delay::start(clock, &[runtime.handle().clone()]);
        let of_runtime = runtime.handle().metrics();
        assert!(of_runtime.num_alive_tasks() >= 1);

        drop(delay);
        let until = clock.now() + Duration::from_secs(20);
        while of_runtime.num_alive_tasks() > 0 {
            assert!(clock.now() < until, "the one inside ends");
            std::thread::yield_now();
        }
        drop(runtime);

        // Spawned on nothing, it comes back at once.
        beat(clock.now());
        beat(clock.now());
    }
}
