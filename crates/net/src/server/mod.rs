//! The server: HTTP/1.1 and HTTP/2 on one port, behind the gate, with a life of its own (A4, A6, A7).
//!
//! It is a lame duck until it is ready, serves, and on SIGTERM tells every watching client, serves on until all have
//! acknowledged and nothing is in flight, ends the watch streams, closes its connections and returns. Those who do not
//! watch read on every answer of a lame duck that it is one, and over HTTP/1.1 that their connection closes.
//!
//! Every `select!` here is `biased`: what happens is a matter of what came, never of chance, so that a run on a
//! simulated network can be repeated from its seed.

mod admitted;
mod beginning;
mod body;
mod connection;
mod cores;
mod customers;
mod datagrams;
mod driver;
mod framing;
mod handle;
mod health;
mod hub;
mod identity;
mod layer;
mod line;
mod listen;
mod look;
mod methods;
mod refused;
mod report;
mod seat;
mod serve;
mod signals;
mod tally;
mod terminate;
mod trusted;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use evenkeel_core::server::Usage;
use evenkeel_core::{Criticality, InvalidConfig, ServerConfig};
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use body::Answer;
pub use datagrams::DatagramSnapshot;
pub use handle::Handle;
pub use identity::{Identify, Identity, IdentitySnapshot, PeerInfo};
pub use layer::{Layer, Layered, layer};
pub use listen::{Accept, Detached, Listen};
pub(crate) use look::{Look, Spender};
pub use serve::Serving;
pub use signals::{Readings, Signal};
pub use trusted::{BadNetwork, Network, Trusted};

pub use crate::wire::datagram::{BadSecret, Secret};

use crate::body::BoxError;
use crate::clock::Clock;
use crate::meter::{self, Factor, Runners};
use connection::connection;
use cores::Cores;
use customers::Customers;
use datagrams::Offer;
use driver::{Driver, Event, Stage};
use handle::reached;
use health::Health;
use hub::{Connections, Hub};
use identity::Beliefs;
use layer::Engine;
use serve::{Door, Served};
use signals::{Closure, Settings};
use terminate::Terminate;

/// A server that is being set up.
///
/// ```no_run
/// # use std::convert::Infallible;
/// # async fn example() -> Result<(), evenkeel::body::BoxError> {
/// let hello = tower::service_fn(|_request| async { Ok::<_, Infallible>(http::Response::new(String::from("hello"))) });
/// // Until SIGTERM, and then until everything that arrived is answered.
/// evenkeel::Server::new().serve("127.0.0.1:8080", hello).await
/// # }
/// ```
pub struct Server {
    config: ServerConfig,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    stage: (watch::Sender<Stage>, watch::Receiver<Stage>),
    on_sigterm: bool,
    per_core: bool,
    warming: Warming,
    signals: Settings,
    health_services: Vec<String>,
    datagrams: Offer,
    process: Option<u64>,
    cpu_factor: f64,
    tells_costs: bool,
    beliefs: Beliefs,
}

/// When a server becomes ready.
enum Warming {
    AtOnce,
    First(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// When the program says so.
    Later,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            config: ServerConfig::default(),
            events: mpsc::unbounded_channel(),
            stage: watch::channel(Stage::Open),
            on_sigterm: true,
            per_core: false,
            warming: Warming::AtOnce,
            signals: Settings::default(),
            health_services: Vec::new(),
            datagrams: Offer::Drawn,
            process: None,
            cpu_factor: 1.0,
            tells_costs: false,
            beliefs: Beliefs::default(),
        }
    }
}

impl Server {
    /// With the default settings: ready as soon as it listens, stops on SIGTERM. The process ignores that signal from
    /// then on, also once the server has stopped.
    pub fn new() -> Self {
        Server::default()
    }

    /// With other settings.
    #[must_use]
    pub fn with_config(self, config: ServerConfig) -> Self {
        Server { config, ..self }
    }

