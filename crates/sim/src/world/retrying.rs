//! A request whose attempt has ended: once more, as core says, or over; and clients that do not ask core.

use evenkeel_core::{BackendId, Behind, Fate, Outcome, Repeat};

use super::World;
use super::asking::first_meta;
use super::event::{Event, RequestId};
use super::requests::{At, Request};
use super::tally::End;

impl World<'_> {
    /// An attempt is over and its ticket given back.
    pub(super) fn go_on_or_end(&mut self, id: RequestId, outcome: Outcome) {
        if self.is_hedged(id, outcome) {
            return;
        }
        if outcome != Outcome::Unsent && outcome.is_error() && self.ask_naively(id) {
            return;
        }
        match self.again(id, outcome) {
            Some(wait) => self.queue.push(self.now + wait, Event::Again(id)),
            None => self.end_request(id, End::of(outcome)),
        }
    }

    /// Nanoseconds to the next attempt, if core wants one.
    fn again(&mut self, id: RequestId, outcome: Outcome) -> Option<u64> {
        let now = self.time();
        let request = self.requests.get_mut(id).filter(|request| request.wanted)?;
        // One that its backend may still be at cannot be at another too, in this world.
        let repeat = match request.at {
            At::Nowhere if request.is_useless => Repeat::Useless,
            At::Nowhere => Repeat::Safe,
            _ => Repeat::Unsafe,
        };
        let (first, backend) = (first_meta(request), BackendId(u64::from(request.backend)));
        let spilling = self.clients[request.home as usize].spilling.as_ref();
        let mut others = spilling.into_iter().flat_map(|one| &one.parts).filter(|&&part| part != request.client);
        let elsewhere = others.any(|&part| self.clients[part as usize].picker.is_usable());
        let fate = Fate { backend, outcome, repeat, pushback: None, elsewhere };
        let client = &mut self.clients[request.client as usize];
        match client.picker.again(now, &first, &mut request.tried, &fate, &mut client.rng) {
            Ok(wait) => {
                request.tries += 1;
                request.outcome = outcome;
                Some(wait.as_nanos() as u64)
            }
            Err(stop) => {
                if let Some(behind) = stop.bubbles(outcome, &request.tried) {
                    self.pass_on(id, behind);
                }
                None
            }
        }
    }

    /// Whoever made this request for one of its own is told not to retry that either (B17), after this end of it.
    pub(super) fn pass_on(&mut self, id: RequestId, behind: Behind) {
        if self.scenario.retry.is_off() || self.scenario.retry.naive.is_some() {
            return;
        }
        let parent = self.requests.get(id).and_then(|request| request.parent);
        if let Some(parent) = parent.and_then(|parent| self.requests.get_mut(parent)) {
            parent.behind = parent.behind.max(Some(behind));
        }
    }

    /// Whether a naive client asks once more: a new attempt beside what the backend may still do for the old one, which
    /// it tells to stop.
    pub(super) fn ask_naively(&mut self, id: RequestId) -> bool {
        let Some(most) = self.scenario.retry.naive else { return false };
        let Some(old) = self.requests.get_mut(id).filter(|one| one.wanted && one.naive + 1 < most) else {
            return false;
        };
        old.wanted = false;
        let mut next = Request::new(old.client, old.asked);
        (next.cpu, next.wait) = old.own.unwrap_or((old.cpu, old.wait));
        (next.root_asked, next.deadline, next.key) = (old.root_asked, old.deadline, old.key);
        (next.criticality, next.customer, next.method, next.lot) = (old.criticality, old.customer, old.method, old.lot);
        (next.naive, next.tries) = (old.naive + 1, old.tries + 1);
        next.parent = old.parent.take();
        let (parent, client, backend, is_there) = (next.parent, old.client, old.backend, old.at != At::Nowhere);
        if parent.is_none() {
            next.deadline = self.now + self.scenario.clients.deadline.nanos();
        }
        let deadline = next.deadline;
        let next = self.requests.insert(next);
        match parent {
            None => {
                if self.deadlines.is_empty() {
                    self.queue.push(deadline, Event::Expire);
                }
                self.deadlines.push_back((deadline, next));
            }
            Some(parent) => {
                if let Some(parent) = self.requests.get_mut(parent) {
                    parent.calls.push(next);
                }
            }
        }
        if is_there {
            let trip = self.net.note_trip(self.steps(client, backend));
            self.queue.push(self.now + trip, Event::Cancel(id));
        }
        self.forget_if_done(id);
        self.ask(next);
        true
    }
}
