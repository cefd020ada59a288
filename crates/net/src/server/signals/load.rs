//! Executor load average (B10): handlers that run or could run, smoothed exponentially over about a second.
//!
//! Threads say nothing about an async executor: they read 1.5 with a thousand tasks queued.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::Time;
use evenkeel_core::server::Running;
use evenkeel_core::stats::DecayingMean;

/// Looks at the count as often as it is told to.
#[derive(Debug)]
pub(crate) struct LoadAverage {
    running: Arc<Running>,
    /// Written every 50 ms and read every 100, so never waited for.
    mean: Mutex<DecayingMean>,
}

impl LoadAverage {
    pub(crate) fn new(running: Arc<Running>) -> Self {
        LoadAverage { running, mean: Mutex::new(DecayingMean::new(HALF_LIFE)) }
    }

    pub(crate) fn look(&self, now: Time) {
        let count = f64::from(self.running.now());
        self.mean.lock().unwrap_or_else(PoisonError::into_inner).sample(now, count);
    }

    /// Handlers for each processor; nothing before the first look.
    pub(crate) fn per_processor(&self, processors: Option<f64>) -> Option<f64> {
        let mean = self.mean.lock().unwrap_or_else(PoisonError::into_inner).mean()?;
        Some(mean / processors?).filter(|load| load.is_finite())
    }
}

/// Of a mean whose samples lose all but 1/e of their weight in a second.
const HALF_LIFE: Duration = Duration::from_millis(693);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_swallowed_and_sustained_load_is_not() {
        let running = Arc::new(Running::default());
        let load = LoadAverage::new(Arc::clone(&running));
        let mut now = Time::from_secs(10);
        let mut look = |times: u32| {
            for _ in 0..times {
                now = now + Duration::from_millis(10);
                load.look(now);
            }
            load.per_processor(Some(2.0)).unwrap()
        };
        assert!(look(1) < 1e-9);

        (0..8).for_each(|thread| running.runs(thread));
        let burst = look(5);
        let sustained = look(300);

        assert!(burst < 0.3, "50 ms of 4 a processor: {burst}");
        // After three seconds all but exp(-3) = 5 % of it.
        assert!((3.7..4.0).contains(&sustained), "{sustained}");
    }

    #[test]
    fn without_processors_or_a_look_there_is_none() {
        let load = LoadAverage::new(Arc::default());
        assert_eq!(load.per_processor(Some(2.0)), None);

        load.look(Time::from_secs(1));

        assert_eq!(load.per_processor(None), None);
        assert_eq!(load.per_processor(Some(0.0)), None);
        assert_eq!(load.per_processor(Some(2.0)), Some(0.0));
    }
}
