//! The requests of the demo: when they arrive and what they cost, from the seed alone.

use std::time::Duration;

use evenkeel_core::Rng;

/// Open loop: Poisson arrivals at 75 % of capacity, 95 % of them cheap and 5 % twenty times dearer.
#[derive(Debug)]
pub(crate) struct Load {
    mean_gap_s: f64,
    arrivals: Rng,
    costs: Rng,
}

impl Load {
    /// For a service that can do `capacity_core_s` of work in a second.
    pub(crate) fn new(seed: u64, capacity_core_s: f64) -> Self {
        let mean_work_s = CHEAP.as_secs_f64() * (1.0 - DEAR_SHARE) + DEAR.as_secs_f64() * DEAR_SHARE;
        Load {
            mean_gap_s: mean_work_s / (capacity_core_s * LOADED),
            arrivals: Rng::for_stream(seed, ARRIVALS),
            costs: Rng::for_stream(seed, COSTS),
        }
    }

    /// Until the next request.
    pub(crate) fn next_arrival(&mut self) -> Duration {
        // 1 - u is never 0, so its logarithm is finite.
        Duration::from_secs_f64(-(1.0 - self.arrivals.unit()).ln() * self.mean_gap_s)
    }

    /// What the next request takes, alone on a core of full speed.
    pub(crate) fn next_work(&mut self) -> Duration {
        if self.costs.unit() < DEAR_SHARE { DEAR } else { CHEAP }
    }
}

/// Share of the capacity that is asked for.
const LOADED: f64 = 0.75;
const CHEAP: Duration = Duration::from_millis(2);
const DEAR: Duration = Duration::from_millis(40);
const DEAR_SHARE: f64 = 0.05;
const ARRIVALS: u64 = 1;
const COSTS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quarters_of_the_capacity_is_asked_for() {
        let mut load = Load::new(1, 15.0);
        let (mut passed_s, mut work_s) = (0.0, 0.0);
        for _ in 0..100_000 {
            passed_s += load.next_arrival().as_secs_f64();
            work_s += load.next_work().as_secs_f64();
        }

        // The standard error of the mean work is 0.7 %, that of the mean gap 0.3 %; four of both together.
        let loaded = work_s / passed_s / 15.0;
        assert!((loaded / 0.75 - 1.0).abs() < 0.03, "{loaded}");
    }
}
