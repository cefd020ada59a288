//! What must hold after every event, whatever goes wrong: for swarms of random worlds.
//!
//! The checker keeps its own books, from what it was told, and compares them with those of the brains and of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use evenkeel_core::{
    Announcement, BackendId, BackendSnapshot, BackendState, Criticality, LinkState, Lot, Notice, Priority, Readiness,
};

use super::World;
use super::event::LinkId;
use super::requests::At;

/// Something that must hold does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The seed of the world.
    pub seed: u64,
    /// After how many events.
    pub events: u64,
    /// Simulated nanoseconds.
    pub at: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { seed, events, at, what } = self;
        write!(f, "seed {seed}, event {events}, at {:.6} s: {what}", *at as f64 * 1e-9)
    }
}

impl std::error::Error for Broken {}

/// The checker's own books.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Attempts that each client has on each connection.
    active: BTreeMap<LinkId, u32>,
    /// By client and backend, from when it is first connected to until the connection fails or is lost: what the backend
    /// said last, by whichever way the client heard it.
    said: BTreeMap<(u32, u32), Notice>,
    /// Clients whose brain is to be looked at after this event.
    touched: BTreeSet<u32>,
    broken: Option<String>,
}

impl Checker {
    fn is_lame(&self, client: u32, backend: u32) -> bool {
        self.said.get(&(client, backend)).is_some_and(|said| said.readiness == Readiness::LameDuck)
    }

    /// What a client believes of a backend is what it may.
    fn check_pair(&self, client: u32, backend: &BackendSnapshot, is_connected: bool) -> Option<String> {
        let name = backend.backend.0;
        let was_connected = self.said.contains_key(&(client, name as u32));
        if backend.state == BackendState::Refusing && was_connected {
            return Some(format!("client {client} calls backend {name} refusing, and no connection failed"));
        }
        if backend.link == LinkState::Inactive && (backend.active > 0 || is_connected) {
            return Some(format!("client {client} has requests or a connection at inactive backend {name}"));
        }
        (is_connected != (backend.link == LinkState::Connected))
            .then(|| format!("client {client} and its brain differ on whether backend {name} is connected"))
    }
}

fn process_of(notice: Notice) -> Option<u64> {
    notice.announcement.map(|Announcement { process, .. }| process)
}

