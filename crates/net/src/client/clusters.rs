//! A service in several clusters, nearest first (B19): one channel for each, and core's `Spill` above them.
//!
//! One task asks the channels' drivers what they read, a few times a second, and publishes the shares that core decides.
//! A request looks at these and goes through one of the channels as if there were no other; so does each further attempt.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use evenkeel_core::client::{ClusterSnapshot, ClustersConfig, Reading, Shares, Spill};
use evenkeel_core::{InvalidConfig, Rng};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::call::{self, Route};
use super::driver::Event;
use super::{CallError, Channel, ConnectError, CountedBody, Shared as ChannelShared, process_seed};
use crate::body::{BoxError, boxed};
use crate::clock::Clock;
use crate::context::Context;

/// A cheap-to-clone [`tower_service::Service`] over the clusters of one service.
///
/// ```no_run
/// # async fn example() -> Result<(), evenkeel::body::BoxError> {
/// use evenkeel::client::{Clusters, ClustersConfig, Fixed, Tcp};
/// use evenkeel::{Channel, ChannelConfig};
/// use tower::Service;
///
/// // Not `Channel::connect`, which wants a backend that can be used: a cluster may be gone when this starts.
/// let channel = |backends: [&str; 2]| Channel::with(ChannelConfig::default(), Tcp, "search", Fixed::new(backends));
/// let here = channel(["10.0.0.1:8080", "10.0.0.2:8080"])?;
/// let there = channel(["10.9.0.1:8080", "10.9.0.2:8080"])?;
/// let clusters = [("here", here), ("there", there)];
/// let mut search = Clusters::new(ClustersConfig::default(), clusters)?.usable().await?;
/// let request = http::Request::get("/query?q=keel").body(evenkeel::body::empty())?;
/// println!("{}", search.call(request).await?.status());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Clusters {
    shared: Arc<Shared>,
}

/// The last one gone ends the task, which waits for what comes through `questions`.
struct Shared {
    names: Vec<String>,
    channels: Vec<Channel>,
    shares: Arc<ArcSwap<Shares>>,
    questions: mpsc::UnboundedSender<Question>,
}

/// What is asked of the task.
enum Question {
    Snapshot(oneshot::Sender<Vec<ClusterSnapshot>>),
    Config(ClustersConfig, oneshot::Sender<Result<(), InvalidConfig>>),
}

impl Clusters {
    /// Of these channels, nearest first, each with a name for people.
    ///
    /// # Panics
    /// Called outside a tokio runtime.
    pub fn new<N: Into<String>>(
        config: ClustersConfig,
        clusters: impl IntoIterator<Item = (N, Channel)>,
    ) -> Result<Self, ConnectError> {
        let (names, channels): (Vec<String>, Vec<Channel>) =
            clusters.into_iter().map(|(name, channel)| (name.into(), channel)).unzip();
        for (place, (name, channel)) in names.iter().zip(&channels).enumerate() {
            if names[..place].contains(name) {
                return Err(ConnectError::ClusterTwice(name.clone()));
            }
            if let Some(other) = channels[..place].iter().position(|one| Arc::ptr_eq(&one.handle, &channel.handle)) {
                return Err(ConnectError::ChannelTwice(name.clone(), names[other].clone()));
            }
        }
        let (clock, mut rng) = (Clock::new(), Rng::from_seed(process_seed()));
        let mut brain = Spill::new(clock.now(), config, channels.len(), &mut rng)?;
        let shares = brain.poll_shares().expect("a new brain has shares");
        let shares = Arc::new(ArcSwap::new(shares));
        let (questions, asked) = mpsc::unbounded_channel();
        let readings = vec![Reading::default(); channels.len()];
        let task = Deciding { brain, clock, channels: channels.clone(), shares: Arc::clone(&shares), readings };
        tokio::spawn(task.run(asked));
        Ok(Clusters { shared: Arc::new(Shared { names, channels, shares, questions }) })
    }

    /// Waits until a first backend of any cluster can be used, at most ten seconds.
    pub async fn usable(self) -> Result<Self, ConnectError> {
        let mut waiting = JoinSet::new();
        for (place, channel) in self.shared.channels.iter().cloned().enumerate() {
            waiting.spawn(async move { (place, channel.usable().await) });
        }
        let mut trouble = vec![String::new(); self.shared.names.len()];
        while let Some(Ok((place, usable))) = waiting.join_next().await {
            match usable {
                Ok(_) => return Ok(self),
                Err(ConnectError::NoneUsable(known)) => {
                    trouble[place] = format!("{}: {known}", self.shared.names[place]);
                }
                Err(other) => return Err(other),
            }
        }
        Err(ConnectError::NoneUsable(trouble.join("; ")))
    }

    /// The channel of each cluster with its name, nearest first.
    pub fn channels(&self) -> impl ExactSizeIterator<Item = (&str, &Channel)> {
        self.shared.names.iter().map(String::as_str).zip(&self.shared.channels)
    }

