//! Connections: what the brains ask for, what travels on them, how they end.

use std::collections::VecDeque;

use evenkeel_core::server::ServerAction;
use evenkeel_core::{Action, BackendId, Greeting, Outcome, Readiness};

use super::World;
use super::client::LinkState;
use super::event::{Event, LinkId, Note};
use super::task::Watcher;

impl World<'_> {
    /// Does what a client's brain asks for, takes its picker, and sees that it is woken.
    pub(super) fn pump_client(&mut self, client: u32) {
        while let Some(action) = self.clients[client as usize].brain.poll_action() {
            match action {
                Action::Connect(backend) => self.dial(client, backend.0 as u32),
                Action::Disconnect(backend) => self.disconnect(client, backend),
                Action::Deactivate(backend) => self.let_go(client, backend),
                Action::Check(backend) => self.ask_how_it_is(client, backend),
            }
        }
        let task = &mut self.clients[client as usize];
        if task.refresh_picker() && !task.waiting.is_empty() {
            self.queue.push(self.now, Event::Woken(client));
        }
        if let Some(at) = task.brain.poll_timeout().map(|at| at.nanos().max(self.now)).filter(|&at| at < task.wakes_at)
        {
            task.wakes_at = at;
            self.queue.push(at, Event::ClientTimer(client));
        }
    }

    pub(super) fn on_client_timer(&mut self, client: u32) {
        let now = self.time();
        let task = &mut self.clients[client as usize];
        if task.wakes_at != self.now || task.is_gone {
            return;
        }
        task.wakes_at = u64::MAX;
        task.brain.handle_timeout(now);
        self.pump_client(client);
    }

    /// Does what a server's brain asks for, and sees that it is measured.
    pub(super) fn pump_server(&mut self, backend: u32) {
        while let Some(action) = self.tasks[backend as usize].brain.poll_action() {
            match action {
                ServerAction::Announce(readiness) => self.announce(backend, readiness),
                ServerAction::Close => self.close(backend),
                ServerAction::Exit => self.on_exit(backend),
            }
        }
        self.tell_central(backend);
        let task = &mut self.tasks[backend as usize];
        if !task.is_up {
            return;
        }
        if let Some(at) =
            task.brain.poll_timeout().map(|at| at.nanos().max(self.now)).filter(|&at| at < task.measured_at)
        {
            task.measured_at = at;
            self.queue.push(at, Event::ServerTimer(backend));
        }
    }

    fn announce(&mut self, backend: u32, readiness: Readiness) {
        let now = self.time();
        let task = &mut self.tasks[backend as usize];
        task.announced += 1;
        task.peers.handle_announced(now, task.announced);
        let note = if readiness == Readiness::Ready { Note::Ready } else { Note::Lame };
        let mut watchers = std::mem::take(&mut self.tasks[backend as usize].watchers);
        for watcher in &mut watchers {
            watcher.unheard += 1;
            self.send_note_down(watcher.link, backend, note);
        }
        self.tasks[backend as usize].watchers = watchers;
        self.await_inactive(backend);
        self.send_pushes(backend);
        self.tell_clients(backend);
    }

    pub(super) fn tell_clients(&mut self, backend: u32) {
        let now = self.time();
        let task = &mut self.tasks[backend as usize];
        // Who has heard what matters only to a task that wants nothing more.
        if task.brain.readiness() == Readiness::LameDuck {
            let clients = task.clients();
            task.unreached_told = clients.unreached;
            task.brain.handle_clients(now, clients);
        }
    }

    /// Connections are closed in good order once all that is in flight is answered; core says how long that may take.
    pub(super) fn close(&mut self, backend: u32) {
        let now = self.time();
        let task = &mut self.tasks[backend as usize];
        task.is_closing = task.gate.in_flight() > 0;
        if task.is_closing {
            return;
        }
        for watcher in std::mem::take(&mut self.tasks[backend as usize].watchers) {
            self.send_note_down(watcher.link, backend, Note::Goodbye);
        }
        self.tasks[backend as usize].brain.handle_closed(now);
    }

    /// Opens a connection: a round trip for TCP, then the client's first words reach the backend.
    fn dial(&mut self, client: u32, backend: u32) {
        self.epochs += 1;
        let epoch = self.epochs;
        let place = self.clients[client as usize].open(backend, epoch);
        let link = LinkId { client, place, epoch };
        if self.net.is_cut(client, backend) {
            self.queue.push(self.now + CONNECT_TIMEOUT, Event::Note(Note::Refused, link));
            return;
        }
        let steps = self.steps(client, backend);
        let trips = [(); 3].map(|()| self.net.note_trip(steps));
        if let Some(link) = self.link(link) {
            link.up_until = 0;
        }
        self.queue.push(self.now + trips.iter().sum::<u64>(), Event::Dial(link));
    }

    /// The client's first words are there.
    pub(super) fn on_dial(&mut self, id: LinkId) {
        let is_foreign = self.clients[id.client as usize].is_foreign;
        let Some(link) = self.link(id) else { return };
        let backend = link.backend;
        if self.net.is_cut(id.client, backend) {
            self.queue.push(self.now + CONNECT_TIMEOUT, Event::Note(Note::Refused, id));
            return;
        }
        let task = &mut self.tasks[backend as usize];
        if !task.is_up {
            let trip = self.net.note_trip(self.steps(id.client, backend));
            self.queue.push(self.now + trip, Event::Note(Note::Refused, id));
            return;
        }
        let (process, announced, now) = (task.process, task.announced, self.now);
        task.watchers.push(Watcher { link: id, unheard: 0, is_silent: is_foreign });
        let note = if task.brain.readiness() == Readiness::Ready { Note::Welcome } else { Note::WelcomeLame };
        if let Some(link) = self.link(id) {
            (link.process, link.announced, link.greeted) = (process, announced, now);
        }
        self.tell_clients(backend);
        self.send_note_down(id, backend, note);
        self.pump_server(backend);
    }

    /// A note arrives, at whichever end it was meant for.
    pub(super) fn on_note(&mut self, note: Note, id: LinkId) {
        match note {
            Note::Heard | Note::Left | Note::Check => self.on_note_up(note, id),
            Note::Silence => self.on_silence(id),
            _ => self.on_note_down(note, id),
        }
    }

    fn on_note_down(&mut self, note: Note, id: LinkId) {
        let now = self.time();
        let is_foreign = self.clients[id.client as usize].is_foreign;
        let Some(link) = self.link(id) else { return };
        let (backend, leaving) = (link.backend, link.state == LinkState::Leaving);
        let name = BackendId(u64::from(backend));
        match note {
            Note::Welcome | Note::WelcomeLame => {
                if leaving {
                    return self.leave_if_empty(id);
                }
                link.state = LinkState::Open;
                let lame = note == Note::WelcomeLame && !is_foreign;
                let readiness = if lame { Readiness::LameDuck } else { Readiness::Ready };
                let (notice, process, greeted) = (link.notice(readiness), link.process, link.greeted);
                let takes_checks = !is_foreign && self.takes_datagrams(backend);
                if takes_checks {
                    self.take_key(id.client, backend, process, greeted);
                }
                let greeting = Greeting { notice, takes_checks };
                self.clients[id.client as usize].brain.handle_connected(now, name, greeting);
                self.note_connected(id.client, backend, notice);
                self.note_told(id.client, backend, notice);
            }
            Note::Ready | Note::Lame if is_foreign || leaving => {}
            Note::Ready | Note::Lame => {
                // All are told of every announcement, in order.
                link.announced += 1;
                let readiness = if note == Note::Ready { Readiness::Ready } else { Readiness::LameDuck };
                let notice = link.notice(readiness);
                self.clients[id.client as usize].brain.handle_readiness(now, name, notice);
                self.note_said(id.client, backend, notice);
                self.note_told(id.client, backend, notice);
                self.send_note_up(id, backend, Note::Heard);
            }
            Note::Report => {
                let Some(report) = self.reports.get_mut(&id.epoch).and_then(VecDeque::pop_front) else { return };
                let client = &mut self.clients[id.client as usize];
                client.brain.handle_report(now, name, &report);
                if let Some(baseline) = &client.baseline {
                    baseline.on_report(now, name, &report);
                }
            }
            // Closed in good order: what is still on it was never let in.
            Note::Goodbye => return self.lose(id, Outcome::Unsent),
            _ => return self.lose(id, Outcome::Failed),
        }
        self.pump_client(id.client);
    }

    fn on_note_up(&mut self, note: Note, id: LinkId) {
        let Some(link) = self.link(id) else {
            // The client has freed the place: this is how its backend hears of it.
            return self.forget_watcher(id);
        };
        let (backend, process) = (link.backend, link.process);
        let task = &mut self.tasks[backend as usize];
        if !task.is_up || task.process != process {
            return;
        }
        if note == Note::Check {
            self.reports.entry(id.epoch).or_default().push_back(task.gate.report());
            return self.send_note_down(id, backend, Note::Report);
        }
        if let Some(watcher) = task.watchers.iter_mut().find(|one| one.link == id) {
            watcher.unheard = watcher.unheard.saturating_sub(1);
        }
        self.tell_clients(backend);
        self.pump_server(backend);
    }

    fn forget_watcher(&mut self, id: LinkId) {
        let Some(backend) = self.left.remove(&id.epoch) else { return };
        let task = &mut self.tasks[backend as usize];
        task.forget_hint(id.epoch);
        let before = task.watchers.len();
        task.watchers.retain(|one| one.link != id);
        if task.is_up && task.watchers.len() < before {
            self.tell_clients(backend);
            self.pump_server(backend);
        }
    }

    /// The connection is gone in its client's eyes; what was on it ends so.
    pub(super) fn lose(&mut self, id: LinkId, outcome: Outcome) {
        let now = self.time();
        let Some(link) = self.link(id) else { return };
        let (backend, leaving, in_flight) = (link.backend, link.state == LinkState::Leaving, link.in_flight);
        if !leaving {
            let client = &mut self.clients[id.client as usize];
            client.forget_place(backend, id.place);
            client.brain.handle_lost(now, BackendId(u64::from(backend)));
            self.note_told_by_end(id.client, backend);
        }
        self.reports.remove(&id.epoch);
        self.note_lost(id.client, backend, leaving);
        if in_flight > 0 {
            for request in self.requests.find(|request| request.link == id && request.ticket.is_some()) {
                self.settle(request, outcome, None);
                self.go_on_or_end(request, outcome);
            }
        }
        if let Some(link) = self.link(id) {
            link.epoch = 0;
        }
        self.pump_client(id.client);
    }

    /// The brain has forgotten the backend.
    fn disconnect(&mut self, client: u32, backend: BackendId) {
        self.forget_key(client, backend.0 as u32);
        self.note_disconnected(client, backend.0 as u32);
        if self.clients[client as usize].place_of(backend).is_some() {
            self.tally.on_let_go(client);
            self.let_go(client, backend);
        }
    }

    /// The brain needs the connection no more: it closes once nothing is in flight.
    fn let_go(&mut self, client: u32, backend: BackendId) {
        self.note_touched(client);
        let task = &mut self.clients[client as usize];
        let Some(place) = task.place_of(backend) else { return };
        task.forget_place(backend.0 as u32, place);
        let link = &mut task.links[place as usize];
        link.state = LinkState::Leaving;
        let id = LinkId { client, place, epoch: link.epoch };
        self.leave_if_empty(id);
    }

    /// Closes a connection that its brain has let go of, once it is empty.
    pub(super) fn leave_if_empty(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        if link.state != LinkState::Leaving || link.in_flight > 0 {
            return;
        }
        let backend = link.backend;
        link.epoch = 0;
        self.reports.remove(&id.epoch);
        self.left.insert(id.epoch, backend);
        let trip = self.net.note_trip(self.steps(id.client, backend));
        self.queue.push(self.now + trip, Event::Note(Note::Left, id));
    }

    /// A connection on which nothing got through for so long that both ends give it up.
    fn on_silence(&mut self, id: LinkId) {
        let Some(link) = self.link(id) else { return };
        let backend = link.backend;
        if !self.net.is_silent(self.now, id.client, backend) {
            return;
        }
        self.lose(id, Outcome::Failed);
        for request in self.requests.find(|request| request.link == id) {
            self.on_cancel(request);
        }
        self.left.insert(id.epoch, backend);
        self.forget_watcher(id);
    }

    fn send_check(&mut self, client: u32, backend: BackendId) {
        let task = &self.clients[client as usize];
        let Some(place) = task.place_of(backend) else { return };
        let epoch = task.links[place as usize].epoch;
        self.send_note_up(LinkId { client, place, epoch }, backend.0 as u32, Note::Check);
    }

    /// A baseline asks everybody it is connected to.
    pub(super) fn on_poll(&mut self, client: u32, process: u32) {
        let task = &self.clients[client as usize];
        let lives = !task.is_gone && task.process == process;
        let Some(every) = task.baseline.as_ref().and_then(|one| one.poll_every()).filter(|_| lives) else { return };
        let open: Vec<BackendId> = task.picker.backends().collect();
        for backend in open {
            self.send_check(client, backend);
        }
        let next = self.now + every.as_nanos() as u64;
        if next < self.end() {
            self.queue.push(next, Event::Poll(client, process));
        }
    }

    pub(super) fn send_note_down(&mut self, link: LinkId, backend: u32, note: Note) {
        let trip = self.net.note_trip(self.steps(link.client, backend));
        self.deliver(link, backend, trip, Way::Down, Event::Note(note, link));
    }

    fn send_note_up(&mut self, link: LinkId, backend: u32, note: Note) {
        let trip = self.net.note_trip(self.steps(link.client, backend));
        self.deliver(link, backend, trip, Way::Up, Event::Note(note, link));
    }

    /// A request to its backend.
    pub(super) fn send_up(&mut self, link: LinkId, backend: u32, (key, leg): (u64, u64), event: Event) {
        let trip = self.net.trip(key, leg, self.steps(link.client, backend));
        self.deliver(link, backend, trip, Way::Up, event);
    }

    /// An answer to its client.
    pub(super) fn send_down(&mut self, link: LinkId, backend: u32, (key, leg): (u64, u64), event: Event) {
        let trip = self.net.trip(key, leg, self.steps(link.client, backend));
        if self.central.is_some() {
            self.queue.push_message(self.now + trip, event);
            return;
        }
        self.deliver(link, backend, trip, Way::Down, event);
    }

    /// In order on its connection; held back while nothing gets through.
    fn deliver(&mut self, id: LinkId, backend: u32, trip: u64, way: Way, event: Event) {
        if !self.net.cuts.is_empty() && self.net.is_cut(id.client, backend) {
            self.net.held.push((id, event));
            return;
        }
        let now = self.now;
        let Some(link) = self.clients[id.client as usize].link(id.place, id.epoch) else { return };
        let until = match way {
            Way::Up => &mut link.up_until,
            Way::Down => &mut link.down_until,
        };
        *until = (now + trip).max(*until);
        let at = *until;
        self.queue.push_message(at, event);
    }

    /// What was held back goes on its way, where the connection still stands.
    pub(super) fn release_held(&mut self) {
        for (id, event) in std::mem::take(&mut self.net.held) {
            let Some(backend) = self.link(id).map(|link| link.backend) else { continue };
            let way = match event {
                Event::Reach(..) | Event::Note(Note::Heard | Note::Check, _) => Way::Up,
                _ => Way::Down,
            };
            let trip = self.net.note_trip(self.steps(id.client, backend));
            self.deliver(id, backend, trip, way, event);
        }
    }
}

/// Which way a message goes.
#[derive(Clone, Copy)]
enum Way {
    Up,
    Down,
}

/// How long a client waits for a connection, as the network library has it.
pub(super) const CONNECT_TIMEOUT: u64 = 1_000_000_000;
