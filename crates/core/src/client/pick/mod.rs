//! Who gets the next request (A13, A14): one trait, one file a policy.
//!
//! A policy is an immutable value that all threads read. What it needs to know of a backend (requests in flight,
//! recent errors, the last load report) it finds in [`Candidates`]; what one thread keeps for itself is in
//! [`Local`]. A policy that computes something slowly (weights, a pool of probes) does it in [`Policy::refit`],
//! which the slow brain calls: it returns its successor, and the brain publishes that.

pub(crate) mod believed;
mod candidates;
mod least_loaded;
mod level;
mod p2c;
mod prequal;
mod round_robin;
mod weighted;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

pub use candidates::Candidates;
pub(crate) use candidates::{Before, unheard};
pub use least_loaded::{LeastLoaded, SCAN_MAX, WINDOW};
pub use level::{Level, LevelConfig};
pub use p2c::PowerOfTwo;
pub use prequal::{Prequal, PrequalConfig};
pub use round_robin::RoundRobin;
pub use weighted::{Weighted, WeightedConfig};

use super::backend::BackendId;
use super::picker::Local;
use crate::{InvalidConfig, Rng, Time};

/// A way to choose among usable backends.
pub trait Policy: fmt::Debug + Send + Sync {
    /// The name in labels and JSON.
    fn name(&self) -> &'static str;

    /// The position of a candidate that had room when it was looked at; `None` only if every one was seen full.
    ///
    /// On the request path: no allocation, no lock, no system call.
    fn pick(&self, now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize>;

    /// How often [`Policy::refit`] wants to be called besides when candidates change. Never, by default.
    fn refit_period(&self) -> Option<Duration> {
        None
    }

    /// The policy that should take over for these candidates now, with what has been learned; `None` to stay.
    ///
    /// Called by the slow brain before it publishes candidates that changed, and every [`Policy::refit_period`].
    fn refit(&self, _now: Time, _among: &Candidates<'_>, _rng: &mut Rng) -> Option<Arc<dyn Policy>> {
        None
    }

    /// The backends it would like to hear from, most wanted first: at most `budget` of them are checked. Asked every
    /// [`Policy::refit_period`].
    fn wants_checked(&self, _now: Time, _among: &Candidates<'_>, _budget: usize, _rng: &mut Rng) -> Vec<BackendId> {
        Vec::new()
    }

    /// The share it means the candidate at `position` to get, relative to the others, and why; for people to read.
    fn weight(&self, _now: Time, _among: &Candidates<'_>, _position: usize) -> (f64, &'static str) {
        (1.0, "all equal")
    }
}

/// What can be set for policies that have settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PickConfig {
    /// Of `weighted`.
    pub weighted: WeightedConfig,
    /// Of `prequal`.
    pub prequal: PrequalConfig,
    /// Of `level`.
    pub level: LevelConfig,
}

impl PickConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        self.weighted.check()?;
        self.prequal.check()?;
        self.level.check()
    }
}

/// The policies by the names that configuration, command line, JSON and labels use.
///
/// ```
/// use evenkeel_core::PolicyName;
///
/// assert_eq!("least_loaded".parse(), Ok(PolicyName::LeastLoaded));
/// assert_eq!(PolicyName::P2c.to_string(), "p2c");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PolicyName {
    /// Each in turn.
    RoundRobin,
    /// In turn among those with the fewest requests in flight.
    LeastLoaded,
    /// The less loaded of two drawn at random.
    P2c,
    /// In proportion to capability, from load reports.
    Weighted,
    /// By probes of requests in flight and latency.
    Prequal,
    /// Queue estimate with correction of utilization.
    #[default]
    Level,
}

impl PolicyName {
    /// Every name.
    pub const ALL: [PolicyName; 6] = [
        PolicyName::RoundRobin,
        PolicyName::LeastLoaded,
        PolicyName::P2c,
        PolicyName::Weighted,
        PolicyName::Prequal,
        PolicyName::Level,
    ];

    /// The name everywhere.
    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyName::RoundRobin => "round_robin",
            PolicyName::LeastLoaded => "least_loaded",
            PolicyName::P2c => "p2c",
            PolicyName::Weighted => "weighted",
            PolicyName::Prequal => "prequal",
            PolicyName::Level => "level",
        }
    }

    /// The policy of this name, with settings that were checked.
    pub fn build(self, settings: &PickConfig) -> Arc<dyn Policy> {
        match self {
            PolicyName::RoundRobin => Arc::new(RoundRobin),
            PolicyName::LeastLoaded => Arc::new(LeastLoaded),
            PolicyName::P2c => Arc::new(PowerOfTwo),
            PolicyName::Weighted => Arc::new(Weighted::new(settings.weighted.clone())),
            PolicyName::Prequal => Arc::new(Prequal::new(settings.prequal.clone())),
            PolicyName::Level => Arc::new(Level::new(&settings.level)),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = InvalidConfig;

    fn from_str(text: &str) -> Result<Self, InvalidConfig> {
        let names = || PolicyName::ALL.map(PolicyName::as_str).join(", ");
        PolicyName::ALL
            .into_iter()
            .find(|name| name.as_str() == text)
            .ok_or_else(|| InvalidConfig::new("policy", text, format!("use one of {}", names())))
    }
}

/// The first candidate with room, in cyclic order from `start`.
pub(crate) fn next_with_room(among: &Candidates<'_>, start: usize) -> Option<usize> {
    let count = among.len();
    (start..count).chain(0..start.min(count)).find(|&position| among.has_room(position))
}
