//! A level for all, where the nearest cluster would be near its capacity or beyond it.
//!
//! Below that each cluster keeps what its most loaded tasks have left for its own requests. Beyond it those would be kept
//! from a cluster that has none at all: then what is too much goes where mean load is least, until all are at one level, and
//! nobody is asked for more than what he can do.
//!
//! One level means that chance takes each beyond its capacity as seldom as the others: what a cluster is asked for in a second
//! varies with the square root of its processors, so that much of them is left free. Beside one of 240 cores at 0.96 one of 60
//! is at 0.92.

/// A cluster farther away, as what can be filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Vessel {
    /// Share that it gets in any case.
    pub(super) share: f64,
    /// Share that it may get at most, for errors or for what piles up there.
    pub(super) limit: f64,
    /// Mean load, and the share that was in force over the time it covers.
    pub(super) load: f64,
    pub(super) reported: f64,
    /// Its processors over those that all requests of such clients take.
    pub(super) processors: f64,
    /// What of its room is for clients like this one.
    pub(super) part: f64,
}

impl Vessel {
    /// Share that brings it to a level.
    fn share_at(&self, level: f64) -> f64 {
        let room = (level - self.load) * self.processors;
        let part = if room > 0.0 { self.part } else { 1.0 };
        (self.reported + room * part).min(self.limit).clamp(self.share, 1.0_f64.max(self.share))
    }
}

/// The level up to which the nearest is left alone, the one that nobody is brought beyond, and how much sooner a cluster is
/// full for others at a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    pub(super) from: f64,
    pub(super) top: f64,
    pub(super) margin: f64,
}

impl Bounds {
    /// Where one that can do `larger` times as much as the nearest may be while that is at `level`. Less and less is kept for those
    /// at home as it rises: at the top nothing. A smaller one does not get there.
    fn others_at(&self, level: f64, larger: f64) -> f64 {
        let alike = (1.0 - (1.0 - level) / larger.max(LARGER_LEAST).sqrt()).min(self.top);
        let calm = (self.top - alike) / (self.top - self.from).max(NARROWEST);
        alike - self.margin * calm.clamp(0.0, 1.0)
    }
}

/// What each of the others gets, nearest first, so that home, which would be at `demand` times its capacity with all
/// requests, is at one level with them. What nobody has room for stays at home.
pub(super) fn levelled(demand: f64, others: &[Vessel], bounds: Bounds) -> Vec<f64> {
    // As far as the demand is known: in it, cores that became slow count as what they can do.
    let larger = |other: &Vessel| other.processors * demand;
    let share_at = |other: &Vessel, level: f64| other.share_at(bounds.others_at(level, larger(other)));
    let rest = |level: f64| {
        let others: f64 = others.iter().map(|other| share_at(other, level)).sum();
        (1.0 - others).max(0.0) * demand
    };
    let (mut low, mut high) = (bounds.from, bounds.top);
    if rest(low) <= low {
        high = low;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if rest(middle) <= middle { high = middle } else { low = middle }
    }
    let level = high;
    let kept = if demand > 0.0 { (level / demand).min(1.0) } else { 1.0 };
    let mut left = (1.0 - kept - others.iter().map(|other| other.share).sum::<f64>()).max(0.0);
    let fill = |other: &Vessel| {
        let more = (share_at(other, level) - other.share).clamp(0.0, left);
        left -= more;
        other.share + more
    };
    others.iter().map(fill).collect()
}

/// A level to four digits.
const HALVINGS: u32 = 14;
const NARROWEST: f64 = 0.01;
/// The root of nothing divides by nothing: smaller ones count as this.
const LARGER_LEAST: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { from: 0.925, top: 0.98, margin: 0.05 };

    /// A cluster that has a quarter more than all that clients like this one ask for takes, at this load by others.
    fn at(load: f64) -> Vessel {
        Vessel { share: 0.0, limit: 1.0, load, reported: 0.0, processors: 1.25, part: 1.0 }
    }

    /// One as large as the nearest, which would be at `demand` times its capacity with all requests.
    fn as_large(demand: f64, load: f64) -> Vessel {
        Vessel { processors: 1.0 / demand, ..at(load) }
    }

    #[test]
    fn what_is_too_much_brings_all_to_one_level() {
        // Half of a cluster at 0.8 is gone: 1.6 of what is left, and the others at 0.8.
        let shares = levelled(1.6, &[at(0.8), at(0.8)], BOUNDS);
        let home = 1.6 * (1.0 - shares.iter().sum::<f64>());
        assert!((0.94..0.96).contains(&home), "{home}");
        for share in shares {
            assert!((0.955..0.97).contains(&(0.8 + share / 1.25)), "{share}");
        }
    }

    #[test]
    fn a_cluster_is_left_free_in_proportion_to_the_root_of_its_processors() {
        // What is left at home is a quarter of the other, and both together are asked for 0.96 of what they can do.
        let (demand, larger, bounds) = (2.5, 4.0, Bounds { margin: 0.0, ..BOUNDS });
        let other = Vessel { processors: larger / demand, ..at(0.575) };
        let share = levelled(demand, &[other], bounds)[0];
        let (home, there) = (1.0 - demand * (1.0 - share), 1.0 - 0.575 - share / other.processors);

        assert!((home / there / larger.sqrt() - 1.0).abs() < 0.01, "{home} {there} free");
        // Seen from there, nothing is worth sending back.
        let back = Vessel { processors: 1.0 / larger / (1.0 - there), ..at(1.0 - home) };
        assert!(levelled(1.0 - there, &[back], bounds)[0] < 1e-3);
    }

    #[test]
    fn no_more_leaves_than_has_to_and_the_nearest_gets_it_first() {
        let shares = levelled(1.0, &[at(0.5), at(0.5)], BOUNDS);
        assert!((shares[0] - 0.075).abs() < 1e-3 && shares[1] < 1e-3, "{shares:?}");
        assert_eq!(levelled(0.9, &[at(0.5), at(0.5)], BOUNDS), [0.0, 0.0]);
    }

    #[test]
    fn nobody_is_brought_beyond_the_top_nor_beyond_his_limit() {
        let shares = levelled(3.0, &[at(0.9), Vessel { limit: 0.02, ..at(0.5) }, at(0.99)], BOUNDS);
        assert!((shares[0] - 0.08 * 1.25).abs() < 1e-3, "{shares:?}");
        assert!((shares[1] - 0.02).abs() < 1e-6 && shares[2] < 1e-6, "{shares:?}");
    }

    #[test]
    fn what_one_gets_in_any_case_is_not_taken_from_him() {
        let shares = levelled(1.6, &[Vessel { share: 0.2, ..at(0.99) }, at(0.7)], BOUNDS);
        assert!(shares[0] >= 0.2 && shares[1] > 0.1, "{shares:?}");
    }

    #[test]
    fn a_cluster_is_full_sooner_for_others_below_the_top() {
        let shares = levelled(0.94, &[as_large(0.94, 0.9), as_large(0.94, 0.9)], BOUNDS);
        assert!(shares.iter().sum::<f64>() < 0.005, "{shares:?}");
    }

    #[test]
    fn those_who_are_all_at_one_load_trade_nothing() {
        for load in [0.93, 0.95, 0.97, 1.0, 1.2] {
            let shares = levelled(load, &[as_large(load, load), as_large(load, load)], BOUNDS);
            assert!(shares.iter().sum::<f64>() < 1e-3, "{load}: {shares:?}");
        }
    }
}
