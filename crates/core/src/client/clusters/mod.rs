//! Clusters, nearest first, never beyond what they can do (B19).
//!
//! One [`Client`](super::Client) for each cluster: subsets, health, limits and throttles stay as they are. Above them
//! [`Spill`] decides, a few times a second, which share of the requests each cluster gets, and [`Shares`] deals requests
//! by that. The nearest cluster gets everything until its *most loaded* tasks are full; what is too much goes to the
//! next that has room, counted in processors. An error counts as more than full load: a cluster that sheds or fails
//! looks idle, and would otherwise draw traffic.
//!
//! Three things keep many clients with old reports from swinging. A share is judged by the load of the time at which it
//! was in force (`memory.rs`). A cluster is full sooner for requests from elsewhere than for those from home, so two
//! that are nearly full never trade theirs. And the room elsewhere is divided by those who are seen to want it. Where home
//! would be beyond its capacity and others are not, all are brought to one level (`level.rs`); where all are, everything
//! stays at home: each sheds its own.

mod config;
mod demand;
mod level;
mod memory;
mod past;
mod reading;
mod room;
mod shares;

use std::sync::Arc;
use std::time::Duration;

use crate::{InvalidConfig, Mode, Rng, Time};
pub use config::ClustersConfig;
use demand::Demand;
use level::{Bounds, Vessel, levelled};
use memory::Memory;
pub use reading::Reading;
use room::{ALL, Asked, Room};
pub use shares::{CLUSTERS_MOST, Shares, SharesLocal};

/// The slow brain above the clients of several clusters.
///
/// The driver calls [`Spill::handle_readings`] at [`Spill::poll_timeout`], publishes what [`Spill::poll_shares`] gives, and
/// lets each client [ask for news](super::Client::freshen) where this [wants some](Spill::wants_news).
///
/// ```
/// use evenkeel_core::client::{ClustersConfig, Reading, SharesLocal, Spill};
/// use evenkeel_core::{Rng, Time};
///
/// let (now, mut rng) = (Time::ZERO, Rng::from_seed(1));
/// let mut spill = Spill::new(now, ClustersConfig::default(), 2, &mut rng)?;
/// let shares = spill.poll_shares().expect("a new one has shares");
/// assert_eq!(shares.pick(&mut SharesLocal::default(), |_| true, &mut rng), Some(0));
///
/// // Everything that was to be used of the nearest cluster is gone.
/// let there = Reading { usable: 20, wanted: 20, known: 20, ..Reading::default() };
/// spill.handle_readings(now, &[Reading { usable: 0, ..there }, there]);
/// assert_eq!(spill.poll_shares().map(|shares| shares.iter().collect()), Some(vec![0.0, 1.0]));
/// # Ok::<(), evenkeel_core::InvalidConfig>(())
/// ```
#[derive(Debug)]
pub struct Spill {
    config: ClustersConfig,
    clusters: Vec<Cluster>,
    demand: Demand,
    due: Time,
    decided: Option<Time>,
    published: Option<Arc<Shares>>,
    changed: bool,
    wants_news: bool,
}

#[derive(Debug)]
struct Cluster {
    memory: Memory,
    /// What it should get.
    share: f64,
    why: &'static str,
}

impl Cluster {
    /// Nothing is known, and the nearest gets everything.
    fn new(place: usize) -> Self {
        let share = if place == 0 { 1.0 } else { 0.0 };
        Cluster { memory: Memory::new(place == 0), share, why: "nothing known yet" }
    }
}

/// One cluster in a client's eyes, nearest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterSnapshot {
    /// Share of requests that it should get.
    pub share: f64,
    /// Share that it gets: another one where the mode is not on.
    pub in_force: f64,
    /// How full it is: utilization of its most loaded tasks, with errors as more than full.
    pub load: Option<f64>,
    /// Share of attempts of late that it refused or failed.
    pub errors: f64,
    /// Processors of it that can be used; in tasks where it does not say how many processors one has.
    pub capacity: f64,
    /// Backends of it that this client can pick.
    pub usable: u32,
    /// Why the share is what it is.
    pub why: &'static str,
}

