//! How uneven drawing at random is, without drawing: the expected extremes of many binomial counts.
//!
//! With random subsets each backend has Binomial(clients, size / backends) connections. The counts of two backends are
//! not quite independent (their sum is fixed), which for the extremes of many matters little.

/// Expected least and most connections of a backend when `clients` draw `size` of `backends` at random.
///
/// ```
/// use evenkeel_core::plan::expected_extremes;
///
/// let (least, most) = expected_extremes(300, 300, 30);
/// assert!((15.0..17.0).contains(&least) && (45.0..46.0).contains(&most), "{least} {most}");
/// ```
pub fn expected_extremes(clients: u32, backends: u32, size: u32) -> (f64, f64) {
    if backends == 0 || clients == 0 || size == 0 {
        return (0.0, 0.0);
    }
    if size >= backends {
        return (f64::from(clients), f64::from(clients));
    }
    let pmf = binomial(clients, f64::from(size) / f64::from(backends));
    let (mut least, mut most, mut below) = (0.0, 0.0, 0.0);
    for mass in pmf {
        // P(least > x) = P(one > x)^n and P(most > x) = 1 − P(one ≤ x)^n; their sums over x are the means.
        below = f64::min(below + mass, 1.0);
        least += power(1.0 - below, backends);
        most += 1.0 - power(below, backends);
    }
    (least, most)
}

/// The probabilities of `0..=n` successes. Outwards from the most likely one, so that nothing underflows on the way.
fn binomial(n: u32, p: f64) -> Vec<f64> {
    let mode = ((f64::from(n) + 1.0) * p).min(f64::from(n)) as usize;
    let odds = p / (1.0 - p);
    let mut mass = vec![0.0; n as usize + 1];
    mass[mode] = 1.0;
    for x in mode + 1..=n as usize {
        mass[x] = mass[x - 1] * odds * (n as usize - x + 1) as f64 / x as f64;
    }
    for x in (0..mode).rev() {
        mass[x] = mass[x + 1] / odds * (x + 1) as f64 / (n as usize - x) as f64;
    }
    let total: f64 = mass.iter().sum();
    for share in &mut mass {
        *share /= total;
    }
    mass
}

/// By squaring, so that it is the same on every platform.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binomial_adds_up_and_has_its_mean() {
        for (n, p) in [(1, 0.5), (300, 0.1), (20_000, 0.3)] {
            let pmf = binomial(n, p);
            let mean: f64 = pmf.iter().zip(0u32..).map(|(mass, x)| mass * f64::from(x)).sum();
            assert!((pmf.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert!((mean - f64::from(n) * p).abs() < 1e-6 * f64::from(n), "{n} {p}: {mean}");
        }
    }

    #[test]
    fn degenerate_shapes_have_an_answer() {
        assert_eq!(expected_extremes(0, 5, 2), (0.0, 0.0));
        assert_eq!(expected_extremes(7, 0, 2), (0.0, 0.0));
        assert_eq!(expected_extremes(7, 3, 9), (7.0, 7.0));
    }
}
