//! Drives a server's brain: carries out what it asks and tells it what happened.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Gate, ServerAction, Spent, Usage};
use evenkeel_core::{CustomerId, InvalidConfig, Mode, Server as Brain, ServerConfig, Time};
use tokio::sync::{mpsc, oneshot, watch};

use super::customers::Customers;
use super::framing::Framing;
use super::hub::Hub;
use super::line::Queue;
use super::look::{Look, Spender};
use super::methods::Methods;
use super::report::Reports;
use super::signals::{Cores, Counts, Readings, Settings, Signals};
use crate::clock::Clock;
use crate::meter::{Factor, Ledger, Remainder, process_time};

/// What happens to a server between requests.
#[derive(Debug)]
pub(crate) enum Event {
    Ready,
    LameDuck,
    Stop,
    ClientsChanged,
    Closed,
    /// Names without a number have been seen.
    Customers,
    /// Checked by whoever sends it.
    Configure(Box<ServerConfig>),
    SetAdmission(Mode),
    /// By the names of [`evenkeel_core::server::Modes`].
    Switch(Vec<(&'static str, Mode)>),
    Config(oneshot::Sender<ServerConfig>),
    Snapshot(oneshot::Sender<Box<Look>>),
    Readings(oneshot::Sender<Readings>),
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Open,
    Closing,
    Stopped,
}

pub(crate) struct Driver {
    brain: Brain,
    hub: Arc<Hub>,
    reports: Arc<Reports>,
    customers: Arc<Customers>,
    methods: Arc<Methods>,
    customers_full: bool,
    clock: Clock,
    stage: watch::Sender<Stage>,
    signals: Signals,
    queue: Arc<Queue>,
    factor: Factor,
    remainder: Remainder,
    framing: Arc<Framing>,
    /// What was read for the remainder last, and when.
    booked: (Time, Ledger, Option<Duration>, Counts),
    sample_at: Time,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        config: ServerConfig,
        hub: Arc<Hub>,
        customers: Arc<Customers>,
        stage: watch::Sender<Stage>,
        (signals, cores): (Settings, Cores),
        factor: Factor,
    ) -> Result<Self, InvalidConfig> {
        let now = clock.now();
        let brain = Brain::new(now, config)?;
        let signals = Signals::new(signals, cores, Some(Arc::clone(brain.gate().running())))?;
        // Those with a quota have a number from the start.
        customers.publish(brain.customers(), false);
        let booked = (now, Ledger::read(), process_time(), hub.counts());
        Ok(Driver {
            queue: Arc::new(Queue::new(Arc::clone(brain.gate()), clock)),
            brain,
            hub,
            reports: Arc::new(Reports::new()),
            customers,
            methods: Arc::default(),
            customers_full: false,
            clock,
            stage,
            signals,
            factor,
            remainder: Remainder::default(),
            framing: Arc::default(),
            booked,
            sample_at: now,
        })
    }

    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(self.brain.gate())
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    pub(crate) fn framing(&self) -> Arc<Framing> {
        Arc::clone(&self.framing)
    }

    pub(crate) fn methods(&self) -> Arc<Methods> {
        Arc::clone(&self.methods)
    }

    pub(crate) fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.reports)
    }

    /// Ready from the first request on.
    pub(crate) fn begin_ready(&mut self) {
        self.on_event(Event::Ready);
        self.act();
    }

    /// Runs until the server has stopped.
    pub(crate) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Event>) {
        self.signals.start();
        while *self.stage.borrow() != Stage::Stopped {
            let timeout = self.brain.poll_timeout().map(|at| self.clock.instant_of(at.min(self.sample_at)));
            let next_timeout = async {
                match timeout {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = next_timeout => self.on_timeout(),
                Some(event) = inbox.recv() => self.on_event(event),
            }
            self.act();
        }
    }

    fn on_timeout(&mut self) {
        let now = self.clock.now();
        if self.sample_at <= now {
            self.sample_at = now + SAMPLE_EVERY;
            let readings = self.signals.sample(now, self.hub.counts());
            self.brain.handle_plugged(&readings.plugged);
            let overhead = self.overhead(now);
            self.brain.handle_usage(now, Usage { overhead, ..self.signals.usage() });
            self.signals.leave_out(now, self.brain.stuck_signals());
            self.reports.measured(self.brain.gate());
        }
        let handlers = self.factor.normalised(Ledger::read().metered);
        self.brain.handle_spent(Spent { handlers: Some(handlers), process: process_time() });
        self.brain.handle_timeout(now);
        // What the brain decided may call some of those who wait.
        self.queue.call();
    }

    /// CPU that a request costs outside of its handler, as far as is known: learned once a second.
    fn overhead(&mut self, now: Time) -> Option<Duration> {
        let (at, before, process_before, counts_before) = self.booked;
        if now.since(at) >= BOOKED_EVERY {
            let (ledger, process, counts) = (Ledger::read(), process_time(), self.hub.counts());
            if let (Some(process), Some(process_before)) = (process, process_before) {
                let mut interval = ledger.since(&before, process.saturating_sub(process_before));
                // A connection that is accepted and a check that is answered cost about what a request does beside its handler.
                // Were they not counted, a storm of them would be charged to the requests that come meanwhile.
                interval.requests += counts.since(&counts_before);
                self.remainder.sample(&interval);
            }
            self.booked = (now, ledger, process, counts);
            let (per_request, per_kib) = (self.remainder.seconds_per_request(), self.remainder.seconds_per_kib());
            self.framing.set(per_request * self.factor.value(), per_kib * self.factor.value());
        }
        let seconds = self.remainder.seconds_per_request();
        (seconds > 0.0).then(|| Duration::from_secs_f64(seconds))
    }

    fn on_event(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Ready => self.brain.handle_ready(now),
            Event::LameDuck => self.brain.handle_lame_duck(now),
            Event::Stop => self.brain.handle_stop(now),
            Event::ClientsChanged => self.brain.handle_clients(now, self.hub.clients()),
            Event::Closed => self.brain.handle_closed(now),
            Event::Customers => {
                for name in self.customers.take_asked() {
                    self.customers_full |= self.brain.handle_customer(&name) == CustomerId::default();
                }
                self.customers.publish(self.brain.customers(), self.customers_full);
            }
            Event::Configure(mut config) => {
                // Requests in flight are metered by the one it began with.
                config.admission.cpu_factor = self.factor.value();
                self.configure(now, *config);
            }
            Event::SetAdmission(mode) => {
                let mut config = self.brain.config().clone();
                config.admission.modes.all = mode;
                self.configure(now, config);
            }
            Event::Switch(switches) => {
                let mut config = self.brain.config().clone();
                for (name, mode) in switches {
                    *config.admission.modes.get_mut(name).expect("names are those of modes") = mode;
                }
                self.configure(now, config);
            }
            Event::Config(answer) => drop(answer.send(self.brain.config().clone())),
            Event::Snapshot(answer) => drop(answer.send(Box::new(self.look(now)))),
            Event::Readings(answer) => drop(answer.send(self.signals.readings().clone())),
        }
    }

    fn look(&self, now: Time) -> Look {
        let admission = &self.brain.config().admission;
        let all = self.methods.tally().total().cpu;
        Look {
            server: self.brain.snapshot(now),
            datagrams: self.hub.desk().map(|desk| desk.snapshot()),
            readings: self.signals.readings().clone(),
            modes: admission.modes,
            cpu_factor: self.factor.value(),
            overhead: (self.remainder.seconds_per_request(), self.remainder.seconds_per_kib()),
            methods: Spender::methods(&self.methods, self.brain.gate()),
            customers: Spender::customers(&self.customers, self.brain.customers(), &admission.quotas, all),
        }
    }

    fn configure(&mut self, now: Time, config: ServerConfig) {
        if let Err(error) = self.brain.handle_config(now, config) {
            tracing::error!(%error, "settings that were checked are not possible: the old ones stay");
        }
        self.customers.publish(self.brain.customers(), self.customers_full);
    }

    fn act(&mut self) {
        while let Some(action) = self.brain.poll_action() {
            match action {
                ServerAction::Announce(readiness) => {
                    self.hub.announce(readiness);
                    self.brain.handle_clients(self.clock.now(), self.hub.clients());
                }
                ServerAction::Close => {
                    self.hub.end();
                    self.stage.send_replace(Stage::Closing);
                }
                ServerAction::Exit => {
                    self.stage.send_replace(Stage::Stopped);
                }
            }
        }
    }
}

