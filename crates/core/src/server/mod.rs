//! A server task: its life, who is let in ([`Server`]), and what each request meets ([`Gate`], [`Line`]).

mod admission;
mod gate;
mod held;
mod refusal;

mod config;
mod counts;
mod lifecycle;
mod peers;
mod running;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use admission::config::{AdmissionConfig, Modes, Quota, QuotasConfig, SignalsConfig, Thresholds};
pub use admission::line::{Called, Line};
pub use admission::queue::Place;
pub use admission::{AdmissionSnapshot, Spent};
pub use config::ServerConfig;
pub use gate::{Admission, Entry, Gate, GateLocal, Waiting};
pub use held::held_by_anybody;
pub use lifecycle::Phase;
pub use peers::{PeerAddress, Peers, PeersConfig, PeersSnapshot, Question, Verdict};
pub use refusal::{Refused, ServerRefusal};
pub use running::Running;

use crate::snapshot::ServerSnapshot;
use crate::stats::{DecayingMean, Rate};
use crate::time::CLOCK_JUMP;
use crate::{CustomerId, InvalidConfig, LoadReport, Readiness, Time};
use admission::Governor;
use admission::quota::CUSTOMERS;
use lifecycle::Lifecycle;

/// What the driver of a server must do; drained after every call into the brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAction {
    /// Tell every client that is connected, at once; then say [`Server::handle_clients`], also if there are none: a
    /// stopping server waits for it.
    Announce(Readiness),
    /// Nobody sends any more: end the watch streams, then close connections gracefully; then say
    /// [`Server::handle_closed`].
    Close,
    /// Nothing is left to do.
    Exit,
}

/// What the driver read of the machine; what it cannot read it leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU in use over CPU reserved since the last reading.
    pub utilization: Option<f64>,
    /// Processors it may use.
    pub processors: Option<f64>,
    /// Tasks running or ready to run, smoothed.
    pub runnable: Option<f64>,
    /// Memory in use over its limit.
    pub memory: Option<f64>,
    /// Share of the time in which the system held the process back.
    pub throttled: Option<f64>,
    /// How long a task that is ready waits to be run, the longest of late.
    pub delay: Option<Duration>,
    /// A signal of the service as a whole, over its capacity; for several of them see [`Server::handle_plugged`].
    pub plugged: Option<f64>,
    /// CPU that a request costs outside of its handler: what a refusal costs.
    pub overhead: Option<Duration>,
}

/// How far clients have heard the last announcement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Watch our way, and have not acknowledged it yet.
    pub unacknowledged: u32,
    /// Cannot acknowledge: they watch the standard way, or not at all.
    pub silent: u32,
    /// Have no connection, and are still being pushed to; ends by itself, see [`Peers`].
    pub unreached: u32,
}

/// The slow brain of a server task.
///
/// A driver tells it what happened (`handle_*`), drains [`Server::poll_action`] and calls
/// [`Server::handle_timeout`] at [`Server::poll_timeout`]. Requests meet its [`Gate`].
///
/// ```
/// use evenkeel_core::{Readiness, Server, ServerConfig, Time, server::ServerAction};
///
/// let mut server = Server::new(Time::ZERO, ServerConfig::default())?;
/// server.handle_ready(Time::from_secs(1));
/// assert_eq!(server.poll_action(), Some(ServerAction::Announce(Readiness::Ready)));
/// # Ok::<(), evenkeel_core::InvalidConfig>(())
/// ```
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    life: Lifecycle,
    gate: Arc<Gate>,
    governor: Governor,
    spent: Spent,
    customers: Vec<String>,
    customer_ids: BTreeMap<String, CustomerId>,
    actions: VecDeque<ServerAction>,
    /// How far the last announcement has been heard; unknown until the driver has made it.
    clients: Option<Clients>,
    qps: Rate,
    eps: Rate,
    latency: DecayingMean,
    latency_seen: (u64, u64),
    utilization: DecayingMean,
    utilization_slow: DecayingMean,
    usage: Usage,
    plugged: Vec<(String, Option<f64>)>,
    measure_at: Time,
    look_at: Time,
    now: Time,
}

impl Server {
    /// A task that listens and is not ready yet: a lame duck until [`Server::handle_ready`] (A7).
    pub fn new(now: Time, config: ServerConfig) -> Result<Self, InvalidConfig> {
        config.check()?;
        let gate = Arc::new(Gate::new(&config.admission));
        let mut server = Server {
            governor: Governor::new(now, config.admission.clone(), &gate),
            spent: Spent::default(),
            customers: Vec::new(),
            customer_ids: BTreeMap::new(),
            config,
            life: Lifecycle::new(now),
            gate,
            actions: VecDeque::new(),
            clients: Some(Clients::default()),
            qps: Rate::new(SLOW),
            eps: Rate::new(SLOW),
            latency: DecayingMean::new(FAST),
            latency_seen: (0, 0),
            utilization: DecayingMean::new(FAST),
            utilization_slow: DecayingMean::new(SLOW),
            usage: Usage::default(),
            plugged: Vec::new(),
            measure_at: now,
            look_at: now,
            now,
        };
        server.meet_customers();
        Ok(server)
    }

