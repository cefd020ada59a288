//! How much of its requests a client may send to one cluster: a share, and why.

use super::ClustersConfig;
use super::level::Vessel;
use super::memory::{Backlog, Memory};

/// The most a cluster may get now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Room {
    /// As a share of this client's requests; 1 where there is room for all.
    pub(super) share: f64,
    pub(super) why: &'static str,
}

/// What is asked of the rule.
pub(super) struct Asked<'a> {
    pub(super) config: &'a ClustersConfig,
    pub(super) memory: &'a Memory,
    /// What it gets now.
    pub(super) share: f64,
    /// Processors that the requests of all clients like this one take, wherever they go.
    pub(super) demand: Option<f64>,
    /// Seconds since the last decision.
    pub(super) passed: f64,
    /// Whether it is the nearest.
    pub(super) is_home: bool,
    /// How full the nearest is.
    pub(super) home_load: Option<f64>,
    /// What tasks of the nearest say that they fail: what fails everywhere is no reason to stay away.
    pub(super) home_failing: f64,
    /// What of the room elsewhere is this client's and of those like it: others that are full want it too.
    pub(super) part: f64,
}

impl Asked<'_> {
    /// The nearest cluster: most of its load comes from clients like this one, so it falls in proportion to the share.
    pub(super) fn at_home(&self) -> Room {
        let memory = self.memory;
        if memory.last.usable == 0 {
            return Room { share: 0.0, why: NOBODY };
        }
        let ClustersConfig { full, margin, .. } = *self.config;
        // Left at one load and come back to at a lower one: what is at the edge stays where it is.
        let is_home = self.share >= ALL;
        let most = if is_home { full } else { full - margin / 2.0 };
        let room = match memory.load() {
            None => Room { share: 1.0, why: UNKNOWN_HOME },
            Some(load) => {
                let share = (memory.share_reported() * most / load.max(f64::MIN_POSITIVE)).max(self.added(load, most));
                let why = if load > most { FULL } else { WOULD_BE_FULL };
                if share >= 1.0 { Room { share: 1.0, why: HOME } } else { Room { share, why } }
            }
        };
        let room = self.not_into_trouble(most, room);
        // A trickle tells when it has healed; nothing else can.
        Room { share: room.share.max(TRICKLE), ..room }
    }

    /// A cluster farther away: its load is mostly that of others, so room is counted in processors.
    pub(super) fn elsewhere(&self) -> Room {
        let memory = self.memory;
        if memory.last.usable == 0 {
            return Room { share: 0.0, why: NOBODY };
        }
        let most = self.most_elsewhere();
        let Some(load) = memory.load() else {
            return self.not_into_trouble(most, Room { share: self.share + STEP_UNKNOWN, why: UNKNOWN });
        };
        let room = self.added(load, most) - memory.share_reported();
        let part = if room > 0.0 { self.part } else { 1.0 };
        let share = memory.share_reported() + room * part;
        let why = if room > 0.0 { ROOM } else { FULL };
        self.not_into_trouble(most, Room { share: share.clamp(0.0, 1.0), why })
    }

    /// The same cluster as one that is levelled with, where home would be beyond its capacity otherwise. `share` is what it
    /// gets in any case.
    pub(super) fn vessel(&self, share: f64, top: f64) -> Option<Vessel> {
        let memory = self.memory;
        let load = memory.mean_load().filter(|_| memory.last.usable > 0 && memory.capacity() > 0.0)?;
        let limit = self.not_into_trouble(f64::midpoint(top, 1.0), Room { share: 1.0, why: ROOM }).share;
        let demand = self.demand.unwrap_or_else(|| memory.capacity()).max(f64::MIN_POSITIVE);
        let processors = memory.capacity() / demand;
        Some(Vessel { share, limit, load, reported: memory.share_reported(), processors, part: self.part })
    }

    /// How full a cluster may be for requests from elsewhere: less than for those at home there, but for those whose own
    /// cluster is beyond its capacity as much. Between the two it rises with the load at home, so that it does not swing.
    fn most_elsewhere(&self) -> f64 {
        let ClustersConfig { full, margin, .. } = *self.config;
        let calm = self.home_load.map_or(1.0, |load| (1.0 - load) / (1.0 - full).max(NARROWEST));
        full - margin * calm.clamp(0.0, 1.0)
    }

    /// The share that would fill it up to `most`, if everybody like this one adds or takes away as much.
    fn added(&self, load: f64, most: f64) -> f64 {
        let memory = self.memory;
        let demand = self.demand.unwrap_or_else(|| memory.capacity()).max(f64::MIN_POSITIVE);
        memory.share_reported() + (most - load) * memory.evenness() * memory.capacity() / demand
    }

    /// What is certain and quick, whatever the reports say: refusals, failures, and work that piles up.
    fn not_into_trouble(&self, most: f64, room: Room) -> Room {
        let memory = self.memory;
        let mut least = room;
        let mut limit = |share: f64, why: &'static str| {
            if share < least.share {
                least = Room { share, why };
            }
        };
        let (refused, failed) = (memory.refused_beyond_chance(), memory.failed_share());
        if refused > REFUSED_HIGH {
            limit(memory.share_lately() * (1.0 - refused), REFUSES);
        }
        if memory.load().is_some_and(|load| load > most) && failed > REFUSED_HIGH {
            limit(memory.share_lately() * (1.0 - failed), FAILS);
        }
        if let Some(offered) = memory.offered_lately().filter(|&offered| offered > most) {
            limit(memory.share_pressed() * most / offered, FILLS);
        }
        // Load falls at once where requests fail fast, and the share of errors that tasks report rises slowly.
        if memory.last.failing.is_some_and(|failing| failing > self.home_failing + REFUSED_HIGH) {
            limit(self.share, FAILS);
        }
        // At home it is known what is begun and what is completed, which says how much is too much.
        match memory.backlog() {
            _ if self.is_home && memory.offered_lately().is_some() => {}
            Backlog::Grows => limit(self.share * (1.0 - (LEAVE_RATE * self.passed).min(0.5)), PILES_UP),
            Backlog::Falls => limit(self.share, PILES_UP),
            Backlog::None => {}
        }
        least
    }
}

/// Nothing of this is worth telling apart from everything.
pub(super) const ALL: f64 = 0.999;
/// What a cluster that is nearest and usable always gets.
const TRICKLE: f64 = 0.01;
/// What may go where nobody says how full it is, more with each decision.
const STEP_UNKNOWN: f64 = 0.02;
/// `full` may be 1: then any load beyond it counts.
const NARROWEST: f64 = 0.01;
/// Beside what chance refuses near full load (`refused_beyond_chance`); at home that is one in a hundred.
const REFUSED_HIGH: f64 = 0.02;
/// Share that leaves in a second while work piles up: what is 40 % too much is gone in a second.
const LEAVE_RATE: f64 = 0.35;

const HOME: &str = "nearest, and has room";
const ROOM: &str = "has room for what nearer ones do not take";
const FULL: &str = "its most loaded tasks are full";
const WOULD_BE_FULL: &str = "its most loaded tasks would be full with all requests";
const REFUSES: &str = "refuses";
const FAILS: &str = "fails, which counts as more than full";
const FILLS: &str = "fills up";
const PILES_UP: &str = "work piles up there";
const NOBODY: &str = "no usable backend";
const UNKNOWN_HOME: &str = "nearest; nothing is known of its load";
const UNKNOWN: &str = "nothing is known of its load";