impl Spill {
    /// For so many clusters, nearest first. `rng` says when in the period it decides: clients do not decide in step.
    pub fn new(now: Time, config: ClustersConfig, clusters: usize, rng: &mut Rng) -> Result<Self, InvalidConfig> {
        config.check()?;
        InvalidConfig::unless_in_range("clusters", clusters, 1, CLUSTERS_MOST)?;
        let due = now + config.period.mul_f64(rng.unit());
        Ok(Spill {
            config,
            clusters: (0..clusters).map(Cluster::new).collect(),
            demand: Demand::default(),
            due,
            decided: None,
            published: None,
            changed: true,
            wants_news: false,
        })
    }

    /// Other settings from now on. An error leaves everything as it was.
    pub fn handle_config(&mut self, now: Time, config: ClustersConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        if (self.config.mode == Mode::Off) != (config.mode == Mode::Off) {
            // Nothing is remembered while it is off: what was known is of another time.
            self.clusters = (0..self.clusters.len()).map(Cluster::new).collect();
            (self.demand, self.decided, self.wants_news, self.due) = (Demand::default(), None, false, now);
        }
        self.due = self.due.min(now + config.period);
        self.config = config;
        self.changed = true;
        Ok(())
    }

    /// When to call [`Spill::handle_readings`]; never while it is off.
    pub fn poll_timeout(&self) -> Option<Time> {
        (self.config.mode != Mode::Off).then_some(self.due)
    }

    /// What the client of each cluster [reads](super::Client::reading) now, nearest first. To be called at
    /// [`Spill::poll_timeout`], and at once when a cluster has lost its last usable backend. While it is off, which has no
    /// timeout, only for [`Spill::snapshot`] to know who is usable.
    pub fn handle_readings(&mut self, now: Time, readings: &[Reading]) {
        debug_assert_eq!(readings.len(), self.clusters.len(), "one reading for each cluster");
        if self.config.mode == Mode::Off {
            // Nothing is decided on it: for those who look.
            self.clusters.iter_mut().zip(readings).for_each(|(cluster, &reading)| cluster.memory.last = reading);
            return;
        }
        let in_force = self.in_force();
        // A clock that was set back makes no time pass.
        // Nor does a pause in which nobody looked: after it things go on a step at a time.
        let most = (STEPS_AT_ONCE * self.config.period).max(PASSED_LEAST);
        let passed = self.decided.map_or(0.0, |then| now.since(then).min(most).as_secs_f64());
        let (mut is_used, mut begun) = (false, 0);
        for ((cluster, &reading), share) in self.clusters.iter_mut().zip(readings).zip(in_force) {
            is_used |= reading.ended != cluster.memory.last.ended;
            begun += reading.begun.saturating_sub(cluster.memory.last.begun);
            cluster.memory.observe(now, reading, share);
        }
        self.demand.count(now, begun);
        let elapsed = self.decided.map_or(Duration::ZERO, |then| now.since(then));
        self.demand.learn(elapsed, &self.clusters[0].memory);
        self.decide(passed);
        let home = &self.clusters[0];
        let is_calm = home.memory.load().is_some_and(|load| load < CALM * self.config.full) && home.share >= ALL;
        self.wants_news = is_used && !is_calm;
        (self.decided, self.due) = (Some(now), now + self.config.period);
        self.changed = true;
    }

    /// Whether the other clusters' loads matter now: then each client is to [ask](super::Client::freshen) some backends. Not
    /// while nothing is asked for, nor while the nearest is far from full.
    pub fn wants_news(&self) -> bool {
        self.wants_news
    }

