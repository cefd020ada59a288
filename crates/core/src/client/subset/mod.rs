//! Who talks to whom (A9–A12): each client uses only some of the backends, and deals them to itself.
//!
//! Every algorithm answers with an order of preference. Its first backends are the members; when one is lost or lame
//! the next in order stands in, and goes again when it is back, so that a change moves one connection.
//! Clients on different machines and versions must agree, so a dealing never changes: an improvement is a new
//! version beside the old one, and golden vectors hold both.

mod even;
mod random;
mod rounds;

use std::fmt;
use std::str::FromStr;

use super::backend::BackendList;
use crate::InvalidConfig;
use crate::rng::hash2;

/// How backends are dealt to clients. The names carry their version: `even` is `even/1` until there is a better one.
///
/// ```
/// use evenkeel_core::client::subset::Algorithm;
///
/// assert_eq!("even".parse(), Ok(Algorithm::Even));
/// assert_eq!(Algorithm::Even.versioned(), "even/1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Each client draws its own, by rendezvous hashing. Needs nothing to be known of clients or order; uneven.
    Random,
    /// Clients in rounds, each round deals all backends out. Even; most connections move when the number of subsets
    /// changes.
    Rounds,
    /// Low-discrepancy: nearly even, and a change moves little more than it must.
    Even,
}

impl Algorithm {
    /// Every one.
    pub const ALL: [Algorithm; 3] = [Algorithm::Random, Algorithm::Rounds, Algorithm::Even];

    /// The name in configuration, command line and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Algorithm::Random => "random",
            Algorithm::Rounds => "rounds",
            Algorithm::Even => "even",
        }
    }

    /// The name with its version; a fleet on mixed versions agrees on a dealing by this.
    pub const fn versioned(self) -> &'static str {
        match self {
            Algorithm::Random => "random/1",
            Algorithm::Rounds => "rounds/1",
            Algorithm::Even => "even/1",
        }
    }

    /// Whether a client must know its place among the clients.
    pub fn needs_client_ordinal(self) -> bool {
        self != Algorithm::Random
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = InvalidConfig;

    fn from_str(text: &str) -> Result<Self, InvalidConfig> {
        Algorithm::ALL.into_iter().find(|one| text == one.as_str() || text == one.versioned()).ok_or_else(|| {
            InvalidConfig::new("subset.algorithm", text, "use random, rounds or even (or with a version: even/1)")
        })
    }
}

/// Who a client is among the clients of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientIdentity {
    /// Its place: dense, from 0, kept across restarts.
    Ordinal(u32),
    /// A number of its own, drawn once.
    Drawn(u64),
}

/// What one client was dealt: positions in the backend list, most preferred first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deal {
    /// The members, then those who stand in for lost ones.
    pub order: Vec<u32>,
    /// How many of them are members.
    pub members: usize,
}

/// The way of dealing for a client, chosen and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dealer {
    /// How.
    pub algorithm: Algorithm,
    /// To whom.
    pub identity: ClientIdentity,
    /// What it is shuffled with.
    pub seed: u64,
}

impl Dealer {
    /// Deals `size` members and up to `spares` more from `backends`. All are members where there are no more than
    /// `size`; a subset is full where it can be and never holds one backend twice.
    pub fn deal(&self, backends: &BackendList, size: u32, spares: u32) -> Result<Deal, InvalidConfig> {
        let count = size.saturating_add(spares);
        match (self.algorithm, self.identity) {
            (Algorithm::Random, identity) => {
                let ids = backends.specs().iter().map(|spec| spec.id);
                let order = random::deal(hash2(self.seed, identity.key()), ids, count);
                Ok(Deal { members: order.len().min(size as usize), order })
            }
            (Algorithm::Rounds, ClientIdentity::Ordinal(client)) => {
                Ok(rounds::deal(client, backends.len() as u32, size, count, self.seed))
            }
            (Algorithm::Even, ClientIdentity::Ordinal(client)) => {
                if !backends.has_ordinals() && !backends.is_empty() {
                    return Err(InvalidConfig::new(
                        "subset.algorithm",
                        self.algorithm.as_str(),
                        "the backends have no ordinals: give each its own, or choose algorithm random",
                    ));
                }
                Ok(deal_even(client, backends, size, count, self.seed))
            }
            (Algorithm::Rounds | Algorithm::Even, ClientIdentity::Drawn(_)) => Err(no_client_ordinal()),
        }
    }
}

/// The algorithm deals by the client's ordinal, and there is none.
pub(crate) fn no_client_ordinal() -> InvalidConfig {
    let fix = "this algorithm deals by the client's ordinal: set it, or choose algorithm random";
    InvalidConfig::new("subset.client", None::<u32>, fix)
}

impl ClientIdentity {
    fn key(self) -> u64 {
        match self {
            ClientIdentity::Ordinal(ordinal) => u64::from(ordinal),
            ClientIdentity::Drawn(number) => number,
        }
    }
}

/// `even` deals ordinals; where some are missing, whoever comes next in order takes their place.
fn deal_even(client: u32, backends: &BackendList, size: u32, count: u32, seed: u64) -> Deal {
    let universe = backends.universe();
    // With holes the whole order is looked through, since nobody knows how many of its first are missing.
    let looked_at = if backends.has_holes() { universe } else { count };
    let (ordinals, members) = even::deal(client, universe, size, looked_at, seed);
    let order: Vec<u32> =
        ordinals.iter().filter_map(|&ordinal| backends.position_of_ordinal(ordinal)).take(count as usize).collect();
    Deal { members: members.min(order.len()), order }
}
