//! Times drawn at random, and their exact means.
//!
//! The rate that makes a given load follows from the mean, so the mean counts what is cut off and clipped too. All
//! maths is libm's or exact, so that a seed draws the same times on every platform.

use evenkeel_core::Rng;

use crate::scenario::Distribution;

impl Distribution {
    /// The exact mean of what [`Distribution::draw`] gives, with what is cut off or clipped.
    pub fn mean_seconds(&self) -> f64 {
        match *self {
            Distribution::Fixed { mean } => mean.seconds(),
            Distribution::Exponential { mean, cut } => mean.seconds() * -libm::expm1(-cut.unwrap_or(CUT)),
            Distribution::Normal { centre, deviation } => clipped_normal(centre.seconds(), deviation.seconds()),
            Distribution::Lognormal { mean, sigma, cut } => mean.seconds() * cut_lognormal(sigma, cut.unwrap_or(CUT)),
            Distribution::Bimodal { least, most, share } => least.seconds() * (1.0 - share) + most.seconds() * share,
            Distribution::Pareto { least, range, alpha } => least.seconds() * bounded_pareto(range, alpha),
        }
    }

    /// A time in seconds.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        Sampler::new(self).draw(rng)
    }
}

/// A memoryless time with this mean.
#[inline]
pub fn exponential(mean: f64, rng: &mut Rng) -> f64 {
    -mean * libm::log(1.0 - rng.unit())
}

/// Mean 0, deviation 1 (Marsaglia's polar method: no sine).
#[inline]
pub fn standard_normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * rng.unit() - 1.0, 2.0 * rng.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * libm::log(square) / square).sqrt();
        }
    }
}

/// A distribution with all that does not change worked out: what is drawn for every request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sampler {
    Fixed(f64),
    Exponential { mean: f64, most: f64 },
    Normal { centre: f64, deviation: f64 },
    Lognormal { median: f64, sigma: f64, most: f64 },
    Bimodal { least: f64, most: f64, share: f64 },
    Pareto { least: f64, most: f64, span: f64, power: f64 },
}

impl Sampler {
    pub(crate) fn new(distribution: &Distribution) -> Self {
        match *distribution {
            Distribution::Fixed { mean } => Sampler::Fixed(mean.seconds()),
            Distribution::Exponential { mean, cut } => {
                Sampler::Exponential { mean: mean.seconds(), most: mean.seconds() * cut.unwrap_or(CUT) }
            }
            Distribution::Normal { centre, deviation } => {
                Sampler::Normal { centre: centre.seconds(), deviation: deviation.seconds() }
            }
            Distribution::Lognormal { mean, sigma, cut } => Sampler::Lognormal {
                median: mean.seconds() * libm::exp(-sigma * sigma / 2.0),
                sigma,
                most: mean.seconds() * cut.unwrap_or(CUT),
            },
            Distribution::Bimodal { least, most, share } => {
                Sampler::Bimodal { least: least.seconds(), most: most.seconds(), share }
            }
            Distribution::Pareto { least, range, alpha } => Sampler::Pareto {
                least: least.seconds(),
                most: least.seconds() * range,
                span: -libm::expm1(-alpha * libm::log(range)),
                power: -1.0 / alpha,
            },
        }
    }

    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> f64 {
        match *self {
            Sampler::Fixed(value) => value,
            Sampler::Exponential { mean, most } => exponential(mean, rng).min(most),
            Sampler::Normal { centre, deviation } => (centre + deviation * standard_normal(rng)).max(0.0),
            Sampler::Lognormal { median, sigma, most } => (median * libm::exp(sigma * standard_normal(rng))).min(most),
            Sampler::Bimodal { least, most, share } => {
                if rng.unit() < share {
                    most
                } else {
                    least
                }
            }
            Sampler::Pareto { least, most, span, power } => {
                (least * libm::pow(1.0 - rng.unit() * span, power)).min(most)
            }
        }
    }
}

/// Of max(0, N(centre, deviation)).
fn clipped_normal(centre: f64, deviation: f64) -> f64 {
    if deviation <= 0.0 {
        return centre;
    }
    let reach = centre / deviation;
    let density = libm::exp(-reach * reach / 2.0) / std::f64::consts::TAU.sqrt();
    centre * below(reach) + deviation * density
}

