//! One backend task: the brain of core, the machine under it, and what is wrong with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Clients, GateLocal, Line, Peers, PeersConfig, Spent, Usage};
use evenkeel_core::{Announcement, CustomerId, Gate, Hint, LastHint, Notice, Rng, Server, Time};

use super::event::{LinkId, RequestId};
use crate::model::Machine;
use crate::scenario::Readings;

/// A task of a service.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) brain: Server,
    pub(crate) gate: Arc<Gate>,
    /// Those who were let in and wait.
    pub(crate) line: Line<RequestId>,
    pub(crate) local: GateLocal,
    /// The number this process has for each customer of the scenario.
    customers: Vec<CustomerId>,
    /// What was told last on each connection.
    hints: BTreeMap<u32, LastHint>,
    /// Seconds of a core of speed 1 that answering a refusal takes.
    pub(crate) refusal_cost: f64,
    pub(crate) rng: Rng,
    pub(crate) machine: Machine,
    /// When the cores will be looked at; `u64::MAX` for never.
    pub(crate) wakes_at: u64,
    /// Requests worked on at once, at most.
    pub(crate) workers: u32,
    /// Those being worked on, waiting included.
    pub(crate) in_service: u32,
    pub(crate) queue: VecDeque<RequestId>,
    /// Those of `queue` whose clients have not gone.
    pub(crate) queued: usize,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) service: u32,
    pub(crate) cluster: u32,
    /// Which client task makes the requests to the layer behind, if there is one.
    pub(crate) caller: Option<u32>,
    /// Counts up with every process of this task.
    pub(crate) process: u32,
    pub(crate) is_up: bool,
    /// Drained for as long as it may be, and still has requests: closes when they are answered.
    pub(crate) is_closing: bool,
    /// When it will be measured; `u64::MAX` for never.
    pub(crate) measured_at: u64,
    /// When the last reading was taken and what the cores had done by then.
    last_reading: (u64, f64),
    /// What the cores had done when the window began; none where it was not up then.
    last_window: Option<f64>,
    /// What moves its speed.
    pub(crate) pace: Pace,
    /// How many times as long handlers wait for what they wait for.
    pub(crate) stall: f64,
    /// Answers with an error instead: share of requests, and what that costs.
    pub(crate) failing: Option<(f64, f64)>,
    /// Share of requests that it refuses, whatever it has to do.
    pub(crate) refusing: f64,
    /// Share of its cores that something besides requests takes.
    pub(crate) background: f64,
    /// How wrong it reads its CPU.
    pub(crate) meter: Option<Meter>,
    /// When its neighbours come and go.
    pub(crate) neighbours_rng: Rng,
    /// The restart it is part of: which fault.
    pub(crate) restart: Option<u32>,
    /// Counts what this process has announced.
    pub(crate) announced: u32,
    /// Clients without a connection that this process knows.
    pub(crate) peers: Peers,
    /// When they will be looked at; `u64::MAX` for never.
    pub(crate) pushes_at: u64,
    /// How many of them the brain knows to be unreached.
    pub(crate) unreached_told: u32,
    /// How many processes before this one gave up.
    given_up_before: u64,
}

/// Factors of a machine's speed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Of its type.
    pub(crate) own: f64,
    pub(crate) neighbours: f64,
    pub(crate) background: f64,
    pub(crate) warmth: f64,
    pub(crate) fault: f64,
    pub(crate) hangs: bool,
}

impl Pace {
    pub(crate) fn new(own: f64) -> Self {
        Pace { own, neighbours: 1.0, background: 1.0, warmth: 1.0, fault: 1.0, hangs: false }
    }

    pub(crate) fn speed(&self) -> f64 {
        if self.hangs { 0.0 } else { self.own * self.neighbours * self.background * self.warmth * self.fault }
    }
}

/// What a task reads of its CPU, which is not what it uses.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    /// Always too much or too little, as a factor.
    factor: f64,
    /// How far a single reading is off, as a share.
    noise: f64,
    rng: Rng,
}

impl Meter {
    pub(crate) fn new(readings: &Readings, mut rng: Rng) -> Self {
        Meter { factor: 1.0 + readings.bias * (2.0 * rng.unit() - 1.0), noise: readings.noise, rng }
    }

    fn read(&mut self, load: f64) -> f64 {
        load * self.factor * (1.0 + self.noise * (2.0 * self.rng.unit() - 1.0))
    }
}

/// A connection as its backend sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub(crate) link: LinkId,
    /// Announcements made that it has not acknowledged.
    pub(crate) unheard: u32,
    /// Cannot acknowledge.
    pub(crate) is_silent: bool,
}

impl Task {
    /// How far clients have heard the last announcement.
    pub(crate) fn clients(&self) -> Clients {
        let unacknowledged = self.watchers.iter().filter(|one| !one.is_silent && one.unheard > 0).count();
        let silent = self.watchers.iter().filter(|one| one.is_silent).count();
        Clients { unacknowledged: unacknowledged as u32, silent: silent as u32, unreached: self.peers.unreached() }
    }

    /// What it says to whoever asks now.
    pub(crate) fn notice(&self) -> Notice {
        let announcement = Announcement { process: u64::from(self.process), number: self.announced };
        Notice { readiness: self.brain.readiness(), announcement: Some(announcement) }
    }

