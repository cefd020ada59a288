//! A client under random events: what must hold after every one of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, BackendState, Client, ClientConfig, Local, Outcome, Readiness, Rng,
    Ticket, Time,
};
use support::meta;

const SIZE: usize = 5;

struct Swarm {
    client: Client,
    now: Time,
    rng: Rng,
    local: Local,
    /// Connections that are being made.
    dialling: BTreeSet<BackendId>,
    /// Connections the driver holds.
    connected: BTreeSet<BackendId>,
    open: Vec<Ticket>,
    picker: std::sync::Arc<evenkeel_core::Picker>,
}

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let mut config = ClientConfig::default();
        config.subset.size = SIZE as u32;
        config.flow.active_max = 3;
        let choices = [None, Some(Algorithm::Random), Some(Algorithm::Rounds), Some(Algorithm::Even)];
        config.subset.algorithm = choices[rng.below(4) as usize];
        config.subset.client = Some(rng.below(50));
        let now = Time::from_secs(100);
        let mut client = Client::new(now, config, &mut rng).unwrap();
        let picker = client.poll_picker().unwrap();
        let (dialling, connected) = (BTreeSet::new(), BTreeSet::new());
        Swarm { client, now, rng, local: Local::default(), dialling, connected, open: Vec::new(), picker }
    }

    fn one_of(&mut self, set: &BTreeSet<BackendId>) -> Option<BackendId> {
        let place = self.rng.below(set.len() as u32) as usize;
        set.iter().nth(place).copied()
    }

    fn step(&mut self) {
        let (now, dialling, connected) = (self.now, self.dialling.clone(), self.connected.clone());
        let usable_before = self.picker.len();
        let event = self.rng.below(12);
        match event {
            0 => {
                let count = 1 + self.rng.below(60);
                let mut numbers: Vec<u32> = (0..count).collect();
                // A hole now and then, but never so many that these are no ordinals any more.
                numbers.retain(|_| self.rng.below(8) != 0);
                let specs = numbers.iter().map(|&n| BackendSpec { id: BackendId(u64::from(n)), ordinal: Some(n) });
                self.client.handle_backends(now, BackendList::new(specs).unwrap()).unwrap();
            }
            1..=3 => {
                if let Some(backend) = self.one_of(&dialling) {
                    self.dialling.remove(&backend);
                    self.connected.insert(backend);
                    let said = if self.rng.below(5) == 0 { Readiness::LameDuck } else { Readiness::Ready };
                    self.client.handle_connected(now, backend, said);
                }
            }
            4 => {
                if let Some(backend) = self.one_of(&dialling).or_else(|| self.one_of(&connected)) {
                    self.dialling.remove(&backend);
                    self.connected.remove(&backend);
                    self.client.handle_lost(now, backend);
                }
            }
            5 => {
                if let Some(backend) = self.one_of(&connected) {
                    let said = if self.rng.below(2) == 0 { Readiness::LameDuck } else { Readiness::Ready };
                    self.client.handle_readiness(now, backend, said);
                }
            }
            6 => self.now = self.now + Duration::from_millis(u64::from(self.rng.below(3_000))),
            7 => {
                if self.rng.below(10) == 0 {
                    self.now = Time::from_secs(u64::from(self.rng.below(200)));
                }
                self.client.handle_timeout(self.now);
            }
            8 | 9 => self.begin(),
            _ => {
                if !self.open.is_empty() {
                    let ticket = self.open.swap_remove(self.rng.below(self.open.len() as u32) as usize);
                    let outcome = Outcome::ALL[self.rng.below(7) as usize];
                    self.picker.finish(now, ticket, outcome, None);
                }
            }
        }
        self.drive();
        self.check();
        if event != 0 && event != 4 && event != 5 {
            let enough = usable_before.min(self.client.snapshot(self.now).subset_size);
            assert!(self.picker.len() >= enough, "nobody who is needed is sent away: {usable_before} before");
        }
    }

    /// Succeeds exactly if some candidate has room.
    fn begin(&mut self) {
        let snapshot = self.client.snapshot(self.now);
        let has_room = snapshot.backends.iter().any(|one| one.state == BackendState::Healthy && one.active < 3);
        let begun = self.picker.begin(&mut self.local, self.now, &meta(), &mut self.rng);
        assert_eq!(begun.is_ok(), has_room, "{begun:?}");
        self.open.extend(begun);
    }

    fn drive(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect(backend) => {
                    assert!(self.dialling.insert(backend), "asked twice for {backend}");
                    assert!(!self.connected.contains(&backend), "{backend} is connected");
                }
                Action::Disconnect(backend) => {
                    self.dialling.remove(&backend);
                    self.connected.remove(&backend);
                }
                Action::Check(_) => {}
            }
        }
        if let Some(picker) = self.client.poll_picker() {
            self.picker = picker;
        }
    }

    fn check(&self) {
        let snapshot = self.client.snapshot(self.now);
        let healthy: Vec<_> = snapshot.backends.iter().filter(|one| one.state == BackendState::Healthy).collect();
        assert_eq!(self.picker.len(), healthy.len(), "the picker has who is healthy");
        assert!(healthy.iter().all(|one| self.connected.contains(&one.backend)), "and connected");
        // The subset, its stand-ins (8 at least) and those who wait for their successors.
        assert!(snapshot.backends.len() <= 2 * SIZE + 8 + 2, "{} members", snapshot.backends.len());
        let active: u32 = snapshot.backends.iter().map(|one| one.active).sum();
        assert!(active as usize <= self.open.len(), "nothing is counted twice");
        if let Some(at) = self.client.poll_timeout() {
            assert!(at <= self.now + Duration::from_secs(13), "nothing waits for ever: {at:?} at {:?}", self.now);
        }
    }
}

fn run(seed: u64) {
    let mut swarm = Swarm::new(seed);
    for _ in 0..400 {
        swarm.step();
    }
    // Calm: whoever is asked for connects and is ready.
    for _ in 0..200 {
        for backend in std::mem::take(&mut swarm.dialling) {
            swarm.connected.insert(backend);
            swarm.client.handle_connected(swarm.now, backend, Readiness::Ready);
        }
        for backend in swarm.connected.clone() {
            swarm.client.handle_readiness(swarm.now, backend, Readiness::Ready);
        }
        swarm.drive();
        swarm.now = swarm.client.poll_timeout().unwrap_or(swarm.now).max(swarm.now);
        swarm.client.handle_timeout(swarm.now);
        swarm.drive();
    }
    let snapshot = swarm.client.snapshot(swarm.now);
    assert!(snapshot.backends.iter().all(|one| one.state == BackendState::Healthy));
    assert_eq!(snapshot.backends.len(), snapshot.subset_size, "no stand-in is left over");
    for ticket in std::mem::take(&mut swarm.open) {
        swarm.picker.finish(swarm.now, ticket, Outcome::Served, None);
    }
    assert!(swarm.client.snapshot(swarm.now).backends.iter().all(|one| one.active == 0));
}

#[test]
fn whatever_happens_the_invariants_hold() {
    let seeds = if std::env::var_os("EVENKEEL_LONG").is_some() { 20_000 } else { 300 };
    for seed in 0..seeds {
        let ended = std::panic::catch_unwind(|| run(seed));
        assert!(ended.is_ok(), "seed {seed} fails: make it a test of its own");
    }
}
