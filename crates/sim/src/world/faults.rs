//! What goes wrong and what is changed: when it begins, when it ends.

use evenkeel_core::plan::{Change, Shape};
use evenkeel_core::{Outcome, PolicyName, Readiness};

use super::event::{Event, LinkId, Note};
use super::network::Cut;
use super::requests::At;
use super::tally::End;
use super::{ORIGIN, Service, World};
use crate::scenario::{Fault, FaultKind, selection};

/// A fault of the scenario and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct FaultState {
    pub(crate) kind: FaultKind,
    /// Whom it concerns, and of which service: 0 is the first.
    pub(crate) backends: Vec<u32>,
    pub(crate) layer: u32,
    /// When it begins and ends.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Of a rolling restart: who comes next, and how many are ready again.
    next: usize,
    pub(crate) restarted: u32,
}

impl FaultState {
    /// Of a scenario's fault and the tasks of the service that it is about.
    pub(crate) fn new(fault: &Fault, service: &Service) -> Self {
        let from = ORIGIN + fault.at.nanos();
        let until = fault.lasts.map_or(u64::MAX, |lasts| from + lasts.nanos());
        let chosen = selection(&fault.backends, service.count).unwrap_or_default();
        let backends = chosen.into_iter().map(|place| service.first + place).collect();
        FaultState { kind: fault.kind.clone(), backends, layer: fault.layer, from, until, next: 0, restarted: 0 }
    }
}

