//! A request at its client: asked for, picked for, answered, sent again, given up.

use std::time::Duration;

use evenkeel_core::rng::hash3;
use evenkeel_core::{
    Behind, CustomerId, Kind, LoadReport, Lot, Outcome, Picker, Refusal, RequestMeta, Rng, Ticket, Time,
};

use super::World;
use super::event::{Event, LinkId, RequestId};
use super::links::CONNECT_TIMEOUT;
use super::requests::{At, Request};
use super::serving::method_id;
use super::tally::End;
use crate::scenario::Clusters;

impl World<'_> {
    /// The next request of the trace.
    pub(super) fn on_arrive(&mut self) {
        let arrival = self.next;
        self.next = self.arrivals.next();
        let next_at = super::ORIGIN.saturating_add(self.next.at.nanos());
        if next_at < self.end() {
            self.queue.push(next_at, Event::Arrive);
        }
        let mut request = Request::new(arrival.client, self.now);
        request.cpu = arrival.cpu;
        request.wait = arrival.wait;
        request.deadline = self.now + self.scenario.clients.deadline.nanos();
        request.key = arrival.number;
        request.criticality = arrival.criticality;
        request.customer = arrival.customer;
        request.method = method_id(arrival.method);
        request.lot = Lot((hash3(self.seed, arrival.number, LOTS) >> 48) as u16);
        let deadline = request.deadline;
        let id = self.requests.insert(request);
        if self.deadlines.is_empty() {
            self.queue.push(deadline, Event::Expire);
        }
        self.deadlines.push_back((deadline, id));
        self.tally.on_asked(self.now);
        self.note_asked(id);
        let client = &mut self.clients[arrival.client as usize];
        // Drawn by the request's number, so that a policy that draws more or less changes nothing here.
        let drawn = || Rng::from_seed(hash3(self.seed, arrival.number, ADMITS));
        let now = Time::from_nanos(self.now);
        let admitted = client.admission.as_mut().is_none_or(|one| one.admit(now, &mut drawn()));
        if admitted {
            self.ask(id);
        } else {
            self.end_request(id, End::Refused);
        }
    }

    /// Picks a backend and sends the request there.
    pub(super) fn ask(&mut self, id: RequestId) {
        if self.central.is_some() {
            return self.ask_central(id);
        }
        let now = self.time();
        self.choose_cluster(id);
        let Some(request) = self.requests.get_mut(id) else { return };
        let meta = first_meta(request);
        if let Some((cpu, wait)) = request.own.take() {
            (request.cpu, request.wait) = (cpu, wait);
        }
        let client = &mut self.clients[request.client as usize];
        let begun = client.picker.begin_again(&mut client.local, now, &meta, &request.tried, &mut client.rng);
        let begun = match begun {
            Err(Refusal::AllFull) => self.begin_elsewhere(id).ok_or(Refusal::AllFull),
            begun => begun,
        };
        let Some(request) = self.requests.get_mut(id) else { return };
        let ticket = match begun {
            Ok(ticket) => ticket,
            Err(Refusal::Waking) => return self.wait_for_connection(id),
            Err(refusal) => {
                let (tries, before) = (request.tries, request.outcome);
                let behind = request.tried.bubbles_unmade(before).filter(|_| tries > 0);
                if refusal == Refusal::Throttled {
                    self.tally.on_held_back(request);
                    self.note_held_back(id);
                    self.pass_on(id, Behind::TooMuch);
                }
                if let Some(behind) = behind {
                    self.pass_on(id, behind);
                }
                // Whoever has an answer already, if a bad one, gets that.
                let end = if tries > 0 && before.is_error() { End::of(before) } else { End::Refused };
                return self.end_request(id, end);
            }
        };
        self.send(id, ticket);
        self.plan_hedge(id);
    }

    /// Sends a request to the backend that was picked.
    pub(super) fn send(&mut self, id: RequestId, ticket: Ticket) {
        let now = self.time();
        let Some(request) = self.requests.get_mut(id) else { return };
        let client = &mut self.clients[request.client as usize];
        let (backend, wakes) = (ticket.backend(), ticket.wakes());
        let place = client.routes[ticket.position()];
        let link = client.links.get_mut(place as usize).expect("a ticket is for a backend with a connection");
        debug_assert!(u64::from(link.backend) == backend.0, "a route leads elsewhere");
        link.in_flight += 1;
        if let Some(baseline) = &client.baseline {
            baseline.on_begin(now, backend);
        }
        request.backend = link.backend;
        request.link = LinkId { client: request.client, place, epoch: link.epoch };
        request.sent = self.now;
        request.outcome = Outcome::Served;
        (request.behind, request.is_useless) = (None, false);
        request.held = ticket.held();
        request.ticket = Some(ticket);
        let (link, backend, key, tries) = (request.link, request.backend, request.key, request.tries);
        let (is_root, cpu) = (request.parent.is_none(), request.cpu);
        let asker = link.client;
        let number = u32::from(request.tried.retries()) + request.naive;
        self.tally.on_attempt(self.tasks[backend as usize].service, number, request.root_asked);
        self.note_begin(link, backend);
        if is_root {
            self.tally.on_begin(backend);
            self.note_offered(asker, backend, cpu);
        }
        self.send_up(link, backend, (key, u64::from(tries) * 2), Event::Reach(id, tries));
        if wakes {
            self.wish(asker);
        }
    }

    /// An inactive backend is wanted.
    fn wish(&mut self, client: u32) {
        let now = self.time();
        self.clients[client as usize].brain.handle_wishes(now);
        self.note_touched(client);
        self.pump_client(client);
    }

    /// Everybody is inactive: it waits for the next picker, for as long as a connection may take.
    fn wait_for_connection(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (client, asked, is_root) = (request.client, request.asked, request.parent.is_none());
        if request.patient_until == 0 && is_root {
            self.tally.on_wait(asked);
        }
        if request.patient_until <= self.now {
            request.patient_until = self.now + CONNECT_TIMEOUT;
            self.queue.push(request.patient_until, Event::Impatient(id));
        }
        self.clients[client as usize].waiting.push(id);
        self.wish(client);
    }

    /// There is another picker.
    pub(super) fn on_woken(&mut self, client: u32) {
        for id in std::mem::take(&mut self.clients[client as usize].waiting) {
            if self.requests.get(id).is_some_and(|request| request.wanted) {
                self.ask(id);
            }
        }
    }

    pub(super) fn on_impatient(&mut self, id: RequestId) {
        let is_due = |request: &&Request| request.wanted && request.patient_until <= self.now;
        let Some(request) = self.requests.get(id).filter(is_due) else { return };
        let client = &mut self.clients[request.client as usize];
        let Some(place) = client.waiting.iter().position(|&waiting| waiting == id) else { return };
        client.waiting.remove(place);
        client.picker.refuse(Refusal::Waking);
        self.end_request(id, End::Refused);
    }

    /// The answer is there.
    pub(super) fn on_answer(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let (outcome, report) = (request.outcome, request.report);
        self.heed(id);
        self.settle(id, outcome, Some(&report));
        self.go_on_or_end(id, outcome);
    }

    /// The client hears what the backend refuses, with an answer.
    fn heed(&mut self, id: RequestId) {
        let now = self.time();
        let Some(request) = self.requests.get_mut(id) else { return };
        let (Some(hint), Some(ticket)) = (request.hint.take(), &mut request.ticket) else { return };
        let client = &self.clients[request.link.client as usize];
        if !client.is_foreign {
            client.picker.heed(now, ticket, hint);
        }
    }

    /// Gives the ticket back: for this client the attempt is over.
    pub(super) fn settle(&mut self, id: RequestId, outcome: Outcome, report: Option<&LoadReport>) {
        self.settle_with(id, outcome, report, |picker, now, ticket| picker.finish(now, ticket, outcome, report));
    }

    /// The same, given back in this way.
    pub(super) fn settle_with(
        &mut self,
        id: RequestId,
        outcome: Outcome,
        report: Option<&LoadReport>,
        give_back: impl FnOnce(&Picker, Time, Ticket),
    ) {
        let now = self.time();
        let Some(request) = self.requests.get_mut(id) else { return };
        let Some(ticket) = request.ticket.take() else { return };
        let (link, backend, sent) = (request.link, ticket.backend(), request.sent);
        let client = &mut self.clients[link.client as usize];
        give_back(&client.picker, now, ticket);
        if let Some(baseline) = &client.baseline {
            let latency = Duration::from_nanos(self.now - sent);
            baseline.on_answer(now, backend, latency, outcome, report.unwrap_or(&LoadReport::default()));
        }
        let empty = client.link(link.place, link.epoch).is_some_and(|link| {
            link.in_flight -= 1;
            link.in_flight == 0
        });
        self.note_settle(link);
        if empty {
            self.leave_if_empty(link);
        }
    }

    pub(super) fn on_again(&mut self, id: RequestId) {
        if self.requests.get(id).is_some_and(|request| request.wanted) {
            self.ask(id);
        }
    }

    /// The caller has what it gets. The request stays until its backend is done with it too.
    pub(super) fn end_request(&mut self, id: RequestId, end: End) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if !request.wanted {
            return self.forget_if_done(id);
        }
        request.wanted = false;
        if let Some(twin) = request.twin.take() {
            self.drop_attempt(twin);
        }
        let Some(request) = self.requests.get_mut(id) else { return };
        let parent = request.parent;
        match parent {
            None => {
                self.tally.on_end(self.now, request, end);
                if let Some(watch) = &mut self.watch {
                    watch.on_end(self.now, request, end);
                }
                let client = &mut self.clients[request.client as usize];
                if let Some(admission) = client.admission.as_mut().filter(|_| end != End::Refused) {
                    admission.on_end(Time::from_nanos(self.now), end == End::Served);
                }
            }
            Some(parent) => self.on_child_end(parent, end),
        }
        self.forget_if_done(id);
    }

    pub(super) fn forget_if_done(&mut self, id: RequestId) {
        if self.requests.get(id).is_some_and(|request| !request.wanted && request.at == At::Nowhere) {
            self.requests.remove(id);
        }
    }

    /// Deadlines that have passed.
    pub(super) fn on_expire(&mut self) {
        while let Some(&(deadline, id)) = self.deadlines.front() {
            if self.requests.get(id).is_none_or(|request| !request.wanted) {
                self.deadlines.pop_front();
                continue;
            }
            if deadline > self.now {
                self.queue.push(deadline, Event::Expire);
                return;
            }
            self.deadlines.pop_front();
            self.give_up(id, Outcome::Expired);
        }
    }

    /// Nobody waits any more; the backend hears of it a little later.
    pub(super) fn give_up(&mut self, id: RequestId, outcome: Outcome) {
        self.settle(id, outcome, None);
        if outcome == Outcome::Expired && self.ask_naively(id) {
            return;
        }
        self.end_request(id, End::of(outcome));
        let Some(request) = self.requests.get(id) else { return };
        if request.at != At::Nowhere {
            let trip = self.net.note_trip(self.steps(request.client, request.backend));
            self.queue.push(self.now + trip, Event::Cancel(id));
        }
    }

    /// How far a client is from a backend: 0 inside a cluster.
    pub(super) fn steps(&self, client: u32, backend: u32) -> u32 {
        Clusters::steps(self.clients[client as usize].cluster, self.tasks[backend as usize].cluster)
    }
}

/// What decisions look at.
pub(super) fn meta_of(request: &Request) -> RequestMeta {
    request.tried.meta(&first_meta(request))
}

/// The same of its first attempt.
pub(super) fn first_meta(request: &Request) -> RequestMeta {
    RequestMeta {
        criticality: request.criticality,
        deadline: Time::from_nanos(request.deadline),
        attempt: 0,
        kind: Kind::Unary,
        customer: CustomerId(request.customer),
        lot: request.lot,
        method: request.method,
    }
}

const ADMITS: u64 = 0x6164_6d69;
const LOTS: u64 = 0x6c6f_7473;