    /// Other settings from now on; all of them or, where one is not possible, none.
    pub fn handle_config(&mut self, now: Time, config: ServerConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        self.on_clock(now);
        self.governor.configure(config.admission.clone(), &self.gate);
        self.config = config;
        self.meet_customers();
        Ok(())
    }

    /// The settings in force.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The number of this customer, the same from now on; 0, which those without a number share, where there are too many.
    pub fn handle_customer(&mut self, name: &str) -> CustomerId {
        if let Some(known) = self.customer_ids.get(name) {
            return *known;
        }
        if self.customers.len() + 1 >= CUSTOMERS {
            return CustomerId::default();
        }
        self.customers.push(name.to_owned());
        let id = CustomerId(self.customers.len() as u32);
        self.customer_ids.insert(name.to_owned(), id);
        let quotas = &self.config.admission.quotas;
        let own = quotas.customers.iter().find(|(one, _)| one == name).map(|(_, quota)| *quota);
        self.gate.buckets().set(id, own.or(quotas.default));
        id
    }

    /// Customers with a number of their own, from 1 on.
    pub fn customers(&self) -> &[String] {
        &self.customers
    }

    /// Those with a quota by name have a number from the start; all others have what is for everybody.
    fn meet_customers(&mut self) {
        let QuotasConfig { default, customers } = self.config.admission.quotas.clone();
        for number in 0..=self.customers.len() as u32 {
            self.gate.buckets().set(CustomerId(number), default);
        }
        for (name, quota) in customers {
            let id = self.handle_customer(&name);
            if id != CustomerId::default() {
                self.gate.buckets().set(id, Some(quota));
            }
        }
    }

    /// CPU used so far; told before [`Server::handle_timeout`].
    pub fn handle_spent(&mut self, spent: Spent) {
        self.spent = spent;
    }

    /// What requests meet; one for all threads, for the whole life of the server.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What a client that connects now is to be told first.
    pub fn readiness(&self) -> Readiness {
        self.life.phase().readiness()
    }

    /// Initialised and warm: wants requests. Without effect once it is stopping.
    pub fn handle_ready(&mut self, now: Time) {
        self.enter(now, Phase::Serving);
    }

    /// Wants no new requests for a while, but may again.
    pub fn handle_lame_duck(&mut self, now: Time) {
        self.enter(now, Phase::LameDuck);
    }

    /// Told to end (SIGTERM): lame duck, then drain, then close (A6).
    pub fn handle_stop(&mut self, now: Time) {
        self.enter(now, Phase::Stopping);
    }

    /// How far clients have heard the last announcement; told whenever it changes.
    pub fn handle_clients(&mut self, now: Time, clients: Clients) {
        self.on_clock(now);
        self.clients = Some(clients);
        self.drain();
    }

    /// All connections are closed.
    pub fn handle_closed(&mut self, now: Time) {
        if self.life.phase() == Phase::Closing {
            self.enter(now, Phase::Stopped);
        }
    }

    /// Signals that the service plugged in, over their capacity, `None` where one cannot be read; told before
    /// [`Server::handle_usage`]. Each is judged on its own.
    pub fn handle_plugged(&mut self, plugged: &[(String, Option<f64>)]) {
        self.plugged.clear();
        self.plugged.extend_from_slice(plugged);
    }

    /// Signals that are left out because they stand above their last threshold though nothing is in flight.
    pub fn stuck_signals(&self) -> impl Iterator<Item = &str> {
        self.governor.stuck_signals()
    }

    /// A reading of the machine.
    pub fn handle_usage(&mut self, now: Time, usage: Usage) {
        self.on_clock(now);
        if let Some(utilization) = usage.utilization.filter(|value| value.is_finite() && *value >= 0.0) {
            self.utilization.sample(self.now, utilization);
            self.utilization_slow.sample(self.now, utilization);
        }
        self.usage = usage;
        self.governor.measure(self.now, &self.usage, &self.plugged, &self.gate);
        self.measure();
        self.measure_at = self.now + MEASURE_EVERY;
    }

