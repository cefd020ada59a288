//! How fast this machine is (A18): the same integer work everywhere, by the clock of the thread.
//!
//! Integer steps that depend on each other, branches nobody can foresee and loads from a table of 256 KiB: what handlers
//! mostly do, and nothing that one compiler makes much faster than another. Neighbours on the same processor, a
//! hypervisor and clock rates that change all move it, so the median of several rounds counts.

use std::time::Duration;

use evenkeel_core::InvalidConfig;

use super::factor::Factor;
use super::ticks::thread_nanos;

/// What a machine takes for the reference work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Reference time over the median.
    pub factor: Factor,
    /// CPU time of the middle round.
    pub median: Duration,
    /// Of the fastest.
    pub least: Duration,
    /// Of the slowest.
    pub most: Duration,
}

/// Does the reference work as often, and once before that to warm up; some 20 ms each, on the calling thread.
///
/// Only what is compiled with optimisation compares.
pub fn calibrate(rounds: u32) -> Result<Calibration, InvalidConfig> {
    InvalidConfig::unless_in_range("rounds", rounds, 1, 10_000)?;
    let mut table: Vec<u32> = (0..TABLE as u32).map(|index| index.wrapping_mul(0x9E37_79B9)).collect();
    let mut took: Vec<Duration> = (0..=rounds).map(|_| one_round(&mut table)).skip(1).collect();
    took.sort();
    let (least, median, most) = (took[0], took[took.len() / 2], took[took.len() - 1]);
    let factor = Factor::new(REFERENCE.as_secs_f64() / median.as_secs_f64())?;
    Ok(Calibration { factor, median, least, most })
}

/// What takes [`REFERENCE`] on the reference machine: the factor's unit.
fn one_round(table: &mut [u32]) -> Duration {
    let began = thread_nanos();
    std::hint::black_box(work(table, STEPS));
    Duration::from_nanos(thread_nanos().saturating_sub(began))
}

fn work(table: &mut [u32], steps: u32) -> u32 {
    let (mut state, mut sum) = (0x2545_F491_u32, 0_u32);
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        let entry = &mut table[state as usize % TABLE];
        if *entry & 4 == 0 {
            sum = sum.wrapping_add(*entry) ^ state;
        } else {
            sum = sum.rotate_left(7).wrapping_mul(0x85EB_CA6B);
        }
        *entry = entry.wrapping_add(sum);
    }
    sum
}

const TABLE: usize = 1 << 16;
const STEPS: u32 = 5_000_000;
/// One core of an AMD EPYC virtual machine of 2025, the one the figures in the docs come from. Any would do: it only says
/// what 1.0 is, and must never change.
const REFERENCE: Duration = Duration::from_millis(18);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_is_the_same_everywhere() {
        let mut table = vec![1; TABLE];

        assert_eq!(work(&mut table, 10_000), 2_228_469_912);
    }

    #[test]
    fn the_factor_is_of_the_median() {
        let found = calibrate(3).unwrap();

        assert!(found.least <= found.median && found.median <= found.most);
        let product = found.factor.value() * found.median.as_secs_f64();
        assert!((product - REFERENCE.as_secs_f64()).abs() < 1e-9);
        assert!(calibrate(0).is_err());
    }
}