impl World<'_> {
    pub(super) fn on_fault(&mut self, number: u32) {
        let fault = self.faults[number as usize].clone();
        let now = self.time();
        match &fault.kind {
            FaultKind::Kill => {
                for &backend in &fault.backends {
                    self.kill(backend);
                }
            }
            FaultKind::Hang => self.set_pace(&fault.backends, |pace| pace.hangs = true),
            FaultKind::Slow { speed } => self.set_pace(&fault.backends, |pace| pace.fault = *speed),
            FaultKind::Stall { times } => self.set_stall(&fault.backends, *times),
            FaultKind::Fail { share, cpu } => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].failing = Some((*share, cpu.seconds()));
                }
            }
            FaultKind::Refuse { share } => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].refusing = *share;
                }
            }
            FaultKind::Partition { clients } => {
                let cut = Cut { fault: number, since: self.now, backends: fault.backends.clone(), clients: *clients };
                self.net.cuts.push(cut);
                self.expect_silence(&fault.backends);
            }
            FaultKind::NoDatagrams { clients } => {
                let (backends, clients) = (fault.backends.clone(), *clients);
                self.net.blocks.push(Cut { fault: number, since: self.now, backends, clients });
            }
            FaultKind::LameDuck => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].brain.handle_lame_duck(now);
                    self.pump_server(backend);
                }
            }
            FaultKind::Restart { together, .. } => {
                for _ in 0..*together {
                    self.restart_next(number);
                }
            }
            FaultKind::Resize { change } => self.resize(change),
            FaultKind::Policy { policy } => self.change_policy(policy),
        }
    }

    pub(super) fn on_heal(&mut self, number: u32) {
        let fault = self.faults[number as usize].clone();
        let now = self.time();
        match &fault.kind {
            FaultKind::Kill => {
                for &backend in &fault.backends {
                    let process = self.tasks[backend as usize].process;
                    self.on_start(backend, process);
                }
            }
            FaultKind::Hang => self.set_pace(&fault.backends, |pace| pace.hangs = false),
            FaultKind::Slow { .. } => self.set_pace(&fault.backends, |pace| pace.fault = 1.0),
            FaultKind::Stall { .. } => self.set_stall(&fault.backends, 1.0),
            FaultKind::Fail { .. } => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].failing = None;
                }
            }
            FaultKind::Refuse { .. } => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].refusing = 0.0;
                }
            }
            FaultKind::Partition { .. } => {
                self.net.cuts.retain(|cut| cut.fault != number);
                self.release_held();
            }
            FaultKind::NoDatagrams { .. } => self.net.blocks.retain(|block| block.fault != number),
            FaultKind::LameDuck => {
                for &backend in &fault.backends {
                    self.tasks[backend as usize].brain.handle_ready(now);
                    self.pump_server(backend);
                }
            }
            FaultKind::Restart { .. } | FaultKind::Resize { .. } | FaultKind::Policy { .. } => {}
        }
    }

    pub(super) fn set_pace(&mut self, backends: &[u32], change: impl Fn(&mut super::task::Pace)) {
        for &backend in backends {
            let task = &mut self.tasks[backend as usize];
            change(&mut task.pace);
            let speed = task.pace.speed();
            task.machine.set_speed(self.now, speed);
            // What was planned may be too late now.
            self.plan_work(backend);
        }
    }

    /// Whoever begins to wait from now on does so for so many times as long; those who do already are not moved.
    fn set_stall(&mut self, backends: &[u32], times: f64) {
        for &backend in backends {
            self.tasks[backend as usize].stall = times;
        }
    }

    /// The process ends in the middle of everything.
    fn kill(&mut self, backend: u32) {
        if !self.tasks[backend as usize].is_up {
            return;
        }
        let watchers = self.tasks[backend as usize].end_process(self.now);
        for watcher in watchers {
            self.send_note_down(watcher.link, backend, Note::Reset);
        }
        self.drop_work(backend);
        self.end_caller(backend);
        self.clear_central(backend);
    }

    fn clear_central(&mut self, backend: u32) {
        if let Some(central) = &mut self.central {
            central.clear(backend);
        }
        self.tell_central(backend);
    }

    /// What the process had is gone with it.
    fn drop_work(&mut self, backend: u32) {
        for id in self.requests.find(|request| request.backend == backend && request.at != At::Nowhere) {
            if let Some(request) = self.requests.get_mut(id) {
                request.at = At::Nowhere;
                request.admission = None;
                request.place = None;
            }
            self.forget_if_done(id);
            if self.central.is_some() {
                self.end_request(id, End::of(Outcome::Failed));
            }
        }
    }

    /// The client half of a process that is gone: its connections end, its requests have nobody who waits.
    fn end_caller(&mut self, backend: u32) {
        let Some(caller) = self.tasks[backend as usize].caller else { return };
        for id in self.requests.find(|request| request.client == caller) {
            self.settle(id, Outcome::Cancelled, None);
            if let Some(request) = self.requests.get_mut(id) {
                request.wanted = false;
                request.parent = None;
            }
            self.on_cancel(id);
        }
        let links = std::mem::take(&mut self.clients[caller as usize].links);
        for (place, link) in links.iter().enumerate().filter(|(_, link)| link.epoch != 0) {
            let id = LinkId { client: caller, place: place as u32, epoch: link.epoch };
            self.left.insert(link.epoch, link.backend);
            let trip = self.net.note_trip(self.steps(caller, link.backend));
            self.queue.push(self.now + trip, Event::Note(Note::Left, id));
        }
        self.clients[caller as usize].is_gone = true;
        self.note_client_gone(caller);
    }

    /// The brain has drained and closed: the process ends.
    pub(super) fn on_exit(&mut self, backend: u32) {
        let down = self.tasks[backend as usize].restart.and_then(|fault| match self.faults[fault as usize].kind {
            FaultKind::Restart { down, .. } => Some(down.nanos()),
            _ => None,
        });
        for watcher in self.tasks[backend as usize].end_process(self.now) {
            self.send_note_down(watcher.link, backend, Note::Reset);
        }
        self.drop_work(backend);
        self.end_caller(backend);
        self.clear_central(backend);
        if let Some(down) = down {
            let process = self.tasks[backend as usize].process;
            self.queue.push(self.now + down, Event::Start(backend, process));
        }
    }

    /// A new process listens.
    pub(super) fn on_start(&mut self, backend: u32, process: u32) {
        let task = &self.tasks[backend as usize];
        if task.is_up || task.process != process {
            return;
        }
        let fresh = self.fresh_server();
        let task = &mut self.tasks[backend as usize];
        task.begin_process(self.now, fresh);
        let prewarm = task.restart.and_then(|fault| match self.faults[fault as usize].kind {
            FaultKind::Restart { prewarm, .. } => Some(prewarm.nanos()),
            _ => None,
        });
        let process = task.process;
        self.renew_caller(backend);
        self.on_warmer(backend, process, 0);
        self.pump_server(backend);
        match prewarm {
            Some(nanos) if nanos > 0 => self.queue.push(self.now + nanos, Event::Ready(backend, process)),
            _ => self.on_ready(backend, process),
        }
    }

    /// The new process is warm.
    pub(super) fn on_ready(&mut self, backend: u32, process: u32) {
        let now = self.time();
        let task = &mut self.tasks[backend as usize];
        if !task.is_up || task.process != process {
            return;
        }
        task.brain.handle_ready(now);
        let restart = task.restart.take();
        self.pump_server(backend);
        if let Some(fault) = restart {
            self.faults[fault as usize].restarted += 1;
            self.restart_next(fault);
        }
    }

    /// SIGTERM to the next of a rolling restart.
    fn restart_next(&mut self, number: u32) {
        let now = self.time();
        let fault = &mut self.faults[number as usize];
        let Some(&backend) = fault.backends.get(fault.next).filter(|_| self.now < fault.until) else { return };
        fault.next += 1;
        let task = &mut self.tasks[backend as usize];
        if !task.is_up || task.brain.readiness() != Readiness::Ready {
            return self.restart_next(number);
        }
        task.restart = Some(number);
        task.brain.handle_stop(now);
        self.tally.on_restart();
        self.pump_server(backend);
    }

    /// A fresh process is cold, and warms up in steps.
    pub(super) fn on_warmer(&mut self, backend: u32, process: u32, step: u32) {
        if self.tasks[backend as usize].process != process {
            return;
        }
        let service = self.tasks[backend as usize].service;
        let Some(warmup) = self.backends_of(service).warmup.clone() else { return };
        let warmth = warmup.speed + (1.0 - warmup.speed) * f64::from(step) / f64::from(WARM_STEPS);
        self.set_pace(&[backend], |pace| pace.warmth = warmth);
        if step < WARM_STEPS {
            let at = self.now + warmup.lasts.nanos() / u64::from(WARM_STEPS);
            self.queue.push(at, Event::Warmer(backend, process, step + 1));
        }
    }

    /// Both ends give up connections that stay silent.
    fn expect_silence(&mut self, backends: &[u32]) {
        for &backend in backends {
            for watcher in self.tasks[backend as usize].watchers.clone() {
                if self.net.is_cut(watcher.link.client, backend) {
                    self.queue.push(self.now + self.net.silence, Event::Note(Note::Silence, watcher.link));
                }
            }
        }
    }

    fn change_policy(&mut self, policy: &str) {
        let Ok(policy) = policy.parse::<PolicyName>() else { return };
        let now = self.time();
        for client in 0..self.clients.len() as u32 {
            if self.clients[client as usize].is_foreign || self.clients[client as usize].is_gone {
                continue;
            }
            let mut config = self.config_of(client);
            config.policy = policy;
            let changed = self.clients[client as usize].brain.handle_config(now, config);
            debug_assert!(changed.is_ok(), "a checked policy was refused: {changed:?}");
            self.pump_client(client);
        }
    }

    /// More or fewer clients or backends of the first service.
    fn resize(&mut self, change: &str) {
        let service = &self.services[0];
        let before = Shape { clients: self.root_clients, backends: service.count, size: self.scenario.subset.size };
        let after = change.parse::<Change>().ok().and_then(|change| change.applied_to(before).ok());
        let Some(after) = after else { return };
        self.tally.on_resize(before, after);
        self.grow_or_shrink(after);
    }
}

/// How many steps warming up has.
const WARM_STEPS: u32 = 10;
