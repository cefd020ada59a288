//! Datagrams: what clients without a connection ask, what backends answer, and what they push unasked.
//!
//! A datagram travels alone: it may be lost, and it may arrive before one that was sent earlier. Both ends drop what the
//! network library drops: an answer that was not asked for or came before, a push that was overtaken, a question of a key
//! that is not known.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::client::Checked;
use evenkeel_core::server::{PeerAddress, Question, Verdict};
use evenkeel_core::{Announcement, BackendId, CheckedBy, LinkState, LoadReport, Notice, Readiness};

use super::World;
use super::event::Event;

/// What a client asks a backend with; a connection brought it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Which secret of the backend it is made of.
    secret: u32,
    /// Unique in the world.
    number: u64,
    /// Counts its questions.
    sequence: u64,
    /// The question that is answered next, if any is.
    asked: Option<u64>,
    /// Which process said last what time it is, and when that was.
    proof: (u32, u64),
    /// The process that said last that it remembers.
    remembered_by: u32,
    /// The last push that was let through, and when.
    pushed: Option<(Announcement, u64)>,
}

/// Those on their way, and who has not heard yet what was announced.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    travelling: BTreeMap<u32, Datagram>,
    sent: u32,
    keys: u64,
    /// By backend and client: what was announced to an inactive client that the backend knows, and when.
    untold: BTreeMap<(u32, u32), (Announcement, u64)>,
}

impl Datagrams {
    /// When the announcements were made that somebody has not heard.
    pub(crate) fn untold(&self) -> impl Iterator<Item = u64> {
        self.untold.values().map(|&(_, at)| at)
    }
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    client: u32,
    backend: u32,
    key: u64,
    says: Says,
}

#[derive(Clone, Copy, Debug)]
enum Says {
    Question { secret: u32, sequence: u64, heard: Option<Announcement>, proof: (u32, u64), is_farewell: bool },
    Answer { sequence: u64, notice: Notice, remembered: bool, report: LoadReport, time: u64 },
    Push { notice: Notice, time: u64 },
    Reset { sequence: u64 },
}

