//! The channel: a service that any HTTP or tonic-generated client can call, spread over many backends.

mod call;
mod driver;
mod error;
mod link;
mod seat;
mod tcp;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use evenkeel_core::{
    BackendId, BackendList, BackendSpec, Client, ClientConfig, ClientSnapshot, InvalidConfig, Picker, Rng,
};
use tokio::sync::{Notify, mpsc, oneshot};

pub use call::CountedBody;
pub use error::CallError;
pub use link::Connect;
pub use tcp::Tcp;

use crate::body::{BoxError, boxed};
use crate::clock::Clock;
use crate::context::Context;
use driver::{Driver, Event};
use link::{LinkSettings, Sender};
use seat::SeatNumber;

/// How a channel is set up. Every default has its reason in `docs/defaults.md`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// What the decision core is set to.
    pub client: ClientConfig,
    /// What a connection may take to be made. Default 1 s.
    pub connect_timeout: Duration,
    /// How often a connection is pinged. Default 10 s.
    pub ping_every: Duration,
    /// How long an answer to a ping may take before the connection counts as lost. Default 5 s.
    pub ping_timeout: Duration,
    /// Streams opened on a fresh connection before the server has said how many it allows. Default 10.
    pub streams_at_first: usize,
    /// What chance is drawn from. Default: a number of the process's own.
    pub seed: Option<u64>,
}

impl ChannelConfig {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        self.client.check()?;
        let (least, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        for (field, value) in [
            ("connect_timeout", self.connect_timeout),
            ("ping_every", self.ping_every),
            ("ping_timeout", self.ping_timeout),
        ] {
            InvalidConfig::unless_in_range(field, value, least, hour)?;
        }
        InvalidConfig::unless_in_range("streams_at_first", self.streams_at_first, 1, 1_000_000)
    }
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            client: ClientConfig::default(),
            connect_timeout: Duration::from_secs(1),
            ping_every: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            streams_at_first: 10,
            seed: None,
        }
    }
}

/// A cheap-to-clone [`tower_service::Service`] over many backends, which it speaks HTTP/2 to.
///
/// ```no_run
/// use tower::Service;
///
/// # async fn example() -> Result<(), evenkeel::body::BoxError> {
/// let mut channel = evenkeel::Channel::connect(["10.0.0.1:8080", "10.0.0.2:8080"]).await?;
/// let request = http::Request::get("http://search/query").body(evenkeel::body::empty())?;
/// println!("{}", channel.call(request).await?.status());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Channel {
    handle: Arc<Handle>,
}

/// The last one gone ends the driver.
struct Handle {
    shared: Arc<Shared>,
    events: mpsc::UnboundedSender<Event>,
}

/// What all threads that use a channel share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) published: ArcSwap<Published>,
    pub(crate) seat: SeatNumber,
    pub(crate) seed: u64,
    pub(crate) last_handle_gone: Notify,
}

/// A picker, and the connection of each backend it may pick, in its order.
pub(crate) struct Published {
    pub(crate) picker: Arc<Picker>,
    pub(crate) senders: Box<[Option<Sender>]>,
}

impl Channel {
    /// A channel over a fixed list of addresses, with the default settings, once a first backend can be used.
    pub async fn connect<N: Into<String>>(backends: impl IntoIterator<Item = N>) -> Result<Self, BoxError> {
        Channel::with(ChannelConfig::default(), Tcp, backends)?.usable().await
    }

    /// A channel that opens its connections with `connector`; they are being made when this returns.
    pub fn with<C: Connect, N: Into<String>>(
        config: ChannelConfig,
        connector: C,
        backends: impl IntoIterator<Item = N>,
    ) -> Result<Self, BoxError> {
        config.check()?;
        let seed = config.seed.unwrap_or_else(process_seed);
        let clock = Clock::new();
        let names: BTreeMap<BackendId, String> =
            backends.into_iter().map(Into::into).map(|name: String| (BackendId::from_name(&name), name)).collect();
        let list = BackendList::new(names.values().map(|name| BackendSpec::named(name)))?;
        let mut client = Client::new(clock.now(), config.client, &mut Rng::from_seed(seed))?;
        client.handle_backends(clock.now(), list)?;
        let picker = client.poll_picker().ok_or("a new client makes a picker")?;
        let shared = Arc::new(Shared {
            clock,
            published: ArcSwap::from_pointee(Published { picker, senders: Box::default() }),
            seat: SeatNumber::take(),
            seed,
            last_handle_gone: Notify::new(),
        });
        let (events, inbox) = mpsc::unbounded_channel();
        let settings = LinkSettings {
            connect_timeout: config.connect_timeout,
            ping_every: config.ping_every,
            ping_timeout: config.ping_timeout,
            streams_at_first: config.streams_at_first,
        };
        let driver = Driver::new(client, names, connector, settings, Arc::clone(&shared), events.clone());
        tokio::spawn(driver.run(inbox));
        Ok(Channel { handle: Arc::new(Handle { shared, events }) })
    }

    /// Waits until a first backend can be used.
    pub async fn usable(self) -> Result<Self, BoxError> {
        let usable = async {
            while self.handle.shared.published.load().picker.is_empty() {
                tokio::time::sleep(READY_POLL).await;
            }
        };
        tokio::time::timeout(READY_MOST, usable).await.map_err(|_| "no backend could be reached")?;
        Ok(self)
    }

    /// Everything that is known of the backends, as plain data; `None` once the runtime is shutting down.
    pub async fn snapshot(&self) -> Option<ClientSnapshot> {
        let (answer, wait) = oneshot::channel();
        self.handle.events.send(Event::Snapshot(answer)).ok()?;
        wait.await.ok()
    }
}

impl<B> tower_service::Service<http::Request<B>> for Channel
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = http::Response<CountedBody>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, CallError>> + Send>>;

    /// Always ready: whether a request can be sent is decided when it is there.
    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let handle = Arc::clone(&self.handle);
        let request = request.map(boxed);
        // Read where the call is made, which may not be where it is waited for.
        let scope = Context::current();
        Box::pin(async move { call::call(&handle.shared, request, scope.as_ref()).await })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usable = self.handle.shared.published.load().picker.len();
        f.debug_struct("Channel").field("usable_backends", &usable).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.last_handle_gone.notify_one();
    }
}

/// A number that differs between processes and channels.
fn process_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

const READY_POLL: Duration = Duration::from_millis(2);
const READY_MOST: Duration = Duration::from_secs(10);