    /// The shares to be published, if they may have changed since the last.
    pub fn poll_shares(&mut self) -> Option<Arc<Shares>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        let shares = match self.config.mode {
            Mode::On => Shares::new(self.clusters.iter().map(|cluster| cluster.share))
                .with_spare((0..self.clusters.len()).map(|place| self.has_spare(place))),
            Mode::Off | Mode::Observe => Shares::new((0..self.clusters.len()).map(|place| f64::from(place == 0))),
        };
        if self.published.as_ref().is_some_and(|published| **published == shares) {
            return None;
        }
        let shares = Arc::new(shares);
        self.published = Some(Arc::clone(&shares));
        Some(shares)
    }

    /// Whether it takes what another cluster's limits leave no place for: while nothing says that it is full.
    fn has_spare(&self, place: usize) -> bool {
        let memory = &self.clusters[place].memory;
        let most = if place == 0 { self.config.full } else { self.config.full - self.config.margin };
        memory.last.usable > 0 && memory.load().is_none_or(|load| load < most)
    }

    /// Each cluster and why it gets what it gets, nearest first.
    pub fn snapshot(&self) -> impl ExactSizeIterator<Item = ClusterSnapshot> {
        self.clusters.iter().zip(self.in_force()).map(|(cluster, in_force)| ClusterSnapshot {
            share: cluster.share,
            in_force,
            load: cluster.memory.load(),
            errors: (cluster.memory.refused_share() + cluster.memory.failed_share()).min(1.0),
            capacity: cluster.memory.capacity(),
            usable: cluster.memory.last.usable,
            why: if self.config.mode == Mode::Off { IS_OFF } else { cluster.why },
        })
    }

    /// What is dealt by now, nearest first: with nothing published, all to the nearest. The nearest usable one stands in for a
    /// cluster that has nobody, as [`Shares::pick`] has it.
    fn in_force(&self) -> Vec<f64> {
        let is_usable = |cluster: &Cluster| cluster.memory.last.usable > 0;
        let stands_in = self.clusters.iter().position(is_usable);
        let mut in_force = vec![0.0; self.clusters.len()];
        for (place, cluster) in self.clusters.iter().enumerate() {
            let dealt = match &self.published {
                None => f64::from(place == 0),
                Some(shares) => shares.iter().nth(place).unwrap_or(0.0),
            };
            let takes = if is_usable(cluster) { place } else { stands_in.unwrap_or(place) };
            in_force[takes] += dealt;
        }
        in_force
    }

    fn decide(&mut self, passed: f64) {
        let mode = self.config.mode;
        let before: Vec<f64> = self.clusters.iter().map(|cluster| cluster.share).collect();
        let rooms: Vec<Room> = (0..self.clusters.len()).map(|place| self.room_of(place, passed)).collect();
        let usable = |cluster: &Cluster| cluster.memory.last.usable > 0;
        let mut left = 1.0;
        for (place, (cluster, room)) in self.clusters.iter_mut().zip(&rooms).enumerate() {
            // Home only step by step: those who come back find what the others have not yet left.
            let step = if place == 0 { cluster.share + self.config.home_rate * passed } else { 1.0 };
            let share = room.share.min(step.max(START)).min(left);
            cluster.why = if place == 0 && share < room.share { COMES_HOME } else { room.why };
            cluster.share = if place > 0 && share < LEAST { 0.0 } else { share };
            left -= cluster.share;
        }
        if left > 0.0 {
            left -= self.level(left, &before, passed);
        }
        if left > 0.0 {
            let capacity: f64 = self.clusters.iter().filter(|one| usable(one)).map(|one| one.memory.capacity()).sum();
            if usable(&self.clusters[0]) || capacity <= 0.0 {
                self.clusters[0].share += left;
            } else {
                let all = self.clusters.iter_mut().filter(|one| one.memory.last.usable > 0);
                all.for_each(|one| one.share += left * one.memory.capacity() / capacity);
            }
        }
        let sum: f64 = self.clusters.iter().map(|cluster| cluster.share).sum();
        debug_assert!((sum - 1.0).abs() < 1e-9 || mode == Mode::Off, "shares add up to {sum}");
        if self.clusters[0].share >= ALL {
            self.clusters.iter_mut().for_each(|cluster| cluster.share = 0.0);
            self.clusters[0].share = 1.0;
        }
    }

    /// Where home would be near its capacity or beyond it with what nobody has room for, all are brought to one level. Says how
    /// much of it that places. `before` is what each got until now.
    fn level(&mut self, left: f64, before: &[f64], passed: f64) -> f64 {
        let Some(demand) = self.home_demand().filter(|_| self.clusters[0].memory.last.usable > 0) else { return 0.0 };
        let full = self.config.full;
        let bounds =
            Bounds { from: full + LEVELLED_FROM * (1.0 - full), top: TOP.max(full), margin: self.config.margin };
        if (self.clusters[0].share + left) * demand <= bounds.from {
            return 0.0;
        }
        let part = self.part(Memory::mean_load, f64::midpoint(bounds.from, bounds.top), bounds.top);
        let vessel = |place: usize| {
            let cluster = &self.clusters[place];
            let none =
                Vessel { share: cluster.share, limit: 0.0, load: 1.0, reported: 0.0, processors: 0.0, part: 0.0 };
            Asked { part, share: before[place], ..self.asked(place, passed) }
                .vessel(cluster.share, bounds.top)
                .unwrap_or(none)
        };
        let others: Vec<Vessel> = (1..self.clusters.len()).map(vessel).collect();
        let mut placed = 0.0;
        for (cluster, share) in self.clusters[1..].iter_mut().zip(levelled(demand, &others, bounds)) {
            let more = (share - cluster.share).min(left - placed);
            if more > 0.0 {
                cluster.share += more;
                cluster.why = LEVEL;
                placed += more;
            }
        }
        placed
    }

    /// What would be asked of the nearest over what it can do, if everything stayed there.
    fn home_demand(&self) -> Option<f64> {
        let home = &self.clusters[0].memory;
        let shares = [home.share_reported(), home.share_pressed(), home.share_lately()];
        if shares.into_iter().all(|share| share >= PART_TOLD) {
            return home.asked_for_all();
        }
        let more = (1.0 - home.share_reported()) * self.demand.processors()? / home.capacity().max(f64::MIN_POSITIVE);
        Some(home.mean_load()? + more)
    }

    /// What of the room elsewhere is for clients like this one, where clusters beyond these loads look for room too.
    fn part(&self, load: impl Fn(&Memory) -> Option<f64>, from: f64, to: f64) -> f64 {
        let others = self.clusters[1..].iter().filter_map(|other| load(&other.memory));
        let looking = others.map(|load| ((load - from) / (to - from).max(NARROWEST)).clamp(0.0, 1.0));
        1.0 / (1.0 + looking.sum::<f64>())
    }

    fn room_of(&self, place: usize, passed: f64) -> Room {
        let asked = self.asked(place, passed);
        if place == 0 { asked.at_home() } else { asked.elsewhere() }
    }

    fn asked(&self, place: usize, passed: f64) -> Asked<'_> {
        let cluster = &self.clusters[place];
        Asked {
            config: &self.config,
            memory: &cluster.memory,
            share: cluster.share,
            demand: self.demand.processors(),
            passed,
            is_home: place == 0,
            home_load: self.clusters[0].memory.load(),
            home_failing: self.clusters[0].memory.last.failing.unwrap_or(0.0),
            part: self.part(Memory::load, self.config.full, f64::midpoint(self.config.full, 1.0)),
        }
    }
}