impl World<'_> {
    /// A client's brain wants to know how a backend is. Without a key there is nothing to ask with.
    pub(super) fn ask_how_it_is(&mut self, client: u32, backend: BackendId) {
        let task = &mut self.clients[client as usize];
        let heard = task.brain.heard(backend);
        let backend = backend.0 as u32;
        let Some(key) = task.keys.get_mut(&backend) else { return };
        key.sequence += 1;
        key.asked = Some(key.sequence);
        let (secret, sequence, proof) = (key.secret, key.sequence, key.proof);
        let says = Says::Question { secret, sequence, heard, proof, is_farewell: false };
        let key = key.number;
        self.send_datagram(Datagram { client, backend, key, says });
    }

    /// A connection hands a key over; one that is still good is kept.
    pub(super) fn take_key(&mut self, client: u32, backend: u32, process: u32, time: u64) {
        let secret = self.secret_of(backend, process);
        self.datagrams.keys += 1;
        let number = self.datagrams.keys;
        let fresh =
            Key { secret, number, sequence: 0, asked: None, proof: (process, time), remembered_by: 0, pushed: None };
        let key = self.clients[client as usize].keys.entry(backend).or_insert(fresh);
        if key.secret != secret {
            *key = fresh;
        }
        key.proof = (process, time);
    }

    /// Whether the backend can be asked without a connection.
    pub(super) fn takes_datagrams(&self, backend: u32) -> bool {
        self.backends_of(self.tasks[backend as usize].service).datagrams
    }

    fn secret_of(&self, backend: u32, process: u32) -> u32 {
        let keeps = self.backends_of(self.tasks[backend as usize].service).keeps_secret;
        if keeps { 1 } else { process }
    }

    /// On its way, or lost.
    fn send_datagram(&mut self, datagram: Datagram) {
        let Datagram { client, backend, .. } = datagram;
        self.tally.on_datagram(self.now);
        let trip = self.net.datagram_trip(self.steps(client, backend));
        let Some(trip) = trip.filter(|_| !self.net.is_blocked(client, backend)) else { return };
        self.datagrams.sent = self.datagrams.sent.wrapping_add(1);
        let number = self.datagrams.sent;
        self.datagrams.travelling.insert(number, datagram);
        self.queue.push_message(self.now + trip, Event::Datagram(number));
    }

    pub(super) fn on_datagram(&mut self, number: u32) {
        let Some(datagram) = self.datagrams.travelling.remove(&number) else { return };
        match datagram.says {
            Says::Question { .. } => self.on_question(datagram),
            Says::Answer { .. } | Says::Push { .. } | Says::Reset { .. } => self.on_word_of_backend(datagram),
        }
    }

    /// At the backend, whichever of its processes is there now.
    fn on_question(&mut self, datagram: Datagram) {
        let Datagram { client, backend, key, says } = datagram;
        let Says::Question { secret, sequence, heard, proof, is_farewell } = says else { return };
        let (now, process) = (self.time(), self.tasks[backend as usize].process);
        if !self.tasks[backend as usize].is_up {
            return;
        }
        if secret != self.secret_of(backend, process) {
            return self.send_datagram(Datagram { says: Says::Reset { sequence }, ..datagram });
        }
        let question = Question {
            peer: key,
            sequence,
            address: address_of(client),
            heard: heard.filter(|heard| heard.process == u64::from(process)).map_or(0, |heard| heard.number),
            age: (proof.0 == process).then(|| Duration::from_nanos(self.now.saturating_sub(proof.1))),
            every: if is_farewell { Duration::ZERO } else { self.scenario.idle.check_every.get() },
        };
        let task = &mut self.tasks[backend as usize];
        if let Verdict::Answer { remembered } = task.peers.handle_question(now, &question) {
            let (notice, report, time) = (task.notice(), task.gate.report(), self.now);
            let says = Says::Answer { sequence, notice, remembered, report, time };
            self.send_datagram(Datagram { says, ..datagram });
        }
        self.pump_peers(backend);
    }

    /// At the client: let through only if it was waited for, or is not older than what was pushed before.
    fn on_word_of_backend(&mut self, datagram: Datagram) {
        let Datagram { client, backend, key: number, says } = datagram;
        let (now, name) = (self.time(), BackendId(u64::from(backend)));
        let task = &mut self.clients[client as usize];
        let Some(key) = task.keys.get_mut(&backend).filter(|key| key.number == number) else { return };
        if task.is_gone {
            return;
        }
        match says {
            Says::Question { .. } => return,
            Says::Reset { sequence } => {
                if key.asked.take_if(|asked| *asked == sequence).is_none() {
                    return;
                }
                task.brain.handle_reset(now, name);
                self.note_touched(client);
            }
            Says::Answer { sequence, notice, remembered, report, time } => {
                if key.asked.take_if(|asked| *asked == sequence).is_none() {
                    return;
                }
                let process = process_of(notice);
                key.proof = (process, time);
                key.remembered_by = if remembered { process } else { 0 };
                task.brain.handle_checked(now, name, &Checked { notice, remembered, report });
                self.note_datagram(client, backend, notice);
                self.note_told(client, backend, notice);
            }
            Says::Push { notice, time } => {
                let Some(said) = notice.announcement else { return };
                let is_old = |&(last, at): &(Announcement, u64)| {
                    said < last || (said == last && self.now - at < PUSHED_AGAIN_AFTER)
                };
                if key.pushed.as_ref().is_some_and(is_old) {
                    return;
                }
                key.pushed = Some((said, self.now));
                key.proof = (process_of(notice), time);
                task.brain.handle_pushed(now, name, notice);
                self.note_datagram(client, backend, notice);
                self.note_told(client, backend, notice);
            }
        }
        self.pump_client(client);
    }

    /// Sends what a backend wants pushed, and sees that it goes on with it.
    pub(super) fn send_pushes(&mut self, backend: u32) {
        while let Some((key, address)) = self.tasks[backend as usize].peers.poll_push() {
            let says = Says::Push { notice: self.tasks[backend as usize].notice(), time: self.now };
            self.send_datagram(Datagram { client: client_at(address), backend, key, says });
        }
        let task = &mut self.tasks[backend as usize];
        let next = task.peers.poll_timeout().map(|at| at.nanos().max(self.now));
        if let Some(at) = next.filter(|&at| at < task.pushes_at) {
            task.pushes_at = at;
            self.queue.push(at, Event::PeersTimer(backend));
        }
    }

    /// The same, and the server hears how many are still to be reached.
    fn pump_peers(&mut self, backend: u32) {
        self.send_pushes(backend);
        let task = &self.tasks[backend as usize];
        if task.peers.unreached() != task.unreached_told {
            self.tell_clients(backend);
            self.pump_server(backend);
        }
    }

    pub(super) fn on_peers_timer(&mut self, backend: u32) {
        let now = self.time();
        let task = &mut self.tasks[backend as usize];
        if task.pushes_at != self.now {
            return; // an earlier look was planned since
        }
        task.pushes_at = u64::MAX;
        if !task.is_up {
            return;
        }
        task.peers.handle_timeout(now);
        self.pump_peers(backend);
    }

    /// A backend wants no more requests: from now on it counts until the inactive clients it knows have heard that.
    pub(super) fn await_inactive(&mut self, backend: u32) {
        let task = &self.tasks[backend as usize];
        if self.scenario.idle.after.is_none() || task.brain.readiness() == Readiness::Ready {
            return;
        }
        let (process, now) = (task.process, self.time());
        let Some(said) = task.notice().announcement else { return };
        for (number, client) in (0..).zip(&self.clients) {
            let is_known = client.keys.get(&backend).is_some_and(|key| key.remembered_by == process);
            if client.is_gone || !is_known || self.net.is_blocked(number, backend) {
                continue;
            }
            let snapshot = client.brain.snapshot(now);
            let is_inactive = snapshot.backends.iter().any(|one| {
                let by_datagrams = one.link == LinkState::Inactive && one.checked_by == CheckedBy::Datagrams;
                one.backend.0 == u64::from(backend) && by_datagrams
            });
            if is_inactive {
                self.datagrams.untold.insert((backend, number), (said, self.now));
            }
        }
    }

    /// A client has handled what a backend said, in whichever way it came.
    pub(super) fn note_told(&mut self, client: u32, backend: u32, notice: Notice) {
        let untold = self.datagrams.untold.get(&(backend, client)).copied();
        if let Some((_, at)) = untold.filter(|&(said, _)| notice.announcement >= Some(said)) {
            self.datagrams.untold.remove(&(backend, client));
            self.tally.on_told(self.now, at);
        }
    }

    /// A client knows that a backend is gone, which says it all.
    pub(super) fn note_told_by_end(&mut self, client: u32, backend: u32) {
        if let Some((_, at)) = self.datagrams.untold.remove(&(backend, client)) {
            self.tally.on_told(self.now, at);
        }
    }

    /// Nobody is to be told of a backend that has no place here any more, and it is told so if it was ever asked.
    pub(super) fn forget_key(&mut self, client: u32, backend: u32) {
        self.datagrams.untold.remove(&(backend, client));
        let Some(key) = self.clients[client as usize].keys.remove(&backend) else { return };
        if key.sequence > 0 {
            let (secret, sequence, proof) = (key.secret, key.sequence + 1, key.proof);
            let says = Says::Question { secret, sequence, heard: None, proof, is_farewell: true };
            self.send_datagram(Datagram { client, backend, key: key.number, says });
        }
    }

    /// Keys that were ever handed over.
    pub(super) fn keys_made(&self) -> u64 {
        self.datagrams.keys
    }

    /// Share of pairs of a client and a backend that are inactive now.
    pub(super) fn inactive_share(&self) -> f64 {
        let (mut pairs, mut inactive) = (0_u32, 0_u32);
        for client in self.clients.iter().filter(|client| !client.is_gone) {
            for backend in client.brain.snapshot(self.time()).backends {
                pairs += 1;
                inactive += u32::from(backend.link == LinkState::Inactive);
            }
        }
        f64::from(inactive) / f64::from(pairs.max(1))
    }
}

fn process_of(notice: Notice) -> u32 {
    notice.announcement.map_or(0, |said| said.process as u32)
}

/// Clients have numbers where others have addresses.
fn address_of(client: u32) -> PeerAddress {
    let mut bytes = [0; PeerAddress::LENGTH];
    bytes[..4].copy_from_slice(&client.to_le_bytes());
    PeerAddress(bytes)
}

fn client_at(address: PeerAddress) -> u32 {
    let PeerAddress([a, b, c, d, ..]) = address;
    u32::from_le_bytes([a, b, c, d])
}

/// A push that came before is handled again no sooner, as the network library has it: its acknowledgement may be lost.
const PUSHED_AGAIN_AFTER: u64 = 10_000_000;
