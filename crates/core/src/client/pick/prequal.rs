//! Prequal (C1): by what backends said last of their requests in flight, fewest first, and the faster of near equals.
//!
//! News come with every answer and with probes, which are checks by datagram. The *pool* is the few backends heard of
//! last, remade every [`PrequalConfig::every`]; what they said is read where it is kept, so a pick takes no lock. What was
//! sent to one since it spoke counts as in flight there; it is used so often until it speaks again, and only for want of
//! others once its word has expired. Where less than two of the pool will do, the fewest requests of this client's own decide.
//!
//! Requests in flight lead and latency breaks ties, within [`PrequalConfig::tie`] of the least and only among the *cold*
//! (below a quantile of the pool). The published rule takes the lowest latency of all cold ones; it swings near full load,
//! since the latency of a backend that was avoided is that of a busier time.

mod pool;

use std::sync::Arc;
use std::time::Duration;

use super::{Candidates, LeastLoaded, Policy, PolicyName};
use crate::client::backend::BackendId;
use crate::client::picker::Local;
use crate::{InvalidConfig, Rng, Time};
use pool::Pool;

/// Settings of the policy `prequal`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrequalConfig {
    /// How often the pool is remade and probes are sent. Default 50 ms.
    pub every: Duration,
    /// Backends in the pool: those heard of last. Fewer look at fresher news, more find a better one; from 8 to 32. Default 16.
    pub pool: u32,
    /// How long what a backend said counts; where less than two said something since, what others said up to 10 s ago counts too.
    /// Default 1 s.
    pub expiry: Duration,
    /// How often a backend is picked until it is heard of again. More lets clients go to the same ones together. Default 1.
    pub uses_most: u32,
    /// The quantile of requests in flight in the pool from which on a backend is hot, and its latency not looked at. Higher
    /// lets latency decide more often; 0 never. Default 0.84.
    pub hot_quantile: f64,
    /// How many requests in flight for each processor above the least are as good as the least. Default 0.25.
    pub tie: f64,
}

impl Default for PrequalConfig {
    fn default() -> Self {
        PrequalConfig {
            every: Duration::from_millis(50),
            pool: 16,
            expiry: Duration::from_secs(1),
            uses_most: 1,
            hot_quantile: 0.84,
            tie: 0.25,
        }
    }
}

impl PrequalConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
        InvalidConfig::unless_in_range("pick.prequal.every", self.every, millis(10), seconds(1))?;
        InvalidConfig::unless_in_range("pick.prequal.pool", self.pool, POOL_LEAST, POOL_MOST as u32)?;
        InvalidConfig::unless_in_range("pick.prequal.expiry", self.expiry, seconds(1), EXPIRY_MOST)?;
        InvalidConfig::unless_in_range("pick.prequal.uses_most", self.uses_most, 1, 16)?;
        InvalidConfig::unless_in_range("pick.prequal.hot_quantile", self.hot_quantile, 0.0, 0.99)?;
        InvalidConfig::unless_in_range("pick.prequal.tie", self.tie, 0.0, 0.5)
    }
}

/// A pool of one moment; [`Policy::refit`] makes the next.
#[derive(Debug)]
pub struct Prequal {
    config: PrequalConfig,
    pool: Pool,
    /// Until the next one.
    lasts: Duration,
}

impl Prequal {
    /// Has heard of nobody.
    pub fn new(config: PrequalConfig) -> Self {
        Prequal { lasts: config.every, config, pool: Pool::default() }
    }
}

impl Policy for Prequal {
    fn name(&self) -> &'static str {
        PolicyName::Prequal.as_str()
    }

    fn pick(&self, now: Time, among: &Candidates<'_>, local: &mut Local, rng: &mut Rng) -> Option<usize> {
        let start = local.cursor(among.len(), rng);
        let Some(position) = self.pool.pick(now, among, start, &self.config) else {
            return LeastLoaded.pick(now, among, local, rng);
        };
        local.advance_past(position);
        Some(position)
    }

    fn refit_period(&self) -> Option<Duration> {
        Some(self.lasts)
    }

    fn refit(&self, now: Time, among: &Candidates<'_>, rng: &mut Rng) -> Option<Arc<dyn Policy>> {
        // Clients that ask together hear the same, and go to the same backends together.
        let lasts = self.config.every.mul_f64(0.5 + rng.unit());
        Some(Arc::new(Prequal { config: self.config.clone(), pool: self.pool.after(now, among, &self.config), lasts }))
    }

    fn wants_checked(&self, now: Time, among: &Candidates<'_>, budget: usize, rng: &mut Rng) -> Vec<BackendId> {
        // Drawn, so that clients do not all ask the same one; who has just spoken need not be asked.
        let is_news = |position| among.probe(position).is_some_and(|probe| now.since(probe.told) < self.config.every);
        let mut others: Vec<usize> = (0..among.len()).filter(|&position| !is_news(position)).collect();
        let asked = budget.min(others.len());
        for place in 0..asked {
            let drawn = place + rng.below((others.len() - place) as u32) as usize;
            others.swap(place, drawn);
        }
        others.into_iter().take(asked).filter_map(|position| among.backend(position)).collect()
    }

    fn weight(&self, now: Time, among: &Candidates<'_>, position: usize) -> (f64, &'static str) {
        self.pool.weight(now, among, position, &self.config)
    }
}

/// Few that are used until they speak again may all be slow ones: two of old news diverge at 95 % load, four swing.
const POOL_LEAST: u32 = 8;
/// What a backend said longer ago says nothing of now.
const EXPIRY_MOST: Duration = Duration::from_secs(10);
/// More would cost a pick more than looking at all of a usual subset does.
const POOL_MOST: usize = 32;
