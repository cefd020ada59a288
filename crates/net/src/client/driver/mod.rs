//! Drives a client's brain: carries out what it asks, tells it what happened, publishes its pickers.
//!
//! One task a channel. It ends when the channel's last handle is gone.

mod post;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::client::Reading;
use evenkeel_core::{Action, BackendId, Client, ClientConfig, InvalidConfig, Notice, StateChange};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::link::{self, Connect, LinkId, LinkSettings, Welcome};
use super::post::Heard;
use super::resolve::{self, Backend, Checked, Resolve};
use super::sender::Sender;
use super::snapshot::ChannelSnapshot;
use super::{Published, Shared};
use post::Post;

/// What happens to a channel between requests.
pub(crate) enum Event {
    /// A connection stands; the backend said this first. The one who waits is told when it is in use.
    Connected(LinkId, Sender, Welcome, oneshot::Sender<()>),
    /// The backend said this; the one who waits is told when the brain has handled it.
    Told(LinkId, Notice, oneshot::Sender<()>),
    /// A datagram of the backend said this, under the key of this number.
    Heard(BackendId, u64, Heard),
    /// The connection is gone, or could not be made, for this reason.
    Lost(LinkId, String),
    /// What the brain reads of its backends; it asks some how they are where news are wanted.
    Read { wants_news: bool, answer: oneshot::Sender<Reading> },
    /// Somebody wants to know how things are.
    Snapshot(oneshot::Sender<ChannelSnapshot>),
    /// Somebody wants to know the settings.
    Config(oneshot::Sender<ClientConfig>),
    /// Other settings from now on.
    Configure(Box<ClientConfig>, oneshot::Sender<Result<(), InvalidConfig>>),
}

/// A connection that is being made or stands.
struct Held {
    id: LinkId,
    sender: Option<Sender>,
    task: JoinHandle<()>,
}

pub(crate) struct Driver<C> {
    client: Client,
    connector: C,
    settings: LinkSettings,
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
    names: BTreeMap<BackendId, String>,
    held: BTreeMap<BackendId, Held>,
    /// With the backends that the brain knows, connected or not.
    post: Post,
    /// Who is to be asked once the picker is published.
    checks: Vec<BackendId>,
    /// Why connections ended, of backends that have been connected to or tried.
    lost: BTreeMap<BackendId, String>,
    list_refused: Option<String>,
    attempts: u64,
}

impl<C: Connect> Driver<C> {
    pub(crate) fn new(
        client: Client,
        connector: C,
        settings: LinkSettings,
        shared: Arc<Shared>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        Driver {
            client,
            connector,
            settings,
            shared,
            events,
            names: BTreeMap::new(),
            held: BTreeMap::new(),
            post: Post::new(settings.asks_every),
            checks: Vec::new(),
            lost: BTreeMap::new(),
            list_refused: None,
            attempts: 0,
        }
    }

