//! The little world of the demo: one client of core and ten servers of core on an event queue.
//!
//! The world draws arrivals and costs from generators of their own, so every policy meets the same requests. It
//! carries messages and keeps time; who gets a request, who is usable and what is reported is decided by core alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Admission, GateLocal, ServerAction, Usage};
use evenkeel_core::{
    Action, BackendId, BackendList, BackendSpec, Client, ClientConfig, LoadReport, Local, Outcome, Picker, PolicyName,
    Readiness, RequestMeta, Rng, Server, ServerConfig, Ticket, Time,
};

use super::load::Load;
use super::machine::Machine;
use super::tally::Tally;
use crate::failure::Failure;

/// Which world to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) policy: PolicyName,
    pub(crate) seed: u64,
    pub(crate) seconds: u32,
    pub(crate) trouble: Trouble,
}

/// What goes wrong in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing.
    None,
    /// From halfway the first backend fails every request at once, and says so.
    Sinkhole,
    /// The same, but its failures look like answers.
    HiddenSinkhole,
}

enum Event {
    Arrive,
    AtServer(usize, Request),
    Failed(usize, Request, Admission),
    /// What a machine foretold under this number.
    Done(usize, u64),
    Answer(Request, Outcome, LoadReport),
    Connected(usize),
    Told(usize, Readiness),
    /// No more arrivals; what has begun is still answered.
    End,
}

struct Request {
    ticket: Ticket,
    work: Duration,
}

struct Task {
    server: Server,
    local: GateLocal,
    machine: Machine<(Request, Admission)>,
    /// Until when, and how busy the machine had been until then.
    used: (Time, f64),
}

/// Everything there is, and what happens next.
pub(crate) struct World {
    scenario: Scenario,
    now: Time,
    end: Time,
    /// Ordered by time, then by the order they were scheduled in.
    queue: BinaryHeap<Reverse<(Time, u64)>>,
    events: BTreeMap<u64, Event>,
    scheduled: u64,
    client: Client,
    picker: Option<Arc<Picker>>,
    local: Local,
    tasks: Vec<Task>,
    /// When a brain next wants to be called.
    wake_at: Option<Time>,
    load: Load,
    rng: Rng,
    tally: Tally,
}

impl World {
    /// Runs the world to its end and says what was seen.
    pub(crate) fn run(scenario: Scenario) -> Result<Tally, Failure> {
        let mut world = World::new(scenario)?;
        world.drain();
        let first = world.load.next_arrival();
        world.at(SETTLE + first, Event::Arrive);
        world.at(world.end.since(Time::ZERO), Event::End);
        while world.step() {}
        world.tally.sort();
        Ok(world.tally)
    }

    fn new(scenario: Scenario) -> Result<Self, Failure> {
        let mut rng = Rng::for_stream(scenario.seed, CHOICES);
        let config = ClientConfig { policy: scenario.policy, ..ClientConfig::default() };
        let mut client = Client::new(Time::ZERO, config, &mut rng)?;
        let specs = (0..BACKENDS).map(|number| BackendSpec { id: id(number), ordinal: None });
        let backends = BackendList::new(specs).map_err(|error| Failure::Usage(error.to_string()))?;
        client.handle_backends(Time::ZERO, backends)?;
        let end = Time::ZERO + SETTLE + Duration::from_secs(u64::from(scenario.seconds));
        Ok(World {
            scenario,
            now: Time::ZERO,
            end,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            scheduled: 0,
            client,
            picker: None,
            local: Local::default(),
            tasks: (0..BACKENDS).map(Task::new).collect::<Result<_, _>>()?,
            wake_at: None,
            load: Load::new(scenario.seed, capacity_core_s()),
            rng,
            tally: Tally::new(end, CORES, BACKENDS),
        })
    }

    fn at(&mut self, delay: Duration, event: Event) {
        self.queue.push(Reverse((self.now + delay, self.scheduled)));
        self.events.insert(self.scheduled, event);
        self.scheduled += 1;
    }

