//! Drives a server's brain: carries out what it asks and tells it what happened.

use std::sync::Arc;

use evenkeel_core::server::{Gate, ServerAction};
use evenkeel_core::{InvalidConfig, Server as Brain, ServerConfig, ServerSnapshot};
use tokio::sync::{mpsc, oneshot, watch};

use super::hub::Hub;
use crate::clock::Clock;

/// What happens to a server between requests.
#[derive(Debug)]
pub(crate) enum Event {
    Ready,
    LameDuck,
    Stop,
    WatchersChanged,
    Closed,
    Snapshot(oneshot::Sender<ServerSnapshot>),
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Open,
    Closing,
    Stopped,
}

/// Tells a server what its program knows; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    events: mpsc::UnboundedSender<Event>,
}

impl Handle {
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>) -> Self {
        Handle { events }
    }

    /// Initialised and warm: clients may send (A7).
    pub fn ready(&self) {
        self.tell(Event::Ready);
    }

    /// Wants no new requests for a while; what arrives is served.
    pub fn lame_duck(&self) {
        self.tell(Event::LameDuck);
    }

    /// Drains and stops, as SIGTERM does.
    pub fn stop(&self) {
        self.tell(Event::Stop);
    }

    /// How the server is, as plain data; `None` once it has stopped.
    pub async fn snapshot(&self) -> Option<ServerSnapshot> {
        let (answer, wait) = oneshot::channel();
        self.events.send(Event::Snapshot(answer)).ok()?;
        wait.await.ok()
    }

    /// A server that has stopped needs to be told nothing.
    fn tell(&self, event: Event) {
        drop(self.events.send(event));
    }
}

pub(crate) struct Driver {
    brain: Brain,
    hub: Arc<Hub>,
    clock: Clock,
    stage: watch::Sender<Stage>,
}

impl Driver {
    pub(crate) fn new(
        clock: Clock,
        config: ServerConfig,
        hub: Arc<Hub>,
    ) -> Result<(Self, watch::Receiver<Stage>), InvalidConfig> {
        let brain = Brain::new(clock.now(), config)?;
        let (stage, watching) = watch::channel(Stage::Open);
        Ok((Driver { brain, hub, clock, stage }, watching))
    }

    pub(crate) fn gate(&self) -> Arc<Gate> {
        Arc::clone(self.brain.gate())
    }

    /// Runs until the server has stopped.
    pub(crate) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Event>) {
        while *self.stage.borrow() != Stage::Stopped {
            let timeout = self.brain.poll_timeout().map(|at| self.clock.instant_of(at));
            let next_timeout = async {
                match timeout {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(event) = inbox.recv() => self.on_event(event),
                () = next_timeout => self.brain.handle_timeout(self.clock.now()),
            }
            self.act();
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Ready => self.brain.handle_ready(now),
            Event::LameDuck => self.brain.handle_lame_duck(now),
            Event::Stop => self.brain.handle_stop(now),
            Event::WatchersChanged => self.brain.handle_unacknowledged(now, self.hub.unacknowledged()),
            Event::Closed => self.brain.handle_closed(now),
            Event::Snapshot(answer) => drop(answer.send(self.brain.snapshot(now))),
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.brain.poll_action() {
            match action {
                ServerAction::Announce(readiness) => {
                    self.hub.announce(readiness);
                    self.brain.handle_unacknowledged(self.clock.now(), self.hub.unacknowledged());
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
