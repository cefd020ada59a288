//! Which subset size fits, and why.

use super::extremes::expected_extremes;
use crate::client::SubsetConfig;
use crate::client::subset::Algorithm;

/// A recommended size with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Backends a client should use.
    pub size: u32,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
    /// What random subsetting would need for the same evenness.
    pub random_size: u32,
}

/// Advises on a subset size for `clients` of `backends`, whose busiest client bursts to `burst` times its mean rate.
///
/// ```
/// use evenkeel_core::client::subset::Algorithm;
/// use evenkeel_core::plan::advise;
///
/// assert_eq!(advise(1_000, 300, Algorithm::Even, 1.0).size, 20);
/// assert!(advise(30, 300, Algorithm::Even, 1.0).size > 20, "few clients need more");
/// ```
pub fn advise(clients: u32, backends: u32, algorithm: Algorithm, burst: f64) -> Advice {
    let wished = SubsetConfig::default().size;
    let mut advice =
        Advice { size: wished.min(backends), reasons: Vec::new(), random_size: random_size(clients, backends) };
    // Ten clients on each backend: one more or less is then what is tolerated.
    let sharers = f64::from(backends) / f64::from(clients.max(1)) / TOLERANCE;
    if backends <= wished {
        let all = "every client uses all of it";
        advice.reasons.push(format!("a service of {backends} is no larger than a subset of {wished}: {all}"));
    } else {
        let added = 100.0 / f64::from(wished);
        advice.reasons.push(format!("{wished} to begin with: one lost backend adds {added:.0} % to the others"));
        let what = "few clients: each backend should be shared by ten, so that one more or less is 10 %";
        advice.raise(sharers, backends, what);
    }
    if burst > 1.0 {
        let needed = sharers * (burst - 1.0);
        if needed.ceil() <= f64::from(advice.size) {
            advice.reasons.push(format!("bursts of {burst} times the mean: {} is enough", advice.size));
        }
        let what =
            format!("bursts: one client at {burst} times its mean should raise its backends by no more than 10 %");
        advice.raise(needed, backends, &what);
    }
    if algorithm == Algorithm::Random {
        let needed = f64::from(advice.random_size);
        advice.raise(needed, backends, "drawn at random, smaller subsets are more than 10 % uneven");
    }
    advice
}

impl Advice {
    /// Raises the size to what is needed, as far as there are backends. Says nothing where it is large enough.
    fn raise(&mut self, needed: f64, backends: u32, reason: &str) {
        let needed = needed.ceil();
        if needed > f64::from(backends) {
            self.size = backends;
            let all = if backends == 1 { "1 backend".to_owned() } else { format!("all {backends} backends") };
            self.reasons.push(format!("{backends}: {reason}; that would need {needed}, and {all} is what there is"));
        } else if needed > f64::from(self.size) {
            self.size = needed as u32;
            self.reasons.push(format!("{needed}: {reason}"));
        }
    }
}

/// The smallest size at which the most loaded of randomly drawn backends is expected within 10 % of the mean.
fn random_size(clients: u32, backends: u32) -> u32 {
    let is_even = |size: u32| {
        let mean = f64::from(clients) * f64::from(size) / f64::from(backends.max(1));
        expected_extremes(clients, backends, size).1 <= (1.0 + TOLERANCE) * mean
    };
    let (mut uneven, mut even) = (0, backends);
    while even - uneven > 1 {
        let middle = uneven + (even - uneven) / 2;
        if is_even(middle) {
            even = middle;
        } else {
            uneven = middle;
        }
    }
    even
}

/// How far the most loaded backend may be above the mean: 10 % more on one is 10 % more machines everywhere.
const TOLERANCE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_would_need_about_three_quarters() {
        let size = advise(300, 300, Algorithm::Random, 1.0).size;
        assert!((200..=240).contains(&size), "the published figure is 75 %: {size} of 300");
    }

    #[test]
    fn few_and_bursty_clients_need_more() {
        let size = |clients, burst| advise(clients, 300, Algorithm::Even, burst).size;
        assert_eq!(size(1_000, 1.0), 20);
        assert_eq!(size(100, 1.0), 30);
        assert_eq!(size(100, 5.0), 120);
        assert_eq!(size(1, 1.0), 300);
    }

    #[test]
    fn a_small_service_is_not_subset() {
        let advice = advise(5, 20, Algorithm::Even, 1.0);
        assert_eq!((advice.size, advice.reasons.len()), (20, 1));
        assert_eq!(advise(0, 0, Algorithm::Even, 1.0).size, 0);
    }

    #[test]
    fn a_burst_is_always_answered() {
        let last = |clients, backends, burst| advise(clients, backends, Algorithm::Even, burst).reasons.pop().unwrap();
        assert_eq!(last(300, 300, 3.0), "bursts of 3 times the mean: 20 is enough");
        assert!(last(40, 300, 3.0).starts_with("150: bursts"), "{}", last(40, 300, 3.0));
        assert!(last(5, 20, 10.0).ends_with("would need 360, and all 20 backends is what there is"));
    }

    #[test]
    fn a_reason_that_cannot_be_met_says_so() {
        let advice = advise(3, 1_000, Algorithm::Even, 1.0);
        assert_eq!(advice.size, 1_000);
        let reason = advice.reasons.last().unwrap();
        assert!(reason.ends_with("would need 3334, and all 1000 backends is what there is"), "{reason}");
    }
}