impl World<'_> {
    /// An attempt begins.
    pub(super) fn note_begin(&mut self, link: LinkId, backend: u32) {
        let limit = self.scenario.client.active_max;
        let Some(checker) = &mut self.checker else { return };
        let client = link.client;
        let active = checker.active.entry(link).or_default();
        *active += 1;
        checker.touched.insert(client);
        if *active > limit {
            checker.broken = Some(format!("client {client} has {active} requests at backend {backend}, limit {limit}"));
        }
        if checker.is_lame(client, backend) {
            checker.broken = Some(format!("client {client} picked backend {backend} after its notice"));
        }
        if !self.clients[client as usize].is_connected(backend) {
            checker.broken = Some(format!("client {client} sent to backend {backend} before it was connected"));
        }
    }

    /// An attempt ends for its client.
    pub(super) fn note_settle(&mut self, link: LinkId) {
        let Some(checker) = &mut self.checker else { return };
        checker.touched.insert(link.client);
        match checker.active.get_mut(&link) {
            Some(active) if *active > 1 => *active -= 1,
            Some(1) => drop(checker.active.remove(&link)),
            _ => checker.broken = Some(format!("a request on {link:?} ended twice")),
        }
    }

    /// Something about a client may have changed.
    pub(super) fn note_touched(&mut self, client: u32) {
        if let Some(checker) = &mut self.checker {
            checker.touched.insert(client);
        }
    }

    /// A client has handled a greeting.
    pub(super) fn note_connected(&mut self, client: u32, backend: u32, notice: Notice) {
        let Some(checker) = &mut self.checker else { return };
        checker.said.entry((client, backend)).or_insert(notice);
        self.note_said(client, backend, notice);
    }

    /// A client has handled what a backend said on its connection: news, unless a datagram of the same process was later.
    pub(super) fn note_said(&mut self, client: u32, backend: u32, notice: Notice) {
        let Some(checker) = &mut self.checker else { return };
        checker.touched.insert(client);
        let Some(last) = checker.said.get_mut(&(client, backend)) else { return };
        if process_of(notice) != process_of(*last) || notice.announcement >= last.announcement {
            *last = notice;
        }
    }

    /// A client has handled what a backend said without a connection: news, if it is later than all before, and of the
    /// process that the client is connected to where it is.
    pub(super) fn note_datagram(&mut self, client: u32, backend: u32, notice: Notice) {
        let is_connected = self.clients[client as usize].is_connected(backend);
        let Some(checker) = &mut self.checker else { return };
        checker.touched.insert(client);
        let Some(last) = checker.said.get_mut(&(client, backend)) else { return };
        let may_be = !is_connected || process_of(notice) == process_of(*last);
        if may_be && notice.announcement > last.announcement {
            *last = notice;
        }
    }

    /// A client has lost a connection; the next one to that backend begins anew.
    pub(super) fn note_lost(&mut self, client: u32, backend: u32, was_leaving: bool) {
        if !was_leaving {
            self.note_disconnected(client, backend);
        }
    }

    /// A client has forgotten a backend.
    pub(super) fn note_disconnected(&mut self, client: u32, backend: u32) {
        let Some(checker) = &mut self.checker else { return };
        checker.touched.insert(client);
        checker.said.remove(&(client, backend));
    }

    /// A client process is gone, and all it knew.
    pub(super) fn note_client_gone(&mut self, client: u32) {
        let Some(checker) = &mut self.checker else { return };
        checker.said.retain(|&(other, _), _| other != client);
        checker.active.retain(|link, _| link.client != client);
    }

    /// Looks at everything; false where something does not hold.
    pub(super) fn check(&mut self) -> bool {
        let Some(mut checker) = self.checker.take() else { return true };
        let touched = std::mem::take(&mut checker.touched);
        if checker.broken.is_none() {
            checker.broken = self
                .check_requests()
                .or_else(|| touched.iter().find_map(|&client| self.check_client(client, &checker)))
                .or_else(|| self.check_tasks());
        }
        let holds = checker.broken.is_none();
        self.checker = Some(checker);
        holds
    }

    /// What is broken, once the run is over and everything should be at rest.
    pub(super) fn broken(&mut self) -> Option<Broken> {
        let found = self.checker.as_mut().and_then(|checker| checker.broken.take());
        let what = found.or_else(|| self.check_rest())?;
        Some(Broken { seed: self.seed, events: self.events, at: self.now, what })
    }

    /// Nothing lost, nothing counted twice.
    fn check_requests(&self) -> Option<String> {
        let open = self.requests.find(|request| request.wanted && request.parent.is_none()).len() as u64;
        let (asked, ended) = (self.tally.all_asked, self.tally.all_ended);
        (asked != ended + open).then(|| format!("{asked} asked for, {ended} ended, {open} open"))
    }

    /// The brain's books, the checker's and the connections' agree.
    fn check_client(&self, client: u32, checker: &Checker) -> Option<String> {
        let task = &self.clients[client as usize];
        if task.is_gone {
            return None;
        }
        let snapshot = task.brain.snapshot(self.time());
        for backend in &snapshot.backends {
            // What is left on a connection that was let go of is counted apart from what begins on a new one.
            let link = task.place_of(backend.backend).map(|place| {
                let epoch = task.links[place as usize].epoch;
                LinkId { client, place, epoch }
            });
            let noted = link.and_then(|link| checker.active.get(&link)).copied().unwrap_or(0);
            if backend.active != noted {
                let name = backend.backend.0;
                return Some(format!("client {client} counts {} at backend {name}, noted {noted}", backend.active));
            }
            let wrong = checker.check_pair(client, backend, task.is_connected(backend.backend.0 as u32));
            if wrong.is_some() {
                return wrong;
            }
        }
        let lame = task.picker.backends().find(|&BackendId(name)| checker.is_lame(client, name as u32));
        if let Some(BackendId(name)) = lame {
            return Some(format!("backend {name} can be picked by client {client} after its notice"));
        }
        let on_links: u32 = task.links.iter().filter(|link| link.epoch != 0).map(|link| link.in_flight).sum();
        let tickets = self.requests.find(|request| request.client == client && request.ticket.is_some()).len();
        (on_links as usize != tickets).then(|| format!("client {client}: {tickets} tickets, {on_links} on connections"))
    }

    /// What backends count is what they have.
    fn check_tasks(&self) -> Option<String> {
        let mut counts = vec![[0_u32; 3]; self.tasks.len()];
        let mut doors = vec![[0_u32; 2]; self.tasks.len()];
        for id in self.requests.find(|request| request.at != At::Nowhere) {
            let Some(request) = self.requests.get(id) else { continue };
            let [running, waiting] = &mut doors[request.backend as usize];
            *running += u32::from(request.admission.is_some() && matches!(request.at, At::Working | At::Queued));
            *waiting += u32::from(request.at == At::Waiting);
            let [admitted, in_service, working] = &mut counts[request.backend as usize];
            *admitted += u32::from(request.admission.is_some() || request.at == At::Waiting);
            *in_service += u32::from(matches!(request.at, At::Working | At::Resting | At::Calling));
            *working += u32::from(matches!(request.at, At::Working | At::Refusing));
        }
        self.tasks.iter().zip(counts).enumerate().filter(|(_, (task, _))| task.is_up).find_map(
            |(number, (task, has))| {
                let counted = [task.gate.in_flight(), task.in_service, task.machine.running()];
                let peers = task.peers.snapshot();
                if peers.unreached > peers.known || u64::from(peers.known) > self.keys_made() {
                    return Some(format!("backend {number} pushes to {} of {} clients", peers.unreached, peers.known));
                }
                let running = task.gate.running();
                let door = [running.now(), running.waiting()];
                if door != doors[number] {
                    let has = doors[number];
                    return Some(format!("backend {number} counts {door:?} handlers running and waiting, has {has:?}"));
                }
                let taken = self.central.as_ref().map_or(has[2], |central| central.taken(number as u32));
                (counted != has || taken != has[2]).then(|| {
                    format!("backend {number} counts {counted:?} let in, in service, on its cores, has {has:?}, {taken} taken")
                })
            },
        )
    }

    /// Whatever there is too much of, the best of what matters most is let in.
    pub(super) fn note_door(&mut self, backend: u32) {
        let (now, task) = (self.time(), &self.tasks[backend as usize]);
        let Some(checker) = &mut self.checker else { return };
        let best = Priority::new(Criticality::CriticalPlus, Lot(u16::MAX));
        if !task.brain.snapshot(now).admission.cutoff.admits(best) {
            checker.broken = Some(format!("backend {backend} lets nobody in"));
        }
    }

    /// Everything has come home.
    fn check_rest(&self) -> Option<String> {
        let left = self.requests.len();
        if left > 0 {
            return Some(format!("{left} requests never ended"));
        }
        self.clients.iter().enumerate().filter(|(_, task)| !task.is_gone).find_map(|(number, task)| {
            let active: u32 = task.brain.snapshot(self.time()).backends.iter().map(|one| one.active).sum();
            (active > 0).then(|| format!("client {number} still counts {active} requests"))
        })
    }
}