    /// Whatever comes first: an event, or a brain that wants to be called. False when nothing is left to happen.
    fn step(&mut self) -> bool {
        let Some(&Reverse((at, number))) = self.queue.peek() else { return false };
        if let Some(wake_at) = self.wake_at.filter(|&wake_at| wake_at < at) {
            self.now = self.now.max(wake_at);
            self.wake();
        } else {
            self.queue.pop();
            self.now = at;
            let event = self.events.remove(&number).expect("every queued time has its event");
            self.on_event(event);
        }
        true
    }

    fn wake(&mut self) {
        let now = self.now;
        self.client.handle_timeout(now);
        for task in &mut self.tasks {
            if task.server.poll_timeout().is_some_and(|at| at <= now) {
                task.read_usage(now);
                task.server.handle_timeout(now);
            }
        }
        self.drain();
    }

    /// Does what the brains want done.
    fn drain(&mut self) {
        while let Some(action) = self.client.poll_action() {
            if let Action::Connect(backend) = action {
                self.at(DELAY, Event::Connected(backend.0 as usize));
            }
        }
        self.picker = self.client.poll_picker().or(self.picker.take());
        for number in 0..self.tasks.len() {
            while let Some(action) = self.tasks[number].server.poll_action() {
                if let ServerAction::Announce(readiness) = action {
                    self.at(DELAY, Event::Told(number, readiness));
                }
            }
        }
        let servers = self.tasks.iter().filter_map(|task| task.server.poll_timeout());
        self.wake_at = servers.chain(self.client.poll_timeout()).min();
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Arrive => self.on_arrival(),
            Event::AtServer(number, request) => self.on_request(number, request),
            Event::Failed(number, request, admission) => {
                let hidden = self.scenario.trouble == Trouble::HiddenSinkhole;
                let outcome = if hidden { Outcome::Served } else { Outcome::Failed };
                self.tasks[number].server.gate().finish(self.now, admission, outcome);
                self.answer(number, request, outcome);
            }
            Event::Done(number, foretold) => self.on_done(number, foretold),
            Event::Answer(request, outcome, report) => self.on_answer(request, outcome, &report),
            Event::Connected(number) => {
                let readiness = self.tasks[number].server.readiness();
                self.client.handle_connected(self.now, id(number), readiness);
                self.drain();
            }
            Event::Told(number, readiness) => {
                self.client.handle_readiness(self.now, id(number), readiness);
                self.drain();
            }
            Event::End => {
                let busy_core_s = self.tasks.iter_mut().map(|task| task.machine.busy_core_s(self.now));
                self.tally.count_busy(self.now, busy_core_s);
            }
        }
    }

    fn on_arrival(&mut self) {
        if self.now >= self.end {
            return;
        }
        let work = self.load.next_work();
        let wait = self.load.next_arrival();
        self.at(wait, Event::Arrive);
        let Some(picker) = &self.picker else { return };
        match picker.begin(&mut self.local, self.now, &RequestMeta::default(), &mut self.rng) {
            Ok(ticket) => {
                let number = ticket.backend().0 as usize;
                self.tally.count_sent(self.now, number);
                self.at(DELAY, Event::AtServer(number, Request { ticket, work }));
            }
            Err(_) => self.tally.count_refused(),
        }
    }

    fn on_request(&mut self, number: usize, request: Request) {
        let fails = self.fails(number);
        let task = &mut self.tasks[number];
        let gate = Arc::clone(task.server.gate());
        match gate.admit(&mut task.local, self.now, &RequestMeta::default(), &mut self.rng) {
            Err(_) => self.answer(number, request, Outcome::Overloaded),
            Ok(admission) if fails => self.at(FAILURE, Event::Failed(number, request, admission)),
            Ok(admission) => {
                task.machine.start(self.now, request.work, (request, admission));
                self.foretell(number);
            }
        }
    }

    fn on_done(&mut self, number: usize, foretold: u64) {
        let Some((request, admission)) = self.tasks[number].machine.finish(self.now, foretold) else { return };
        self.tasks[number].server.gate().finish(self.now, admission, Outcome::Served);
        self.foretell(number);
        self.answer(number, request, Outcome::Served);
    }

    fn on_answer(&mut self, request: Request, outcome: Outcome, report: &LoadReport) {
        self.tally.count_ended(request.ticket.began(), self.now, outcome);
        let picker = self.picker.as_ref().expect("what was answered was begun on a picker");
        picker.finish(self.now, request.ticket, outcome, Some(report));
    }

    fn answer(&mut self, number: usize, request: Request, outcome: Outcome) {
        let report = self.tasks[number].server.gate().report();
        self.at(DELAY, Event::Answer(request, outcome, report));
    }

    fn foretell(&mut self, number: usize) {
        if let Some((at, foretold)) = self.tasks[number].machine.next_done() {
            self.at(at.since(self.now), Event::Done(number, foretold));
        }
    }

    fn fails(&self, number: usize) -> bool {
        self.scenario.trouble != Trouble::None && number == 0 && self.tally.is_past_half(self.now)
    }
}

