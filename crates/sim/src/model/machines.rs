//! Which machine each task stands on: types in proportion to their shares, mixed as evenly as can be.

use crate::scenario::{Backends, Machine};

/// Cores and speed of each task's machine, by task number.
///
/// Each task gets the type that is furthest behind its share, the first of equals. Nothing is drawn, and the first
/// tasks of a larger service stand on the same machines as those of a smaller one, so a resize moves nobody.
pub fn machines(backends: &Backends) -> Vec<(u32, f64)> {
    let types: Vec<&Machine> = backends.machines.iter().filter(|machine| machine.share > 0.0).collect();
    let total: f64 = types.iter().map(|machine| machine.share).sum();
    let mut dealt = vec![0u32; types.len()];
    (1..=backends.count)
        .map(|tasks| {
            let behind = |place: usize| types[place].share / total * f64::from(tasks) - f64::from(dealt[place]);
            let next = (0..types.len()).reduce(|best, other| if behind(other) > behind(best) { other } else { best });
            let Some(next) = next else { return (backends.cores, 1.0) };
            dealt[next] += 1;
            (types[next].cores.unwrap_or(backends.cores), types[next].speed)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backends(count: u32, shares: &[f64]) -> Backends {
        let machine = |(number, &share)| Machine { share, speed: number as f64 + 1.0, cores: None };
        Backends { count, machines: shares.iter().enumerate().map(machine).collect(), ..Backends::default() }
    }

    fn speeds(count: u32, shares: &[f64]) -> Vec<f64> {
        machines(&backends(count, shares)).into_iter().map(|(_, speed)| speed).collect()
    }

    #[test]
    fn types_take_turns_in_proportion() {
        assert_eq!(speeds(4, &[]), [1.0; 4]);
        assert_eq!(speeds(4, &[1.0, 1.0]), [1.0, 2.0, 1.0, 2.0]);
        assert_eq!(speeds(6, &[2.0, 1.0]), [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]);
        assert_eq!(speeds(3, &[0.0, 1.0]), [2.0; 3]);
        for shares in [&[0.1, 0.9][..], &[0.2, 0.3, 0.5], &[1.0, 1.0, 1.0], &[5.0, 1.0, 1.0, 1.0]] {
            let total: f64 = shares.iter().sum();
            for (place, share) in shares.iter().enumerate() {
                let dealt = speeds(100, shares).iter().filter(|&&speed| speed as usize == place + 1).count();
                assert!((dealt as f64 - share / total * 100.0).abs() < 1.0, "{shares:?}: {dealt}");
            }
        }
    }

    #[test]
    fn a_larger_service_begins_like_a_smaller_one() {
        assert_eq!(speeds(100, &[0.3, 0.7])[..37], speeds(37, &[0.3, 0.7]));
    }

    #[test]
    fn a_type_may_have_cores_of_its_own() {
        let mut backends = backends(2, &[1.0, 1.0]);
        backends.machines[1].cores = Some(64);
        assert_eq!(machines(&backends), [(8, 1.0), (64, 2.0)]);
    }
}