/// A decision that comes late is worth so many that were missed, or so long, at most.
const STEPS_AT_ONCE: u32 = 2;
const PASSED_LEAST: Duration = Duration::from_secs(1);
/// Share of `full` below which nobody needs to know how the others are.
const CALM: f64 = 0.5;
/// Below this the part at home says little of the whole.
const PART_TOLD: f64 = 0.2;
/// How far on the way from `full` to 1 the nearest is left alone while others have no room below `full`. Half way a cluster of
/// 60 cores was asked for 1.055 of its capacity in some second with one of 40 seeds, by chance and what is not seen in time.
const LEVELLED_FROM: f64 = 1.0 / 3.0;
/// Nobody is brought beyond this by requests from elsewhere: what is left is for what is not seen in time. At 0.97 the nearest
/// alone took what all were asked for by chance: where 60 cores are left beside 240, a hundredth of all is 5 % of it.
const TOP: f64 = 0.98;
const NARROWEST: f64 = 0.01;
const IS_OFF: &str = "spilling is off";
const COMES_HOME: &str = "nearest, and comes home little by little";
const LEVEL: &str = "has more room than the nearest, which is near its capacity or beyond it";
/// Less is not worth the way.
const LEAST: f64 = 0.005;
/// What may come home at once.
const START: f64 = 0.02;
