//! Random worlds in which random things go wrong, with every invariant looked at after every event.
//!
//! A seed is a world: whatever it does, it does again. A seed that fails is printed, can be looked at with
//! `evenkeel sim swarm --seed N`, and becomes a test of its own name.

use std::time::Duration;

use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::rng::hash2;
use evenkeel_core::{Criticality, PolicyName, Rng};

use crate::baseline;
use crate::scenario::ORACLE;
use crate::scenario::{
    Backends, Clients, Clusters, Distribution, Fault, FaultKind, Idle, Layer, Machine, Method, Neighbours, Network,
    Reach, Rhythm, Scenario, Span, Subset, Switch, Warmup,
};
use crate::world::{self, Broken, RunResult};

/// Runs the world of this seed.
///
/// ```
/// let result = evenkeel_sim::swarm::run(7)?;
/// assert!(result.metrics["requests"] > 0.0);
/// # Ok::<(), evenkeel_sim::world::Broken>(())
/// ```
pub fn run(seed: u64) -> Result<RunResult, Broken> {
    world::run_checked(&scenario(seed), seed)
}

/// The world of this seed, small enough that everything in it can be looked at.
pub fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice(Rng::from_seed(hash2(seed, SWARM)));
    let duration = dice.millis(2_000, 6_000);
    let backends = dice.backends(2, 10);
    let layers = dice.layers();
    let faults = dice.faults(duration, backends.count, layers.is_empty());
    let clients = dice.clients(duration);
    let changes_policy = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Policy { .. }));
    let resizes = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Resize { .. }));
    let fewest = layers.iter().map(|layer| layer.backends.count).fold(backends.count.min(clients.count), u32::min);
    let mut scenario = Scenario {
        about: format!("the world of swarm seed {seed}"),
        duration,
        settle: Span::ZERO,
        window: Span::from_millis(500),
        policy: dice.policy(changes_policy),
        admission: dice.chance(0.15).then(|| "envoy".to_owned()),
        subset: dice.subset(),
        client: crate::scenario::ClientSettings {
            active_max: if dice.chance(0.3) { dice.number(1, 5) } else { 100 },
            error_half_life: dice.millis(50, 2_000),
            ..crate::scenario::ClientSettings::default()
        },
        methods: dice.methods(),
        criticality: Criticality::ALL.map(|level| (level.as_str().to_owned(), 1.0)).into_iter().collect(),
        network: dice.network(),
        clusters: dice.clusters(if resizes { 1 } else { fewest }),
        clients,
        backends,
        layers,
        faults,
        ..Scenario::default()
    };
    Dice(Rng::from_seed(hash2(seed, IDLE))).idle(&mut scenario);
    Dice(Rng::from_seed(hash2(seed, SERVER))).server(&mut scenario);
    Dice(Rng::from_seed(hash2(seed, RETRY))).retry(&mut scenario);
    Dice(Rng::from_seed(hash2(seed, SPILL))).spill(&mut scenario);
    Dice(Rng::from_seed(hash2(seed, STALL))).stall(&mut scenario);
    // One line for all cores, where nothing happens that it knows nothing of.
    let oracle = Scenario { policy: ORACLE.to_owned(), ..scenario.clone() };
    if dice.chance(0.15) && oracle.check().is_ok() { oracle } else { scenario }
}

struct Dice(Rng);

impl Dice {
    fn chance(&mut self, share: f64) -> bool {
        self.0.unit() < share
    }

    /// From `least` to `most`, both possible.
    fn number(&mut self, least: u32, most: u32) -> u32 {
        least + self.0.below(most - least + 1)
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.0.unit()
    }