    /// Time has passed; to be called at [`Server::poll_timeout`], and harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_clock(now);
        if self.measure_at <= self.now {
            self.measure();
            self.measure_at = self.now + MEASURE_EVERY;
        }
        if self.governor.tick_at().is_some_and(|at| at <= self.now) {
            self.governor.tick(self.now, self.spent, &self.gate);
        }
        self.drain();
    }

    /// What to do next, until `None`.
    pub fn poll_action(&mut self) -> Option<ServerAction> {
        self.actions.pop_front()
    }

    /// When to call [`Server::handle_timeout`]; never again once it has stopped.
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.governor.tick_at().map_or(self.measure_at, |tick| self.measure_at.min(tick));
        match self.life.phase() {
            Phase::Stopped => None,
            Phase::Stopping | Phase::Closing => Some(next.min(self.look_at)),
            Phase::Starting | Phase::Serving | Phase::LameDuck => Some(next),
        }
    }

    /// Everything people and metrics may want to know, as plain data.
    pub fn snapshot(&self, now: Time) -> ServerSnapshot {
        let totals = self.gate.totals();
        ServerSnapshot {
            now,
            phase: self.life.phase(),
            since: self.life.since(),
            in_flight: totals.in_flight(),
            admitted: totals.admitted,
            too_late: totals.of(ServerRefusal::TooLate),
            closed: totals.of(ServerRefusal::Closed),
            admission: self.governor.snapshot(now, &self.gate),
            unacknowledged: self.clients.map(|clients| clients.unacknowledged),
            unreached: self.clients.map(|clients| clients.unreached),
            silent: self.clients.map(|clients| clients.silent),
            draining_for: self.life.stopping_since().map(|since| now.since(since)),
            report: self.gate.report(),
        }
    }

    /// Keeps the latest time; after a jump back, counts on from there.
    fn on_clock(&mut self, now: Time) {
        if self.now.since(now) > CLOCK_JUMP {
            self.life.on_clock_jump(self.now, now);
            self.governor.on_clock_jump(now);
            (self.measure_at, self.look_at) = (now, now);
            self.now = now;
        }
        self.now = self.now.max(now);
    }

    fn enter(&mut self, now: Time, phase: Phase) {
        self.on_clock(now);
        let before = self.life.phase();
        if !self.life.enter(self.now, phase) {
            return;
        }
        self.gate.set_closed(phase == Phase::Stopped);
        match phase {
            Phase::Closing => self.actions.push_back(ServerAction::Close),
            Phase::Stopped => self.actions.push_back(ServerAction::Exit),
            _ if before.readiness() != phase.readiness() => {
                self.clients = None;
                self.actions.push_back(ServerAction::Announce(phase.readiness()));
            }
            _ => {}
        }
        self.drain();
    }

    /// Goes on from draining to closing to stopped, as far as it may.
    fn drain(&mut self) {
        let now = self.now;
        self.look_at = now + self.config.drain_poll;
        let waited = now.since(self.life.since());
        match self.life.phase() {
            Phase::Stopping => {
                let idle = self.gate.totals().in_flight() == 0;
                if (idle && self.has_been_heard(waited)) || waited >= self.config.drain_most {
                    self.enter(now, Phase::Closing);
                }
            }
            Phase::Closing if waited >= self.config.close_most => self.enter(now, Phase::Stopped),
            _ => {}
        }
    }

    /// Whether everybody has had the time to hear the last announcement that they need.
    fn has_been_heard(&self, waited: Duration) -> bool {
        self.clients.is_some_and(|clients| {
            let silent = clients.silent > 0;
            let least = if silent { self.config.drain_least_silent } else { self.config.drain_least };
            clients.unacknowledged == 0 && clients.unreached == 0 && waited >= least
        })
    }

    /// Turns counters into rates and gives the gate a fresh report.
    fn measure(&mut self) {
        let now = self.now;
        let totals = self.gate.totals();
        self.qps.read(now, totals.finished);
        self.eps.read(now, totals.errors);
        let (finished, nanos) = self.latency_seen;
        if totals.finished > finished {
            let mean = totals.latency_nanos.saturating_sub(nanos) as f64 / (totals.finished - finished) as f64;
            self.latency.sample(now, mean);
            self.latency_seen = (totals.finished, totals.latency_nanos);
        }
        self.gate.set_report(
            now,
            &LoadReport {
                utilization: self.utilization.mean(),
                utilization_slow: self.utilization_slow.mean(),
                qps: self.qps.per_second(),
                eps: self.eps.per_second(),
                in_flight: None,
                runnable: self.usage.runnable,
                processors: self.usage.processors,
                latency: self.latency.mean().map(|nanos| Duration::from_nanos(nanos as u64)),
            },
        );
    }
}

/// Half-lives of means over about 2 s and 10 s (ln 2 times the time constant).
const FAST: Duration = Duration::from_millis(1_386);
const SLOW: Duration = Duration::from_millis(6_931);
/// How often counters become rates.
const MEASURE_EVERY: Duration = Duration::from_millis(100);
