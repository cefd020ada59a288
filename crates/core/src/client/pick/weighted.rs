//! Weighted round robin (A15): in proportion to what each backend can do, corrected until all are equally used.
//!
//! A backend's capability is what it answers well for what it uses: successes a second over utilization, errors counting
//! as use. That alone is the cost of a request, the same on equal machines however many clients they have, so it repairs
//! neither small subsets nor unequal clients. Hence a slow loop multiplies each weight by a correction that shrinks
//! while the backend is used more than the mean of this client's backends, and grows while it is used less. All clients
//! see the same utilizations and move by the same share, so together they move no faster than one.
//!
//! Weights are made in [`Policy::refit`]; a pick goes round, and a backend with half of the largest weight takes every
//! second turn (`weighted/turns.rs`). What a backend is thought to be able to do is in `weighted/learned.rs`.

mod learned;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use super::{Candidates, Policy, PolicyName, next_with_room};
use crate::client::backend::BackendId;
use crate::client::picker::Local;
use crate::{InvalidConfig, Rng, Time};
use learned::Learned;
use turns::Turns;

/// Settings of the policy `weighted`.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedConfig {
    /// How often weights are made anew. More often follows sooner and costs more. Default 1 s.
    pub every: Duration,
    /// How long a backend's reports must have come before they count: the first ones of a process say little. All are dealt
    /// alike meanwhile, so at most 10 s. Default 2 s.
    pub blackout: Duration,
    /// How long a report counts of a backend that was asked since and said nothing; that of one that was not asked counts for an hour.
    /// From 30 s to an hour. Default 1 min.
    pub expiry: Duration,
    /// What a backend all of whose answers are errors counts as, in whole utilizations on top of its own. Higher avoids
    /// failing backends more; from 0 to 1. Default 1.0.
    pub error_penalty: f64,
    /// How long a backend that has just become usable takes to its full weight, in a straight line from a tenth of it;
    /// zero gives it all at once. Default 10 s.
    pub slow_start: Duration,
    /// By which share of a backend's deviation from the mean utilization its weight is corrected in a second. Higher
    /// evens out sooner and follows chance more; zero leaves weights at capability. Default 0.2.
    pub correction: f64,
}

impl Default for WeightedConfig {
    fn default() -> Self {
        WeightedConfig {
            every: Duration::from_secs(1),
            blackout: Duration::from_secs(2),
            expiry: Duration::from_secs(60),
            error_penalty: 1.0,
            slow_start: Duration::from_secs(10),
            correction: 0.2,
        }
    }
}

impl WeightedConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let seconds = Duration::from_secs;
        InvalidConfig::unless_in_range("pick.weighted.every", self.every, Duration::from_millis(100), seconds(10))?;
        // A blackout as long as the expiry never ends for callers that pause: round robin, which diverges near full load.
        InvalidConfig::unless_in_range("pick.weighted.blackout", self.blackout, Duration::ZERO, seconds(10))?;
        InvalidConfig::unless_in_range("pick.weighted.expiry", self.expiry, EXPIRY_LEAST, EXPIRY_MOST)?;
        InvalidConfig::unless_in_range("pick.weighted.error_penalty", self.error_penalty, 0.0, PENALTY_MOST)?;
        InvalidConfig::unless_in_range("pick.weighted.slow_start", self.slow_start, Duration::ZERO, seconds(300))?;
        InvalidConfig::unless_in_range("pick.weighted.correction", self.correction, 0.0, 0.5)
    }
}

/// Weights of one moment; [`Policy::refit`] makes the next.
#[derive(Debug)]
pub struct Weighted {
    config: WeightedConfig,
    learned: Learned,
    turns: Turns,
}

impl Weighted {
    /// Knows nothing: round robin.
    pub fn new(config: WeightedConfig) -> Self {
        Weighted { config, learned: Learned::default(), turns: Turns::default() }
    }
}

impl Policy for Weighted {
    fn name(&self) -> &'static str {
        PolicyName::Weighted.as_str()
    }

    fn pick(&self, _now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let (count, turn) = (among.len(), local.turn(among.len(), rng));
        let picked = self.turns.next(turn, count, |position| among.has_room(position));
        // Weights for other candidates, or those whose turn it is are full: whoever has room.
        let (position, round) = picked.or_else(|| Some((next_with_room(among, turn.0)?, turn.1)))?;
        local.took_turn(position, round);
        Some(position)
    }

    fn refit_period(&self) -> Option<Duration> {
        Some(self.config.every)
    }

    fn refit(&self, now: Time, among: &Candidates<'_>, _rng: &mut Rng) -> Option<Arc<dyn Policy>> {
        let learned = self.learned.after(now, among, &self.config);
        let turns = Turns::new(learned.weights());
        Some(Arc::new(Weighted { config: self.config.clone(), learned, turns }))
    }

    fn wants_checked(&self, now: Time, among: &Candidates<'_>, budget: usize, _rng: &mut Rng) -> Vec<BackendId> {
        // Rare callers hear too little from answers alone to correct anything.
        let mut stale = among.unheard(now, learned::ASKED_AFTER);
        stale.truncate(budget);
        stale
    }

    fn weight(&self, _now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        let backend = among.backend(position);
        backend.and_then(|backend| self.learned.of(position, backend)).unwrap_or((1.0, "new here: weights follow"))
    }
}

/// Longer than it takes a caller of a request a second to hear of each of 20 backends. With 10 s a thousand of them had lines of 26 s at
/// 95 % load, while a word expired whether or not its backend was asked; less was not tried since.
const EXPIRY_LEAST: Duration = Duration::from_secs(30);
/// Also how long the last word of one counts that nobody asked since.
const EXPIRY_MOST: Duration = Duration::from_secs(3_600);
/// With twice that the healthy half breaks where the other half fails one request in five at 95 % load.
const PENALTY_MOST: f64 = 1.0;
