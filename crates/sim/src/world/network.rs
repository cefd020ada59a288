//! How long a message takes, and which do not get through.

use evenkeel_core::Rng;
use evenkeel_core::rng::{hash2, hash3};

use super::event::{Event, LinkId};
use crate::model::exponential;
use crate::scenario::Scenario;

/// What lies between clients and backends.
#[derive(Debug)]
pub(crate) struct Net {
    delay: u64,
    /// Between clusters, and for each one that lies between.
    far: u64,
    farther: u64,
    jitter: f64,
    loss: f64,
    datagram_loss: f64,
    resend: u64,
    pub(crate) silence: u64,
    seed: u64,
    notes: u64,
    datagrams: u64,
    /// Cut off now: whose faults, and which clients they concern.
    pub(crate) cuts: Vec<Cut>,
    /// The same for datagrams alone.
    pub(crate) blocks: Vec<Cut>,
    /// Sent where nothing gets through; delivered when it heals, if the connection still stands.
    pub(crate) held: Vec<(LinkId, Event)>,
}

/// One partition that is in force, or one of datagrams alone.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) fault: u32,
    pub(crate) since: u64,
    pub(crate) backends: Vec<u32>,
    /// Share of clients it concerns.
    pub(crate) clients: f64,
}

impl Net {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        let network = &scenario.network;
        Net {
            delay: network.delay.nanos(),
            far: scenario.clusters.delay.nanos(),
            farther: scenario.clusters.farther.nanos(),
            jitter: network.jitter.seconds(),
            loss: network.loss,
            datagram_loss: network.datagram_loss.unwrap_or(network.loss),
            resend: network.resend.nanos(),
            silence: network.silence.nanos(),
            seed: hash2(seed, NETWORK),
            notes: 0,
            datagrams: 0,
            cuts: Vec::new(),
            blocks: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Between places that are so many steps apart.
    fn delay(&self, steps: u32) -> u64 {
        match steps.checked_sub(1) {
            None => self.delay,
            Some(between) => self.far + self.farther * u64::from(between),
        }
    }

    /// One way for a message that is known by `key` and `leg`: the same under every policy.
    pub(crate) fn trip(&self, key: u64, leg: u64, steps: u32) -> u64 {
        let delay = self.delay(steps);
        if self.jitter <= 0.0 && self.loss <= 0.0 {
            return delay;
        }
        let mut rng = Rng::from_seed(hash3(self.seed, key, leg));
        let late = if rng.unit() < self.loss { self.resend } else { 0 };
        let jitter = if self.jitter > 0.0 { exponential(self.jitter, &mut rng) * 1e9 } else { 0.0 };
        delay + late + jitter as u64
    }

    /// One way for a note.
    pub(crate) fn note_trip(&mut self, steps: u32) -> u64 {
        self.notes += 1;
        self.trip(self.notes, NOTES, steps)
    }

    /// One way for a datagram; nothing where it never arrives.
    pub(crate) fn datagram_trip(&mut self, steps: u32) -> Option<u64> {
        self.datagrams += 1;
        let mut rng = Rng::from_seed(hash3(self.seed, self.datagrams, DATAGRAMS));
        if rng.unit() < self.datagram_loss {
            return None;
        }
        let jitter = if self.jitter > 0.0 { exponential(self.jitter, &mut rng) * 1e9 } else { 0.0 };
        Some(self.delay(steps) + jitter as u64)
    }

    /// Whether no datagram gets through between the two.
    pub(crate) fn is_blocked(&self, client: u32, backend: u32) -> bool {
        self.is_cut(client, backend) || self.blocks.iter().any(|block| self.is_cut_by(block, client, backend))
    }

    /// Whether nothing gets through between the two.
    pub(crate) fn is_cut(&self, client: u32, backend: u32) -> bool {
        self.cuts.iter().any(|cut| self.is_cut_by(cut, client, backend))
    }

    /// Whether that has been so for as long as connections are believed in.
    pub(crate) fn is_silent(&self, now: u64, client: u32, backend: u32) -> bool {
        let long_ago = |cut: &&Cut| now - cut.since >= self.silence;
        self.cuts.iter().filter(long_ago).any(|cut| self.is_cut_by(cut, client, backend))
    }

    fn is_cut_by(&self, cut: &Cut, client: u32, backend: u32) -> bool {
        let drawn = hash3(self.seed, CUT ^ u64::from(cut.fault), u64::from(client)) >> 11;
        cut.backends.contains(&backend) && (drawn as f64) < cut.clients * (1u64 << 53) as f64
    }
}

/// Streams of chance, so that parts do not disturb each other.
const NETWORK: u64 = 0x6e65_7477;
const NOTES: u64 = 0x6e6f_7465;
const DATAGRAMS: u64 = 0x6461_7461;
const CUT: u64 = 0x6375_7421;