const BOOKED_EVERY: Duration = Duration::from_secs(1);
/// As often as counters become rates.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::hub::Connections;

    #[tokio::test]
    async fn a_customer_has_a_number_from_its_quota_or_once_it_was_seen() {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let hub = Arc::new(Hub::new(events.clone(), Connections::Told, 1));
        let customers = Arc::new(Customers::new(events));
        let mut config = ServerConfig::default();
        let quota = |name: &str| (name.to_owned(), evenkeel_core::server::Quota::of_cpu(1.0));
        config.admission.quotas.customers.push(quota("mail"));
        let (stage, told) = (watch::channel(Stage::Open).0, Arc::clone(&customers));
        let signals = (Settings::default(), Cores::default());
        let driver = Driver::new(Clock::new(), config.clone(), hub, told, stage, signals, Factor::default());
        let mut driver = driver.unwrap();

        assert_eq!(customers.number_of(Some("mail")), CustomerId(1));
        assert_eq!(customers.number_of(Some("maps")), CustomerId(0));
        driver.on_event(inbox.recv().await.unwrap());
        assert_eq!(customers.number_of(Some("maps")), CustomerId(2));

        config.admission.quotas.customers.push(quota("news"));
        driver.on_event(Event::Configure(Box::new(config)));
        assert_eq!(["mail", "maps", "news"].map(|name| customers.number_of(Some(name)).0), [1, 2, 3]);
    }
}
