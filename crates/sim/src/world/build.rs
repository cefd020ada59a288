//! A world from a scenario: brains, machines, lists of backends; and what is built anew while it runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::Shape;
use evenkeel_core::rng::{hash2, hash3};
use evenkeel_core::{
    BackendId, BackendList, BackendSpec, Client, ClientConfig, CustomerId, Local, PolicyName, Rng, Server, Time,
};

use super::client::ClientTask;
use super::datagrams::Datagrams;
use super::event::Event;
use super::faults::FaultState;
use super::network::Net;
use super::overload::Watch;
use super::queue::Queue;
use super::requests::Requests;
use super::serving::FIRST_MEASURE;
use super::tally::Tally;
use super::task::{Meter, Task};
use super::{ORIGIN, Service, World};
use crate::admission;
use crate::baseline::{self, Baseline};
use crate::model::{Arrivals, Central, Machine, Requests as Methods, exponential, machines};
use crate::scenario::{Backends, ORACLE, Reach, Scenario};

impl<'a> World<'a> {
    pub(super) fn new(scenario: &'a Scenario, seed: u64) -> Self {
        let mut arrivals = Arrivals::new(scenario, seed);
        let next = arrivals.next();
        let mut world = World {
            scenario,
            seed,
            now: 0,
            queue: Queue::default(),
            arrivals,
            next,
            requests: Requests::default(),
            deadlines: VecDeque::new(),
            clients: Vec::new(),
            root_clients: 0,
            tasks: Vec::new(),
            services: Vec::new(),
            net: Net::new(scenario, seed),
            epochs: 0,
            reports: BTreeMap::new(),
            left: BTreeMap::new(),
            datagrams: Datagrams::default(),
            faults: Vec::new(),
            central: None,
            tally: Tally::new(scenario),
            watch: scenario.overload.as_ref().map(|overload| Watch::new(scenario, overload)),
            trace: seed,
            events: 0,
            checker: None,
        };
        if scenario.policy == ORACLE {
            world.central = Some(Central::new(machines(&scenario.backends).into_iter().map(|(cores, _)| cores)));
        }
        world.build_services();
        world.build_clients();
        world.plan_events();
        world
    }

    fn build_services(&mut self) {
        let scenario = self.scenario;
        let calls = |service: usize| scenario.layers.get(service).map_or(0, |layer| layer.calls);
        self.add_service(&scenario.backends, Methods::new(&scenario.methods), calls(0));
        for (number, layer) in scenario.layers.iter().enumerate() {
            self.add_service(&layer.backends, Methods::new(&layer.methods), calls(number + 1));
        }
    }

    fn add_service(&mut self, backends: &Backends, methods: Methods, calls: u32) {
        let first = self.tasks.len() as u32;
        let service = self.services.len() as u32;
        self.services.push(Service { first, count: backends.count, calls, methods });
        for (number, (cores, speed)) in machines(backends).into_iter().enumerate() {
            self.add_task(service, number as u32, cores, speed);
        }
    }

    fn add_task(&mut self, service: u32, number: u32, cores: u32, speed: f64) {
        let backend = self.tasks.len() as u32;
        let mut fresh = self.fresh_server();
        fresh.0.handle_ready(Time::from_nanos(self.now));
        let rng = Rng::for_stream(hash2(self.seed, SERVERS), u64::from(backend));
        let mut task = Task::new(fresh, Machine::new(cores, speed), speed, rng);
        let backends = self.backends_of(service);
        task.workers = backends.workers.unwrap_or(u32::MAX);
        task.refusal_cost = self.refusal_cost(service);
        task.service = service;
        task.cluster = self.cluster_of(number, self.services[service as usize].count);
        let first_measure = self.now + u64::from(task.rng.below(FIRST_MEASURE as u32));
        task.measured_at = first_measure;
        self.tasks.push(task);
        self.queue.push(first_measure, Event::ServerTimer(backend));
        self.begin_neighbours(backend);
        self.set_besides(backend, number);
    }

    /// What the task does besides requests, and how it reads its CPU.
    fn set_besides(&mut self, backend: u32, number: u32) {
        let backends = self.backends_of(self.tasks[backend as usize].service);
        let rng = Rng::for_stream(hash2(self.seed, READINGS), u64::from(backend));
        self.tasks[backend as usize].meter = backends.readings.as_ref().map(|readings| Meter::new(readings, rng));
        let Some(background) = backends.background.as_ref().filter(|one| is_one_of(number, one.share)) else { return };
        self.tasks[backend as usize].background = background.cpu;
        self.set_pace(&[backend], |pace| pace.background = 1.0 - background.cpu);
    }

