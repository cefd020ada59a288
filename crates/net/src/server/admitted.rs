//! A request that was let in: what it cost is known until its end, and its end is told once.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::Admission;
use evenkeel_core::{Criticality, MethodId, Outcome};

use super::hub::Peer;
use super::methods::Unknown;
use super::serve::Door;
use crate::meter;

/// A request that is being served until it is finished, also if its client goes away.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) door: Arc<Door>,
    pub(crate) admission: Option<Admission>,
    pub(crate) task: Arc<meter::Task>,
    /// Whom it is served to, where connections are ours.
    pub(crate) peer: Option<Arc<Peer>>,
    pub(crate) criticality: Criticality,
    pub(crate) method: MethodId,
    /// Where what its customer asks for is counted.
    pub(crate) customers_row: usize,
    /// Whether its answer says what it cost.
    pub(crate) tells_cost: bool,
    /// What was asked for, where that has no number yet.
    pub(crate) new_method: Option<Unknown>,
    /// Bytes in and out so far.
    pub(crate) bytes: u64,
}

impl Admitted {
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// CPU time of its handler, children and body so far, normalised.
    fn metered(&self) -> Duration {
        self.task.account().cost()
    }

    /// The same with its share of what the process does for requests outside of handlers, where its caller or the server
    /// wants it told.
    pub(crate) fn told_cost(&self) -> Option<Duration> {
        self.tells_cost.then(|| self.metered() + self.door.framing.of(self.bytes))
    }

    /// Part of its answer is sent.
    pub(crate) fn on_bytes(&mut self, count: u64) {
        meter::on_bytes(count);
        self.bytes = self.bytes.saturating_add(count);
        self.charge_so_far();
    }

    /// Its customer pays while it runs, where it runs for long.
    pub(crate) fn charge_so_far(&mut self) {
        let (used, door) = (self.metered(), &self.door);
        if let Some(admission) = &mut self.admission
            && door.gate.owes(admission, used)
        {
            door.gate.charge_so_far(door.clock.now(), admission, used);
        }
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(admission) = self.admission.take() {
            meter::on_request();
            let (door, cost) = (&self.door, self.metered());
            door.methods.tally().add(usize::from(self.method.0), cost);
            door.customers.tally().add(self.customers_row, cost);
            door.gate.finish(door.clock.now(), admission, outcome, Some(cost));
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        // A handler that panics is at fault; one whose client went away is not.
        self.give_back(if std::thread::panicking() { Outcome::Failed } else { Outcome::Cancelled });
    }
}
