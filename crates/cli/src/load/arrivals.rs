//! When requests are due, whatever became of those before: the open loop.

use std::time::Duration;

use evenkeel::clock::Clock;
use evenkeel_core::{Rng, Time};
use tokio::sync::mpsc;

use super::End;

/// How far requests are apart.
#[derive(Debug)]
pub(crate) enum Gaps {
    /// All alike.
    Even,
    /// As from many callers who do not know of each other (Poisson).
    Drawn(Rng),
}

/// Requests at a rate.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(crate) rate: f64,
    pub(crate) gaps: Gaps,
}

impl Arrivals {
    /// After the start, in order.
    fn offsets(mut self) -> impl Iterator<Item = Duration> {
        let mut at_s = 0.0;
        (0_u64..).map(move |number| {
            let due_s = match &mut self.gaps {
                Gaps::Even => number as f64 / self.rate,
                // 1 - u is never 0, so its logarithm is finite.
                Gaps::Drawn(rng) => {
                    at_s -= (1.0 - rng.unit()).ln() / self.rate;
                    at_s
                }
            };
            Duration::from_secs_f64(due_s)
        })
    }

    /// Gives the time of each request when it has come. A thread of its own wakes within 0.1 ms, where the runtime's
    /// timers would round to the next millisecond and that would count as latency.
    pub(crate) fn start(self, clock: Clock, began: Time, end: End) -> mpsc::UnboundedReceiver<Time> {
        let (due, dues) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for (number, offset) in (0..).zip(self.offsets()) {
                let is_over = match end {
                    End::Requests(most) => number >= most,
                    End::After(most) => offset >= most,
                };
                if is_over {
                    break;
                }
                let at = began + offset;
                while clock.now() < at {
                    if due.is_closed() {
                        return;
                    }
                    std::thread::sleep(at.since(clock.now()).min(NAP_MOST));
                }
                if due.send(at).is_err() {
                    return;
                }
            }
        });
        dues
    }
}

/// So that the thread notices soon that nobody wants to know any more.
const NAP_MOST: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_gaps_are_even() {
        let arrivals = Arrivals { rate: 4.0, gaps: Gaps::Even };

        let first: Vec<Duration> = arrivals.offsets().take(3).collect();

        assert_eq!(first, [0, 250, 500].map(Duration::from_millis));
    }

    #[test]
    fn drawn_gaps_come_to_the_rate() {
        let arrivals = Arrivals { rate: 50.0, gaps: Gaps::Drawn(Rng::from_seed(1)) };

        let last = arrivals.offsets().nth(99_999).unwrap_or_default();

        // The standard error of the sum of 100,000 exponential gaps is 0.3 %; four of them.
        assert!((last.as_secs_f64() / 2_000.0 - 1.0).abs() < 0.013, "{last:?}");
    }
}
