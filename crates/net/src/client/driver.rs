//! Drives a client's brain: carries out what it asks, tells it what happened, publishes its pickers.
//!
//! One task a channel. It ends when the channel's last handle is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{Action, BackendId, Client, ClientSnapshot, Readiness, StateChange};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::link::{self, Connect, LinkId, LinkSettings, Sender};
use super::{Published, Shared};

/// What happens to a channel between requests.
pub(crate) enum Event {
    /// A connection stands; the backend said this first. The one who waits is told when it is in use.
    Connected(LinkId, Sender, Readiness, oneshot::Sender<()>),
    /// The backend said this; the one who waits is told when the brain has handled it.
    Told(LinkId, Readiness, oneshot::Sender<()>),
    /// The connection is gone, or could not be made, for this reason.
    Lost(LinkId, String),
    /// Somebody wants to know how things are.
    Snapshot(oneshot::Sender<ClientSnapshot>),
}

/// A connection that is being made or stands.
struct Held {
    id: LinkId,
    sender: Option<Sender>,
    task: JoinHandle<()>,
}

pub(crate) struct Driver<C> {
    pub(crate) client: Client,
    pub(crate) names: BTreeMap<BackendId, String>,
    pub(crate) connector: C,
    pub(crate) settings: LinkSettings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    held: BTreeMap<BackendId, Held>,
    attempts: u64,
}

impl<C: Connect> Driver<C> {
    pub(crate) fn new(
        client: Client,
        names: BTreeMap<BackendId, String>,
        connector: C,
        settings: LinkSettings,
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        Driver { client, names, connector, settings, shared, events, held: BTreeMap::new(), attempts: 0 }
    }

    /// Runs until the last handle of the channel is gone.
    pub(crate) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Event>) {
        loop {
            self.act();
            let timeout = self.client.poll_timeout().map(|at| self.shared.clock.instant_of(at));
            let next_timeout = async {
                match timeout {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = inbox.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => return,
                },
                () = next_timeout => self.client.handle_timeout(self.shared.clock.now()),
                () = self.shared.last_handle_gone.notified() => return,
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = self.shared.clock.now();
        match event {
            Event::Connected(id, sender, said, handled) => {
                if let Some(held) = self.held.get_mut(&id.backend).filter(|held| held.id == id) {
                    held.sender = Some(sender);
                    let change = self.client.handle_connected(now, id.backend, said);
                    self.log(change, "connected");
                    self.act();
                    // Nobody waits if the connection has ended meanwhile.
                    let _ = handled.send(());
                }
            }
            Event::Told(id, said, handled) => {
                if self.held.get(&id.backend).is_some_and(|held| held.id == id) {
                    let change = self.client.handle_readiness(now, id.backend, said);
                    self.log(change, "told");
                    self.act();
                    // Nobody waits if the connection has ended meanwhile.
                    let _ = handled.send(());
                }
            }
            Event::Lost(id, reason) => {
                if self.held.get(&id.backend).is_some_and(|held| held.id == id) {
                    self.held.remove(&id.backend);
                    let change = self.client.handle_lost(now, id.backend);
                    self.log(change, &reason);
                }
            }
            Event::Snapshot(answer) => drop(answer.send(self.client.snapshot(now))),
        }
    }

    /// Does what the brain wants done, and publishes its picker if it made one.
    fn act(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect(backend) => self.connect(backend),
                Action::Disconnect(backend) => {
                    // Dropping the sender closes the connection once what is in flight on it has ended.
                    if let Some(held) = self.held.remove(&backend) {
                        held.task.abort();
                    }
                }
                // Reports come with every answer; checks between them come with datagrams.
                Action::Check(_) => {}
            }
        }
        if let Some(picker) = self.client.poll_picker() {
            let senders = picker.backends().map(|backend| self.held.get(&backend)?.sender.clone()).collect();
            self.shared.published.store(Arc::new(Published { picker, senders }));
        }
    }

    fn connect(&mut self, backend: BackendId) {
        let Some(name) = self.names.get(&backend).cloned() else { return };
        self.attempts += 1;
        let id = LinkId { backend, attempt: self.attempts };
        let link = link::run(self.connector.clone(), name, id, self.settings, self.events.clone());
        let task = tokio::spawn(link);
        if let Some(old) = self.held.insert(backend, Held { id, sender: None, task }) {
            old.task.abort();
        }
    }

    fn log(&self, change: Option<StateChange>, reason: &str) {
        if let Some(StateChange { backend, from, to }) = change {
            let name = self.names.get(&backend).map_or("unknown", String::as_str);
            tracing::info!(backend = name, from = from.as_str(), to = to.as_str(), reason, "backend changed state");
        }
    }
}

impl<C> Drop for Driver<C> {
    fn drop(&mut self) {
        for held in self.held.values() {
            held.task.abort();
        }
    }
}
