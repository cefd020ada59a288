//! A choice among many in proportion to their weights, in the same time whatever their number (Walker's alias method).
//!
//! Clients are chosen once for each request, and there may be a hundred thousand of them.

/// Weights, cut into columns of equal width that hold at most two of the chosen.
#[derive(Clone, Debug)]
pub(crate) struct Alias {
    /// For each column: how much of it is its own, and whose the rest is.
    columns: Vec<(f64, u32)>,
}

impl Alias {
    /// Weights that are not positive numbers count as 0; where all do, all are equal.
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let weights: Vec<f64> =
            weights.into_iter().map(|weight| if weight.is_finite() { weight.max(0.0) } else { 0.0 }).collect();
        let total: f64 = weights.iter().sum();
        let scale = if total > 0.0 { weights.len() as f64 / total } else { 0.0 };
        let height = |&weight: &f64| if total > 0.0 { weight * scale } else { 1.0 };
        let mut columns: Vec<(f64, u32)> =
            weights.iter().map(height).enumerate().map(|(place, height)| (height, place as u32)).collect();
        let (mut low, mut high): (Vec<u32>, Vec<u32>) =
            (0..columns.len() as u32).partition(|&place| columns[place as usize].0 < 1.0);
        while let (Some(poor), Some(&rich)) = (low.pop(), high.last()) {
            columns[poor as usize].1 = rich;
            columns[rich as usize].0 -= 1.0 - columns[poor as usize].0;
            if columns[rich as usize].0 < 1.0 {
                high.pop();
                low.push(rich);
            }
        }
        // Whoever is left is full but for rounding, and its column is its own: the alias it has by now is itself.
        Alias { columns }
    }

    /// Whom a number in `[0, 1)` stands for; 0 where there is nobody.
    #[inline]
    pub(crate) fn pick(&self, unit: f64) -> u32 {
        let scaled = unit * self.columns.len() as f64;
        let place = scaled as usize;
        match self.columns.get(place) {
            Some(&(own, _)) if scaled - (place as f64) < own => place as u32,
            Some(&(_, other)) => other,
            None => self.columns.len().saturating_sub(1) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of each, exactly but for the grid: the unit interval is walked in equal steps.
    fn shares(weights: &[f64]) -> Vec<f64> {
        let alias = Alias::new(weights.iter().copied());
        let steps = 1_000_000;
        let mut counts = vec![0u32; weights.len()];
        for step in 0..steps {
            counts[alias.pick((f64::from(step) + 0.5) / f64::from(steps)) as usize] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(steps)).collect()
    }

    #[test]
    fn everyone_is_chosen_in_proportion() {
        for weights in [vec![1.0], vec![1.0, 1.0], vec![3.0, 0.0, 1.0], vec![0.1, 0.2, 0.3, 0.4, 7.0]] {
            let total: f64 = weights.iter().sum();
            for (share, weight) in shares(&weights).into_iter().zip(&weights) {
                // Each of at most five columns has one border, off by at most one step.
                assert!((share - weight / total).abs() <= 5e-6, "{weights:?}");
            }
        }
    }

    #[test]
    fn weights_that_are_no_weights_are_never_fatal() {
        assert_eq!(shares(&[0.0, 0.0]), [0.5, 0.5]);
        assert_eq!(shares(&[f64::NAN, 2.0, -1.0]), [0.0, 1.0, 0.0]);
        assert_eq!(Alias::new([]).pick(0.3), 0);
    }
}
