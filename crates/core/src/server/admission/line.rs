//! Requests that wait for a handler to rest: the queue behind a lock, which is taken only while somebody waits.

#![expect(clippy::disallowed_types, reason = "whoever takes the lock waits, or ends the wait of another")]

use std::fmt;
use std::sync::{Arc, PoisonError};

use super::queue::{Entry, Place, Queue};
use super::rules::Mechanism;
use crate::Time;
use crate::server::gate::{Admission, Gate, Waiting};
use crate::server::refusal::{Refused, ServerRefusal};
use crate::sync::{Mutex, MutexGuard};

/// Those a [`Gate`] let in who must wait. `T` is what the driver needs to go on with one of them.
///
/// After [`Line::enter`], whenever [`Running::rests`](super::super::Running::rests) says that somebody waits, and after
/// every [`Server::handle_timeout`](crate::Server::handle_timeout), the driver calls [`Line::next`] until there is none.
pub struct Line<T> {
    gate: Arc<Gate>,
    queue: Mutex<Queue<T>>,
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
        Line { gate, queue: Mutex::new(Queue::default()) }
    }

    /// Joins the line.
    pub fn enter(&self, waiting: Waiting, payload: T) -> Place {
        let mut queue = self.lock();
        let place = queue.push(waiting, payload);
        self.count(&queue);
        place
    }

    /// Leaves it: the client went away. `None` where it has been called already.
    pub fn leave(&self, place: Place) -> Option<T> {
        let mut queue = self.lock();
        let Entry { waiting, payload } = queue.remove(place)?;
        self.count(&queue);
        drop(queue);
        self.gate.forget(&waiting);
        Some(payload)
    }

    /// The next one to be started or refused now.
    pub fn next(&self, now: Time) -> Option<Called<T>> {
        if self.gate.running().waiting() == 0 {
            return None;
        }
        let mut queue = self.lock();
        let rules = self.gate.rules();
        let (entry, refusal) = match queue.take_victim(now, rules) {
            Some(victim) => victim,
            // Without a queue nobody waits: whoever still does, goes.
            None if self.gate.running().now_exactly() < rules.slots() || !rules.is_on(Mechanism::Queue) => {
                queue.pop(now, rules)?
            }
            None => return None,
        };
        self.count(&queue);
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
        self.lock().len()
    }

    /// Whether nobody does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn count(&self, queue: &Queue<T>) {
        self.gate.rules().set_queued(queue.work());
        self.gate.running().set_waiting(queue.len() as u32);
    }

    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("waiting", &self.gate.running().waiting()).finish_non_exhaustive()
    }
}