    /// Runs until the last handle of the channel is gone.
    pub(crate) async fn run(mut self, mut backends: impl Resolve, mut inbox: mpsc::UnboundedReceiver<Event>) {
        let mut list_may_change = true;
        // One for all: the runtime wakes itself up for each new timer that comes before the others.
        let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            self.act();
            let timeout = self.client.poll_timeout().map(|at| self.shared.clock.instant_of(at));
            if let Some(at) = timeout.filter(|at| *at != timer.deadline()) {
                timer.as_mut().reset(at);
            }
            tokio::select! {
                biased; // chance is the seed's alone: see tests/network
                () = self.shared.last_handle_gone.notified() => return,
                () = timer.as_mut(), if timeout.is_some() => self.client.handle_timeout(self.shared.clock.now()),
                event = inbox.recv() => match event {
                    Some(event) => self.on_events(event, &mut inbox),
                    None => return,
                },
                () = self.shared.wishes.notified() => self.client.handle_wishes(self.shared.clock.now()),
                list = backends.next(), if list_may_change => match list {
                    Some(list) => self.on_backends(list),
                    None => list_may_change = false,
                },
            }
        }
    }

    /// A list that cannot be used changes nothing, and is told of.
    fn on_backends(&mut self, backends: Vec<Backend>) {
        let taken = resolve::check(backends).map_err(|bad| bad.to_string()).and_then(|Checked { list, names }| {
            let now = self.shared.clock.now();
            self.client.handle_backends(now, list).map_err(|invalid| invalid.to_string())?;
            Ok(names)
        });
        match taken {
            Ok(names) => {
                self.lost.retain(|backend, _| names.contains_key(backend));
                (self.names, self.list_refused) = (names, None);
            }
            Err(reason) => {
                tracing::warn!(service = %self.shared.service, reason, "list of backends refused, the last one stays");
                self.list_refused = Some(reason);
            }
        }
    }

    /// This one and those that came with it: answers to checks come many at a time.
    fn on_events(&mut self, first: Event, inbox: &mut mpsc::UnboundedReceiver<Event>) {
        self.on_event(first);
        for _ in 0..TOGETHER_MOST {
            self.do_actions();
            let Ok(event) = inbox.try_recv() else { return };
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        let now = self.shared.clock.now();
        match event {
            Event::Connected(id, sender, mut said, handled) => {
                if let Some(held) = self.held.get_mut(&id.backend).filter(|held| held.id == id) {
                    held.sender = Some(sender);
                    let takes_checks = self.post.on_introduced(id.backend, said.introduced.take(), &self.events);
                    let change = self.client.handle_connected(now, id.backend, said.greeting(takes_checks));
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
                    self.lost.insert(id.backend, reason);
                }
            }
            Event::Heard(backend, key, heard) if self.post.is_current(backend, key) => self.on_heard(backend, heard),
            Event::Heard(..) => {}
            Event::Read { wants_news, answer } => {
                // Nobody waits if that took too long.
                let _ = answer.send(self.client.reading(now));
                if wants_news {
                    self.client.freshen(now);
                }
            }
            Event::Snapshot(answer) => drop(answer.send(self.snapshot())),
            Event::Config(answer) => drop(answer.send(self.client.config().clone())),
            Event::Configure(config, answer) => {
                let taken = self.client.handle_config(now, *config);
                // Whoever waits finds it in use.
                self.act();
                drop(answer.send(taken));
            }
        }
    }

    fn on_heard(&mut self, backend: BackendId, heard: Heard) {
        let now = self.shared.clock.now();
        let (change, reason) = match heard {
            Heard::Answer(said) => (self.client.handle_checked(now, backend, &said), "checked"),
            Heard::Push(said) => (self.client.handle_pushed(now, backend, said), "told by a datagram"),
            Heard::Reset => {
                self.client.handle_reset(now, backend);
                (None, "reset")
            }
        };
        self.log(change, reason);
    }

    fn snapshot(&self) -> ChannelSnapshot {
        let now = self.shared.clock.now();
        let client = self.client.snapshot(now);
        let ids = || client.backends.iter().map(|backend| backend.backend);
        ChannelSnapshot {
            service: self.shared.service.to_string(),
            now,
            names: ids().map(|id| self.name(id).to_owned()).collect(),
            last_lost: ids().map(|id| self.lost.get(&id).cloned()).collect(),
            list_refused: self.list_refused.clone(),
            endpoints: self.post.snapshots(),
            client,
        }
    }

    fn name(&self, backend: BackendId) -> &str {
        self.names.get(&backend).map_or("unknown", String::as_str)
    }

    /// Does what the brain wants done, and publishes its picker if it made one.
    fn act(&mut self) {
        self.do_actions();
        if let Some(picker) = self.client.poll_picker() {
            let senders = picker.backends().map(|backend| self.held.get(&backend)?.sender.clone()).collect();
            let is_usable = picker.is_usable();
            self.shared.published.store(Arc::new(Published { picker, senders }));
            self.shared.usable.send_if_modified(|usable| std::mem::replace(usable, is_usable) != is_usable);
            self.shared.publications.send_modify(|count| *count += 1);
        }
        // Only now: a check acknowledges what was heard, and whoever is told so gets nothing new against it.
        for backend in self.checks.drain(..) {
            self.post.ask(backend, self.client.heard(backend));
        }
    }

    /// After every event: the next one may be about a connection that the brain has let go of.
    fn do_actions(&mut self) {
        while let Some(action) = self.client.poll_action() {
            match action {
                Action::Connect(backend) => self.connect(backend),
                Action::Deactivate(backend) => self.disconnect(backend),
                Action::Disconnect(backend) => {
                    self.disconnect(backend);
                    self.post.leave(backend);
                }
                Action::Check(backend) => self.checks.push(backend),
            }
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

    /// Dropping the sender closes the connection once what is in flight on it has ended.
    fn disconnect(&mut self, backend: BackendId) {
        if let Some(held) = self.held.remove(&backend) {
            held.task.abort();
        }
    }

    fn log(&self, change: Option<StateChange>, reason: &str) {
        if let Some(StateChange { backend, from, to }) = change {
            let name = self.name(backend);
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

/// So that timeouts and the last handle are not kept waiting.
const TOGETHER_MOST: usize = 64;
