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
//! that are nearly full never trade theirs. And of the room elsewhere only half is taken before looking again, unless
//! nobody else can take it. Where all are full everything stays at home: each sheds its own.

mod config;
mod memory;
mod reading;
mod room;
mod shares;

use std::sync::Arc;
use std::time::Duration;

use crate::{InvalidConfig, Mode, Rng, Time};
pub use config::ClustersConfig;
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
    /// Processors that the requests of all clients like this one take, wherever they go.
    demand: Option<f64>,
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
            demand: None,
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
        if self.config.mode == Mode::Off && config.mode != Mode::Off {
            // Nothing was read meanwhile: what was known is of another time.
            self.clusters = (0..self.clusters.len()).map(Cluster::new).collect();
            (self.demand, self.decided, self.wants_news, self.due) = (None, None, false, now);
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
    /// [`Spill::poll_timeout`], and at once when a cluster has lost its last usable backend.
    pub fn handle_readings(&mut self, now: Time, readings: &[Reading]) {
        debug_assert_eq!(readings.len(), self.clusters.len(), "one reading for each cluster");
        let in_force: Vec<f64> = self.in_force().collect();
        // A clock that was set back makes no time pass.
        // Nor does a pause in which nobody looked: after it things go on a step at a time.
        let most = (STEPS_AT_ONCE * self.config.period).max(PASSED_LEAST);
        let passed = self.decided.map_or(0.0, |then| now.since(then).min(most).as_secs_f64());
        let mut is_used = false;
        for ((cluster, &reading), share) in self.clusters.iter_mut().zip(readings).zip(in_force) {
            is_used |= reading.ended != cluster.memory.last.ended;
            cluster.memory.observe(now, reading, share);
        }
        self.learn_demand();
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
            Mode::On => Shares::new(self.clusters.iter().map(|cluster| cluster.share)),
            Mode::Off | Mode::Observe => Shares::new((0..self.clusters.len()).map(|place| f64::from(place == 0))),
        };
        if self.published.as_ref().is_some_and(|published| **published == shares) {
            return None;
        }
        let shares = Arc::new(shares);
        self.published = Some(Arc::clone(&shares));
        Some(shares)
    }

    /// Each cluster and why it gets what it gets, nearest first.
    pub fn snapshot(&self) -> impl ExactSizeIterator<Item = ClusterSnapshot> {
        let in_force: Vec<f64> = self.in_force().collect();
        self.clusters.iter().zip(in_force).map(|(cluster, in_force)| ClusterSnapshot {
            share: cluster.share,
            in_force,
            load: cluster.memory.load(),
            errors: (cluster.memory.refused_share() + cluster.memory.failed_share()).min(1.0),
            capacity: cluster.memory.capacity(),
            usable: cluster.memory.last.usable,
            why: cluster.why,
        })
    }

    /// What is dealt by now: with nothing published, all to the nearest. The nearest usable one stands in for a cluster
    /// that has nobody, as [`Shares::pick`] has it.
    fn in_force(&self) -> impl Iterator<Item = f64> {
        let published = self.published.clone();
        (0..self.clusters.len()).map(move |place| match &published {
            None => f64::from(place == 0),
            Some(shares) => shares.iter().nth(place).unwrap_or(0.0),
        })
    }

    /// What all that is asked for by clients like this one takes, from what the part of it at home takes there.
    fn learn_demand(&mut self) {
        let home = &self.clusters[0].memory;
        let share = home.share_reported();
        // Answers that fail cost little, and a small part says little of the whole: then what was learned holds on.
        let can_tell = share >= SHARE_TOLD && home.failed_share() + home.refused_share() < ERRORS_TOLD;
        if let Some(used) = home.used().filter(|used| can_tell && *used > 0.0) {
            self.demand = Some(used / share);
        }
    }

    fn decide(&mut self, passed: f64) {
        let mode = self.config.mode;
        let rooms: Vec<Room> = (0..self.clusters.len()).map(|place| self.room_of(place, passed)).collect();
        let usable = |cluster: &Cluster| cluster.memory.last.usable > 0;
        let mut left = 1.0;
        for (place, (cluster, room)) in self.clusters.iter_mut().zip(&rooms).enumerate() {
            // Home only step by step: those who come back find what the others have not yet left.
            let step = if place == 0 { cluster.share + self.config.home_rate * passed } else { 1.0 };
            let share = room.share.min(step.max(START)).min(left);
            cluster.share = if place > 0 && share < LEAST { 0.0 } else { share };
            cluster.why = room.why;
            left -= cluster.share;
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

    fn room_of(&self, place: usize, passed: f64) -> Room {
        let cluster = &self.clusters[place];
        let asked = Asked {
            config: &self.config,
            memory: &cluster.memory,
            share: cluster.share,
            demand: self.demand,
            passed,
            home_load: self.clusters[0].memory.load(),
            home_failing: self.clusters[0].memory.last.failing.unwrap_or(0.0),
            clusters: self.clusters.len(),
        };
        if place == 0 { asked.at_home() } else { asked.elsewhere() }
    }
}

/// A decision that comes late is worth so many that were missed, or so long, at most.
const STEPS_AT_ONCE: u32 = 2;
const PASSED_LEAST: Duration = Duration::from_secs(1);
/// Share of `full` below which nobody needs to know how the others are.
const CALM: f64 = 0.5;
/// Below this the part at home says little of the whole.
const SHARE_TOLD: f64 = 0.2;
/// With more errors than this, what is used says little of what is asked for.
const ERRORS_TOLD: f64 = 0.05;
/// Less is not worth the way.
const LEAST: f64 = 0.005;
/// What may come home at once.
const START: f64 = 0.02;
