//! The channel: a service that any HTTP or tonic-generated client can call, spread over many backends.

mod answer;
mod call;
mod clusters;
mod config;
mod customers;
mod driver;
mod error;
mod hedge;
mod http2;
mod link;
mod local;
mod post;
mod replay;
mod reports;
mod resolve;
mod seat;
mod sender;
mod sending;
mod snapshot;
mod tcp;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use evenkeel_core::{Client, ClientConfig, InvalidConfig, Picker, Rng};
use http::uri::Authority;
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub use answer::CountedBody;
pub use clusters::Clusters;
pub use config::{ChannelConfig, Protocol};
pub use error::{CallError, ConnectError};
pub use evenkeel_core::client::{ClusterSnapshot, ClustersConfig};
pub use link::Connect;
pub use post::{Dropped, Endpoint, EndpointSnapshot};
pub use resolve::{Backend, BadList, Fixed, Resolve};
pub use snapshot::ChannelSnapshot;
pub use tcp::Tcp;

use crate::body::{BoxError, boxed};
use crate::clock::Clock;
use crate::context::{Context, Defaults};
use call::Route;
use customers::Customers;
use driver::{Driver, Event};
use link::LinkSettings;
use seat::SeatNumber;
use sender::Sender;

/// A cheap-to-clone [`tower_service::Service`] over the backends of one service.
///
/// ```no_run
/// use tower::Service;
///
/// # async fn example() -> Result<(), evenkeel::body::BoxError> {
/// let mut channel = evenkeel::Channel::connect("search", ["10.0.0.1:8080", "10.0.0.2:8080"]).await?;
/// let request = http::Request::get("/query?q=keel").body(evenkeel::body::empty())?;
/// println!("{}", channel.call(request).await?.status());
/// # Ok(())
/// # }
/// ```
///
/// A tonic-generated client takes it as it is: `SearchClient::new(channel)`. What goes wrong it hears as a status, such
/// as `UNAVAILABLE` or `DEADLINE_EXCEEDED`; plain HTTP hears a [`CallError`].
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
    pub(crate) service: Authority,
    pub(crate) defaults: Defaults,
    pub(crate) replay_most: usize,
    pub(crate) customers: Customers,
    pub(crate) clock: Clock,
    pub(crate) published: ArcSwap<Published>,
    /// Whether a backend can be picked.
    pub(crate) usable: watch::Sender<bool>,
    /// Counts the pickers published, for those who wait for the next.
    pub(crate) publications: watch::Sender<u64>,
    /// A request wanted an inactive backend: the driver is to ask the brain about it.
    pub(crate) wishes: Notify,
    /// What a request may wait for a connection.
    pub(crate) connect_timeout: Duration,
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
    /// A channel to a service on a fixed list of addresses, with the default settings, once a first one can be used.
    ///
    /// Requests without an authority of their own carry the service's name.
    pub async fn connect<B: Into<Backend>>(
        service: &str,
        backends: impl IntoIterator<Item = B>,
    ) -> Result<Self, ConnectError> {
        let backends: Vec<Backend> = backends.into_iter().map(Into::into).collect();
        // Here rather than in the driver: a list that never changes is the caller's to mend.
        resolve::check_addresses(&backends)?;
        resolve::check(backends.clone())?;
        if backends.is_empty() {
            return Err(ConnectError::NoneUsable("the list of backends is empty".to_owned()));
        }
        Channel::with(ChannelConfig::default(), Tcp, service, Fixed::new(backends))?.usable().await
    }

    /// A channel that learns its backends from `backends` and opens its connections with `connector`; they are being
    /// made when this returns.
    ///
    /// # Panics
    /// Called outside a tokio runtime.
    pub fn with<C: Connect>(
        config: ChannelConfig,
        connector: C,
        service: &str,
        backends: impl Resolve,
    ) -> Result<Self, ConnectError> {
        config.check()?;
        let service = Authority::try_from(service).map_err(|_| ConnectError::Service(service.to_owned()))?;
        let settings = LinkSettings::from(&config);
        let seed = config.seed.unwrap_or_else(process_seed);
        let clock = Clock::new();
        let mut client = Client::new(clock.now(), config.client, &mut Rng::from_seed(seed))?;
        let picker = client.poll_picker().expect("a new client makes a picker, if an empty one");
        let shared = Arc::new(Shared {
            service,
            defaults: config.defaults,
            replay_most: config.replay_most,
            customers: Customers::default(),
            clock,
            published: ArcSwap::from_pointee(Published { picker, senders: Box::default() }),
            usable: watch::Sender::new(false),
            publications: watch::Sender::new(0),
            wishes: Notify::new(),
            connect_timeout: config.connect_timeout,
            seat: SeatNumber::take(),
            seed,
            last_handle_gone: Notify::new(),
        });
        let (events, inbox) = mpsc::unbounded_channel();
        let driver = Driver::new(client, connector, settings, Arc::clone(&shared), events.clone());
        tokio::spawn(driver.run(backends, inbox));
        Ok(Channel { handle: Arc::new(Handle { shared, events }) })
    }

    /// Waits until a first backend can be used, at most ten seconds.
    pub async fn usable(self) -> Result<Self, ConnectError> {
        let mut usable = self.handle.shared.usable.subscribe();
        let waiting = tokio::time::timeout(USABLE_MOST, usable.wait_for(|usable| *usable));
        if matches!(waiting.await, Ok(Ok(_))) {
            return Ok(self);
        }
        let known =
            self.snapshot().await.map_or_else(|| "the runtime is shutting down".to_owned(), |all| all.trouble());
        Err(ConnectError::NoneUsable(known))
    }

    /// The service it is for.
    pub fn service(&self) -> &str {
        self.handle.shared.service.as_str()
    }

    /// The settings of its decisions that are in force; `None` once the runtime is shutting down.
    pub async fn config(&self) -> Option<ClientConfig> {
        let (answer, wait) = oneshot::channel();
        self.handle.events.send(Event::Config(answer)).ok()?;
        wait.await.ok()
    }

    /// Other settings of its decisions from now on, all at once, without losing a connection or a count; an error leaves
    /// everything as it was. Calls that have begun go on under the old ones until their next attempt.
    ///
    /// ```no_run
    /// # async fn example(channel: &evenkeel::Channel) -> Result<(), evenkeel::core::InvalidConfig> {
    /// if let Some(mut settings) = channel.config().await {
    ///     settings.retry.mode = evenkeel::core::Mode::Observe;
    ///     channel.configure(settings).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn configure(&self, config: ClientConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        let (answer, wait) = oneshot::channel();
        if self.handle.events.send(Event::Configure(Box::new(config), answer)).is_err() {
            return Ok(());
        }
        // A runtime that is shutting down decides nothing any more.
        wait.await.unwrap_or(Ok(()))
    }

    /// Everything that is known of the backends, as plain data; `None` once the runtime is shutting down.
    pub async fn snapshot(&self) -> Option<ChannelSnapshot> {
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
        Box::pin(async move { call::answer(Route::One(&handle.shared), request, scope.as_ref()).await })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usable = self.handle.shared.published.load().picker.len();
        f.debug_struct("Channel").field("service", &self.service()).field("usable", &usable).finish_non_exhaustive()
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

/// Connecting takes a second at most; one that starts up with its backends waits a little longer.
const USABLE_MOST: Duration = Duration::from_secs(10);