    /// Clients without a connection that never heard what was announced, over all processes.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up_before + self.peers.snapshot().given_up
    }

    /// Tells the brain what its cores did since the last reading.
    pub(crate) fn read_usage(&mut self, now: u64) {
        let busy = self.machine.busy(now);
        let (before, busy_before) = std::mem::replace(&mut self.last_reading, (now, busy));
        let seconds = now.saturating_sub(before) as f64 * 1e-9;
        let load = (seconds > 0.0).then(|| self.load((busy - busy_before) / (seconds * self.machine.cores())));
        let utilization = load.map(|load| self.meter.as_mut().map_or(load, |meter| meter.read(load)));
        let usage = Usage {
            utilization,
            processors: Some(self.machine.cores()),
            runnable: Some(f64::from(self.machine.running())),
            overhead: (self.refusal_cost > 0.0).then(|| Duration::from_secs_f64(self.refusal_cost)),
            ..Usage::default()
        };
        self.brain.handle_usage(Time::from_nanos(now), usage);
    }

    /// Tells the brain what its handlers used, and that time has passed.
    pub(crate) fn tick(&mut self, now: u64) {
        let spent = Spent {
            handlers: Some(Duration::from_secs_f64(self.machine.handled(now))),
            process: Some(Duration::from_secs_f64(self.machine.busy(now))),
        };
        self.brain.handle_spent(spent);
        self.brain.handle_timeout(Time::from_nanos(now));
    }

    /// Whether it is time for the next reading.
    pub(crate) fn usage_is_due(&self, now: u64) -> bool {
        now >= self.last_reading.0 + READ_EVERY
    }

    /// The number this process has for a customer of the scenario.
    pub(crate) fn customer(&self, place: u32) -> CustomerId {
        self.customers.get(place as usize).copied().unwrap_or_default()
    }

    /// What to tell a client with an answer on this connection.
    pub(crate) fn hint(&mut self, now: u64, epoch: u32) -> Option<Hint> {
        self.gate.hint(Time::from_nanos(now), self.hints.entry(epoch).or_default())
    }

    /// The connection is gone.
    pub(crate) fn forget_hint(&mut self, epoch: u32) {
        self.hints.remove(&epoch);
    }

    /// The share of its cores in use over the window that ends; not a number where it was not up all the time.
    pub(crate) fn window_load(&mut self, now: u64, seconds: f64) -> f32 {
        let busy = self.machine.busy(now);
        let before = std::mem::replace(&mut self.last_window, self.is_up.then_some(busy));
        before
            .filter(|_| self.is_up)
            .map_or(f32::NAN, |before| self.load((busy - before) / (seconds * self.machine.cores())) as f32)
    }

    /// CPU in use, where requests use so much of what is left to them.
    fn load(&self, by_requests: f64) -> f64 {
        self.background + (1.0 - self.background) * by_requests
    }

    /// A fresh process on the same machine.
    pub(crate) fn begin_process(&mut self, now: u64, (brain, customers): (Server, Vec<CustomerId>)) {
        self.gate = Arc::clone(brain.gate());
        self.line = Line::new(Arc::clone(&self.gate));
        self.hints.clear();
        self.customers = customers;
        self.brain = brain;
        self.process += 1;
        self.is_up = true;
        self.is_closing = false;
        self.announced = 0;
        self.given_up_before = self.given_up();
        self.peers = Peers::new(Time::from_nanos(now), PeersConfig::default());
        self.unreached_told = 0;
        self.last_reading = (now, self.machine.busy(now));
    }

    /// The process is gone: nothing runs, nobody is connected.
    pub(crate) fn end_process(&mut self, now: u64) -> Vec<Watcher> {
        self.is_up = false;
        self.last_window = None;
        self.machine.clear(now);
        self.in_service = 0;
        self.queue.clear();
        self.queued = 0;
        std::mem::take(&mut self.watchers)
    }

    pub(crate) fn new(
        (brain, customers): (Server, Vec<CustomerId>),
        machine: Machine,
        own_speed: f64,
        rng: Rng,
    ) -> Self {
        Task {
            gate: Arc::clone(brain.gate()),
            line: Line::new(Arc::clone(brain.gate())),
            customers,
            hints: BTreeMap::new(),
            refusal_cost: 0.0,
            brain,
            local: GateLocal::default(),
            rng,
            machine,
            wakes_at: u64::MAX,
            workers: u32::MAX,
            in_service: 0,
            queue: VecDeque::new(),
            queued: 0,
            watchers: Vec::new(),
            service: 0,
            cluster: 0,
            caller: None,
            process: 1,
            is_up: true,
            is_closing: false,
            measured_at: u64::MAX,
            last_reading: (0, 0.0),
            last_window: None,
            pace: Pace::new(own_speed),
            stall: 1.0,
            failing: None,
            refusing: 0.0,
            background: 0.0,
            meter: None,
            neighbours_rng: Rng::from_seed(0),
            restart: None,
            announced: 0,
            peers: Peers::new(Time::ZERO, PeersConfig::default()),
            pushes_at: u64::MAX,
            unreached_told: 0,
            given_up_before: 0,
        }
    }
}

/// How often the machine is read.
const READ_EVERY: u64 = 100_000_000;
