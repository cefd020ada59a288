//! Drives a server's brain: carries out what it asks and tells it what happened.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::{Gate, ServerAction};
use evenkeel_core::{InvalidConfig, Server as Brain, ServerConfig, ServerSnapshot, Time};
use tokio::sync::{mpsc, oneshot, watch};

use super::datagrams::DatagramSnapshot;
use super::hub::Hub;
use super::report::Reports;
use super::signals::{Readings, Signals};
use crate::clock::Clock;

/// What happens to a server between requests.
#[derive(Debug)]
pub(crate) enum Event {
    Ready,
    LameDuck,
    Stop,
    ClientsChanged,
    Closed,
    Snapshot(oneshot::Sender<(ServerSnapshot, Option<DatagramSnapshot>)>),
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
    clock: Clock,
    stage: watch::Sender<Stage>,
    signals: Signals,
    sample_at: Time,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        config: ServerConfig,
        hub: Arc<Hub>,
        stage: watch::Sender<Stage>,
        signals: Signals,
    ) -> Result<Self, InvalidConfig> {
        let now = clock.now();
        let brain = Brain::new(now, config)?;
        Ok(Driver { brain, hub, reports: Arc::new(Reports::new()), clock, stage, signals, sample_at: now })
    }

    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(self.brain.gate())
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
            self.signals.sample(now, self.hub.counts());
            self.brain.handle_usage(now, self.signals.usage());
            self.reports.measured(self.brain.gate());
        }
        self.brain.handle_timeout(now);
    }

    fn on_event(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Ready => self.brain.handle_ready(now),
            Event::LameDuck => self.brain.handle_lame_duck(now),
            Event::Stop => self.brain.handle_stop(now),
            Event::ClientsChanged => self.brain.handle_clients(now, self.hub.clients()),
            Event::Closed => self.brain.handle_closed(now),
            Event::Snapshot(answer) => {
                let datagrams = self.hub.desk().map(|desk| desk.snapshot());
                drop(answer.send((self.brain.snapshot(now), datagrams)));
            }
            Event::Readings(answer) => drop(answer.send(self.signals.readings().clone())),
        }
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

/// As often as counters become rates.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
