//! One backend's connection: made, watched, and reported when it ends.
//!
//! What the backend says first is its readiness; what it says later is a notice. A backend that says nothing, because
//! it has neither our watch nor the standard one, counts as ready while it can be connected to.

mod http1;
mod http2;
mod watch;

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{BackendId, Greeting, Notice, Readiness};
use hyper::rt::{Read, Write};
use tokio::sync::{mpsc, oneshot};

pub(super) use http1::{Lent, Pool};

use super::config::{ChannelConfig, Protocol};
use super::driver::Event;
use super::post::{Endpoint, Introduction};
use super::sender::Sender;
use crate::body::BoxError;

/// Opens byte streams to backends: TCP, or what a test puts in its place.
pub trait Connect: Clone + Send + Sync + 'static {
    /// A byte stream.
    type Stream: Read + Write + Send + Unpin + 'static;

    /// Connects to the backend with this address.
    fn connect(&self, backend: &str) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Who is at the other end, if that is known: backends take datagrams at the same address.
    fn peer_address(_stream: &Self::Stream) -> Option<SocketAddr> {
        None
    }

    /// What datagrams to this address go through; asked once a backend there takes them. Without one, backends that are
    /// not connected to are checked by rare connections.
    fn endpoint(&self, _to: SocketAddr) -> impl Future<Output = io::Result<Option<Arc<Endpoint>>>> + Send {
        async { Ok(None) }
    }
}

/// What a backend said first on a new connection.
#[derive(Debug)]
pub(crate) struct Welcome {
    notice: Notice,
    /// How to go on without the connection.
    pub(crate) introduced: Option<(Introduction, Arc<Endpoint>)>,
}

impl Welcome {
    /// What the brain hears of it; whether it takes checks depends on whether we do.
    pub(crate) fn greeting(&self, takes_checks: bool) -> Greeting {
        Greeting { notice: self.notice, takes_checks }
    }
}

impl From<Readiness> for Welcome {
    fn from(said: Readiness) -> Self {
        Welcome { notice: said.into(), introduced: None }
    }
}

/// Which connection of which backend: late news of an old one must not be taken for news of the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    pub(crate) backend: BackendId,
    pub(crate) attempt: u64,
}

/// How connections are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkSettings {
    protocol: Protocol,
    connect_timeout: Duration,
    ping_every: Duration,
    ping_timeout: Duration,
    streams_at_first: usize,
    datagrams: bool,
    /// How often backends without a connection are asked how they are, as they are told.
    pub(crate) asks_every: Duration,
}

impl From<&ChannelConfig> for LinkSettings {
    fn from(config: &ChannelConfig) -> Self {
        LinkSettings {
            protocol: config.protocol,
            connect_timeout: config.connect_timeout,
            ping_every: config.ping_every,
            ping_timeout: config.ping_timeout,
            streams_at_first: config.streams_at_first,
            datagrams: config.datagrams,
            asks_every: config.client.checks.every,
        }
    }
}

/// One connection in the making, or made.
struct Link<C> {
    connector: C,
    name: String,
    id: LinkId,
    settings: LinkSettings,
    events: mpsc::UnboundedSender<Event>,
}

/// Connects, then watches until the connection ends. The last event is always `Lost`.
pub(crate) async fn run<C: Connect>(
    connector: C,
    name: String,
    id: LinkId,
    settings: LinkSettings,
    events: mpsc::UnboundedSender<Event>,
) {
    let link = Link { connector, name, id, settings, events };
    let outcome = match settings.protocol {
        Protocol::Http2 => link.hold_http2().await,
        Protocol::Http1 => link.hold_http1().await,
    };
    let reason = outcome.err().map_or_else(|| "closed by the backend".to_owned(), |error| with_causes(&*error));
    // A driver that is gone has no use for news.
    drop(link.events.send(Event::Lost(id, reason)));
}

impl<C> Link<C> {
    /// Tells of the connection; returns once it is in use.
    async fn tell_connected(&self, sender: Sender, said: impl Into<Welcome>) {
        let (handled, wait) = oneshot::channel();
        if self.events.send(Event::Connected(self.id, sender, said.into(), handled)).is_ok() {
            drop(wait.await);
        }
    }

    /// Tells of a notice; returns once it is handled and no request begins there against it. `false` if nobody did.
    async fn tell(&self, said: impl Into<Notice>) -> bool {
        let (handled, wait) = oneshot::channel();
        self.events.send(Event::Told(self.id, said.into(), handled)).is_ok() && wait.await.is_ok()
    }
}

/// An error with what caused it: hyper says "connection error", and the system why.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Many errors repeat their cause.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

/// So long, and no longer.
async fn within<T, E: Into<BoxError>>(
    time: Duration,
    what: &'static str,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, BoxError> {
    match tokio::time::timeout(time, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(format!("no {what} in {time:?}").into()),
    }
}