impl Task {
    fn new(number: usize) -> Result<Self, Failure> {
        let mut server = Server::new(Time::ZERO, ServerConfig::default())?;
        server.handle_ready(Time::ZERO);
        let machine = Machine::new(CORES, speed_of(number));
        Ok(Task { server, local: GateLocal::default(), machine, used: (Time::ZERO, 0.0) })
    }

    /// Tells the brain what a driver would read of the machine.
    fn read_usage(&mut self, now: Time) {
        let (since, before_core_s) = self.used;
        let busy_core_s = self.machine.busy_core_s(now);
        let passed_s = now.since(since).as_secs_f64();
        let cores = f64::from(CORES);
        let usage = Usage {
            utilization: (passed_s > 0.0).then(|| (busy_core_s - before_core_s) / passed_s / cores),
            processors: Some(cores),
            runnable: Some(self.machine.jobs() as f64),
        };
        self.used = (now, busy_core_s);
        self.server.handle_usage(now, usage);
    }
}

/// The first half at full speed, the others at half.
pub(crate) fn speed_of(number: usize) -> f64 {
    if number < BACKENDS / 2 { 1.0 } else { 0.5 }
}

/// Work the whole service can do in a second.
fn capacity_core_s() -> f64 {
    (0..BACKENDS).map(|number| speed_of(number) * f64::from(CORES)).sum()
}

fn id(number: usize) -> BackendId {
    BackendId(number as u64)
}

pub(crate) const BACKENDS: usize = 10;
pub(crate) const CORES: u32 = 2;
/// One way between client and server.
const DELAY: Duration = Duration::from_micros(500);
/// How long a failing backend takes to fail.
const FAILURE: Duration = Duration::from_micros(100);
/// Connections stand before the first request.
const SETTLE: Duration = Duration::from_millis(10);
/// The generator that the client and the gates draw from; those of the load have other numbers.
const CHOICES: u64 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(policy: PolicyName, seed: u64, trouble: Trouble) -> Tally {
        World::run(Scenario { policy, seed, seconds: 2, trouble }).unwrap()
    }

    #[test]
    fn every_request_that_begins_ends() {
        for policy in PolicyName::BUILT {
            for trouble in [Trouble::None, Trouble::Sinkhole, Trouble::HiddenSinkhole] {
                let tally = tally(policy, 3, trouble);
                assert!(tally.requests() > 5_000, "two seconds at about 2900 a second: {}", tally.requests());
                assert_eq!(tally.sent(), tally.ended(), "{policy} {trouble:?}");
            }
        }
    }

    #[test]
    fn every_policy_meets_the_same_requests() {
        let requests = PolicyName::BUILT.map(|policy| tally(policy, 3, Trouble::None).requests());

        assert!(requests.iter().all(|&count| count == requests[0]), "{requests:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_world() {
        let trace = |seed| format!("{:?}", tally(PolicyName::P2c, seed, Trouble::Sinkhole));

        assert_eq!(trace(7), trace(7));
        assert_ne!(trace(7), trace(8));
    }
}