    /// What each cluster gets and why, nearest first; `None` once the runtime is shutting down.
    pub async fn snapshot(&self) -> Option<Vec<(String, ClusterSnapshot)>> {
        let (answer, wait) = oneshot::channel();
        self.shared.questions.send(Question::Snapshot(answer)).ok()?;
        Some(self.shared.names.iter().cloned().zip(wait.await.ok()?).collect())
    }

    /// Other settings from now on. An error leaves everything as it was.
    pub async fn set_config(&self, config: ClustersConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        let (answer, wait) = oneshot::channel();
        // Nobody answers while the runtime is shutting down, when nothing matters any more.
        drop(self.shared.questions.send(Question::Config(config, answer)));
        wait.await.unwrap_or(Ok(()))
    }

    /// What the next attempt of this thread goes through. Where no cluster has anybody the nearest says why.
    pub(super) fn choose(&self) -> &Arc<ChannelShared> {
        let channels = &self.shared.channels;
        let home = &channels[0].handle.shared;
        let shares = self.shared.shares.load();
        let is_usable = |cluster: usize| channels[cluster].is_usable();
        let chosen = home.seat.with_shares(home, |local, rng| shares.pick(local, is_usable, rng));
        &channels[chosen.unwrap_or(0)].handle.shared
    }

    /// The first that this finds with the others that have room for what this cluster has no place for, nearest first.
    pub(super) fn find_with_room<'a, T>(
        &'a self,
        than: &Arc<ChannelShared>,
        find: impl FnMut(&'a Arc<ChannelShared>) -> Option<T>,
    ) -> Option<T> {
        let channels = &self.shared.channels;
        let than = channels.iter().position(|channel| Arc::ptr_eq(&channel.handle.shared, than))?;
        let shares = self.shared.shares.load();
        let others = shares.others(than).map(|cluster| &channels[cluster]).filter(|other| other.is_usable());
        others.map(|other| &other.handle.shared).find_map(find)
    }

    /// Whether another cluster than this one has anybody.
    pub(super) fn has_other(&self, than: &Arc<ChannelShared>) -> bool {
        self.shared.channels.iter().any(|channel| !Arc::ptr_eq(&channel.handle.shared, than) && channel.is_usable())
    }
}

/// Decides between requests.
struct Deciding {
    brain: Spill,
    clock: Clock,
    channels: Vec<Channel>,
    shares: Arc<ArcSwap<Shares>>,
    /// What each said last.
    readings: Vec<Reading>,
}

impl Deciding {
    /// Until the last handle is gone.
    async fn run(mut self, mut questions: mpsc::UnboundedReceiver<Question>) {
        loop {
            let due = self.brain.poll_timeout().map(|at| self.clock.instant_of(at));
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased; // chance is the seed's alone
                question = questions.recv() => match question {
                    None => return,
                    Some(Question::Snapshot(answer)) => {
                        // While it is off nobody else reads them.
                        if due.is_none() {
                            self.read(false).await;
                        }
                        drop(answer.send(self.brain.snapshot().collect()));
                    }
                    Some(Question::Config(config, answer)) => {
                        let taken = self.brain.handle_config(self.clock.now(), config);
                        drop(answer.send(taken));
                    }
                },
                () = wait => self.read(self.brain.wants_news()).await,
            }
            if let Some(shares) = self.brain.poll_shares() {
                self.shares.store(shares);
            }
        }
    }

    /// What the channels say goes to the brain, which decides.
    async fn read(&mut self, wants_news: bool) {
        let asked: Vec<_> = self.channels.iter().map(|channel| channel.read(wants_news)).collect();
        for (reading, wait) in self.readings.iter_mut().zip(asked) {
            match tokio::time::timeout(DRIVER_ANSWERS_WITHIN, wait).await {
                Ok(Some(read)) => *reading = read,
                // It has ended: nothing can be sent there.
                Ok(None) => *reading = Reading { usable: 0, ..*reading },
                // Busy with something else for a moment, as this process is: nothing new is known.
                Err(_) => {}
            }
        }
        self.brain.handle_readings(self.clock.now(), &self.readings);
    }
}

impl Channel {
    fn is_usable(&self) -> bool {
        self.handle.shared.published.load().picker.is_usable()
    }

    /// What its brain reads of its backends; it asks some how they are where news are wanted.
    fn read(&self, wants_news: bool) -> impl Future<Output = Option<Reading>> + use<> {
        let (answer, wait) = oneshot::channel();
        let sent = self.handle.events.send(Event::Read { wants_news, answer }).is_ok();
        async move { if sent { wait.await.ok() } else { None } }
    }
}

impl<B> tower_service::Service<http::Request<B>> for Clusters
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
        let (clusters, request) = (self.clone(), request.map(boxed));
        // Read where the call is made, which may not be where it is waited for.
        let scope = Context::current();
        Box::pin(async move { call::answer(Route::Among(&clusters), request, scope.as_ref()).await })
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares = self.shared.shares.load();
        f.debug_map().entries(self.shared.names.iter().zip(shares.iter())).finish()
    }
}

/// A driver that is busy answers within milliseconds.
const DRIVER_ANSWERS_WITHIN: Duration = Duration::from_millis(100);
