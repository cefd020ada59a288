//! A client under random events: what must hold after every one of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::meta;
use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::{
    Action, Announcement, BackendId, BackendList, BackendSnapshot, BackendSpec, BackendState, Checked, Client,
    ClientConfig, Cutoff, Greeting, Hint, LinkState, LoadReport, Local, Mode, Notice, Outcome, Readiness, Refusal, Rng,
    Ticket, Time,
};

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
    /// Asked how they are, and not answered yet.
    asked: BTreeSet<BackendId>,
    /// Everything a backend has said of itself, the last one last.
    said: BTreeMap<BackendId, Vec<Notice>>,
    /// The latest of it that the client has heard.
    heard: BTreeMap<BackendId, Notice>,
    picker: std::sync::Arc<evenkeel_core::Picker>,
    /// What throttling may do.
    throttle: Mode,
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
        config.idle.after = (rng.below(3) > 0).then_some(Duration::from_secs(2));
        config.checks.visit_every = Duration::from_secs(5);
        let throttle = Mode::ALL[rng.below(3) as usize];
        (config.throttle.local, config.throttle.hints) = (throttle, throttle);
        config.eject.mode = Mode::ALL[rng.below(3) as usize];
        (config.eject.least, config.eject.failing) = (1, 0.3);
        let now = Time::from_secs(100);
        let mut client = Client::new(now, config, &mut rng).unwrap();
        let picker = client.poll_picker().unwrap();
        let (dialling, connected) = (BTreeSet::new(), BTreeSet::new());
        let (asked, said, heard) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (local, open) = (Local::default(), Vec::new());
        Swarm { client, now, rng, local, dialling, connected, open, asked, said, heard, picker, throttle }
    }

    /// What the backend says of itself now; now and then something else than before, perhaps as a new process.
    fn word_of(&mut self, backend: BackendId, may_change: bool) -> Notice {
        let log = self.said.entry(backend).or_default();
        let last = log.last().and_then(|last| last.announcement).unwrap_or(Announcement { process: 1, number: 0 });
        if log.is_empty() || (may_change && self.rng.below(2) == 0) {
            let readiness = if self.rng.below(4) == 0 { Readiness::LameDuck } else { Readiness::Ready };
            let next = match self.rng.below(4) {
                0 => Announcement { process: last.process + 1, number: 1 },
                _ => Announcement { number: last.number + 1, ..last },
            };
            log.push(Notice { readiness, announcement: Some(next) });
        }
        *log.last().unwrap()
    }

    /// Any of its words, however old: datagrams come late, twice and in another order.
    fn old_word_of(&mut self, backend: BackendId) -> Notice {
        self.word_of(backend, true);
        let log = &self.said[&backend];
        log[log.len() - 1 - self.rng.below(log.len().min(4) as u32) as usize]
    }

    fn on_connected(&mut self, backend: BackendId, may_change: bool) {
        self.dialling.remove(&backend);
        self.connected.insert(backend);
        let notice = self.word_of(backend, may_change);
        let is_overtaken = |heard: &Notice| {
            let (heard, said) = (heard.announcement.unwrap(), notice.announcement.unwrap());
            heard.process == said.process && heard.number > said.number
        };
        if !self.heard.get(&backend).is_some_and(is_overtaken) {
            self.heard.insert(backend, notice);
        }
        let takes_checks = self.rng.below(4) > 0;
        self.client.handle_connected(self.now, backend, Greeting { notice, takes_checks });
    }

    fn on_datagram(&mut self, backend: BackendId, notice: Notice, asked: bool) {
        let link = self.link(backend);
        let heard = self.heard.get(&backend).map(|heard| heard.announcement.unwrap());
        let said = notice.announcement.unwrap();
        let is_news = match (link, heard) {
            (None | Some(LinkState::Connecting), _) | (_, None) => false,
            (Some(LinkState::Connected), Some(heard)) => said.process == heard.process && said > heard,
            (Some(LinkState::Inactive | LinkState::Waking), Some(heard)) => said > heard,
        };
        if is_news {
            self.heard.insert(backend, notice);
        }
        if asked {
            let remembered = self.rng.below(4) > 0;
            let checked = Checked { notice, remembered, report: LoadReport::default() };
            self.client.handle_checked(self.now, backend, &checked);
        } else {
            self.client.handle_pushed(self.now, backend, notice);
        }
    }

    fn link(&self, backend: BackendId) -> Option<LinkState> {
        let backends = self.client.snapshot(self.now).backends;
        backends.iter().find(|one| one.backend == backend).map(|one| one.link)
    }

    fn one_of(&mut self, set: &BTreeSet<BackendId>) -> Option<BackendId> {
        let place = self.rng.below(set.len() as u32) as usize;
        set.iter().nth(place).copied()
    }

    fn step(&mut self) {
        let (now, dialling, connected) = (self.now, self.dialling.clone(), self.connected.clone());
        let usable_before = self.healthy();
        let event = self.rng.below(16);
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
                    self.on_connected(backend, true);
                }
            }
            4 => {
                if let Some(backend) = self.one_of(&dialling).or_else(|| self.one_of(&connected)) {
                    self.dialling.remove(&backend);
                    self.connected.remove(&backend);
                    self.asked.remove(&backend);
                    self.client.handle_lost(now, backend);
                }
            }
            5 => {
                if let Some(backend) = self.one_of(&connected) {
                    let before = self.heard[&backend].announcement.unwrap();
                    let notice = self.word_of(backend, true);
                    // A connection is with one process, and says everything once and in order.
                    if notice.announcement.unwrap().process == before.process {
                        self.heard.insert(backend, notice);
                        self.client.handle_readiness(now, backend, notice);
                    }
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
            10 | 11 => self.answer(),
            12 => self.push(),
            13 => self.client.handle_wishes(now),
            _ => {
                if !self.open.is_empty() {
                    let mut ticket = self.open.swap_remove(self.rng.below(self.open.len() as u32) as usize);
                    let outcome = Outcome::ALL[self.rng.below(7) as usize];
                    if self.rng.below(4) == 0 {
                        let cutoff = Cutoff::new(f64::from(self.rng.below(5)));
                        let ttl = Duration::from_millis(u64::from(self.rng.below(2_000)));
                        self.picker.heed(now, &mut ticket, Hint { cutoff, ttl });
                    }
                    self.picker.finish(now, ticket, outcome, None);
                }
            }
        }
        self.drive();
        self.check();
        if !matches!(event, 0 | 1..=3 | 4 | 5 | 10..=12) {
            let enough = usable_before.min(self.client.snapshot(self.now).subset_size);
            assert!(self.healthy() >= enough, "nobody who is needed is sent away: {usable_before} before");
        }
    }

    /// Something comes of a check, or nothing.
    fn answer(&mut self) {
        let Some(backend) = self.one_of(&self.asked.clone()) else { return };
        self.asked.remove(&backend);
        match self.rng.below(8) {
            0 => self.client.handle_reset(self.now, backend),
            // Lost on the way.
            1 => {}
            _ => {
                let notice = self.old_word_of(backend);
                self.on_datagram(backend, notice, true);
            }
        }
    }

    fn push(&mut self) {
        let known: BTreeSet<BackendId> = self.said.keys().copied().collect();
        if let Some(backend) = self.one_of(&known) {
            let notice = self.old_word_of(backend);
            self.on_datagram(backend, notice, false);
        }
    }

    fn healthy(&self) -> usize {
        let snapshot = self.client.snapshot(self.now);
        snapshot.backends.iter().filter(|one| one.state == BackendState::Healthy).count()
    }

    /// Unless it is throttled: succeeds exactly if some connected candidate has room; waits exactly if one without a connection would have.
    fn begin(&mut self) {
        let snapshot = self.client.snapshot(self.now);
        let healthy = || snapshot.backends.iter().filter(|one| one.state == BackendState::Healthy && !is_left_out(one));
        let has_room = healthy().any(|one| one.link == LinkState::Connected && one.active < 3);
        let is_waking = |one: &BackendSnapshot| one.state == BackendState::Healthy && one.link == LinkState::Waking;
        let may_wake = healthy().any(|one| one.link != LinkState::Connected) || snapshot.backends.iter().any(is_waking);
        let begun = self.picker.begin(&mut self.local, self.now, &meta(), &mut self.rng);
        if let Err(Refusal::Throttled) = begun {
            assert_eq!(self.throttle, Mode::On);
            return;
        }
        assert_eq!(begun.is_ok(), has_room, "{begun:?}");
        assert_eq!(matches!(begun, Err(Refusal::Waking)), !has_room && may_wake, "{begun:?}");
        let has_wish = begun.as_ref().map_or_else(|refusal| *refusal == Refusal::Waking, Ticket::wakes);
        // A driver hears of it a little later.
        if has_wish && self.rng.below(2) == 0 {
            self.client.handle_wishes(self.now);
        }
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
                    self.asked.remove(&backend);
                    self.heard.remove(&backend);
                }
                Action::Deactivate(backend) => {
                    assert!(self.connected.remove(&backend), "{backend} has no connection to let go of");
                }
                Action::Check(backend) => {
                    self.asked.insert(backend);
                }
            }
        }
        if let Some(picker) = self.client.poll_picker() {
            self.picker = picker;
        }
    }

    fn check(&self) {
        let snapshot = self.client.snapshot(self.now);
        let healthy: Vec<_> =
            snapshot.backends.iter().filter(|one| one.state == BackendState::Healthy && !is_left_out(one)).collect();
        let pickable = healthy.iter().filter(|one| one.link != LinkState::Waking).count();
        assert_eq!(self.picker.len(), pickable, "the picker has who is healthy");
        for one in &snapshot.backends {
            let is_connected = one.link == LinkState::Connected;
            assert_eq!(self.connected.contains(&one.backend), is_connected, "{} is {:?}", one.backend, one.link);
            if is_connected || one.link != LinkState::Connecting {
                let heard = self.heard[&one.backend].readiness;
                let expected = if heard == Readiness::Ready { BackendState::Healthy } else { BackendState::LameDuck };
                assert_eq!(one.state, expected, "{}: the latest word counts", one.backend);
            } else {
                assert_eq!(one.state, BackendState::Refusing);
            }
            assert!(one.link != LinkState::Inactive || one.active == 0, "nothing is in flight without a connection");
        }
        // The subset, its stand-ins (8 at least) and those who wait for their successors.
        assert!(snapshot.backends.len() <= 2 * SIZE + 8 + 2, "{} members", snapshot.backends.len());
        let active: u32 = snapshot.backends.iter().map(|one| one.active).sum();
        assert!(active as usize <= self.open.len(), "nothing is counted twice");
        if let Some(at) = self.client.poll_timeout() {
            assert!(at <= self.now + Duration::from_secs(13), "nothing waits for ever: {at:?} at {:?}", self.now);
        }
    }
}

fn is_left_out(backend: &BackendSnapshot) -> bool {
    backend.why.starts_with("left out")
}

fn run(seed: u64) {
    let mut swarm = Swarm::new(seed);
    for _ in 0..400 {
        swarm.step();
    }
    // Calm: whoever is asked for connects, and all are ready.
    for log in swarm.said.values_mut() {
        let last = log.last().unwrap().announcement.unwrap();
        let announcement = Some(Announcement { process: last.process + 1, number: 1 });
        log.push(Notice { readiness: Readiness::Ready, announcement });
    }
    for backend in std::mem::take(&mut swarm.connected) {
        swarm.client.handle_lost(swarm.now, backend);
    }
    for _ in 0..200 {
        for backend in swarm.dialling.clone() {
            swarm.said.entry(backend).or_insert_with(|| {
                vec![Notice { readiness: Readiness::Ready, announcement: Some(Announcement { process: 1, number: 1 }) }]
            });
            swarm.on_connected(backend, false);
        }
        for backend in std::mem::take(&mut swarm.asked) {
            let notice = swarm.word_of(backend, false);
            swarm.on_datagram(backend, notice, true);
        }
        swarm.drive();
        swarm.check();
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