    /// Leaves signals to the program, which stops it through its [`Handle`].
    #[must_use]
    pub fn without_signals(self) -> Self {
        Server { on_sigterm: false, ..self }
    }

    /// Stays a lame duck until this has ended: fills caches, opens connections. What arrives meanwhile is served.
    ///
    /// ```
    /// let server = evenkeel::Server::new().prewarm(async { /* read the index */ });
    /// ```
    #[must_use]
    pub fn prewarm(self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Server { warming: Warming::First(Box::pin(work)), ..self }
    }

    /// Stays a lame duck until [`Handle::ready`].
    #[must_use]
    pub fn ready_later(self) -> Self {
        Server { warming: Warming::Later, ..self }
    }

    /// What the program knows of the machine better than the machine, asked ten times a second on a thread of its own: it counts
    /// instead of what [`Readings`] would say of it. What the source leaves out is read, against as many processors as it names.
    /// What it has spoken of once is left out while it says nothing of it, and all of that while it has not answered for three
    /// seconds.
    ///
    /// ```
    /// use evenkeel_core::server::Usage;
    ///
    /// let server = evenkeel::Server::new().with_usage(|| Usage { utilization: Some(0.5), ..Usage::default() });
    /// ```
    #[must_use]
    pub fn with_usage(mut self, source: impl FnMut() -> Usage + Send + 'static) -> Self {
        self.signals.usage = Some(Box::new(source));
        self
    }

    /// Reads nothing of the machine, and has no thread for it: what [`Server::with_usage`] and plugged signals say is all there
    /// is. For simulated worlds, which are the same whatever machine they run on.
    #[must_use]
    pub fn without_machine(mut self) -> Self {
        self.signals.without_machine = true;
        self
    }

    /// Processors that are reserved for this task: what its CPU time is measured against. Lower is full sooner. Default:
    /// the quota of its cgroup, else as many as it may run on. From 0.001 to 65536.
    #[must_use]
    pub fn with_reserved_cpu(mut self, processors: f64) -> Self {
        self.signals.limits.reserved_cpu = Some(processors);
        self
    }

    /// Bytes this process may have in memory. Lower is full sooner. Default: the limits of its cgroups, which count all
    /// that is in them, else the memory of the machine. From 1.
    #[must_use]
    pub fn with_memory_limit(mut self, bytes: u64) -> Self {
        self.signals.limits.memory_bytes = Some(bytes);
        self
    }

    /// One more sign of load, read ten times a second: whatever runs out first in this service, over how much there is
    /// of it. `read` has a thread of its own; while it has not answered for three seconds, it is left out. So is what is below zero
    /// or no number, and what would have nearly everything refused though nothing is in flight.
    ///
    /// A server whose signal has no [possible name](Signal::name), or a capacity that is not above zero, does not start.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// let queued = Arc::new(AtomicU32::new(0));
    /// let read = Arc::clone(&queued);
    /// let server = evenkeel::Server::new()
    ///     .with_signal("queue_depth", 100.0, move || read.load(Ordering::Relaxed).into());
    /// ```
    #[must_use]
    pub fn with_signal(
        self,
        name: impl Into<String>,
        capacity: f64,
        read: impl FnMut() -> f64 + Send + 'static,
    ) -> Self {
        self.with_signal_source(Closure { name: name.into(), capacity, read })
    }

    /// The same, for what is more than a closure.
    #[must_use]
    pub fn with_signal_source(mut self, signal: impl Signal + 'static) -> Self {
        self.signals.plugged.push(Box::new(signal));
        self
    }

    /// Serves each connection on one of as many single-threaded runtimes as there are processors, instead of the
    /// caller's runtime: less CPU for each call, but a handler that blocks holds up every connection of its core.
    #[must_use]
    pub fn per_core(self) -> Self {
        Server { per_core: true, ..self }
    }

    /// `grpc.health.v1` answers for this service by name too. It always answers for the task as a whole, by the empty
    /// name; any other name is unknown to it. All of them are as ready as the task.
    #[must_use]
    pub fn with_health_service(mut self, name: impl Into<String>) -> Self {
        self.health_services.push(name.into());
        self
    }

