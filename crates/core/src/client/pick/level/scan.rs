//! One look at many candidates: four at a time, in lanes.
//!
//! What a candidate's slot says is fetched one by one, as whole numbers; the arithmetic then runs over four lanes at once.

use std::array::from_fn;

use super::{Look, View};
use crate::Time;
use crate::client::glance::ticks;
use crate::client::pick::{Candidates, SCAN_MAX};
use crate::client::picker::Candidate;

/// Views of all candidates in blocks of four, each field apart, so that the field of four is one load.
#[derive(Clone, Debug, Default)]
pub(super) struct Views(Box<[Block]>);

#[derive(Clone, Copy, Debug)]
struct Block {
    each: [f32; LANES],
    mean: [f32; LANES],
    fade: [f32; LANES],
    bias: [f32; LANES],
}

impl Block {
    /// Of at most four; nothing is known of those that are missing.
    fn of(views: &[View]) -> Block {
        let lane = |lane| views.get(lane).unwrap_or(&View::UNKNOWN);
        Block {
            each: from_fn(|number| lane(number).each),
            mean: from_fn(|number| lane(number).mean),
            fade: from_fn(|number| lane(number).fade),
            bias: from_fn(|number| lane(number).bias),
        }
    }

    #[inline]
    fn view(&self, lane: usize) -> View {
        View { each: self.each[lane], mean: self.mean[lane], fade: self.fade[lane], bias: self.bias[lane] }
    }

    const UNKNOWN: Block = Block {
        each: [View::UNKNOWN.each; LANES],
        mean: [View::UNKNOWN.mean; LANES],
        fade: [View::UNKNOWN.fade; LANES],
        bias: [View::UNKNOWN.bias; LANES],
    };
}

impl Views {
    pub(super) fn of(views: &[View]) -> Views {
        Views(views.chunks(LANES).map(Block::of).collect())
    }

    /// What is known of the candidate at `position`; nothing where candidates came without a refit.
    pub(super) fn at(&self, position: usize) -> View {
        self.0.get(position / LANES).unwrap_or(&Block::UNKNOWN).view(position % LANES)
    }
}

/// The position with the lowest key among all, or where they are more than [`SCAN_MAX`], in the four blocks from that of
/// `start` on; among equals the first from `start` on. Where nobody there has room it is one that has none.
///
/// Blocks are looked at as they stand, whoever's turn it is: turns are part of the rank.
#[inline]
pub(super) fn lowest(now: Time, among: &Candidates<'_>, views: &Views, start: usize) -> Option<usize> {
    let (candidates, ticks, last) = (among.list(), ticks(now), among.len().checked_sub(1)?);
    let (first, blocks, furthest) =
        if last < SCAN_MAX { (0, last / LANES + 1, last - start) } else { (start / LANES, WINDOW_BLOCKS, WINDOW) };
    let (mut best, mut begins, mut round) = ([i32::MAX; LANES], first * LANES, 0);
    for _ in 0..blocks {
        // Lanes behind the last look at the last again, and do not count: what is known there may be of others, since a
        // retry is picked among the first so many.
        let looks: [[i32; 4]; LANES] = from_fn(|lane| look(now, ticks, among, &candidates[(begins + lane).min(last)]));
        let block = views.0.get(begins / LANES).unwrap_or(&Block::UNKNOWN);
        let ahead = (begins + round).wrapping_sub(start);
        let ranks: [i32; LANES] =
            from_fn(|lane| rank(block.view(lane).key(&Look::of(looks[lane])), ahead.wrapping_add(lane)));
        best = from_fn(|lane| {
            let rank = if begins + lane <= last { ranks[lane] } else { i32::MAX };
            if rank < best[lane] { rank } else { best[lane] }
        });
        begins += LANES;
        if begins > last {
            (begins, round) = (0, last + 1);
        }
    }
    let turn = (best.into_iter().fold(i32::MAX, i32::min) & TURNS) as usize;
    Some(match start + turn {
        // Before the start, in the same round.
        position if turn > furthest => position - SCAN_MAX,
        position if position > last => position - last - 1,
        position => position,
    })
}

/// One candidate as a request meets it, in whole numbers: own requests there, those of others and how old that news is,
/// recent errors.
#[inline]
pub(super) fn look(now: Time, ticks: u32, among: &Candidates<'_>, candidate: &Candidate) -> [i32; 4] {
    let (own, has_room) = among.open(candidate);
    let errors = if has_room { among.errors_of(now, candidate).cast_signed() } else { NO_ROOM };
    let (age, others) = candidate.counts.glance.lanes(ticks);
    [own.cast_signed(), others, age, errors]
}

