//! How long a task that is ready waits for its turn (B10).
//!
//! Every 50 ms another thread spawns a probe on each runtime: it meets the queue that all workers share, and then yields
//! once and meets the queue of its worker. Either alone is blind to the other's backlog: 4 ms of the second read as 0.5 of
//! the first. A probe that has not come back yet counts by its age, or a full stop would look like calm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::Time;
use tokio::runtime::Handle;

use crate::clock::Steady;

/// The probes of one server.
#[derive(Debug)]
pub(crate) struct Delay {
    clock: Steady,
    probes: Vec<Arc<Probe>>,
}

impl Delay {
    /// Gives what a [`Beat`](super::beat::Beat) has to do for them.
    pub(crate) fn new(clock: Steady, runtimes: Vec<Handle>) -> (Self, impl FnMut(Time) + Send + use<>) {
        let probes: Vec<_> = runtimes.iter().map(|_| Arc::<Probe>::default()).collect();
        let sending: Vec<_> = runtimes.into_iter().zip(probes.clone()).collect();
        let beat = move |now| {
            for (runtime, probe) in sending.iter().filter(|(_, probe)| !probe.is_pending()) {
                let sent = Sent::new(clock, Arc::clone(probe), now);
                runtime.spawn(async move {
                    sent.probe.on_turn(clock.now());
                    tokio::task::yield_now().await;
                    drop(sent);
                });
            }
        };
        (Delay { clock, probes }, beat)
    }

    /// The longest since the last reading, and of those that are still under way.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let now = self.clock.now();
        self.probes.iter().filter_map(|probe| probe.longest(now)).max()
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

    /// It had a turn and waits for the next one.
    fn on_turn(&self, now: Time) {
        let waited = now.nanos().saturating_sub(self.since.load(Ordering::Acquire));
        self.last.store(waited, Ordering::Relaxed);
        self.longest.fetch_max(waited, Ordering::Relaxed);
        self.on_sent(now);
    }

    fn on_back(&self, now: Time) {
        self.on_turn(now);
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
            let (delay, beat) = Delay::new(clock, vec![Handle::current()]);
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
    fn a_queue_of_one_worker_shows_though_the_shared_one_is_empty() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let clock = Steady::new();
        let (delay, mut beat) = Delay::new(clock, vec![runtime.handle().clone()]);
        // Each is always ready, and gives the next a turn after 2 ms: 10 ms a round.
        for _ in 0..5 {
            runtime.spawn(async move {
                loop {
                    let since = clock.now();
                    while clock.now().since(since) < 2 * MS {}
                    tokio::task::yield_now().await;
                }
            });
        }

        let until = clock.now() + Duration::from_secs(20);
        while delay.longest().is_none_or(|longest| longest < 8 * MS) {
            assert!(clock.now() < until, "it shows");
            beat(clock.now());
            std::thread::park_timeout(MS);
        }
        runtime.shutdown_background();
    }

    #[test]
    fn one_whose_runtime_has_ended_is_back() {
        let clock = Steady::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (delay, mut beat) = Delay::new(clock, vec![runtime.handle().clone()]);
        beat(clock.now());
        assert!(delay.probes[0].is_pending());

        drop(runtime);

        assert!(!delay.probes[0].is_pending());
        beat(clock.now());
        assert!(!delay.probes[0].is_pending(), "there is nothing to wait for");
    }
}
