//! A world: clients and backends with core's own brains, on machines and a network that are modelled.
//!
//! The world does what a driver does and decides nothing: it tells the brains what happened, carries out what they ask
//! for, and moves requests and notes between them. One event at a time, in order of time, so a seed gives one trace.

mod admitting;
mod asking;
mod build;
mod checker;
mod client;
mod datagrams;
mod event;
mod faults;
mod hedging;
mod ideal;
mod inversion;
mod links;
mod network;
mod offered;
mod overload;
mod profile;
mod queue;
mod recovery;
mod requests;
mod results;
mod retrying;
mod serving;
mod spilling;
mod tally;
mod task;

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::rng::mix;
use evenkeel_core::{LoadReport, Time};

use crate::document::Series;
use crate::model::{Arrival, Arrivals, Central, Requests as Methods};
use crate::scenario::Scenario;
pub use checker::Broken;
use checker::Checker;
use client::ClientTask;
use datagrams::Datagrams;
use event::{Event, LinkId, RequestId};
use faults::FaultState;
use network::Net;
use overload::Watch;
pub use profile::Profile;
use queue::Queue;
use requests::Requests;
use tally::Tally;
use task::Task;

/// What one run gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunResult {
    /// Figures by name.
    pub metrics: BTreeMap<String, f64>,
    /// What is drawn.
    pub series: BTreeMap<String, Series>,
    /// Goodput from moment to moment, where there is an overload to look at.
    pub profile: Profile,
    /// A hash of every event.
    pub trace: u64,
}

/// Runs a checked scenario; `progress` hears the share that is done.
pub fn run(scenario: &Scenario, seed: u64, progress: &mut dyn FnMut(f64)) -> RunResult {
    let mut world = World::new(scenario, seed);
    world.play(progress);
    world.results()
}

/// The same with every invariant looked at after every event: the first that is broken ends the run.
pub fn run_checked(scenario: &Scenario, seed: u64) -> Result<RunResult, Broken> {
    let mut world = World::new(scenario, seed);
    world.checker = Some(Checker::default());
    world.play(&mut |_| {});
    match world.broken() {
        Some(broken) => Err(broken),
        None => Ok(world.results()),
    }
}

/// Everything there is.
#[derive(Debug)]
struct World<'a> {
    scenario: &'a Scenario,
    seed: u64,
    now: u64,
    queue: Queue,
    arrivals: Arrivals,
    /// The request that is asked for next.
    next: Arrival,
    requests: Requests,
    /// Requests of the first service in the order their deadlines pass.
    deadlines: VecDeque<(u64, RequestId)>,
    clients: Vec<ClientTask>,
    /// Clients of the first service, which come first.
    root_clients: u32,
    tasks: Vec<Task>,
    services: Vec<Service>,
    net: Net,
    /// Connections made so far: each has its own number.
    epochs: u32,
    /// Reports on their way that came with no answer, by connection, in order.
    reports: BTreeMap<u32, VecDeque<LoadReport>>,
    /// Connections their clients have closed, until their backends hear of it.
    left: BTreeMap<u32, u32>,
    datagrams: Datagrams,
    faults: Vec<FaultState>,
    /// One line for all cores instead of clients that choose.
    central: Option<Central<RequestId>>,
    tally: Tally,
    /// What is looked at while there is too much.
    watch: Option<Watch>,
    /// A hash of every event so far.
    trace: u64,
    events: u64,
    checker: Option<Checker>,
}

/// The tasks of one service, and what its requests cost.
#[derive(Clone, Debug)]
struct Service {
    /// Where its tasks begin.
    first: u32,
    count: u32,
    /// Requests that one of its own makes at the layer behind.
    calls: u32,
    methods: Methods,
}

impl World<'_> {
    fn play(&mut self, progress: &mut dyn FnMut(f64)) {
        let end = self.end();
        let last = end + self.scenario.clients.deadline.nanos() + HOMECOMING;
        let mut told = 0;
        while let Some((at, event)) = self.queue.pop() {
            debug_assert!(at >= self.now, "time goes back");
            self.now = at;
            // After the end only what is in flight is brought home, which no deadline lets last.
            if at > end && (self.requests.len() == 0 || at > last) {
                break;
            }
            self.events += 1;
            self.trace = mix(mix(self.trace ^ at) ^ event.fingerprint());
            self.handle(event);
            if self.checker.is_some() && !self.check() {
                break;
            }
            if self.events - told == EVENTS_A_STEP {
                told = self.events;
                progress((at as f64 / end as f64).min(1.0));
            }
        }
        progress(1.0);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive => self.on_arrive(),
            Event::Reach(id, tries) => self.on_reach(id, tries),
            Event::Work(backend) => self.on_work(backend),
            Event::Rested(id) => self.on_rested(id),
            Event::Answer(id) => self.on_answer(id),
            Event::Again(id) => self.on_again(id),
            Event::Late(id, tries) => self.on_late(id, tries),
            Event::Expire => self.on_expire(),
            Event::Cancel(id) => self.on_cancel(id),
            Event::ClientTimer(client) => self.on_client_timer(client),
            Event::ServerTimer(backend) => self.on_server_timer(backend),
            Event::Dial(link) => self.on_dial(link),
            Event::Note(note, link) => self.on_note(note, link),
            Event::Neighbours(backend) => self.on_neighbours(backend),
            Event::Warmer(backend, process, step) => self.on_warmer(backend, process, step),
            Event::Start(backend, process) => self.on_start(backend, process),
            Event::Ready(backend, process) => self.on_ready(backend, process),
            Event::Fault(fault) => self.on_fault(fault),
            Event::Heal(fault) => self.on_heal(fault),
            Event::Poll(client, process) => self.on_poll(client, process),
            Event::Window => self.on_window(),
            Event::Datagram(number) => self.on_datagram(number),
            Event::PeersTimer(backend) => self.on_peers_timer(backend),
            Event::Woken(client) => self.on_woken(client),
            Event::Impatient(id) => self.on_impatient(id),
            Event::Spill(client) => self.on_spill(client),
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    /// When nothing new is asked for any more.
    fn end(&self) -> u64 {
        ORIGIN + self.scenario.duration.nanos()
    }

    /// A connection as its client has it; `None` where it is gone.
    fn link(&mut self, link: LinkId) -> Option<&mut client::Link> {
        self.clients[link.client as usize].link(link.place, link.epoch)
    }
}

/// Connections are made before anything is asked for; the scenario's clock begins here.
const ORIGIN: u64 = 1_000_000_000;
/// How long after the last deadline the last message may arrive.
const HOMECOMING: u64 = 10_000_000_000;
/// How often progress is told.
const EVENTS_A_STEP: u64 = 1 << 17;