    /// The brain of a new process, and the numbers it has for customers.
    pub(super) fn fresh_server(&self) -> (Server, Vec<CustomerId>) {
        let config = self.scenario.server.config();
        let mut brain = Server::new(self.time(), config).expect("a checked scenario gives possible settings");
        let customers = self.scenario.customers.keys().map(|name| brain.handle_customer(name)).collect();
        (brain, customers)
    }

    /// Seconds of CPU that answering a refusal takes at a service.
    fn refusal_cost(&self, service: u32) -> f64 {
        if self.scenario.server.is_off() && self.backends_of(service).queue.is_none() {
            return 0.0;
        }
        let methods = match service.checked_sub(1) {
            None => &self.scenario.methods,
            Some(layer) => &self.scenario.layers[layer as usize].methods,
        };
        self.scenario.server.refusal_cost * self.services[service as usize].methods.mean_cpu(methods)
    }

    /// The settings of a service's tasks.
    pub(super) fn backends_of(&self, service: u32) -> &'a Backends {
        match service.checked_sub(1) {
            None => &self.scenario.backends,
            Some(layer) => &self.scenario.layers[layer as usize].backends,
        }
    }

    fn cluster_of(&self, number: u32, count: u32) -> u32 {
        let clusters = u64::from(self.scenario.clusters.count);
        (u64::from(number) * clusters / u64::from(count.max(1))).min(clusters - 1) as u32
    }

    fn build_clients(&mut self) {
        let count = self.scenario.clients.count;
        let foreign = (f64::from(count) * self.scenario.clients.foreign).round() as u32;
        self.root_clients = count;
        let lists = self.lists(0);
        for number in 0..count {
            // Those that are not ours are spread over all of them.
            let is_foreign = u64::from(number + 1) * u64::from(foreign) / u64::from(count)
                > u64::from(number) * u64::from(foreign) / u64::from(count);
            let cluster = self.cluster_of(number, count);
            self.add_client(0, cluster, is_foreign, &lists);
        }
        for service in 1..self.services.len() as u32 {
            let lists = self.lists(service);
            let before = self.services[service as usize - 1].clone();
            for backend in before.first..before.first + before.count {
                let cluster = self.tasks[backend as usize].cluster;
                self.tasks[backend as usize].caller = Some(self.clients.len() as u32);
                self.add_client(service, cluster, false, &lists);
            }
        }
        if self.scenario.clusters.reach == Reach::Spill {
            self.build_spilling();
        }
    }

    /// The backends of a service that the clients of each cluster know.
    pub(super) fn lists(&self, service: u32) -> Vec<BackendList> {
        let Service { first, count, .. } = self.services[service as usize];
        let of = |cluster: u32| {
            let knows = |&backend: &u32| {
                self.scenario.clusters.reach == Reach::All || self.tasks[backend as usize].cluster == cluster
            };
            let listed = (first..first + count).filter(knows).zip(0..);
            let specs = listed
                .map(|(backend, ordinal)| BackendSpec { id: BackendId(u64::from(backend)), ordinal: Some(ordinal) });
            BackendList::new(specs).expect("numbers are dense and different")
        };
        if self.central.is_some() {
            return vec![BackendList::empty(); self.scenario.clusters.count as usize];
        }
        (0..self.scenario.clusters.count).map(of).collect()
    }

    fn add_client(&mut self, service: u32, cluster: u32, is_foreign: bool, lists: &[BackendList]) {
        let number = self.clients.len() as u32;
        let task = self.new_client(number, service, cluster, is_foreign);
        self.clients.push(task);
        self.set_backends(number, lists[cluster as usize].clone());
        self.plan_polls(number);
    }

    /// The part of a client that is for another cluster.
    pub(super) fn add_part(&mut self, home: u32, list: BackendList) -> u32 {
        let number = self.clients.len() as u32;
        let (service, cluster) = (self.clients[home as usize].service, self.clients[home as usize].cluster);
        let part = ClientTask { home, ..self.new_part(number, home, service, cluster, false) };
        self.clients.push(part);
        self.set_backends(number, list);
        self.plan_polls(number);
        number
    }

    fn plan_polls(&mut self, number: u32) {
        let client = &self.clients[number as usize];
        let Some(every) = client.baseline.as_ref().and_then(|one| one.poll_every()) else { return };
        // They do not ask in step.
        let first = hash3(self.seed, POLLS, u64::from(number)) % (every.as_nanos() as u64).max(1);
        self.queue.push(self.now + first, Event::Poll(number, client.process));
    }

    fn set_backends(&mut self, client: u32, list: BackendList) {
        let now = self.time();
        let given = self.clients[client as usize].brain.handle_backends(now, list);
        debug_assert!(given.is_ok(), "a checked way of dealing was refused: {given:?}");
        self.pump_client(client);
    }

    fn new_client(&self, number: u32, service: u32, cluster: u32, is_foreign: bool) -> ClientTask {
        self.new_part(number, number, service, cluster, is_foreign)
    }

    fn new_part(&self, number: u32, home: u32, service: u32, cluster: u32, is_foreign: bool) -> ClientTask {
        let mut rng = Rng::for_stream(hash2(self.seed, CLIENTS), u64::from(number));
        let mut config = self.config_for(home, service, cluster);
        if is_foreign {
            config.idle.after = None;
        }
        let others = self.scenario.clients.others.as_ref().filter(|one| service == 0 && is_one_of(number, one.share));
        let chosen = match others {
            _ if is_foreign => PolicyName::RoundRobin.as_str(),
            Some(others) => others.policy.as_str(),
            None => self.scenario.policy.as_str(),
        };
        let baseline_seed = hash3(self.seed, BASELINES, u64::from(number));
        let siblings = match service.checked_sub(1) {
            None => self.scenario.clients.count,
            Some(before) => self.services[before as usize].count,
        };
        let baseline = baseline::build(chosen, siblings, baseline_seed);
        let now = Time::from_nanos(self.now);
        let brain = if let Some(policy) = &baseline {
            let policy: Arc<dyn Baseline> = Arc::clone(policy);
            Client::with_custom_policy(now, config, policy, &mut rng)
        } else {
            config.policy = chosen.parse().unwrap_or_default();
            Client::new(now, config, &mut rng)
        };
        let mut brain = brain.expect("a checked scenario gives possible settings");
        let picker = brain.poll_picker().expect("a new brain has a picker");
        ClientTask {
            brain,
            picker,
            local: Local::default(),
            rng,
            links: Vec::new(),
            routes: Vec::new(),
            wakes_at: u64::MAX,
            is_foreign,
            cluster,
            home,
            spilling: None,
            service,
            baseline,
            admission: self.scenario.admission.as_deref().and_then(admission::build),
            process: 0,
            is_gone: false,
            places: BTreeMap::new(),
            keys: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// The settings of a client's brain, but for its policy.
    fn config_for(&self, number: u32, service: u32, cluster: u32) -> ClientConfig {
        let scenario = self.scenario;
        let mut config = ClientConfig::default();
        config.subset.size = scenario.subset.size;
        config.subset.algorithm = scenario.subset.algorithm.parse::<Algorithm>().ok();
        config.subset.client = Some(self.ordinal_of(number, service, cluster));
        config.subset.seed = self.dealing_seed();
        scenario.client.put_into(&mut config);
        config.retry = scenario.retry.config();
        scenario.idle.put_into(&mut config);
        config
    }

    pub(super) fn config_of(&self, client: u32) -> ClientConfig {
        let task = &self.clients[client as usize];
        self.config_for(task.home, task.service, task.cluster)
    }

    /// What subsets are shuffled with.
    pub(super) fn dealing_seed(&self) -> u64 {
        hash2(self.seed, DEALING)
    }

    /// The place of a client among those who know the same backends.
    fn ordinal_of(&self, number: u32, service: u32, cluster: u32) -> u32 {
        let is_one = |other: &&ClientTask| {
            other.service == service && (self.scenario.clusters.reach != Reach::Own || other.cluster == cluster)
        };
        if self.scenario.clusters.count == 1 && service == 0 {
            return number;
        }
        self.clients[..self.clients.len().min(number as usize)].iter().filter(is_one).count() as u32
    }

    fn plan_events(&mut self) {
        let scenario = self.scenario;
        let first = ORIGIN.saturating_add(self.next.at.nanos());
        if first < self.end() {
            self.queue.push(first, Event::Arrive);
        }
        self.queue.push(ORIGIN, Event::Window);
        for (number, fault) in scenario.faults.iter().enumerate() {
            let state = FaultState::new(fault, &self.services[fault.layer as usize]);
            let (from, until) = (state.from, state.until);
            self.faults.push(state);
            self.queue.push(from, Event::Fault(number as u32));
            if until < u64::MAX {
                self.queue.push(until, Event::Heal(number as u32));
            }
        }
    }

    /// The brain of a process's client half, new as the process is.
    pub(super) fn renew_caller(&mut self, backend: u32) {
        let Some(caller) = self.tasks[backend as usize].caller else { return };
        let (service, cluster) = (self.clients[caller as usize].service, self.clients[caller as usize].cluster);
        let list = self.lists(service)[cluster as usize].clone();
        let process = self.clients[caller as usize].process + 1;
        self.clients[caller as usize] = ClientTask { process, ..self.new_client(caller, service, cluster, false) };
        self.set_backends(caller, list);
        self.plan_polls(caller);
    }

    /// More or fewer tasks of the first service or clients of it.
    pub(super) fn grow_or_shrink(&mut self, after: Shape) {
        if after.backends != self.services[0].count {
            let mut backends = self.scenario.backends.clone();
            backends.count = backends.count.max(after.backends);
            for (number, (cores, speed)) in machines(&backends).into_iter().enumerate().skip(self.tasks.len()) {
                self.add_task(0, number as u32, cores, speed);
                let task = self.tasks.len() as u32 - 1;
                self.pump_server(task);
            }
            self.services[0].count = after.backends;
            let lists = self.lists(0);
            for client in 0..self.root_clients {
                let cluster = self.clients[client as usize].cluster;
                self.set_backends(client, lists[cluster as usize].clone());
            }
        }
        let lists = self.lists(0);
        for number in self.root_clients..after.clients {
            if let Some(back) = self.clients.get(number as usize) {
                self.set_backends(number, lists[back.cluster as usize].clone());
            } else {
                let cluster = self.cluster_of(number, after.clients);
                self.add_client(0, cluster, false, &lists);
            }
        }
        for number in after.clients..self.root_clients {
            // Without backends its connections end, each once nothing is in flight on it.
            self.set_backends(number, BackendList::empty());
        }
        self.root_clients = after.clients;
        self.arrivals.set_clients(after.clients);
        // Drawn before there were fewer.
        self.next.client %= after.clients;
    }

    fn begin_neighbours(&mut self, backend: u32) {
        let service = self.tasks[backend as usize].service;
        let Some(neighbours) = self.backends_of(service).neighbours.as_ref() else { return };
        let mut rng = self.neighbours_rng(backend);
        let are_there = rng.unit() < neighbours.share;
        self.tasks[backend as usize].neighbours_rng = rng;
        self.set_neighbours(backend, are_there);
    }

    fn neighbours_rng(&self, backend: u32) -> Rng {
        Rng::for_stream(hash2(self.seed, NEIGHBOURS), u64::from(backend))
    }

    pub(super) fn on_neighbours(&mut self, backend: u32) {
        let were_there = self.tasks[backend as usize].pace.neighbours < 1.0;
        self.set_neighbours(backend, !were_there);
    }

    fn set_neighbours(&mut self, backend: u32, are_there: bool) {
        let service = self.tasks[backend as usize].service;
        let Some(neighbours) = self.backends_of(service).neighbours.as_ref() else { return };
        let (share, slower, stay) = (neighbours.share, 1.0 - neighbours.slowdown, neighbours.stay.seconds());
        self.set_pace(&[backend], |pace| pace.neighbours = if are_there { slower } else { 1.0 });
        if share <= 0.0 || share >= 1.0 || slower >= 1.0 {
            return; // they are always there, or never
        }
        let mean = if are_there { stay } else { stay * (1.0 - share) / share };
        let lasts = exponential(mean, &mut self.tasks[backend as usize].neighbours_rng);
        self.queue.push(self.now.saturating_add((lasts * 1e9) as u64), Event::Neighbours(backend));
    }
}

/// Whether number n is one of a share of all that are spread evenly.
fn is_one_of(number: u32, share: f64) -> bool {
    let up_to = |number: u32| (f64::from(number) * share) as u32;
    up_to(number + 1) > up_to(number)
}

/// Streams of chance, so that parts do not disturb each other.
const SERVERS: u64 = 0x7365_7276;
const CLIENTS: u64 = 0x636c_6965;
const BASELINES: u64 = 0x6261_7365;
const DEALING: u64 = 0x6465_616c;
const NEIGHBOURS: u64 = 0x6e65_6967;
const POLLS: u64 = 0x706f_6c6c;
const READINGS: u64 = 0x7265_6164;
