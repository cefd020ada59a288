//! A request at its backend: let in, worked on, waiting for others, answered.

use evenkeel_core::rng::hash3;
use evenkeel_core::server::Entry;
use evenkeel_core::{Behind, MethodId, Outcome, Readiness, Rng, Time};

use super::World;
use super::admitting::{cost_of, meta_at};
use super::event::{Event, RequestId};
use super::requests::{At, Request};
use super::tally::End;
use crate::model::{Central, Job};

impl World<'_> {
    /// On the cores.
    pub(super) fn start_work(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.at = At::Working;
        request.worked = (self.now, self.now);
        let (backend, cpu) = (request.backend, request.cpu);
        let task = &mut self.tasks[backend as usize];
        task.in_service += 1;
        if task.service == 0 {
            self.tally.on_handler(self.now, task.in_service);
        }
        task.machine.start(self.now, Job { request: id.number, generation: id.generation }, cpu);
        self.plan_work(backend);
    }

    /// Sees to it that the cores are looked at when something is finished.
    pub(super) fn plan_work(&mut self, backend: u32) {
        let task = &mut self.tasks[backend as usize];
        if let Some(at) = task.machine.next_finish().filter(|&at| at < task.wakes_at) {
            task.wakes_at = at;
            self.queue.push(at, Event::Work(backend));
        }
    }

    /// Something may be finished.
    pub(super) fn on_work(&mut self, backend: u32) {
        if self.tasks[backend as usize].wakes_at != self.now {
            return; // an earlier look was planned since
        }
        self.tasks[backend as usize].wakes_at = u64::MAX;
        while let Some(job) = self.tasks[backend as usize].machine.take_finished(self.now) {
            let id = RequestId { number: job.request, generation: job.generation };
            match self.requests.get(id).filter(|request| request.backend == backend).map(|request| request.at) {
                Some(At::Working) => {
                    self.tasks[backend as usize].machine.finished();
                    self.on_cpu_done(id);
                }
                Some(At::Refusing) => {
                    self.tasks[backend as usize].machine.finished_aside();
                    self.on_refused(id);
                }
                _ => {}
            }
        }
        self.plan_work(backend);
    }

    fn on_cpu_done(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.worked.1 = self.now;
        let (backend, is_counted) = (request.backend, request.admission.is_some());
        // The next in line waits for a core, not for what this one still waits for.
        self.next_of_central(backend);
        self.go_on(id);
        if is_counted {
            self.handler_rests(backend);
        }
    }

    /// After its work: calls others, waits, or is done.
    fn go_on(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let task = &self.tasks[request.backend as usize];
        let calls = self.services[task.service as usize].calls;
        if let Some(caller) = task.caller.filter(|_| calls > 0 && request.outcome == Outcome::Served) {
            request.at = At::Calling;
            request.children = calls;
            return self.call_behind(id, caller, calls);
        }
        self.rest(id);
    }

    /// Waits for something that is not modelled further.
    fn rest(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        if request.wait <= 0.0 {
            return self.leave(id);
        }
        request.at = At::Resting;
        let stall = self.tasks[request.backend as usize].stall;
        let until = self.now.saturating_add((request.wait * stall * 1e9) as u64);
        self.queue.push(until, Event::Rested(id));
    }

    pub(super) fn on_rested(&mut self, id: RequestId) {
        if self.requests.get(id).is_some_and(|request| request.at == At::Resting) {
            self.leave(id);
        }
    }

    /// Makes its own requests at the layer behind.
    fn call_behind(&mut self, id: RequestId, caller: u32, calls: u32) {
        let Some(request) = self.requests.get(id) else { return };
        let (key, deadline, criticality, customer) =
            (request.key, request.deadline, request.criticality, request.customer);
        let (root_asked, lot) = (request.root_asked, request.lot);
        let service = self.clients[caller as usize].service;
        for call in 0..calls {
            let mut child = Request::new(caller, self.now);
            child.key = hash3(key, u64::from(service), u64::from(call));
            let mut rng = Rng::from_seed(hash3(self.seed, child.key, COSTS));
            let (method, cpu, wait) = self.services[service as usize].methods.draw(&mut rng);
            (child.method, child.lot) = (method_id(method), lot);
            (child.cpu, child.wait, child.deadline) = (cpu, wait, deadline);
            (child.criticality, child.customer, child.parent) = (criticality, customer, Some(id));
            child.root_asked = root_asked;
            let child = self.requests.insert(child);
            self.tally.on_layer_asked(service, root_asked);
            if let Some(request) = self.requests.get_mut(id) {
                request.calls.push(child);
            }
            self.ask(child);
        }
    }

    /// One of the requests it made has ended.
    pub(super) fn on_child_end(&mut self, parent: RequestId, end: End) {
        let Some(request) = self.requests.get_mut(parent).filter(|request| request.at == At::Calling) else { return };
        request.children = request.children.saturating_sub(1);
        if end != End::Served {
            request.outcome = Outcome::Failed;
        }
        if request.children == 0 {
            self.rest(parent);
        }
    }

    /// Done at the backend: the worker is free, the answer is sent.
    fn leave(&mut self, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let outcome = request.outcome;
        let behind = request.behind.filter(|_| outcome == Outcome::Failed);
        request.is_useless = behind == Some(Behind::Failed);
        self.release(id, outcome);
        self.answer(id, if behind == Some(Behind::TooMuch) { Outcome::DontRetry } else { outcome });
    }

    /// Gives back what the backend counted, and lets the next in line in.
    fn release(&mut self, id: RequestId, outcome: Outcome) {
        let now = self.time();
        let Some(request) = self.requests.get_mut(id) else { return };
        request.at = At::Nowhere;
        let task = &mut self.tasks[request.backend as usize];
        if let Some(admission) = request.admission.take() {
            let cost = cost_of(request, task.pace.speed()).filter(|_| outcome != Outcome::Cancelled);
            task.gate.finish(now, admission, outcome, cost);
        }
        request.hint = task.hint(self.now, request.link.epoch);
        request.report = task.gate.report();
        task.in_service -= 1;
        let backend = request.backend;
        if self.close_if_done(backend) {
            return;
        }
        let task = &mut self.tasks[backend as usize];
        while let Some(next) = task.queue.pop_front() {
            if self.requests.get(next).is_some_and(|request| request.at == At::Queued) {
                task.queued -= 1;
                self.note_accepted(next);
                return self.start_work(next);
            }
        }
    }

    /// A task that only waited for its last request closes; says whether it did.
    pub(super) fn close_if_done(&mut self, backend: u32) -> bool {
        let task = &self.tasks[backend as usize];
        let is_done = task.is_closing && task.gate.in_flight() == 0;
        if is_done {
            self.close(backend);
            self.pump_server(backend);
        }
        is_done
    }

    pub(super) fn answer(&mut self, id: RequestId, outcome: Outcome) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.outcome = outcome;
        if !request.wanted {
            return self.forget_if_done(id);
        }
        let (link, backend, key, tries) = (request.link, request.backend, request.key, request.tries);
        self.send_down(link, backend, (key, u64::from(tries) * 2 + 1), Event::Answer(id));
    }

    /// Nobody waits for it: what is left undone stays undone.
    pub(super) fn on_cancel(&mut self, id: RequestId) {
        let now = self.now;
        let Some(request) = self.requests.get_mut(id) else { return };
        let (backend, is_counted) = (request.backend, request.admission.is_some());
        match request.at {
            At::Nowhere => {}
            At::Refusing => {
                request.at = At::Nowhere;
                self.tasks[backend as usize].machine.abandon_aside(now);
                self.plan_work(backend);
            }
            At::Waiting => self.leave_line(id),
            At::Queued => {
                // It stays in line as a number that nobody has.
                request.at = At::Nowhere;
                let admission = request.admission.take();
                let task = &mut self.tasks[backend as usize];
                task.queued -= 1;
                if let Some(admission) = admission {
                    task.gate.finish(Time::from_nanos(now), admission, Outcome::Cancelled, None);
                }
                if is_counted {
                    self.handler_rests(backend);
                }
            }
            At::Working => {
                self.tasks[backend as usize].machine.abandon(now);
                self.release(id, Outcome::Cancelled);
                self.next_of_central(backend);
                if is_counted {
                    self.handler_rests(backend);
                }
                self.plan_work(backend);
            }
            At::Resting => self.release(id, Outcome::Cancelled),
            At::Calling => {
                for child in std::mem::take(&mut request.calls) {
                    self.give_up(child, Outcome::Cancelled);
                }
                self.release(id, Outcome::Cancelled);
            }
        }
        self.forget_if_done(id);
    }

    /// A backend measures itself and goes on with its life.
    pub(super) fn on_server_timer(&mut self, backend: u32) {
        let task = &mut self.tasks[backend as usize];
        if task.measured_at != self.now {
            return;
        }
        task.measured_at = u64::MAX;
        if !task.is_up {
            return;
        }
        if self.scenario.server.is_off() || task.usage_is_due(self.now) {
            task.read_usage(self.now);
        }
        task.tick(self.now);
        self.note_cutoff(backend);
        self.note_door(backend);
        self.call_line(backend);
        self.pump_server(backend);
    }

    /// One line for all cores: the request travels to it.
    pub(super) fn ask_central(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        let trip = self.net.trip(request.key, 0, 0);
        self.queue.push_message(self.now + trip, Event::Reach(id, 0));
    }

    pub(super) fn reach_central(&mut self, id: RequestId) {
        if self.requests.get(id).is_none_or(|request| !request.wanted) {
            return;
        }
        if let Some(backend) = self.central.as_mut().and_then(|central| central.offer(id)) {
            self.start_central(id, backend);
        }
    }

    fn start_central(&mut self, id: RequestId, backend: u32) {
        let (Some(request), Some(central)) = (self.requests.get_mut(id), &mut self.central) else { return };
        request.backend = backend;
        let task = &mut self.tasks[backend as usize];
        // As fast as the machine is now, neighbours included.
        central.charge(backend, request.cpu / task.pace.speed().max(SLOWEST));
        // Let in like any other, so that a task that is told to end waits for it.
        let now = Time::from_nanos(self.now);
        let meta = meta_at(request, task);
        request.admission = task.gate.admit(&mut task.local, now, &meta, &mut task.rng).ok().and_then(Entry::started);
        self.tally.on_begin(backend);
        self.start_work(id);
    }

    /// A core is free: the next in line takes it.
    fn next_of_central(&mut self, backend: u32) {
        let next = self.central.as_mut().and_then(|central| central.finished(backend));
        self.start_line(next);
    }

    /// The task may have come or gone, or wants nothing: the line must know.
    pub(super) fn tell_central(&mut self, backend: u32) {
        let Some(central) = &mut self.central else { return };
        let task = &self.tasks[backend as usize];
        central.set_usable(backend, task.is_up && task.brain.readiness() == Readiness::Ready);
        let next = central.next();
        self.start_line(next);
    }

    /// Starts whoever is next in line, for as long as there are free cores.
    fn start_line(&mut self, mut next: Option<(RequestId, u32)>) {
        while let Some((id, backend)) = next {
            if self.requests.get(id).is_some_and(|request| request.wanted) {
                self.start_central(id, backend);
                next = self.central.as_mut().and_then(Central::next);
            } else {
                // Its caller waited too long in line; the core goes on to the next.
                next = self.central.as_mut().and_then(|central| central.finished(backend));
            }
        }
    }
}

/// How long a fresh server waits before it measures itself at first, at most: they are not in step.
pub(super) const FIRST_MEASURE: u64 = 100_000_000;
/// A machine that hangs takes very long.
const SLOWEST: f64 = 1e-3;
/// As core has it: 0 is no method in particular.
pub(super) fn method_id(place: u32) -> MethodId {
    MethodId(u16::try_from(place + 1).unwrap_or(0))
}

const COSTS: u64 = 0x636f_7374;
