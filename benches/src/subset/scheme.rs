//! The ways of dealing that are judged: core's own, and two to compare with.

use evenkeel_core::client::subset::{Algorithm, ClientIdentity, Dealer};
use evenkeel_core::rng::hash3;
use evenkeel_core::{BackendId, BackendList, BackendSpec};

/// A subset as a set; room for twice the largest number of backends.
pub type Subset = [u64; 32];

/// How subsets are dealt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Even,
    Rounds,
    Random,
    /// Random with another seed: what a goal set by random itself costs by chance alone.
    RandomAgain,
    /// `even` with a bit hashed from both ordinals in place of its parities: the published idea it grew from.
    SieveRank,
}

impl Scheme {
    pub const ALL: [(&str, Scheme); 5] = [
        ("even", Scheme::Even),
        ("sieve-rank", Scheme::SieveRank),
        ("rounds", Scheme::Rounds),
        ("random", Scheme::Random),
        ("random-again", Scheme::RandomAgain),
    ];

    /// The subsets of clients `0..clients`, for every size.
    pub fn deal_all(self, backends: u32, sizes: &[u32], clients: u32, seed: u64) -> Vec<Vec<Subset>> {
        let list = numbered(backends);
        let one = |client: u32, size: u32| match self {
            Scheme::Even => members(Algorithm::Even, &list, client, size, seed),
            Scheme::Rounds => members(Algorithm::Rounds, &list, client, size, seed),
            Scheme::Random => members(Algorithm::Random, &list, client, size, seed),
            Scheme::RandomAgain => members(Algorithm::Random, &list, client, size, !seed),
            Scheme::SieveRank => sieve(client, backends, size, seed),
        };
        sizes.iter().map(|&size| (0..clients).map(|client| set_of(&one(client, size))).collect()).collect()
    }
}

fn members(algorithm: Algorithm, list: &BackendList, client: u32, size: u32, seed: u64) -> Vec<u32> {
    let dealer = Dealer { algorithm, identity: ClientIdentity::Ordinal(client), seed };
    let mut deal = dealer.deal(list, size, 0).expect("numbered backends and clients can be dealt");
    deal.order.truncate(deal.members);
    deal.order
}

fn sieve(client: u32, backends: u32, size: u32, seed: u64) -> Vec<u32> {
    let position = |backend: u32| {
        (0..u32::BITS - backends.leading_zeros()).fold(0u64, |position, digit| {
            let (i, b) = (u64::from(client) >> digit, u64::from(backend) >> digit);
            (position << 1) | ((i ^ b ^ hash3(seed.wrapping_add(digit.into()), i >> 1, b >> 1)) & 1)
        })
    };
    let mut order: Vec<(u64, u32)> = (0..backends).map(|backend| (position(backend), backend)).collect();
    order.sort_unstable();
    order.truncate(size as usize);
    order.into_iter().map(|(_, backend)| backend).collect()
}

fn numbered(count: u32) -> BackendList {
    let spec = |number: u32| BackendSpec { id: BackendId(number.into()), ordinal: Some(number) };
    BackendList::new((0..count).map(spec)).expect("numbers are distinct and dense")
}

fn set_of(members: &[u32]) -> Subset {
    let mut set = [0; 32];
    for member in members {
        set[*member as usize / 64] |= 1 << (member % 64);
    }
    set
}
