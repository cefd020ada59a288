//! The planner (A9): which subset size fits, how even it is, what a change costs.
//!
//! It deals for every client with the code that clients run, and counts.

mod advice;
mod change;
mod extremes;

pub use advice::{Advice, advise};
pub use change::{BadChange, Change, Churn};
pub use extremes::expected_extremes;

use crate::client::subset::{Algorithm, ClientIdentity, Dealer};
use crate::client::{BackendId, BackendList, BackendSpec};
use crate::stats::Spread;
use crate::{InvalidConfig, client::BadBackends};

/// How many there are of each, and how many backends a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Client tasks.
    pub clients: u32,
    /// Backend tasks.
    pub backends: u32,
    /// Wished size of a subset.
    pub size: u32,
}

impl Shape {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::unless_in_range("clients", self.clients, 1, COUNT_MOST)?;
        InvalidConfig::unless_in_range("backends", self.backends, 1, COUNT_MOST)?;
        InvalidConfig::unless_in_range("size", self.size, 1, COUNT_MOST)
    }
}

/// Who uses whom: the members of every client, as backend numbers.
///
/// ```
/// use evenkeel_core::client::subset::Algorithm;
/// use evenkeel_core::plan::{Dealt, Shape};
///
/// let shape = Shape { clients: 300, backends: 300, size: 10 };
/// let dealt = Dealt::new(shape, Algorithm::Rounds, 1)?;
/// let connections = dealt.connections();
/// assert!(connections.iter().all(|&count| count == 10));
/// # Ok::<(), evenkeel_core::InvalidConfig>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// What was asked for.
    pub shape: Shape,
    /// One row for each client.
    pub rows: Vec<Vec<u32>>,
}

impl Dealt {
    /// Deals for every client.
    pub fn new(shape: Shape, algorithm: Algorithm, seed: u64) -> Result<Self, InvalidConfig> {
        Dealt::with_progress(shape, algorithm, seed, |_| {})
    }

    /// The same, telling after each client how many have been dealt to.
    pub fn with_progress(
        shape: Shape,
        algorithm: Algorithm,
        seed: u64,
        mut dealt_to: impl FnMut(u32),
    ) -> Result<Self, InvalidConfig> {
        shape.check()?;
        let backends =
            numbered(shape.backends).map_err(|bad| InvalidConfig::new("backends", shape.backends, bad.to_string()))?;
        let mut rows = Vec::with_capacity(shape.clients as usize);
        for client in 0..shape.clients {
            let dealer = Dealer { algorithm, identity: ClientIdentity::Ordinal(client), seed };
            let mut deal = dealer.deal(&backends, shape.size, 0)?;
            deal.order.truncate(deal.members);
            rows.push(deal.order);
            dealt_to(client + 1);
        }
        Ok(Dealt { shape, rows })
    }

    /// Connections of each backend.
    pub fn connections(&self) -> Vec<u32> {
        let mut counts = vec![0; self.shape.backends as usize];
        for &backend in self.rows.iter().flatten() {
            counts[backend as usize] += 1;
        }
        counts
    }

    /// Least, mean and most connections of a backend. Nothing to look at cannot be: a shape has backends.
    pub fn spread(&self) -> Spread {
        let counts = self.connections().into_iter().map(f64::from);
        Spread::of(counts).unwrap_or(Spread { count: 0, least: 0.0, mean: 0.0, most: 0.0, wasted: 0.0 })
    }

    /// Smallest and largest subset.
    pub fn sizes(&self) -> (usize, usize) {
        let sizes = || self.rows.iter().map(Vec::len);
        (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
    }

    /// Machines that imbalance costs: the service is provisioned for its most loaded task, so all of it grows by what
    /// that one has above the mean.
    pub fn extra_machines(&self) -> u32 {
        // A rounding error of the division is no machine.
        ((self.spread().most_to_mean() - 1.0) * f64::from(self.shape.backends) - 1e-9).ceil().max(0.0) as u32
    }

    /// How many backends `share` of them is, rounded down and at least one: what a rolling restart takes at a time.
    pub fn restart_window(&self, share: f64) -> u32 {
        let backends = self.shape.backends;
        ((f64::from(backends) * share) as u32).clamp(1, backends.max(1))
    }

    /// The largest share of any one subset that falls into [`Dealt::restart_window`] of all backends, consecutive by
    /// number: what a rolling restart of that many takes at once.
    pub fn restart_share(&self, share: f64) -> f64 {
        let window = self.restart_window(share) as usize;
        let worst_of = |row: &Vec<u32>| {
            let mut sorted = row.clone();
            sorted.sort_unstable();
            let mut first = 0;
            let mut worst = 0;
            for (place, &backend) in sorted.iter().enumerate() {
                while (backend - sorted[first]) as usize >= window {
                    first += 1;
                }
                worst = worst.max(place + 1 - first);
            }
            if row.is_empty() { 0.0 } else { worst as f64 / row.len() as f64 }
        };
        self.rows.iter().map(worst_of).fold(0.0, f64::max)
    }
}

/// Backends with ids and ordinals `0..count`.
fn numbered(count: u32) -> Result<BackendList, BadBackends> {
    BackendList::new((0..count).map(|number| BackendSpec { id: BackendId(u64::from(number)), ordinal: Some(number) }))
}

/// More tasks of a kind than any service has: what the planner deals to at most.
pub const COUNT_MOST: u32 = 131_072;
