//! The backends heard of last, and how one of them is chosen.

use std::time::Duration;

use super::{EXPIRY_MOST, POOL_MOST, PrequalConfig};
use crate::Time;
use crate::client::backend::BackendId;
use crate::client::pick::believed::{SLACK, cores, median, most_believed};
use crate::client::pick::{Before, Candidates};
use crate::report_cell::Probe;
use crate::sync::{AtomicU64, Ordering};

/// Of these candidates, those that were heard of last when this was made.
#[derive(Debug, Default)]
pub(super) struct Pool {
    backends: Box<[OfBackend]>,
    /// Positions of the pool, in the order of candidates.
    positions: Box<[u32]>,
    /// From so many requests in flight for each processor on a backend is hot.
    hot: f32,
}

#[derive(Debug)]
struct OfBackend {
    backend: BackendId,
    /// One over its processors; over those that most have where it does not say.
    per_processor: f32,
    /// What its failures count as, in requests in flight for each processor: rare callers have forgotten their own.
    failing: f32,
    uses: Uses,
}

/// How often a backend was picked since it last spoke: when that was, and the count, in one word.
#[derive(Debug, Default)]
struct Uses(AtomicU64);

impl Uses {
    #[inline]
    fn since(&self, told: Time) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        if word >> COUNT_BITS == stamp(told) { (word & COUNT_MOST) as u32 } else { 0 }
    }

    /// Two threads may count as one where they meet at the first use after a report.
    #[inline]
    fn add(&self, told: Time) {
        let word = self.0.load(Ordering::Relaxed);
        if word >> COUNT_BITS != stamp(told) {
            self.0.store(stamp(told) << COUNT_BITS | 1, Ordering::Relaxed);
        } else if word & COUNT_MOST < COUNT_MOST / 2 {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn copied(&self) -> Uses {
        Uses(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

fn stamp(told: Time) -> u64 {
    told.nanos() << COUNT_BITS >> COUNT_BITS
}

/// What a pick sees of one that will do.
#[derive(Clone, Copy)]
struct Look {
    position: u32,
    /// Requests in flight for each processor.
    load: f32,
    latency_us: f32,
}

impl Pool {
    /// The pool for these candidates now.
    pub(super) fn after(&self, now: Time, among: &Candidates<'_>, config: &PrequalConfig) -> Pool {
        let backends = self.still_there(among);
        let heard = |position: usize| Some((position as u32, among.probe(position)?));
        let counts = |(_, probe): &(u32, Probe)| now.since(probe.told) <= EXPIRY_MOST;
        let mut heard: Vec<(u32, Probe)> = (0..among.len()).filter_map(heard).filter(counts).collect();
        let size = config.pool as usize;
        if heard.len() > size {
            heard.select_nth_unstable_by_key(size, |(_, probe)| std::cmp::Reverse(probe.told));
            heard.truncate(size);
        }
        let mut loads: Vec<f32> = heard
            .iter()
            .map(|(position, probe)| probe.in_flight * backends[*position as usize].per_processor)
            .collect();
        // Who says far more than most is hot, and does not make the others cold.
        let most = most_believed(loads.iter().copied().map(f64::from), SLACK) as f32;
        loads.retain(|&load| load <= most);
        loads.sort_by(f32::total_cmp);
        let place = (loads.len() as f64 * config.hot_quantile) as usize;
        let mut positions: Box<[u32]> = heard.into_iter().map(|(position, _)| position).collect();
        positions.sort_unstable();
        Pool { backends, positions, hot: loads.get(place).copied().unwrap_or(0.0) }
    }

    /// The position of the best one; `None` where less than two will do. Those from `start` on come first among equals.
    ///
    /// A caller of a request a second rarely has two fresh words. Old ones still tell the slow and the full from the others,
    /// which its own requests in flight do not: with those alone a thousand such callers leave lines of 10 s at 95 % load.
    #[inline]
    pub(super) fn pick(
        &self,
        now: Time,
        among: &Candidates<'_>,
        start: usize,
        config: &PrequalConfig,
    ) -> Option<usize> {
        let best = self
            .best_within(now, among, start, config.expiry, config)
            .or_else(|| self.best_within(now, among, start, EXPIRY_MOST, config))?;
        self.backends[best].uses.add(among.probe(best)?.told);
        Some(best)
    }

    /// The best of those that spoke within the `expiry`; `None` where less than two will do.
    #[inline]
    fn best_within(
        &self,
        now: Time,
        among: &Candidates<'_>,
        start: usize,
        expiry: Duration,
        config: &PrequalConfig,
    ) -> Option<usize> {
        let mut looks = [Look { position: 0, load: 0.0, latency_us: 0.0 }; POOL_MOST];
        let mut count = 0;
        let turn = self.positions.partition_point(|&position| (position as usize) < start);
        let mut least = f32::INFINITY;
        let (before, from) = self.positions.split_at(turn);
        for positions in [from, before] {
            for &position in positions {
                let Some(look) = self.look(now, among, position, expiry, config.uses_most) else { continue };
                looks[count] = look;
                count += 1;
                least = if look.load < least { look.load } else { least };
            }
        }
        (count >= 2).then(|| self.best(&looks[..count], least, config.tie as f32).position as usize)
    }

    /// The fastest of those that are cold and near the least; the first of the least where there is none.
    #[inline]
    fn best(&self, looks: &[Look], least: f32, tie: f32) -> Look {
        let most = least + tie;
        let mut best: Option<Look> = None;
        for look in looks.iter().filter(|look| look.load <= most) {
            let is_better = best.is_none_or(|best| {
                let are_cold = look.load < self.hot && best.load < self.hot;
                if are_cold { look.latency_us < best.latency_us } else { look.load < best.load }
            });
            if is_better {
                best = Some(*look);
            }
        }
        best.unwrap_or(looks[0])
    }

    /// What is seen of the one at `position`, if it will do: it has room, spoke of late and was not used too often since.
    #[inline]
    fn look(&self, now: Time, among: &Candidates<'_>, position: u32, expiry: Duration, uses_most: u32) -> Option<Look> {
        let one = self.backends.get(position as usize)?;
        let (Probe { told, in_flight, latency_us }, own, errors) = among.probe_with_own(now, position as usize)?;
        let uses = one.uses.since(told);
        if uses >= uses_most || now.since(told) > expiry {
            return None;
        }
        // What this client knows to be there is there, whatever was said.
        let requests = (in_flight + uses as f32).max(own as f32) + errors as f32;
        Some(Look { position, load: requests * one.per_processor + one.failing, latency_us })
    }

    /// What a pick would think of it, and why.
    pub(super) fn weight(
        &self,
        now: Time,
        among: &Candidates<'_>,
        position: usize,
        config: &PrequalConfig,
    ) -> (f64, &'static str) {
        let is_same = |one: &OfBackend| Some(one.backend) == among.backend(position);
        if !self.backends.get(position).is_some_and(is_same) || !self.positions.contains(&(position as u32)) {
            return (0.0, "others were heard of later");
        }
        let look = |expiry| self.look(now, among, position as u32, expiry, config.uses_most);
        match look(config.expiry) {
            None if !among.has_room(position) => (0.0, "at its limit of requests in flight"),
            None => match look(EXPIRY_MOST) {
                None => (0.0, "used since it was heard of"),
                Some(look) => (weight(look), "old news: for want of newer ones"),
            },
            Some(look) if look.load < self.hot => (weight(look), "cold: few requests in flight, the faster of equals"),
            Some(look) => (weight(look), "hot: many requests in flight for what others have"),
        }
    }

    fn still_there(&self, among: &Candidates<'_>) -> Box<[OfBackend]> {
        let mut before = Before::new(&self.backends, |one| one.backend);
        let processors = |position| among.report(position).and_then(|(_, report)| report.processors);
        let usual = median((0..among.len()).filter_map(processors));
        let each = (0..among.len()).filter_map(|position| {
            let backend = among.backend(position)?;
            let known = before.of(position, backend);
            let uses = known.map(|one| one.uses.copied()).unwrap_or_default();
            let per_processor = 1.0 / cores(processors(position), usual) as f32;
            let report = among.report(position).map(|(_, report)| report);
            let failing = report.map_or(0.0, |report| FAILING * report.failing_share()) as f32;
            Some(OfBackend { backend, per_processor, failing, uses })
        });
        each.collect()
    }
}

fn weight(look: Look) -> f64 {
    1.0 / (1.0 + f64::from(look.load))
}

/// One that fails at everything is as good as one with two requests for each processor: busy, and not left alone.
const FAILING: f64 = 2.0;
const COUNT_BITS: u32 = 16;
const COUNT_MOST: u64 = (1 << COUNT_BITS) - 1;
