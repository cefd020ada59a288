//! A request that was let in: what it cost is known until its end, and its end is told once.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::Admission;
use evenkeel_core::{Criticality, CustomerId, MethodId, Outcome};

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
    pub(crate) customer: CustomerId,
    /// Whether its answer says what it cost.
    pub(crate) tells_cost: bool,
    /// What was asked for, where that has no number yet.
    pub(crate) new_method: Option<Unknown>,
}

impl Admitted {
    pub(crate) fn finish(mut self, outcome: Outcome) {
        self.give_back(outcome);
    }

    /// CPU time of its handler, children and body so far, normalised; what is left to the remainder is not in it.
    pub(crate) fn cost(&self) -> Duration {
        self.task.account().cost()
    }

    /// The same where its caller or the server wants it told.
    pub(crate) fn told_cost(&self) -> Option<Duration> {
        self.tells_cost.then(|| self.cost())
    }

    fn give_back(&mut self, outcome: Outcome) {
        if let Some(admission) = self.admission.take() {
            meter::on_request();
            let (door, cost) = (&self.door, self.cost());
            door.methods.tally().add(usize::from(self.method.0), cost);
            if self.customer != CustomerId::default() {
                door.customers.tally().add(self.customer.0 as usize, cost);
            }
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
