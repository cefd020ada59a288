//! Ways to draw candidates that several baselines share.

use evenkeel_core::Rng;
use evenkeel_core::client::pick::Candidates;

/// Two different positions below `count`, every pair equally likely; the same twice where there is only one.
pub(super) fn two_of(count: usize, rng: &mut Rng) -> (usize, usize) {
    let count = count as u32;
    let first = rng.below(count);
    let step = 1 + rng.below(count.saturating_sub(1));
    let second = if count > 1 { (first + step) % count } else { first };
    (first as usize, second as usize)
}

/// One of those with room, all equally likely: where what was drawn is full.
pub(super) fn any_with_room(among: &Candidates<'_>, rng: &mut Rng) -> Option<usize> {
    let with_room = || (0..among.len()).filter(|&position| among.has_room(position));
    let count = with_room().count() as u32;
    if count == 0 {
        return None;
    }
    with_room().nth(rng.below(count) as usize)
}

/// The one of two with the lower score, the first of equals; a score of `None` is a full one.
pub(super) fn lower_of_two<S: PartialOrd>(
    among: &Candidates<'_>,
    (first, second): (usize, usize),
    rng: &mut Rng,
    mut score: impl FnMut(usize) -> Option<S>,
) -> Option<usize> {
    match (score(first), score(second)) {
        (Some(one), Some(other)) => Some(if other < one { second } else { first }),
        (Some(_), None) => Some(first),
        (None, Some(_)) => Some(second),
        (None, None) => any_with_room(among, rng),
    }
}

/// The lowest score of [`SAMPLE`] different candidates drawn at random, the first drawn of equals.
///
/// Stands for the 16 probes that a client of the Prequal testbed chooses among.
pub(super) fn lowest_of_sample(
    among: &Candidates<'_>,
    rng: &mut Rng,
    mut score: impl FnMut(usize) -> Option<f64>,
) -> Option<usize> {
    let count = among.len();
    let mut drawn = [0; SAMPLE];
    let size = SAMPLE.min(count);
    let start = rng.below(count as u32) as usize;
    let mut lowest: Option<(f64, usize)> = None;
    for place in 0..size {
        // Where all are looked at, the order still begins anywhere, so that equals take turns.
        let position = if count <= SAMPLE { (start + place) % count } else { another(&drawn[..place], count, rng) };
        drawn[place] = position;
        if let Some(score) = score(position)
            && lowest.is_none_or(|(least, _)| score < least)
        {
            lowest = Some((score, position));
        }
    }
    lowest.map(|(_, position)| position).or_else(|| any_with_room(among, rng))
}

fn another(drawn: &[usize], count: usize, rng: &mut Rng) -> usize {
    loop {
        let position = rng.below(count as u32) as usize;
        if !drawn.contains(&position) {
            return position;
        }
    }
}

/// Size of the probe pool of the Prequal testbed.
const SAMPLE: usize = 16;
