//! What the demo plays: how fast the backends are, what requests cost, how many there are.

use std::time::Duration;

use evenkeel_core::Rng;

use crate::work::WorkRequest;

/// Of each backend in turn: machines of three generations.
pub(super) fn speed_of(number: u32) -> f64 {
    SPEEDS[number as usize % SPEEDS.len()]
}

/// Requests in a second that ask for a sensible share of what the backends can do, also while the one that is
/// restarted is away.
pub(super) fn rate(speeds: &[f64], restarted: Option<usize>) -> f64 {
    let all: f64 = speeds.iter().sum();
    let left = all - restarted.map_or(0.0, |number| speeds[number]);
    (all * LOADED).min(left * LOADED_MOST) / mean_cost().as_secs_f64()
}

/// Who is restarted: nobody if there is no other, else the slowest.
pub(super) fn restarted(speeds: &[f64]) -> Option<usize> {
    let slowest = (0..speeds.len()).min_by(|&a, &b| speeds[a].total_cmp(&speeds[b]));
    slowest.filter(|_| speeds.len() > 1)
}

/// What requests ask for: most are cheap, some cost six times as much.
#[derive(Debug)]
pub(super) struct Costs(pub(super) Rng);

impl Costs {
    pub(super) fn next(&mut self) -> WorkRequest {
        let cost = if self.0.unit() < DEAR_SHARE { DEAR } else { CHEAP };
        WorkRequest { cpu_us: cost.as_micros() as u64, ..WorkRequest::default() }
    }
}

fn mean_cost() -> Duration {
    CHEAP.mul_f64(1.0 - DEAR_SHARE) + DEAR.mul_f64(DEAR_SHARE)
}

const SPEEDS: [f64; 5] = [1.0, 0.7, 1.0, 0.7, 0.5];
/// Of what all of them can do.
const LOADED: f64 = 0.7;
/// Of what is left while one is away.
const LOADED_MOST: f64 = 0.85;
/// Long against what the client and the sockets cost, so that two real processors carry many virtual ones.
const CHEAP: Duration = Duration::from_millis(10);
const DEAR: Duration = Duration::from_millis(60);
const DEAR_SHARE: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_backends_are_asked_for_seven_tenths() {
        let speeds: Vec<f64> = (0..10).map(speed_of).collect();

        // 7.8 processors, 20 ms a request.
        assert!((rate(&speeds, restarted(&speeds)) - 273.0).abs() < 1e-6);
    }

    #[test]
    fn the_others_can_do_the_work_while_one_is_away() {
        for count in 2..=50 {
            let speeds: Vec<f64> = (0..count).map(speed_of).collect();
            let restarted = restarted(&speeds);
            let left = speeds.iter().sum::<f64>() - restarted.map_or(0.0, |number| speeds[number]);

            assert!(rate(&speeds, restarted) * mean_cost().as_secs_f64() < 0.9 * left, "{count}");
        }
        assert_eq!(restarted(&[1.0]), None);
    }

    #[test]
    fn costs_come_to_their_mean() {
        let mut costs = Costs(Rng::from_seed(1));

        let sum: u64 = (0..10_000).map(|_| costs.next().cpu_us).sum();

        // The standard deviation is 20 ms, so that of the mean is 0.2 ms; four of them.
        assert!((sum as f64 / 10_000.0 / 1e3 - 20.0).abs() < 0.8, "{sum}");
    }
}