    /// What the keys of datagrams derive from, the same after a restart: clients without a connection need none for
    /// their next question. Default: drawn by the system, so that keys end with the process.
    ///
    /// Each task has its own: where several share one, whoever stands between them and a client can have one answer for
    /// another.
    #[must_use]
    pub fn with_datagram_secret(self, secret: Secret) -> Self {
        Server { datagrams: Offer::Given(secret), ..self }
    }

    /// Listens for no datagrams: clients keep a connection, or open one to ask.
    #[must_use]
    pub fn without_datagrams(self) -> Self {
        Server { datagrams: Offer::Nothing, ..self }
    }

    /// Which process of its task this is: higher than those before it, so that clients know whose word is the later
    /// one. Default: nanoseconds since 1970, which is wrong only where a clock is set back between two starts.
    #[must_use]
    pub fn with_process_number(self, number: u64) -> Self {
        // On the wire 0 is not said.
        Server { process: Some(number.max(1)), ..self }
    }

    /// How fast this machine is beside the reference machine, from 0.01 to 100: what `evenkeel calibrate` prints. The CPU
    /// time of requests is multiplied by it, so that costs of different machines compare. Default 1.
    #[must_use]
    pub fn with_cpu_factor(self, factor: f64) -> Self {
        Server { cpu_factor: factor, ..self }
    }

    /// Every answer says what its request cost, in CPU seconds of the reference machine: as `request_cost` of `cpu` in the
    /// load report of gRPC, as the metric `evenkeel.cost_cpu_s` of plain HTTP, whose head goes out before the body has cost
    /// anything. Default: only answers to requests with the header `evenkeel-cost: 1`, since otherwise answers of a moment
    /// share one report, which HTTP/2 sends as a single byte.
    #[must_use]
    pub fn with_request_costs(self) -> Self {
        Server { tells_costs: true, ..self }
    }

    /// Tells customers by their connections. Default: whoever the listener has authenticated is billed by that name.
    #[must_use]
    pub fn with_identity(mut self, identify: impl Identify + 'static) -> Self {
        self.beliefs.identify = Some(Arc::new(identify));
        self
    }

    /// Whose `evenkeel-customer` is believed; from others it is taken off the request and counted. Default:
    /// [`Trusted::Loopback`]. A [layer](Server::layer) does not know where its requests come from: it believes nobody's,
    /// unless everybody is trusted.
    #[must_use]
    pub fn trust_customers_of(mut self, trusted: Trusted) -> Self {
        self.beliefs.trusted = trusted;
        self
    }

    /// No request matters more than this, whatever it says: what says more is lowered and counted. Default: no limit.
    #[must_use]
    pub fn with_criticality_ceiling(mut self, most: Criticality) -> Self {
        self.beliefs.criticality_most = Some(most);
        self
    }

    /// What tells it that it is ready, a lame duck, or to stop.
    pub fn handle(&self) -> Handle {
        let (events, stage) = (self.events.0.clone(), self.stage.1.clone());
        Handle { events, stage, door: None, disbelief: Arc::clone(&self.beliefs.disbelief), on_sigterm: false }
    }

    /// Only the layer, for a server the program already has: see [`layer()`]. Where connections are accepted, and on
    /// which runtime, is that server's affair.
    pub fn layer(self) -> Result<(Layer, Handle), InvalidConfig> {
        let Server { on_sigterm, .. } = self;
        let (events, stage) = (self.events.0.clone(), self.stage.1.clone());
        let disbelief = Arc::clone(&self.beliefs.disbelief);
        let Parts { mut door, driver, inbox, warm, .. } = self.parts(Connections::Hidden)?;
        let hub = Arc::clone(&door.hub);
        door.engine = Some(Engine::new(async move {
            let mut warming = JoinSet::new();
            warming.spawn(warm);
            let mut driving = pin!(driver.run(inbox));
            tokio::select! {
                biased;
                Some(Err(error)) = warming.join_next() => {
                    tracing::error!(%error, "warming failed, so this task can never be ready: it has stopped");
                    hub.end();
                }
                () = driving.as_mut() => {}
            }
        }));
        let door = Arc::new(door);
        Ok((Layer::new(Arc::clone(&door)), Handle { events, stage, door: Some(door), disbelief, on_sigterm }))
    }