    fn millis(&mut self, least: u32, most: u32) -> Span {
        Span::from_millis(u64::from(self.number(least, most)))
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.below(all.len() as u32) as usize]
    }

    fn policy(&mut self, only_of_core: bool) -> String {
        if only_of_core || self.chance(0.7) {
            return self.one_of(&PolicyName::ALL).as_str().to_owned();
        }
        self.one_of(baseline::NAMES).0.to_owned()
    }

    fn subset(&mut self) -> Subset {
        Subset { size: self.number(1, 8), algorithm: self.one_of(&Algorithm::ALL).as_str().to_owned() }
    }

    fn clients(&mut self, duration: Span) -> Clients {
        let at = duration.get().mul_f64(0.4).into();
        let rhythm = match self.number(0, 3) {
            0 => vec![Rhythm::Step { at, lasts: Some(Span::from_millis(500)), times: 4.0 }],
            1 => vec![Rhythm::Burst { every: Span::from_secs(1), lasts: Span::from_millis(50), times: 8.0 }],
            _ => Vec::new(),
        };
        Clients {
            count: self.number(1, 8),
            rate: Some(self.between(20.0, 300.0)),
            zipf: self.between(0.0, 1.2),
            deadline: self.millis(100, 3_000),
            foreign: if self.chance(0.3) { 0.3 } else { 0.0 },
            rhythm,
            ..Clients::default()
        }
    }

    fn backends(&mut self, least: u32, most: u32) -> Backends {
        let slow = Machine { speed: self.between(0.3, 1.0), ..Machine::default() };
        Backends {
            count: self.number(least, most),
            cores: self.number(1, 4),
            workers: self.chance(0.3).then(|| self.number(1, 6)),
            machines: if self.chance(0.5) { vec![Machine::default(), slow] } else { Vec::new() },
            neighbours: self.chance(0.4).then(|| Neighbours { stay: self.millis(100, 1_000), ..Neighbours::default() }),
            warmup: self.chance(0.4).then(|| Warmup { lasts: self.millis(100, 2_000), speed: 0.3 }),
            ..Backends::default()
        }
    }

    fn methods(&mut self) -> Vec<Method> {
        let cpu = match self.number(0, 2) {
            0 => Distribution::Exponential { mean: self.millis(1, 30), cut: None },
            1 => Distribution::Lognormal { mean: self.millis(1, 30), sigma: 1.5, cut: Some(50.0) },
            _ => Distribution::Fixed { mean: self.millis(1, 20) },
        };
        let wait = self.chance(0.4).then(|| Distribution::Exponential { mean: self.millis(1, 80), cut: None });
        vec![Method { cpu, wait, ..Method::default() }]
    }

    fn network(&mut self) -> Network {
        Network {
            delay: Span::from_micros(u64::from(self.number(50, 3_000))),
            jitter: if self.chance(0.5) { Span::from_micros(u64::from(self.number(1, 3_000))) } else { Span::ZERO },
            loss: if self.chance(0.3) { self.between(0.0, 0.05) } else { 0.0 },
            silence: self.millis(300, 2_000),
            ..Network::default()
        }
    }

    fn layers(&mut self) -> Vec<Layer> {
        let count = if self.chance(0.25) { self.number(1, 2) } else { 0 };
        let layer = |_| Layer {
            calls: self.number(1, 3),
            backends: self.backends(1, 5),
            methods: self.methods(),
            ..Layer::default()
        };
        (0..count).map(layer).collect()
    }

    fn clusters(&mut self, most: u32) -> Clusters {
        let count = if self.chance(0.2) { 2.min(most) } else { 1 };
        let reach = if self.chance(0.5) { Reach::All } else { Reach::Own };
        Clusters { count, delay: self.millis(1, 20), reach, ..Clusters::default() }
    }

    /// Connections that are let go in every second world, and datagrams that get lost.
    fn idle(&mut self, scenario: &mut Scenario) {
        if !self.chance(0.5) {
            return;
        }
        let every = self.number(20, 800);
        scenario.idle = Idle {
            after: Some(self.millis(50, 1_000)),
            check_every: Span::from_millis(u64::from(every)),
            check_timeout: self.millis(1, every.min(300)),
            silences_max: self.number(1, 3),
            visit_every: self.millis(50, 1_500),
        };
        let clients = &mut scenario.clients;
        clients.rare = if self.chance(0.5) { 0.5 } else { 0.0 };
        clients.rarely = 0.02;
        if self.chance(0.5) {
            clients.rate = Some(self.between(1.0, 20.0));
        }
        scenario.network.datagram_loss = self.chance(0.4).then(|| self.between(0.0, 0.6));
        scenario.backends.datagrams = self.chance(0.9);
        scenario.backends.keeps_secret = self.chance(0.6);
        if self.chance(0.3) {
            // Much overtakes much.
            scenario.network.jitter = self.millis(5, 40);
        }
        for (share, kind) in [
            (0.3, FaultKind::NoDatagrams { clients: self.between(0.2, 1.0) }),
            (0.5, FaultKind::LameDuck),
            (0.5, FaultKind::LameDuck),
        ] {
            let fault = Fault { kind, ..self.fault(scenario.duration, scenario.backends.count) };
            let clashes = |before: &Fault| fault.clashes_with(before, scenario.backends.count).is_some();
            if self.chance(share) && !scenario.faults.iter().any(clashes) {
                scenario.faults.push(fault);
            }
        }
    }

    /// Some worlds decide whom they let in, and some of those have more than they can do.
    fn server(&mut self, scenario: &mut Scenario) {
        if !self.chance(0.25) {
            return;
        }
        scenario.server.mode = if self.chance(0.8) { Switch::On } else { Switch::Observe };
        if self.chance(0.3) {
            scenario.server.limit = Switch::On;
        }
        scenario.server.refusal_cost = self.one_of(&[0.0, 0.1, 0.5]);
        scenario.server.burst = self.millis(5, 120);
        scenario.server.hint_ttl = self.millis(50, 700);
        if self.chance(0.5) {
            scenario.clients.rate = None;
            scenario.clients.load = self.between(0.5, 3.0);
            scenario.clients.deadline = self.millis(50, 500);
        }
    }

    fn retry(&mut self, scenario: &mut Scenario) {
        if !self.chance(0.5) {
            return;
        }
        if self.chance(0.2) {
            scenario.retry.naive = Some(self.number(2, 4));
        } else {
            scenario.retry.mode = if self.chance(0.8) { Switch::On } else { Switch::Observe };
            scenario.retry.attempts = self.number(1, 5);
            scenario.retry.share = self.one_of(&[0.0, 0.1, 1.0, 4.0]);
            scenario.retry.refused_most = self.one_of(&[0.0, 0.5, 1.0]);
            scenario.retry.wait = self.millis(0, 50);
        }
        if self.chance(0.6) {
            let (at, kind) = (self.millis(0, 1_000), FaultKind::Refuse { share: self.between(0.1, 1.0) });
            let lasts = Some(self.millis(100, 900));
            scenario.faults.push(Fault { at, lasts, layer: 0, backends: "50%".to_owned(), kind });
        }
    }

    /// Clients of every second world with several clusters prefer the nearest.
    fn spill(&mut self, scenario: &mut Scenario) {
        if scenario.clusters.count > 1 && scenario.layers.is_empty() && self.chance(0.5) {
            scenario.clusters.reach = Reach::Spill;
            scenario.clusters.full = self.between(0.2, 1.0);
            scenario.clusters.margin = 0.05;
            scenario.clusters.period = self.millis(20, 500);
        }
    }

    /// Something behind the backends of some worlds becomes slow, or fast.
    fn stall(&mut self, scenario: &mut Scenario) {
        if self.chance(0.15) {
            let kind = FaultKind::Stall { times: self.one_of(&[0.1, 3.0, 20.0]) };
            scenario.faults.push(Fault { kind, ..self.fault(scenario.duration, scenario.backends.count) });
        }
    }

    fn faults(&mut self, duration: Span, backends: u32, may_resize: bool) -> Vec<Fault> {
        let count = self.number(0, 5);
        let mut faults: Vec<Fault> = Vec::new();
        for _ in 0..count {
            let fault = self.fault(duration, backends);
            if faults.iter().all(|before| fault.clashes_with(before, backends).is_none()) {
                faults.push(fault);
            }
        }
        if may_resize && self.chance(0.2) {
            let change = self.one_of(&["+1b", "+50%b", "-1b", "+2c", "+100%c"]).to_owned();
            let at = self.moment(duration);
            faults.push(Fault {
                at,
                lasts: None,
                layer: 0,
                backends: "0".to_owned(),
                kind: FaultKind::Resize { change },
            });
        }
        faults
    }

    fn moment(&mut self, duration: Span) -> Span {
        Duration::from_millis((duration.get().as_millis() as f64 * self.between(0.05, 0.9)) as u64).into()
    }

    fn fault(&mut self, duration: Span, backends: u32) -> Fault {
        let kind = match self.number(0, 7) {
            0 => FaultKind::Kill,
            1 => FaultKind::Hang,
            2 => FaultKind::Fail { share: self.between(0.05, 1.0), cpu: Span::from_micros(100) },
            3 => FaultKind::Slow { speed: self.between(0.05, 0.9) },
            4 => FaultKind::Partition { clients: self.between(0.2, 1.0) },
            5 => FaultKind::LameDuck,
            6 => FaultKind::Restart {
                together: self.number(1, 3),
                down: self.millis(10, 500),
                prewarm: if self.chance(0.5) { self.millis(10, 300) } else { Span::ZERO },
            },
            _ => FaultKind::Policy { policy: self.one_of(&PolicyName::ALL).as_str().to_owned() },
        };
        let first = self.number(0, backends - 1);
        let last = self.number(first, backends - 1);
        let (at, lasts) = (self.moment(duration), self.millis(50, 2_000));
        // What would go on beyond the end stays.
        let lasts = (at.get() + lasts.get() <= duration.get()).then_some(lasts);
        Fault { at, lasts, layer: 0, backends: format!("{first}-{last}"), kind }
    }
}

const SWARM: u64 = 0x7377_6172;
/// A stream of its own: worlds in which nothing is let go are as they were.
const IDLE: u64 = 0x6964_6c65;
const SERVER: u64 = 0x7365_7276;
const RETRY: u64 = 0x7265_7472;
const SPILL: u64 = 0x7370_696c;
const STALL: u64 = 0x7374_616c;
