//! Requests that wait for a handler to rest.

use std::fmt;
use std::sync::Arc;

use super::queue::{Entry, Place, Queue};
use super::rules::Mechanism;
use crate::Time;
use crate::server::gate::{Admission, Gate, Waiting};
use crate::server::refusal::{Refused, ServerRefusal};

/// Those a [`Gate`] let in who must wait. `T` is what the driver needs to go on with one of them. A driver with several
/// threads keeps it behind a lock, which only those take who wait, or end the wait of another.
///
/// After [`Line::enter`], whenever [`Running::rests`](super::super::Running::rests) says that somebody waits, and after
/// every [`Server::handle_timeout`](crate::Server::handle_timeout), the driver calls [`Line::next`] until there is none.
pub struct Line<T> {
    gate: Arc<Gate>,
    queue: Queue<T>,
}

/// Whoever is next, and what becomes of it.
#[derive(Debug)]
pub struct Called<T> {
    /// What the driver gave.
    pub payload: T,
    /// Start it now, it counts as running already; or refuse it.
    pub verdict: Result<Admission, Refused>,
}

impl<T> Line<T> {
    /// In front of this gate.
    pub fn new(gate: Arc<Gate>) -> Self {
        Line { gate, queue: Queue::default() }
    }

    /// Joins the line.
    pub fn enter(&mut self, waiting: Waiting, payload: T) -> Place {
        let place = self.queue.push(waiting, payload);
        self.count();
        place
    }

    /// Leaves it: the client went away. `None` where it has been called already.
    pub fn leave(&mut self, place: Place) -> Option<T> {
        let Entry { waiting, payload } = self.queue.remove(place)?;
        self.count();
        self.gate.forget(&waiting);
        Some(payload)
    }

    /// The next one to be started or refused now.
    pub fn next(&mut self, now: Time) -> Option<Called<T>> {
        if self.is_empty() {
            return None;
        }
        let rules = self.gate.rules();
        let (entry, refusal) = if rules.is_on(Mechanism::Queue) {
            match self.queue.take_victim(now, rules) {
                Some(victim) => victim,
                None if self.gate.running().now_exactly() < rules.slots() => self.queue.pop(now, rules)?,
                None => return None,
            }
        } else {
            // Without a queue nobody waits: whoever still does, goes.
            let (entry, _) = self.queue.pop(now, rules)?;
            (entry, None)
        };
        self.count();
        let Entry { waiting, payload } = entry;
        // Its customer may have used up its quota since, with those that came after it.
        let refusal = refusal.or_else(|| self.gate.is_out_of_quota(now, &waiting).then_some(ServerRefusal::OutOfQuota));
        let verdict = match refusal {
            Some(reason) => Err(self.gate.refuse_waiting(now, waiting, reason)),
            None => Ok(self.gate.start_waiting(now, waiting)),
        };
        Some(Called { payload, verdict })
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nobody does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn count(&self) {
        self.gate.rules().set_queued(self.queue.work());
        self.gate.running().set_waiting(self.queue.len() as u32);
    }
}

impl<T> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("waiting", &self.gate.running().waiting()).finish_non_exhaustive()
    }
}
