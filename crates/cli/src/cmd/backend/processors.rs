//! What the backend works with: real processors, or virtual ones that only timers know.

use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::clock::Clock;
use evenkeel::meter::{process_time, thread_time};
use evenkeel_core::server::Usage;
use tokio::sync::{Notify, oneshot};

use super::sharing::{JobId, Sharing};

/// Uses processor time when asked to; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) enum Processors {
    /// Those of the machine; everything takes 1/speed of the time.
    Real { speed: f64 },
    /// Shared by timers.
    Virtual(Arc<Virtual>),
}

impl Processors {
    /// Uses this much of them; when dropped it stops.
    pub(crate) async fn work(&self, cpu: Duration) {
        if cpu.is_zero() {
            return;
        }
        match self {
            Processors::Real { speed } => burn(cpu.div_f64(*speed)).await,
            Processors::Virtual(cores) => cores.work(cpu).await,
        }
    }

    /// Processor time used so far: of the process, or of the virtual processors.
    pub(crate) fn busy(&self) -> Duration {
        match self {
            Processors::Real { .. } => process_time().unwrap_or_default(),
            Processors::Virtual(cores) => cores.usage().0,
        }
    }
}

/// Virtual processors. [`Virtual::run`] makes their time pass.
#[derive(Debug)]
pub(crate) struct Virtual {
    clock: Clock,
    count: u32,
    jobs: Mutex<Sharing<oneshot::Sender<()>>>,
    changed: Notify,
}

impl Virtual {
    pub(crate) fn new(clock: Clock, count: u32, speed: f64) -> Self {
        Virtual { clock, count, jobs: Mutex::new(Sharing::new(clock.now(), count, speed)), changed: Notify::new() }
    }

    /// Processor time used so far, and jobs that are there.
    pub(crate) fn usage(&self) -> (Duration, usize) {
        let jobs = self.advanced();
        (jobs.busy(), jobs.running())
    }

    /// What it says of them whenever it is read: use since the last time over what is reserved, which is all there are unless
    /// `reserved` says otherwise. The rest is read from the machine.
    pub(crate) fn meter(
        self: Arc<Self>,
        clock: Clock,
        reserved: Option<f64>,
    ) -> impl FnMut() -> Usage + Send + 'static {
        let processors = f64::from(self.count);
        let mut last = (clock.now(), self.usage().0);
        move || {
            let (busy, running) = self.usage();
            let (since, before) = std::mem::replace(&mut last, (clock.now(), busy));
            let there_s = reserved.unwrap_or(processors) * last.0.since(since).as_secs_f64();
            let used_s = busy.saturating_sub(before).as_secs_f64();
            Usage {
                utilization: (there_s > 0.0).then(|| used_s / there_s),
                processors: Some(processors),
                runnable: Some(running as f64),
                ..Usage::default()
            }
        }
    }

    /// Ends every job when its time has come. One task for all of them.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let next = self.advanced().next_end();
            let next_end = async {
                match next {
                    Some(at) => tokio::time::sleep_until(self.clock.instant_of(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = next_end => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn work(&self, cpu: Duration) {
        let (end, ended) = oneshot::channel();
        let job = self.advanced().begin(cpu, end);
        self.changed.notify_one();
        let _leaving = Leaving { cores: self, job };
        // The sender lives with the job, and the job until it ends.
        drop(ended.await);
    }

    /// The jobs as they are now, those that ended told.
    fn advanced(&self) -> MutexGuard<'_, Sharing<oneshot::Sender<()>>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        for ended in jobs.advance(self.clock.now()) {
            // Whoever does not wait any more is about to leave.
            ended.send(()).unwrap_or_default();
        }
        jobs
    }
}

/// A request that is cancelled must not use processors any more.
struct Leaving<'a> {
    cores: &'a Virtual,
    job: JobId,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.cores.advanced().remove(self.job);
        self.cores.changed.notify_one();
    }
}

/// Uses this much of a real processor, a slice at a time: others run in between, as on a machine that is shared.
async fn burn(cpu: Duration) {
    let mut left = cpu;
    while !left.is_zero() {
        left = left.saturating_sub(burn_slice(left.min(SLICE)));
        evenkeel::yield_now().await;
    }
}

/// Says how much it really used. Time in which the thread does not run does not count.
fn burn_slice(cpu: Duration) -> Duration {
    let began = thread_time();
    loop {
        for step in 0..STEPS {
            black_box(step);
        }
        let used = thread_time().saturating_sub(began);
        if used >= cpu {
            return used;
        }
    }
}

/// What a request holds a thread for at most: long against the switch to another task, short against any deadline.
const SLICE: Duration = Duration::from_micros(100);
/// About a microsecond between two looks at the clock, which take a quarter of one.
const STEPS: u32 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn jobs_share_virtual_processors_in_real_tasks() {
        let clock = Clock::new();
        let cores = Arc::new(Virtual::new(clock, 1, 0.5));
        tokio::spawn(Arc::clone(&cores).run());
        let processors = Processors::Virtual(Arc::clone(&cores));
        let began = clock.now();

        let (work, other) = (Duration::from_millis(10), Duration::from_millis(20));
        tokio::join!(processors.work(work), processors.work(other));

        // 30 ms of work at half the speed on one processor, whose timers are whole milliseconds.
        let took = clock.now().since(began);
        assert!((Duration::from_millis(60)..Duration::from_millis(63)).contains(&took), "{took:?}");
        assert_eq!(cores.usage(), (Duration::from_millis(60), 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_job_leaves_the_processor() {
        let clock = Clock::new();
        let cores = Arc::new(Virtual::new(clock, 1, 1.0));
        tokio::spawn(Arc::clone(&cores).run());
        let processors = Processors::Virtual(Arc::clone(&cores));

        let long = processors.work(Duration::from_secs(3600));
        assert!(tokio::time::timeout(Duration::from_millis(10), long).await.is_err());

        assert_eq!(cores.usage().1, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_meter_says_what_was_used_of_what_is_reserved() {
        let clock = Clock::new();
        let cores = Arc::new(Virtual::new(clock, 2, 1.0));
        tokio::spawn(Arc::clone(&cores).run());
        let mut all = Arc::clone(&cores).meter(clock, None);
        let mut reserved = Arc::clone(&cores).meter(clock, Some(0.5));
        let processors = Processors::Virtual(cores);

        processors.work(Duration::from_millis(100)).await;
        tokio::time::sleep_until(clock.instant_of(clock.now() + Duration::from_millis(100))).await;

        // A tenth of a second on one of two processors in a fifth of a second; timers are whole milliseconds.
        let (all, reserved) = (all(), reserved());
        assert_eq!((all.processors, all.runnable), (Some(2.0), Some(0.0)));
        assert!(all.utilization.is_some_and(|share| (0.24..=0.25).contains(&share)), "{all:?}");
        assert!(reserved.utilization.is_some_and(|share| (0.96..=1.0).contains(&share)), "{reserved:?}");
    }

    #[tokio::test]
    async fn real_work_uses_at_least_the_time_of_a_processor_it_was_asked_for() {
        let processors = Processors::Real { speed: 0.5 };
        let before = processors.busy();

        processors.work(Duration::from_millis(5)).await;

        assert!(processors.busy().saturating_sub(before) >= Duration::from_millis(10));
    }
}
