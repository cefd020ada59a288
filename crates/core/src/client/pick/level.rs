//! `level`: even CPU and short tails, from load reports (A16).
//!
//! Two loops. The fast one is in [`Policy::pick`]: of all candidates the one with the least runnable work on each core.
//! What this client has in flight it knows exactly; what others have there it takes from the last report, and forgets
//! towards the mean as that report ages, so that clients do not all run after the same stale news. The slow one is in
//! [`Policy::refit`] (`level/learned.rs`): a backend that uses more CPU than the mean of the subset falls behind, one that
//! uses less gets ahead, a little more with every turn, until all use the same. What that adds up to is a number of
//! requests per core, so it counts whether or not anybody is idle.
//!
//! Where nothing fresh is known of the best, all that nothing fresh is known of have turns (`dealt`).
//!
//! Without reports it is least-loaded round robin. Recent errors count as requests in flight.

mod learned;
mod scan;

use std::sync::Arc;
use std::time::Duration;

use super::{Candidates, Policy, PolicyName, next_with_room};
use crate::client::backend::BackendId;
use crate::client::glance::ticks;
use crate::client::picker::Local;
use crate::{InvalidConfig, Rng, Time};
use learned::Learned;
use scan::Views;

/// Settings of the policy `level`.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelConfig {
    /// How fast uneven CPU is corrected: requests per core by which a backend falls behind in a second, were it to use all of
    /// its CPU and the others none. Higher is even sooner and gives up a little of the tail; from 0.05 to 0.5. Default 0.2.
    pub gain: f64,
}

impl Default for LevelConfig {
    fn default() -> Self {
        LevelConfig { gain: 0.2 }
    }
}

impl LevelConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::unless_in_range("pick.level.gain", self.gain, GAIN_LEAST, GAIN_MOST)
    }
}

/// Sees the load that all clients make, and how much CPU it is.
#[derive(Clone, Debug)]
pub struct Level {
    learned: Learned,
    /// What a pick needs of it, in the order of the candidates.
    views: Views,
    /// How often one that nothing fresh is known of is passed over for each request per core that it is behind the lowest.
    behind: f32,
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
        (others + look.own + look.errors) * self.each + self.bias
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

/// What decides between two that nothing fresh is known of.
struct Known {
    is_unknown: bool,
    /// Load of this client's own requests there, errors among them.
    own: f32,
    key: f32,
}

impl Known {
    #[inline]
    fn of(view: &View, look: &Look) -> Known {
        let own = (look.own + look.errors) * view.each;
        Known { is_unknown: look.age * view.fade >= 1.0, own, key: view.key(look) }
    }
}

impl Look {
    #[inline]
    fn of([own, others, age, errors]: [i32; 4]) -> Look {
        Look { own: own as f32, errors: errors as f32, others: others as f32, age: age as f32 }
    }
}

impl Level {
    /// Knows nothing yet.
    pub fn new(config: &LevelConfig) -> Self {
        Level { learned: Learned::new(config.gain), views: Views::default(), behind: BEHIND }
    }

    /// One to take instead of the `lowest`, where nothing fresh is known of that one: those that are as unknown, and have no more
    /// from here, have their turns from `start` on, and are passed over the more often the further they are behind. Were it
    /// always the lowest, a thousand clients that know nothing of each other would send all of a second to whoever used least CPU
    /// in the last.
    fn dealt(&self, now: Time, among: &Candidates<'_>, start: usize, lowest: usize, rng: &mut Rng) -> usize {
        if lowest == start {
            return lowest;
        }
        let ticks = ticks(now);
        let known_of = |position: usize| {
            let look = Look::of(scan::look(now, ticks, among, &among.list()[position]));
            Known::of(&self.views.at(position), &look)
        };
        let least = known_of(lowest);
        if !least.is_unknown {
            return lowest;
        }
        let mut turns = (start..among.len()).chain(0..start).take(TURNS_MOST);
        let passes = |position: &usize| {
            let next = known_of(*position);
            let is_as_good = next.is_unknown && next.own <= least.own;
            let behind = (next.key - least.key) * self.behind;
            is_as_good && (behind <= 0.0 || behind <= rng.unit() as f32)
        };
        turns.find(passes).unwrap_or(lowest)
    }
}

impl Policy for Level {
    fn name(&self) -> &'static str {
        PolicyName::Level.as_str()
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let start = local.cursor(among.len(), rng);
        let position = scan::lowest(now, among, &self.views, start)?;
        let position = self.dealt(now, among, start, position, rng);
        let position = if among.has_room(position) { position } else { next_with_room(among, start)? };
        local.advance_past(position);
        Some(position)
    }

    fn refit_period(&self) -> Option<Duration> {
        Some(self.learned.period())
    }

    fn refit(&self, now: Time, among: &Candidates<'_>, _rng: &mut Rng) -> Option<Arc<dyn Policy>> {
        let mut learned = self.learned.clone();
        let views = Views::of(&learned.turn(now, among));
        let behind = BEHIND * (learned.own_share() / CROWD_SHARE).max(1.0) as f32;
        Some(Arc::new(Level { learned, views, behind }))
    }

    fn wants_checked(&self, now: Time, among: &Candidates<'_>, budget: usize, _rng: &mut Rng) -> Vec<BackendId> {
        let mut silent = among.unheard(now, ASKED_AFTER);
        silent.truncate(budget);
        silent
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        let Some(candidate) = among.list().get(position).filter(|candidate| among.open(candidate).1) else {
            return (0.0, "at its limit of requests in flight");
        };
        let look = Look::of(scan::look(now, ticks(now), among, candidate));
        // The brain asks also after candidates changed and before the refit that follows.
        let place = among.backend(position).and_then(|backend| self.learned.place_of(backend));
        let view = place.map_or(View::UNKNOWN, |place| self.views.at(place));
        let why = match place {
            _ if look.errors > 0.0 => "recent errors count as requests in flight",
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

/// Who has not been heard of for so long is asked. What a probe says of others is as good as the word of an answer, but all
/// that are asked at once answer at once, and clients that hear the same run the same way: so only for CPU, which is slow.
const ASKED_AFTER: Duration = Duration::from_secs(1);
/// How many have a turn before the lowest is taken all the same: with fewer it would get more than its share.
const TURNS_MOST: usize = 4;
/// How often one is passed over for each request per core that it is behind the lowest. At 0.5 CPU is even too late, at 4 clients
/// begin to run together again (`scenarios/level-many.toml`).
const BEHIND: f32 = 2.0;
/// A client that sends at most so much of what its backends get is one of a crowd. Whoever sends more sees its own requests pile up where
/// it goes too often, and keeps closer to the lowest.
const CROWD_SHARE: f64 = 0.005;
/// Queues alone are not enough for clients that rarely hear of them: without any gain a thousand callers of a request a second leave
/// lines of half a minute on slow machines at 95 % load; with this they are as short as with the default (scenario stable-rare).
const GAIN_LEAST: f64 = 0.05;
/// Stable up to there at 95 % load, also with hundreds of clients (scenarios level-stable and stable-level); at twice that 300 clients swing.
const GAIN_MOST: f64 = 0.5;
