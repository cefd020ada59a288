//! `level`: even CPU and short tails, from load reports (A16).
//!
//! Two loops. The fast one is in [`Policy::pick`]: of all candidates the one with the least runnable work on each core.
//! What this client has in flight it knows exactly; what others have there it takes from the last report, and forgets
//! towards the mean as that report ages, so that clients do not all run after the same stale news. The slow one is in
//! [`Policy::refit`] (`level/learned.rs`): a backend that uses more CPU than the mean of the subset falls behind, one that
//! uses less gets ahead, a little more with every turn, until all use the same. What that adds up to is a number of
//! requests per core, so it counts whether or not anybody is idle.
//!
//! Without reports it is least-loaded round robin. Recent errors count as requests on every core.

mod learned;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{Candidates, Policy, PolicyName, SCAN_MAX, next_with_room};
use crate::client::backend::BackendId;
use crate::client::glance::ticks;
use crate::client::picker::{Candidate, Local};
use crate::{InvalidConfig, Rng, Time};
use learned::Learned;

/// Settings of the policy `level`.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig {
    /// How fast uneven CPU is corrected: requests per core by which a backend falls behind in a second, were it to use all of
    /// its CPU and the others none. Higher is even sooner and gives up a little of the tail; 0 looks at queues alone.
    /// Default 0.2.
    pub gain: f64,
}

impl Default for LevelConfig {
    fn default() -> Self {
        LevelConfig { gain: 0.2 }
    }
}

impl LevelConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::unless_in_range("pick.level.gain", self.gain, 0.0, GAIN_MOST)
    }
}

/// Sees the load that all clients make, and how much CPU it is.
#[derive(Clone, Debug)]
pub struct Level {
    learned: Learned,
    /// What a pick needs of it, in the order of the candidates.
    views: Box<[View]>,
}

/// What the slow loop says of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct View {
    /// Load that one request in flight makes: how much of its time it wants a core, over the cores.
    each: f32,
    /// Requests that others have there on average.
    mean: f32,
    /// How much of a report is forgotten in a tick.
    fade: f32,
    /// The load of the request to be placed, which wants a core now, and what makes CPU even.
    bias: f32,
}

impl View {
    /// Nothing is known: one core, nobody else, and no report believed.
    const UNKNOWN: View = View { each: 1.0, mean: 0.0, fade: 1.0, bias: 1.0 };

    /// Runnable requests per core if this one goes there, as far as can be told, and the bias.
    #[inline]
    fn key(&self, look: &Look) -> f32 {
        let left = at_least_zero(1.0 - look.age * self.fade);
        let others = at_least_zero(self.mean + (look.others - self.mean) * left);
        (others + look.own) * self.each + look.errors + self.bias
    }

    /// The key as a number that is lower where the key is; its low half is 0, for the turn among equals.
    #[inline]
    fn rank(&self, look: &Look) -> u64 {
        // Floats above 0 are in the order of their bits; no bias is so far below.
        u64::from((self.key(look) + BIAS_LEAST).to_bits()) << 32
    }
}

/// One candidate with room, as a request meets it.
#[derive(Clone, Copy, Debug)]
struct Look {
    own: f32,
    errors: f32,
    others: f32,
    age: f32,
}

impl Level {
    /// Knows nothing yet.
    pub fn new(config: &LevelConfig) -> Self {
        Level { learned: Learned::new(config.gain), views: Box::default() }
    }

    /// The lowest of those at `positions`, which come `turn` places later than the first, and of `least`.
    #[inline]
    fn lowest_of(
        &self,
        now: (Time, u32),
        among: &Candidates<'_>,
        positions: Range<usize>,
        turn: u64,
        least: u64,
    ) -> u64 {
        let list = among.list().get(positions.clone()).unwrap_or_default();
        // Candidates that came without a refit are not known.
        let views = self.views.get(positions).unwrap_or(&UNKNOWN[..list.len().min(SCAN_MAX)]);
        let (mut turn, mut least) = (turn, least);
        for (candidate, view) in list.iter().zip(views) {
            if let Some(look) = look(now, among, candidate) {
                // As whole numbers: comparing floats would be a branch, a coin toss that the processor loses.
                least = least.min(view.rank(&look) | turn);
            }
            turn += 1;
        }
        least
    }
}

