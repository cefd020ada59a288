//! A client of several clusters: one part for each, with a brain of its own, and core's `Spill` above them.

use std::sync::Arc;

use evenkeel_core::client::{Reading, Shares, SharesLocal, Spill};
use evenkeel_core::rng::hash2;
use evenkeel_core::{Rng, Ticket, Time};

use super::World;
use super::asking::first_meta;
use super::event::{Event, RequestId};

/// What a client that spills has besides its parts.
#[derive(Debug)]
pub(crate) struct Spilling {
    pub(crate) brain: Spill,
    pub(super) shares: Arc<Shares>,
    local: SharesLocal,
    rng: Rng,
    /// The part for each cluster, nearest first.
    pub(super) parts: Vec<u32>,
}

impl World<'_> {
    /// Clients of the first service that are ours know every cluster.
    pub(super) fn build_spilling(&mut self) {
        let (scenario, lists) = (self.scenario, self.lists(0));
        for client in 0..self.root_clients {
            let (own, is_foreign) = (self.clients[client as usize].cluster, self.clients[client as usize].is_foreign);
            if is_foreign {
                continue;
            }
            let order = scenario.clusters.nearest(own);
            let mut parts = vec![client];
            parts.extend(order.iter().skip(1).map(|&other| self.add_part(client, lists[other as usize].clone())));
            let mut rng = Rng::for_stream(hash2(self.seed, SPILLING), u64::from(client));
            let brain = Spill::new(self.time(), scenario.clusters.config(), parts.len(), &mut rng);
            let mut brain = brain.expect("a checked scenario gives possible settings");
            let shares = brain.poll_shares().expect("a new brain has shares");
            if let Some(at) = brain.poll_timeout().or_else(|| self.is_ideal().then(|| self.time())) {
                self.queue.push(at.nanos(), Event::Spill(client));
            }
            let spilling = Spilling { brain, shares, local: SharesLocal::default(), rng, parts };
            self.clients[client as usize].spilling = Some(Box::new(spilling));
        }
    }

    /// A client decides which cluster gets how much.
    pub(super) fn on_spill(&mut self, client: u32) {
        if self.is_ideal() {
            return self.share_ideally(client);
        }
        let now = self.time();
        let Some(mut spilling) = self.clients[client as usize].spilling.take() else { return };
        let readings: Vec<Reading> =
            spilling.parts.iter().map(|&part| self.clients[part as usize].brain.reading(now)).collect();
        spilling.brain.handle_readings(now, &readings);
        if let Some(shares) = spilling.brain.poll_shares() {
            spilling.shares = shares;
        }
        for &part in spilling.parts.iter().filter(|_| spilling.brain.wants_news()) {
            self.clients[part as usize].brain.freshen(now);
            self.pump_client(part);
        }
        let next = spilling.brain.poll_timeout().map(Time::nanos).filter(|&at| at < self.end());
        if let Some(at) = next {
            self.queue.push(at, Event::Spill(client));
        }
        self.clients[client as usize].spilling = Some(spilling);
    }

    /// The part of its client that a request goes through.
    pub(super) fn choose_cluster(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let Some(mut spilling) = self.clients[request.home as usize].spilling.take() else { return };
        let Spilling { shares, local, rng, parts, .. } = &mut *spilling;
        let chosen = shares.pick(local, |cluster| self.clients[parts[cluster] as usize].picker.is_usable(), rng);
        request.client = parts[chosen.unwrap_or(0)];
        self.clients[request.home as usize].spilling = Some(spilling);
    }

    /// A request that its part has no place for: another part with room takes it.
    pub(super) fn begin_elsewhere(&mut self, id: RequestId) -> Option<Ticket> {
        let now = self.time();
        let request = self.requests.get_mut(id)?;
        let spilling = self.clients[request.home as usize].spilling.as_ref()?;
        let full = spilling.parts.iter().position(|&part| part == request.client)?;
        let others: Vec<u32> = spilling.shares.others(full).map(|cluster| spilling.parts[cluster]).collect();
        for part in others {
            let client = &mut self.clients[part as usize];
            let meta = first_meta(request);
            let begun = client.picker.begin_again(&mut client.local, now, &meta, &request.tried, &mut client.rng);
            if let Ok(ticket) = begun {
                request.client = part;
                return Some(ticket);
            }
        }
        None
    }

    /// A request is sent to a cluster, from its own or from elsewhere.
    pub(super) fn note_offered(&mut self, client: u32, backend: u32, cpu: f64) {
        if self.scenario.clusters.count > 1 {
            let cluster = self.tasks[backend as usize].cluster;
            let is_home = self.clients[client as usize].cluster == cluster;
            self.tally.on_offered(cluster, cpu, is_home);
        }
    }
}

const SPILLING: u64 = 0x7370_696c;