/// Of a log-normal with mean 1 that is cut at `cut`: what lies below the cut, and the cut for what lies above.
fn cut_lognormal(sigma: f64, cut: f64) -> f64 {
    if sigma <= 0.0 {
        return cut.min(1.0);
    }
    let log = libm::log(cut);
    below((log - sigma * sigma / 2.0) / sigma) + cut * below(-(log + sigma * sigma / 2.0) / sigma)
}

/// Of a bounded Pareto whose least value is 1.
fn bounded_pareto(range: f64, alpha: f64) -> f64 {
    let log = libm::log(range);
    if log <= 0.0 {
        return 1.0;
    }
    let excess = alpha - 1.0;
    // The limit where the exponent is 0; just beside it `expm1` keeps the digits that a difference would lose.
    let area = if excess == 0.0 { log } else { -libm::expm1(-excess * log) / excess };
    alpha * area / -libm::expm1(-alpha * log)
}

/// The share of a standard normal below `x`.
fn below(x: f64) -> f64 {
    libm::erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

/// Largest value as a multiple of the mean, where nothing is said: keeps a run from being one request.
const CUT: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Span;

    fn all() -> Vec<Distribution> {
        let (ten, eighty) = (Span::from_millis(10), Span::from_millis(80));
        vec![
            Distribution::Fixed { mean: ten },
            Distribution::Exponential { mean: ten, cut: None },
            Distribution::Exponential { mean: ten, cut: Some(2.0) },
            Distribution::Normal { centre: eighty, deviation: eighty },
            Distribution::Normal { centre: eighty, deviation: Span::ZERO },
            Distribution::Lognormal { mean: ten, sigma: 1.0, cut: None },
            Distribution::Lognormal { mean: ten, sigma: 2.0, cut: Some(3.0) },
            Distribution::Pareto { least: ten, range: 100.0, alpha: 1.5 },
            Distribution::Pareto { least: ten, range: 100.0, alpha: 1.0 },
            Distribution::Pareto { least: ten, range: 1.0, alpha: 1.0 },
        ]
    }

    #[test]
    fn means_are_those_of_what_is_drawn() {
        for (stream, distribution) in all().into_iter().enumerate() {
            let mut rng = Rng::for_stream(1, stream as u64);
            let draws = 200_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let value = distribution.draw(&mut rng);
                sum += value;
                squares += value * value;
            }
            let (mean, exact) = (sum / f64::from(draws), distribution.mean_seconds());
            // Five standard errors of the mean, from the sample itself; the last term is for what does not vary.
            let error = (squares / f64::from(draws) - mean * mean).max(0.0).sqrt() / f64::from(draws).sqrt();
            assert!((mean - exact).abs() <= 5.0 * error + 1e-9 * exact, "{distribution:?}: {mean} {exact}");
        }
    }

    #[test]
    fn means_agree_with_their_closed_forms() {
        let eighty = Span::from_millis(80);
        // Φ(1) + φ(1) = 1.0833154705876864, as the workload of the Prequal testbed has it: 80 ms become 86.7.
        let clipped = Distribution::Normal { centre: eighty, deviation: eighty }.mean_seconds();
        assert!((clipped - 0.08 * 1.083_315_470_587_686_4).abs() < 1e-15);
        // α = 1.5, range 100: 3 (1 − 1/10) / (1 − 1/1000).
        assert!((bounded_pareto(100.0, 1.5) - 2.7 / 0.999).abs() < 1e-12);
        // Without a cut that matters a log-normal has the mean it is given.
        assert!((cut_lognormal(1.0, CUT) - 1.0).abs() < 1e-12);
        assert!((bounded_pareto(100.0, 1.0 + 1e-12) - bounded_pareto(100.0, 1.0)).abs() < 1e-9);
    }

    #[test]
    fn normals_are_normal() {
        let mut rng = Rng::from_seed(5);
        let draws = 100_000;
        let inside = (0..draws).filter(|_| standard_normal(&mut rng).abs() < 1.0).count() as f64;
        // Six standard deviations of a binomial(100,000, 0.6827).
        assert!((inside - 68_269.0).abs() < 883.0, "{inside}");
    }
}
