//! Clusters as a fluid, for tests of many clients that all decide alike.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use evenkeel_core::client::{ClustersConfig, Reading, Shares, Spill};
use evenkeel_core::stats::DecayingMean;
use evenkeel_core::{Rng, Time};

use crate::support::NOW;

/// Clusters as a fluid: what many clients send, what waits, and reports of it that are means over 2 s and up to a second old.
pub(crate) struct Fluid {
    capacity: Vec<f64>,
    pub(crate) lost: Vec<f64>,
    pub(crate) speed: Vec<f64>,
    pub(crate) demand: Vec<f64>,
    reported: Vec<DecayingMean>,
    /// What was reported and what waited, a moment at a time.
    past: Vec<Vec<(f64, f64)>>,
    pub(crate) clients: Vec<FluidClient>,
    now: Time,
    rng: Rng,
}

pub(crate) struct FluidClient {
    home: usize,
    spill: Spill,
    pub(crate) shares: std::sync::Arc<Shares>,
    /// In each cluster, nearest first, in seconds of all of its processors: what this client ever asked for, and what of it
    /// is not done.
    asked: Vec<f64>,
    waits: Vec<f64>,
}

const STEP: Duration = Duration::from_millis(50);
/// What a cluster does in a second, of 30 ms each on 120 processors.
const REQUESTS: f64 = 4_000.0;
const PROCESSORS: f64 = 120.0;
/// Those that a client knows.
const TASKS: u32 = 20;

impl Fluid {
    pub(crate) fn new(demand: &[f64], clients: usize, config: &ClustersConfig) -> Fluid {
        let (count, mut rng) = (demand.len(), Rng::from_seed(11));
        let client = |number: usize, rng: &mut Rng| {
            let mut spill = Spill::new(NOW, config.clone(), count, rng).unwrap();
            let shares = spill.poll_shares().unwrap();
            FluidClient { home: number % count, spill, shares, asked: vec![0.0; count], waits: vec![0.0; count] }
        };
        Fluid {
            capacity: vec![1.0; count],
            lost: vec![0.0; count],
            speed: vec![1.0; count],
            demand: demand.to_vec(),
            reported: vec![DecayingMean::new(Duration::from_millis(1_386)); count],
            past: Vec::new(),
            clients: (0..clients).map(|number| client(number, &mut rng)).collect(),
            now: NOW,
            rng,
        }
    }

    /// What each cluster can do.
    fn able(&self) -> Vec<f64> {
        let parts = self.capacity.iter().zip(&self.lost).zip(&self.speed);
        parts.map(|((all, lost), speed)| (all - lost) * speed).collect()
    }

    /// What each cluster is asked for over what it can do.
    fn offered(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.demand.len()];
        for client in &self.clients {
            for (step, share) in client.shares.iter().enumerate() {
                sums[self.cluster(client, step)] += share * self.demand_of(client);
            }
        }
        sums.iter().zip(self.able()).map(|(sum, able)| sum / able).collect()
    }

    fn cluster(&self, client: &FluidClient, step: usize) -> usize {
        (client.home + step) % self.demand.len()
    }

    fn demand_of(&self, client: &FluidClient) -> f64 {
        self.demand[client.home] * self.demand.len() as f64 / self.clients.len() as f64
    }

    /// All that waits is worked on alike.
    fn work(&mut self) {
        let (count, seconds) = (self.demand.len(), STEP.as_secs_f64());
        let mut waits = vec![0.0; count];
        for place in 0..self.clients.len() {
            let asked = self.demand_of(&self.clients[place]) * seconds;
            let client = &mut self.clients[place];
            for (step, share) in client.shares.iter().enumerate() {
                client.asked[step] += share * asked;
                client.waits[step] += share * asked;
                waits[(client.home + step) % count] += client.waits[step];
            }
        }
        let able: Vec<f64> = self.able().iter().map(|able| able * seconds).collect();
        let done = |cluster: usize| if waits[cluster] > 0.0 { (able[cluster] / waits[cluster]).min(1.0) } else { 1.0 };
        for client in &mut self.clients {
            for (step, waits) in client.waits.iter_mut().enumerate() {
                *waits *= 1.0 - done((client.home + step) % count);
            }
        }
        let mut seen = Vec::new();
        for cluster in 0..count {
            self.reported[cluster].sample(self.now, waits[cluster].min(able[cluster]) / able[cluster]);
            let processors = PROCESSORS * (self.capacity[cluster] - self.lost[cluster]);
            let backlog = (waits[cluster] - able[cluster]).max(0.0) * REQUESTS / processors;
            seen.push((self.reported[cluster].mean().unwrap(), backlog));
        }
        self.past.push(seen);
    }

    fn step(&mut self) -> Vec<f64> {
        self.now = self.now + STEP;
        let (now, offered) = (self.now, self.offered());
        self.work();
        for place in 0..self.clients.len() {
            if self.clients[place].spill.poll_timeout().unwrap() > now {
                continue;
            }
            let readings = self.readings(place);
            let client = &mut self.clients[place];
            client.spill.handle_readings(now, &readings);
            if let Some(changed) = client.spill.poll_shares() {
                client.shares = changed;
            }
        }
        offered
    }

    fn readings(&mut self, place: usize) -> Vec<Reading> {
        let (count, client) = (self.demand.len(), &self.clients[place]);
        let read = |step: usize| {
            let cluster = (client.home + step) % count;
            // Each task told at another time.
            let (mut load, mut backlog, mut age_s) = (0.0, 0.0, 0.0);
            for _ in 0..TASKS {
                let steps = self.rng.below(20);
                let told = self.past[self.past.len().saturating_sub(1 + steps as usize)][cluster];
                load += told.0 / f64::from(TASKS);
                backlog += told.1 / f64::from(TASKS);
                age_s += f64::from(steps) * STEP.as_secs_f64() / f64::from(TASKS);
            }
            // A few points of noise, as a client has that knows twenty tasks.
            let mean = (load + 0.02 * (self.rng.unit() - 0.5)).clamp(0.0, 1.0);
            let usable = (f64::from(TASKS) * (1.0 - self.lost[cluster] / self.capacity[cluster])) as u32;
            Reading {
                usable,
                mean: Some(mean),
                load: Some((mean * 1.03).min(1.0)),
                backlog: Some(backlog),
                begun: (client.asked[step] * REQUESTS) as u64,
                in_flight: (client.waits[step] * REQUESTS) as u64,
                wanted: TASKS,
                known: 30,
                processors: Some(4.0),
                age_s: Some(age_s),
                ..Reading::default()
            }
        };
        (0..count).map(read).collect()
    }

    pub(crate) fn run(&mut self, seconds: u32) -> Vec<Vec<f64>> {
        (0..seconds * 20).map(|_| self.step()).collect()
    }
}
