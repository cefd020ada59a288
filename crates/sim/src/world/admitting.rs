//! A request at the door of its backend, as a driver has it: let in, told to wait, called, refused.

use std::time::Duration;

use evenkeel_core::rng::hash3;
use evenkeel_core::server::{Called, Entry, Refused, ServerRefusal, held_by_anybody};
use evenkeel_core::{HeldBack, Outcome, RequestMeta, Rng};

use super::World;
use super::asking::meta_of;
use super::event::RequestId;
use super::requests::{At, Request};
use super::task::Task;
use crate::model::Job;

impl World<'_> {
    /// The request is there.
    pub(super) fn on_reach(&mut self, id: RequestId, tries: u32) {
        if self.central.is_some() {
            return self.reach_central(id);
        }
        let now = self.time();
        let is_meant = |request: &&mut Request| request.wanted && request.tries == tries;
        let Some(request) = self.requests.get_mut(id).filter(is_meant) else { return };
        let link = request.link;
        let process = self.clients[link.client as usize].link(link.place, link.epoch).map_or(0, |link| link.process);
        let backend = request.backend;
        let task = &mut self.tasks[backend as usize];
        if !task.is_up || task.process != process {
            // Whoever listened there has gone; what the client is told of that is on its way.
            return;
        }
        if let Some(said) = request.held.take() {
            // Of strangers neither all of it is believed nor whose it is.
            let held = if self.scenario.server.trusts_clients {
                HeldBack { customer: task.customer(said.customer.0), ..said }
            } else {
                HeldBack { customer: task.customer(request.customer), counts: held_by_anybody(said.counts) }
            };
            task.gate.count_held(&mut task.local, now, held, &mut task.rng);
        }
        let meta = meta_at(request, task);
        match task.gate.admit(&mut task.local, now, &meta, &mut task.rng) {
            Ok(Entry::Start(admission)) => {
                request.admission = Some(admission);
                self.begin(id);
            }
            Ok(Entry::Wait(waiting)) => {
                request.at = At::Waiting;
                request.place = Some(task.line.enter(waiting, id));
                self.call_line(backend);
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    /// Those in line who may start now, or have waited in vain.
    pub(super) fn call_line(&mut self, backend: u32) {
        let now = self.time();
        let mut is_shorter = false;
        while let Some(Called { payload: id, verdict }) = self.tasks[backend as usize].line.next(now) {
            is_shorter = true;
            let Some(request) = self.requests.get_mut(id) else {
                debug_assert!(false, "somebody in line has gone without leaving it");
                continue;
            };
            (request.at, request.place) = (At::Nowhere, None);
            match verdict {
                Ok(admission) => {
                    request.admission = Some(admission);
                    self.begin(id);
                }
                Err(refused) => self.refuse(id, refused),
            }
        }
        if is_shorter {
            self.close_if_done(backend);
        }
    }

    /// A handler waits for something or has ended: whoever waits for that is called.
    pub(super) fn handler_rests(&mut self, backend: u32) {
        let task = &self.tasks[backend as usize];
        if task.gate.running().rests(task.local.thread()) {
            self.call_line(backend);
        }
    }

    /// Let in: to a worker, or in line for one.
    fn begin(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let task = &mut self.tasks[request.backend as usize];
        let draw =
            |purpose: u64| Rng::from_seed(hash3(self.seed, request.key, purpose ^ u64::from(request.tries))).unit();
        if task.refusing > 0.0 && draw(REFUSES) < task.refusing {
            return self.refuse_begun(id, ServerRefusal::Overloaded);
        }
        if let Some((share, cpu)) = task.failing
            && draw(FAILS) < share
        {
            request.own = Some((request.cpu, request.wait));
            (request.outcome, request.cpu, request.wait) = (Outcome::Failed, cpu, 0.0);
        }
        // A quarter less for each level is a quarter of the whole, not of what is left.
        let saved = self.scenario.server.degrade_saves;
        if let Some(admission) = request.admission.as_mut().filter(|admission| saved > 0.0 && admission.degrade() > 0) {
            task.gate.mark_degraded(admission);
            request.own.get_or_insert((request.cpu, request.wait));
            request.cpu *= 1.0 - saved * f64::from(admission.degrade());
        }
        if task.in_service >= task.workers {
            let most =
                self.scenario.backends.queue.filter(|_| task.service == 0).map_or(usize::MAX, |most| most as usize);
            if task.queued >= most {
                return self.refuse_begun(id, ServerRefusal::QueueFull);
            }
            request.at = At::Queued;
            task.queued += 1;
            task.queue.push_back(id);
            return;
        }
        self.note_accepted(id);
        self.start_work(id);
    }

    /// Let in and then refused, as by no place in line for a worker: given back at once.
    fn refuse_begun(&mut self, id: RequestId, reason: ServerRefusal) {
        let now = self.time();
        let Some(request) = self.requests.get_mut(id) else { return };
        let backend = request.backend;
        if let Some(admission) = request.admission.take() {
            self.tasks[backend as usize].gate.finish(now, admission, Outcome::Overloaded, None);
        }
        self.refuse(id, Refused { reason, dont_retry: false, hint: None });
        self.handler_rests(backend);
    }

    /// Not let in. The answer takes a little work, beside that of the handlers.
    fn refuse(&mut self, id: RequestId, refused: Refused) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.outcome = match refused.reason {
            ServerRefusal::TooLate => Outcome::Expired,
            ServerRefusal::Closed => Outcome::Unsent,
            ServerRefusal::OutOfQuota => Outcome::OutOfQuota,
            _ if refused.dont_retry => Outcome::DontRetry,
            _ => Outcome::Overloaded,
        };
        (request.refusal, request.hint) = (Some(refused.reason), refused.hint);
        let (backend, outcome) = (request.backend, request.outcome);
        let task = &mut self.tasks[backend as usize];
        let cost = task.refusal_cost;
        if cost > 0.0 && outcome != Outcome::Unsent {
            request.at = At::Refusing;
            request.report = task.gate.report();
            task.machine.start_aside(self.now, Job { request: id.number, generation: id.generation }, cost);
            self.note_refused(id);
            return self.plan_work(backend);
        }
        self.note_refused(id);
        self.answer(id, outcome);
    }

    /// The answer to a refused request is made.
    pub(super) fn on_refused(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.at = At::Nowhere;
        let outcome = request.outcome;
        self.answer(id, outcome);
    }

    /// One in line whose client went away.
    pub(super) fn leave_line(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.at = At::Nowhere;
        let backend = request.backend;
        if let Some(place) = request.place.take() {
            let left = self.tasks[backend as usize].line.leave(place);
            debug_assert!(left == Some(id), "another one left the line: {left:?}");
        }
        self.close_if_done(backend);
    }
}

/// What the gate of a task looks at.
pub(super) fn meta_at(request: &Request, task: &Task) -> RequestMeta {
    RequestMeta { customer: task.customer(request.customer), ..meta_of(request) }
}

/// CPU that a request took whose work was done at this speed.
pub(super) fn cost_of(request: &Request, speed: f64) -> Option<Duration> {
    (speed > 0.0).then(|| Duration::from_secs_f64((request.cpu / speed).min(COST_MOST)))
}

const FAILS: u64 = 0x6661_696c;
const REFUSES: u64 = 0x7265_6675;
/// Seconds; no request takes as long.
const COST_MOST: f64 = 1e9;