/// A key as a number that is lower where the key is, or where the turn is earlier among equals: as whole numbers, since
/// comparing floats would be a branch, a coin toss that the processor loses.
#[inline]
fn rank(key: f32, ahead: usize) -> i32 {
    // Floats above 0 are in the order of their bits; no bias is so far below. The turn takes the last five of 24 bits; in
    // five bits, whoever stands before the start comes after all others.
    ((key + BIAS_LEAST).to_bits().cast_signed() & !TURNS) | ((ahead as u32).cast_signed() & TURNS)
}

const LANES: usize = 4;
/// How much of more than [`SCAN_MAX`] a pick looks at: a few more than least-loaded, since what is known of each is older.
const WINDOW_BLOCKS: usize = 4;
const WINDOW: usize = WINDOW_BLOCKS * LANES;
/// The part of a rank that says whose turn is earlier: as many as a pick looks at.
const TURNS: i32 = (SCAN_MAX as u32 - 1).cast_signed();
/// As errors, more than any load: a candidate without room is picked only where all are, which the caller looks at.
const NO_ROOM: i32 = i32::MAX;
/// What a bias can lower a key by, at the highest gain: half an excess at once, and one request per core.
const BIAS_LEAST: f32 = 4.0;

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::client::backend::BackendId;
    use crate::client::errors::Forgetting;
    use crate::client::slots::Slot;
    use crate::{Kind, RequestMeta, Rng};

    const NOW: Time = Time::from_secs(1_000);
    const LIMIT: u32 = 6;

    /// Loads, reports of different age, errors and full ones, as chance has it.
    fn candidates(count: usize, rng: &mut Rng) -> Vec<Candidate> {
        let forgetting = Forgetting::new(Duration::from_secs(1), 100);
        let slot = |rng: &mut Rng| {
            let slot = Slot::default();
            (0..rng.below(LIMIT + 1)).for_each(|_| assert!(slot.in_flight.try_start(Kind::Unary, LIMIT)));
            (0..rng.below(4).saturating_sub(2)).for_each(|_| slot.errors.add(NOW, forgetting));
            if rng.below(2) == 0 {
                slot.glance.keep(Time::from_millis(999_000 + u64::from(rng.below(1_000))), rng.below(9), 1);
            }
            Arc::new(slot)
        };
        let named =
            |number: u32, counts| Candidate { backend: BackendId(number.into()), slot: number, since: NOW, counts };
        (0..count as u32).map(|number| named(number, slot(rng))).collect()
    }

    fn views(count: usize, rng: &mut Rng) -> Vec<View> {
        let mut unit = || rng.unit() as f32;
        (0..count).map(|_| View { each: unit(), mean: 3.0 * unit(), fade: 1e-4 * unit(), bias: 2.0 * unit() }).collect()
    }

    #[test]
    fn it_finds_what_a_look_at_one_after_the_other_finds() {
        for seed in 0..2_000 {
            let mut rng = Rng::from_seed(seed);
            let count = 1 + rng.below(70) as usize;
            let start = rng.below(count as u32) as usize;
            let list = candidates(count, &mut rng);
            // For none, for these, or for more that are not among those to pick from.
            let known = [0, count, count + 3][rng.below(3) as usize];
            let views = Views::of(&views(known, &mut rng));
            let among =
                Candidates::new(&list, &RequestMeta::PLAIN, LIMIT, Forgetting::new(Duration::from_secs(1), 100));

            let found = lowest(NOW, &among, &views, start).unwrap();

            let turn_of = |position: usize| (position + count - start) % count;
            // The blocks that are looked at; the last one of all may be shorter.
            let blocks = count.div_ceil(LANES);
            let in_blocks = |position: usize| {
                count <= SCAN_MAX || (position / LANES + blocks - start / LANES) % blocks < WINDOW_BLOCKS
            };
            assert!(in_blocks(found), "seed {seed}");
            let key =
                |position: usize| views.at(position).key(&Look::of(look(NOW, ticks(NOW), &among, &list[position])));
            let in_turn = (0..count).map(|turn| (start + turn) % count);
            let with_room = in_turn.filter(|&position| in_blocks(position) && among.has_room(position));
            match with_room.min_by(|&one, &other| key(one).total_cmp(&key(other))) {
                None => assert!(!among.has_room(found), "seed {seed}"),
                Some(best) => {
                    // What differs in the last bits is equal, and then the turn decides.
                    let is_close = key(found) <= key(best) + 1e-4;
                    assert!(among.has_room(found) && is_close, "seed {seed}: {found} {best}");
                    assert!(key(found) > key(best) || turn_of(found) <= turn_of(best), "seed {seed}: {found} {best}");
                }
            }
        }
    }
}
