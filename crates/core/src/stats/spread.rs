//! Spread and waste (A17): how far apart equals are loaded, and what that costs.
//!
//! A service is provisioned for its most loaded task, so whatever the others use less than that one is paid for and
//! not used.

use std::fmt;

/// Least, mean and most of the loads of interchangeable tasks.
///
/// ```
/// use evenkeel_core::stats::Spread;
///
/// let spread = Spread::of([0.5, 0.7, 0.9]).unwrap();
/// assert_eq!((spread.least, spread.most), (0.5, 0.9));
/// assert!((spread.wasted - 0.6).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many tasks.
    pub count: usize,
    /// The least loaded.
    pub least: f64,
    /// Their mean.
    pub mean: f64,
    /// The most loaded.
    pub most: f64,
    /// Sum over all tasks of (most loaded − this one): capacity paid for and not used.
    pub wasted: f64,
}

impl Spread {
    /// `None` where there is no load at all to look at; loads that are not finite are left out.
    pub fn of(loads: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let (mut count, mut least, mut most, mut sum) = (0, f64::INFINITY, f64::NEG_INFINITY, 0.0);
        for load in loads.into_iter().filter(|load| load.is_finite()) {
            count += 1;
            sum += load;
            least = least.min(load);
            most = most.max(load);
        }
        (count > 0).then(|| {
            let mean = sum / count as f64;
            Spread { count, least, mean, most, wasted: most * count as f64 - sum }
        })
    }

    /// Most over mean: 1.1 means ten percent more machines than an even spread would need. 1 where all are idle.
    pub fn most_to_mean(&self) -> f64 {
        if self.mean > 0.0 { self.most / self.mean } else { 1.0 }
    }

    /// Most over least; infinite where one is idle and another is not, 1 where all are.
    pub fn most_to_least(&self) -> f64 {
        if self.most <= self.least { 1.0 } else { self.most / self.least }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "least {:.2} · mean {:.2} · most {:.2}", self.least, self.mean, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_look_at_is_no_spread() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn waste_is_what_the_others_use_less_than_the_most_loaded() {
        let spread = Spread::of([1.0, 2.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((spread.count, spread.mean, spread.wasted), (3, 2.0, 3.0));
        assert_eq!((spread.most_to_mean(), spread.most_to_least()), (1.5, 3.0));
    }

    #[test]
    fn idle_tasks_are_even() {
        let spread = Spread::of([0.0, 0.0]).unwrap();
        assert_eq!((spread.most_to_mean(), spread.most_to_least(), spread.wasted), (1.0, 1.0, 0.0));
    }
}
