//! Deterministic subsetting (A11): clients in rounds, each round deals every backend to exactly one client.
//!
//! With `n` backends and subsets of `size` a round has `n / size` clients. Each round shuffles the backends in its own
//! way, so that a rolling restart in id order does not take a whole subset and a lost backend's load spreads over all.
//! Where it does not divide evenly, the leftovers go one each to the first subsets. Where that would make subsets more
//! than a quarter larger than wished, the wished size is dealt and the leftovers sit out, others in every round.
//!
//! The shuffle is consistent: with one more backend the newcomer takes one place in each round and only its former
//! occupant moves, so until the number of subsets changes, growth moves no more connections than it must.

use super::Deal;
use crate::rng::hash3;

/// The order of preference of `client` among backends `0..backends`: its subset, then who may stand in.
pub(crate) fn deal(client: u32, backends: u32, size: u32, count: u32, seed: u64) -> Deal {
    let lots = backends.checked_div(size).unwrap_or(0);
    if lots == 0 {
        let mut order = consistent_shuffle((0..backends).collect(), seed, u64::from(client));
        order.truncate(count as usize);
        return Deal { members: order.len().min(size as usize), order };
    }
    let (round, lot) = (client / lots, client % lots);
    let sitting_out = SittingOut::in_round(round, backends, size, lots);
    let dealt = (0..backends).filter(|&backend| !sitting_out.contains(backend)).collect();
    let shuffled = consistent_shuffle(dealt, seed, u64::from(round));
    let members = lot_of(&shuffled, lot, size, lots);

    // Others of the round stand in, beginning after one's own: every round has another order, so the load of a lost
    // backend spreads over all.
    let mut taken = vec![false; backends as usize];
    for &member in &members {
        taken[member as usize] = true;
    }
    let (before, after) = shuffled.split_at(((lot + 1) * size) as usize);
    let spares = after.iter().chain(before).copied().chain((0..backends).filter(|&b| sitting_out.contains(b)));
    let spare_count = (count as usize).saturating_sub(members.len());
    let spares = spares.filter(|&backend| !taken[backend as usize]).take(spare_count);
    Deal { members: members.len(), order: members.iter().copied().chain(spares).collect() }
}

/// The members of subset `lot` of `lots` in a round's shuffled list.
fn lot_of(shuffled: &[u32], lot: u32, size: u32, lots: u32) -> Vec<u32> {
    let (lot, size, lots) = (lot as usize, size as usize, lots as usize);
    let own = shuffled.iter().skip(lot * size).take(size);
    // Dealt one by one from the first subset on, so that sizes differ by at most one and no boundary ever shifts.
    let leftovers = shuffled.iter().skip(lots * size + lot).step_by(lots);
    own.chain(leftovers).copied().collect()
}

/// The backends left over in one round: the next so many in turn, so that after any number of rounds nobody has sat
/// out more than once oftener than another.
struct SittingOut {
    backends: u32,
    first: u32,
    count: u32,
}

impl SittingOut {
    fn in_round(round: u32, backends: u32, size: u32, lots: u32) -> Self {
        let leftovers = backends - lots * size;
        let largest = size + leftovers.div_ceil(lots);
        // Above 1.25 times the wished size.
        let count = if u64::from(largest) * 4 > u64::from(size) * 5 { leftovers } else { 0 };
        let first = (u64::from(round) * u64::from(count) % u64::from(backends)) as u32;
        SittingOut { backends, first, count }
    }

    fn contains(&self, backend: u32) -> bool {
        let ahead = (u64::from(backend) + u64::from(self.backends) - u64::from(self.first)) % u64::from(self.backends);
        ahead < u64::from(self.count)
    }
}

/// Fisher–Yates from the top, where the draw for a place depends on the round and the place alone: with one more item
/// the new one takes a place and its former occupant goes to the end.
fn consistent_shuffle(mut items: Vec<u32>, seed: u64, round: u64) -> Vec<u32> {
    for last in (1..items.len()).rev() {
        let draw = hash3(seed, round, last as u64) % (last as u64 + 1);
        items.swap(last, draw as usize);
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_dealt_as_published() {
        // 12 backends, subsets of 3, 10 clients: three rounds of four clients with these shuffled lists.
        let rounds = [
            [0, 6, 3, 5, 1, 7, 11, 9, 2, 4, 8, 10],
            [8, 11, 4, 0, 5, 6, 10, 3, 2, 7, 9, 1],
            [8, 3, 7, 2, 1, 4, 9, 10, 6, 5, 0, 11],
        ];
        let subset = |client: u32| lot_of(&rounds[client as usize / 4], client % 4, 3, 4);

        assert_eq!((0..4).map(subset).collect::<Vec<_>>(), [[0, 6, 3], [5, 1, 7], [11, 9, 2], [4, 8, 10]]);
        assert_eq!((subset(4), subset(9)), (vec![8, 11, 4], vec![2, 1, 4]));
        let mut clients_of = [0; 12];
        for backend in (0..10).flat_map(subset) {
            clients_of[backend as usize] += 1;
        }
        assert!(clients_of.iter().all(|count| [2, 3].contains(count)), "two or three each: {clients_of:?}");
    }
}