impl Policy for Level {
    fn name(&self) -> &'static str {
        PolicyName::Level.as_str()
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let (count, start) = (among.len(), local.cursor(among.len(), rng));
        let length = if count <= SCAN_MAX { count } else { LEVEL_WINDOW };
        let end = (start + length).min(count);
        let now = (now, ticks(now));
        let least = self.lowest_of(now, among, start..end, 0, FULL);
        let least = self.lowest_of(now, among, 0..length - (end - start), (end - start) as u64, least);
        let position = match start + (least & TURNS) as usize {
            _ if least == FULL => next_with_room(among, start)?,
            later if later < count => later,
            later => later - count,
        };
        local.advance_past(position);
        Some(position)
    }

    fn refit_period(&self) -> Option<Duration> {
        Some(self.learned.period())
    }

    fn refit(&self, now: Time, among: &Candidates<'_>, _rng: &mut Rng) -> Option<Arc<dyn Policy>> {
        let mut learned = self.learned.clone();
        let views = learned.turn(now, among);
        Some(Arc::new(Level { learned, views }))
    }

    fn wants_checked(&self, now: Time, among: &Candidates<'_>, budget: usize, _rng: &mut Rng) -> Vec<BackendId> {
        let told = |position: usize| among.report(position).map_or(Time::ZERO, |(told, _)| told);
        let mut silent: Vec<(Time, BackendId)> = (0..among.len())
            .filter_map(|position| Some((told(position), among.backend(position)?)))
            .filter(|(told, _)| now.since(*told) >= ASKED_AFTER)
            .collect();
        silent.sort_unstable();
        silent.into_iter().map(|(_, backend)| backend).take(budget).collect()
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        let seen = among.list().get(position).and_then(|candidate| look((now, ticks(now)), among, candidate));
        let Some(look) = seen else { return (0.0, "at its limit of requests in flight") };
        // The brain asks also after candidates changed and before the refit that follows.
        let place = among.backend(position).and_then(|backend| self.learned.place_of(backend));
        let view = place.and_then(|place| self.views.get(place)).unwrap_or(&View::UNKNOWN);
        let why = match place {
            _ if look.errors > 0.0 => "recent errors count as requests on every core",
            Some(place) => self.learned.why(place),
            None => "new: taken for average",
        };
        (1.0 / (1.0 + f64::from(view.key(&look).max(0.0))), why)
    }
}

/// One instruction, where `max` would also look for what is no number.
#[inline]
fn at_least_zero(value: f32) -> f32 {
    if value > 0.0 { value } else { 0.0 }
}

/// `None` where it is full.
#[inline]
fn look((now, ticks): (Time, u32), among: &Candidates<'_>, candidate: &Candidate) -> Option<Look> {
    let (own, errors) = among.look(now, candidate)?;
    let glimpse = candidate.counts.glance.at(ticks);
    Some(Look {
        own: own.cast_signed() as f32,
        errors: errors.cast_signed() as f32,
        others: glimpse.others,
        age: glimpse.age,
    })
}

/// As many as a pick ever looks at.
static UNKNOWN: [View; SCAN_MAX] = [View::UNKNOWN; SCAN_MAX];
/// No rank is as high: nobody has room.
const FULL: u64 = u64::MAX;
/// The half of a rank that says whose turn is earlier.
const TURNS: u64 = 0xffff_ffff;
/// What a bias can lower a key by, at the highest gain: half an excess at once, and one request per core.
const BIAS_LEAST: f32 = 4.0;
/// How many of more than [`SCAN_MAX`] a pick looks at: a few more than least-loaded, since what is known of each is older.
const LEVEL_WINDOW: usize = 16;
/// Who has not been heard of for so long is asked. What a probe says of others is as good as the word of an answer, but all
/// that are asked at once answer at once, and clients that hear the same run the same way: so only for CPU, which is slow.
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// Five times the default; stable up to there at 95 % load (scenario level-stable).
const GAIN_MOST: f64 = 1.0;
