//! A second attempt beside one that takes long, as core says: the first answer wins, and the other attempt is cancelled.
//!
//! A request is one attempt at a time in this world, so the second one is a request of its own, its *twin*: whatever
//! becomes of that becomes of the request it is for. Only requests of the first service have one.

use evenkeel_core::{BackendId, Outcome, Picker};

use super::World;
use super::asking::first_meta;
use super::event::{Event, RequestId};
use super::requests::{At, Request};
use super::tally::End;

impl World<'_> {
    /// Looks again once the answer is late.
    pub(super) fn plan_hedge(&mut self, id: RequestId) {
        let now = self.time();
        let Some(request) = self.requests.get(id).filter(|one| one.parent.is_none() && one.twin.is_none()) else {
            return;
        };
        let picker = &self.clients[request.client as usize].picker;
        if let Some(after) = picker.hedge_after(now, &first_meta(request)) {
            self.queue.push(self.now + after.as_nanos() as u64, Event::Late(id, request.tries));
        }
    }

    pub(super) fn on_late(&mut self, id: RequestId, tries: u32) {
        let now = self.time();
        let is_late = |one: &&mut Request| one.wanted && one.tries == tries && one.ticket.is_some();
        let Some(request) = self.requests.get_mut(id).filter(is_late) else { return };
        let (first, backend) = (first_meta(request), BackendId(u64::from(request.backend)));
        let client = &mut self.clients[request.client as usize];
        let (local, rng) = (&mut client.local, &mut client.rng);
        let hedged = client.picker.hedge(local, now, &first, &mut request.tried, backend, rng);
        let Ok(ticket) = hedged else { return };
        let mut twin = Request::new(request.client, request.asked);
        (twin.cpu, twin.wait) = request.own.unwrap_or((request.cpu, request.wait));
        (twin.home, twin.root_asked, twin.deadline) = (request.home, request.root_asked, request.deadline);
        (twin.key, twin.tried, twin.tries) = (request.key, request.tried, request.tries + 1);
        (twin.criticality, twin.customer) = (request.criticality, request.customer);
        (twin.method, twin.lot, twin.twin_of) = (request.method, request.lot, Some(id));
        let twin = self.requests.insert(twin);
        if let Some(request) = self.requests.get_mut(id) {
            request.twin = Some(twin);
        }
        self.send(twin, ticket);
    }

    /// Whether this was one of two attempts, and all that is to be done about its end is done.
    pub(super) fn is_hedged(&mut self, id: RequestId, outcome: Outcome) -> bool {
        let Some(request) = self.requests.get_mut(id) else { return false };
        match (request.twin_of, request.twin) {
            (Some(first), _) => {
                self.on_twin_ended(first, id, outcome);
                true
            }
            // The other one may still be answered.
            (None, Some(_)) if is_lost(outcome) => {
                request.outcome = outcome;
                true
            }
            (None, _) => false,
        }
    }

    fn on_twin_ended(&mut self, first: RequestId, twin: RequestId, outcome: Outcome) {
        let Some(ended) = self.requests.get_mut(twin) else { return };
        ended.wanted = false;
        let (worked, is_useless) = (ended.worked, ended.is_useless);
        self.forget_if_done(twin);
        let Some(request) = self.requests.get_mut(first).filter(|one| one.wanted && one.twin == Some(twin)) else {
            return;
        };
        request.twin = None;
        let is_waiting = request.ticket.is_some();
        match (is_lost(outcome), is_waiting) {
            (true, true) => {}
            (true, false) => {
                request.is_useless = is_useless;
                self.go_on_or_end(first, outcome);
            }
            (false, _) => {
                request.worked = worked;
                self.outrun(first);
                self.end_request(first, End::of(outcome));
                self.cancel_there(first);
            }
        }
    }

    /// The other attempt has won, or nobody waits any more.
    pub(super) fn drop_attempt(&mut self, id: RequestId) {
        self.outrun(id);
        if let Some(request) = self.requests.get_mut(id) {
            request.wanted = false;
        }
        self.cancel_there(id);
        self.forget_if_done(id);
    }

    fn outrun(&mut self, id: RequestId) {
        self.settle_with(id, Outcome::Cancelled, None, Picker::outrun);
    }

    /// The backend hears a little later that nobody waits.
    fn cancel_there(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id).filter(|one| one.at != At::Nowhere) else { return };
        let trip = self.net.note_trip(self.steps(request.client, request.backend));
        self.queue.push(self.now + trip, Event::Cancel(id));
    }
}

/// Whether another attempt may do better.
fn is_lost(outcome: Outcome) -> bool {
    outcome == Outcome::Unsent || (outcome.is_error() && !outcome.forbids_retries())
}