    /// Serves until it has stopped: every request that arrived was answered, as far as `drain_most` allows.
    ///
    /// `at` is an address or anything that listens: see [`Listen`].
    pub async fn serve<S, B>(self, at: impl Listen, service: S) -> Result<(), BoxError>
    where
        S: tower_service::Service<http::Request<Incoming>, Response = http::Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (on_sigterm, per_core) = (self.on_sigterm, self.per_core);
        let (offer, peers) = (self.datagrams.clone(), self.config.peers.clone());
        let Parts { door, driver, inbox, warm, events, stage, busy } = self.parts(Connections::Told)?;
        let (hub, gate, clock) = (Arc::clone(&door.hub), Arc::clone(&door.gate), door.clock);
        let beliefs = door.beliefs.clone();
        let prototype = Served { door: Arc::new(door), peer: None, inner: service };
        let watching = stage.clone();
        let serve_one = move |peer| (Served { peer: Some(peer), ..prototype.clone() }, watching.clone());
        let listener = at.listen().await?;
        if on_sigterm {
            stop_on_sigterm(events.clone())?;
        }
        let cores = if per_core {
            let serve_one = serve_one.clone();
            let serve = move |stream, peer| {
                let (served, stage) = serve_one(peer);
                connection(stream, served, stage)
            };
            let cores = Cores::start(&stage, serve).await?;
            // Nobody else sets it.
            drop(busy.set(cores.threads().to_vec()));
            Some(cores)
        } else {
            None
        };
        // They end with this future, however that ends.
        let (mut driving, mut warming) = (JoinSet::new(), JoinSet::new());
        driving.spawn(driver.run(inbox));
        warming.spawn(warm);
        let answering = datagrams::open(&listener, offer, peers, clock, (&hub, &gate));
        let accepting = Accepting { listener, hub, beliefs, cores, connections: JoinSet::new(), answering };
        let serve = move |stream, peer| {
            let (served, stage) = serve_one(peer);
            connection(stream, served, stage)
        };
        accepting.run(serve, &mut warming, stage, &events).await?;
        while let Some(ended) = driving.join_next().await {
            ended?;
        }
        Ok(())
    }

    fn parts(self, connections: Connections) -> Result<Parts, InvalidConfig> {
        let clock = Clock::new();
        let factor = Factor::new(self.cpu_factor)?;
        // Finding out takes milliseconds once in a process: now, and not within the first request.
        tracing::debug!(source = meter::source(), "requests are metered");
        let (events, inbox) = self.events;
        let (stage, watching) = self.stage;
        let process = self.process.unwrap_or_else(Clock::unix_nanos);
        let hub = Arc::new(Hub::new(events.clone(), connections, process));
        let busy = signals::Cores::default();
        let signals = (self.signals, Arc::clone(&busy));
        let customers = Arc::new(Customers::new(events.clone()));
        let mut config = self.config;
        config.admission.cpu_factor = factor.value();
        let mut driver = Driver::new(clock, config, Arc::clone(&hub), Arc::clone(&customers), stage, signals, factor)?;
        if matches!(self.warming, Warming::AtOnce) {
            driver.begin_ready();
        }
        let health = Arc::new(Health { hub: Arc::clone(&hub), services: self.health_services });
        let (gate, reports) = (driver.gate(), driver.reports());
        let (queue, runners) = (driver.queue(), Arc::new(Runners::new(Arc::clone(gate.running()))));
        let waiting = Arc::clone(&queue);
        runners.call_when_free(move || waiting.call());
        let door = Door {
            gate,
            hub,
            health,
            reports,
            clock,
            queue,
            runners,
            factor,
            tells_costs: self.tells_costs,
            beliefs: self.beliefs,
            customers,
            methods: driver.methods(),
            framing: driver.framing(),
            engine: None,
        };
        let (warming, tell) = (self.warming, events.clone());
        let warm = Box::pin(async move {
            if let Warming::First(work) = warming {
                work.await;
                // A driver that is gone has no use for it.
                drop(tell.send(Event::Ready));
            }
        });
        Ok(Parts { door, driver, inbox, warm, events, stage: watching, busy })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What a server and a layer alike are made of.
struct Parts {
    door: Door,
    driver: Driver,
    inbox: mpsc::UnboundedReceiver<Event>,
    warm: Pin<Box<dyn Future<Output = ()> + Send>>,
    events: mpsc::UnboundedSender<Event>,
    stage: watch::Receiver<Stage>,
    busy: signals::Cores,
}

/// Takes connections until the server closes, then waits for them to end.
struct Accepting<L> {
    listener: L,
    hub: Arc<Hub>,
    beliefs: Beliefs,
    cores: Option<Cores>,
    connections: JoinSet<()>,
    /// Answers datagrams, if there are any.
    answering: JoinSet<()>,
}

impl<L: Accept> Accepting<L> {
    async fn run<F, Fut>(
        mut self,
        serve: F,
        warming: &mut JoinSet<()>,
        mut stage: watch::Receiver<Stage>,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Result<(), BoxError>
    where
        F: Fn(L::Stream, Arc<hub::Peer>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        loop {
            tokio::select! {
                biased;
                // Those who have gone need not be waited for; the rest is told to close.
                () = reached(&mut stage, Stage::Closing) => break,
                // Warming that panicked can never make it ready.
                Some(warmed) = warming.join_next(), if !warming.is_empty() => warmed?,
                Some(_) = self.connections.join_next(), if !self.connections.is_empty() => {}
                Some(ended) = self.answering.join_next(), if !self.answering.is_empty() => {
                    tracing::error!(error = ?ended.err(), "datagrams are answered no more");
                    self.hub.close_desk();
                }
                accepted = self.listener.accept() => match accepted {
                    Ok(stream) => self.on_connection(stream, &serve),
                    // Out of file descriptors and the like: those who wait are accepted a little later.
                    Err(error) => {
                        tracing::debug!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        let Accepting { listener, hub: _, beliefs: _, cores, mut connections, mut answering } = self;
        // Whoever takes over the port wants it for datagrams too.
        answering.shutdown().await;
        drop(listener);
        let closed = async {
            if let Some(cores) = cores {
                cores.ended().await;
            }
            while connections.join_next().await.is_some() {}
        };
        tokio::select! {
            biased;
            () = closed => drop(events.send(Event::Closed)),
            () = reached(&mut stage, Stage::Stopped) => {}
        }
        Ok(())
    }

    fn on_connection<F, Fut>(&mut self, stream: L::Stream, serve: &F)
    where
        F: Fn(L::Stream, Arc<hub::Peer>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let peer = self.hub.meet(self.beliefs.standing(&L::peer(&stream)));
        let detached = if self.cores.is_some() { L::detach(stream) } else { Ok(Detached::Bound(stream)) };
        match (detached, &mut self.cores) {
            (Ok(Detached::Free(stream)), Some(cores)) => cores.deal((stream, peer)),
            (Ok(Detached::Bound(stream)), _) => drop(self.connections.spawn(serve(stream, peer))),
            // Fails only on sockets that are closed already.
            (Ok(Detached::Free(_)) | Err(_), _) => {}
        }
    }
}

fn stop_on_sigterm(events: mpsc::UnboundedSender<Event>) -> Result<(), BoxError> {
    let mut terminate = Terminate::listen()?;
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = terminate.told() => drop(events.send(Event::Stop)),
            () = events.closed() => {}
        }
    });
    Ok(())
}

/// After the system refused to accept: trying at once would only burn what is short already.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
