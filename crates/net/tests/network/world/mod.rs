//! Backends and a client on a simulated network: time, latency and chance come from the simulation.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

pub(crate) mod weather;

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::client::{Connect, Endpoint, Fixed};
use evenkeel::server::{Accept, Handle, Secret};
use evenkeel::udp::Datagrams;
use evenkeel::{CallError, Channel, ChannelConfig, Context, Server};
use evenkeel_core::server::Usage;
use evenkeel_core::{BackendSnapshot, BackendState, ServerConfig};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{Service, service_fn};
use turmoil::Sim;
use turmoil::net::{TcpListener, TcpStream};
use weather::{Weather, Wet};

/// What the simulated machines share with the test: all run on its one thread.
#[derive(Clone, Default)]
pub(crate) struct World {
    /// The running server of each backend.
    handles: Arc<Mutex<Vec<Option<Handle>>>>,
    /// What happened, and when: simulated milliseconds.
    trace: Arc<Mutex<Vec<(u128, String)>>>,
    /// There are datagrams, and this is how they fare.
    pub(crate) weather: Option<Weather>,
    /// Every process of a backend has the same secret.
    pub(crate) keeps_secret: bool,
    /// Servers are lame ducks until they are told otherwise.
    is_warming: Arc<AtomicBool>,
    /// How many processes there have been.
    processes: Arc<Mutex<u64>>,
}

impl World {
    /// One with datagrams.
    pub(crate) fn with_datagrams(seed: u64) -> World {
        World { weather: Some(Weather::calm(seed)), keeps_secret: true, ..World::default() }
    }

    pub(crate) fn weather(&self) -> &Weather {
        self.weather.as_ref().unwrap()
    }
}

/// A network whose messages take 1 to 5 ms.
pub(crate) fn network<'a>(seed: u64) -> Sim<'a> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(120))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(5))
        .build()
}

pub(crate) fn name(backend: usize) -> String {
    format!("backend-{backend}")
}

impl World {
    /// Adds that many hosts, each of which serves, and starts anew a little after it was stopped.
    pub(crate) fn add_backends(&self, sim: &mut Sim<'_>, number: usize) {
        self.handles.lock().unwrap().resize(number, None);
        for backend in 0..number {
            let world = self.clone();
            sim.host(name(backend), move || {
                let world = world.clone();
                async move {
                    loop {
                        world.serve(backend).await?;
                        world.note(format!("{} stopped", name(backend)));
                        tokio::time::sleep(RESTART).await;
                    }
                }
            });
        }
    }

    async fn serve(&self, backend: usize) -> turmoil::Result {
        let service = service_fn(move |request: http::Request<Incoming>| async move {
            let millis = request.uri().path().trim_start_matches('/').parse().unwrap_or(10);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(name(backend)))))
        });
        let config = ServerConfig { drain_least: Duration::from_millis(50), ..ServerConfig::default() };
        // The CPU of the process that simulates is nobody's.
        let usage = || Usage { utilization: Some(0.5), ..Usage::default() };
        let process = self.next_process();
        let secret = Secret::from_bytes([if self.keeps_secret { 1 } else { process as u8 }; 32]);
        let server = Server::new().with_config(config).without_signals().without_machine().with_usage(usage);
        let server = server.with_datagram_secret(secret).with_process_number(process);
        let server = if self.is_warming.load(Ordering::Relaxed) { server.ready_later() } else { server };
        self.handles.lock().unwrap()[backend] = Some(server.handle());
        let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
        let datagrams = match &self.weather {
            Some(weather) => Some(weather.socket(PORT).await?),
            None => None,
        };
        server.serve(Door { listener, datagrams }, service).await.map_err(|error| -> Box<dyn Error> { error })
    }

    fn next_process(&self) -> u64 {
        let mut processes = self.processes.lock().unwrap();
        *processes += 1;
        *processes
    }

    /// Servers that start from now on are lame ducks until they are told otherwise.
    pub(crate) fn set_warming(&self) {
        self.is_warming.store(true, Ordering::Relaxed);
    }

    /// What a client connects with; one for each.
    pub(crate) fn wire(&self) -> Wire {
        Wire { weather: self.weather.clone(), endpoint: Arc::default() }
    }

    /// The server of this backend.
    pub(crate) fn handle(&self, backend: usize) -> Handle {
        self.handles.lock().unwrap()[backend].clone().unwrap()
    }

    /// Writes down what happened now.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.trace.lock().unwrap().push((turmoil::sim_elapsed().unwrap_or_default().as_millis(), what.into()));
    }

    /// Everything that was written down.
    pub(crate) fn trace(&self) -> Vec<(u128, String)> {
        self.trace.lock().unwrap().clone()
    }
}

/// A channel that pings five times a second and forgets a dead connection within 300 ms.
pub(crate) fn config(seed: u64) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.connect_timeout = CONNECT_TIMEOUT;
    config.ping_every = PING_EVERY;
    config.ping_timeout = PING_TIMEOUT;
    config.client.backoff.most = BACKOFF_MOST;
    config.seed = Some(seed);
    config
}

/// A channel to that many backends, once all are healthy.
pub(crate) async fn channel(config: ChannelConfig, backends: usize) -> Channel {
    channel_over(Wire::default(), config, backends).await
}

/// The same, over this.
pub(crate) async fn channel_over(wire: Wire, config: ChannelConfig, backends: usize) -> Channel {
    let all = Fixed::new((0..backends).map(|backend| format!("{}:{PORT}", name(backend))));
    let channel = Channel::with(config, wire, "service", all).unwrap().usable().await.unwrap();
    until(Duration::from_secs(5), "all are used", async || {
        (0..backends).map(|backend| state(&channel, backend)).all_are(BackendState::Healthy).await
    })
    .await;
    channel
}

/// Whether every one of these will be this.
trait AllAre {
    async fn all_are(self, wanted: BackendState) -> bool;
}

impl<F: Future<Output = BackendState>, I: Iterator<Item = F>> AllAre for I {
    async fn all_are(self, wanted: BackendState) -> bool {
        for one in self {
            if one.await != wanted {
                return false;
            }
        }
        true
    }
}

/// How the channel sees this backend.
pub(crate) async fn state(channel: &Channel, backend: usize) -> BackendState {
    seen(channel, backend).await.state
}

/// All that the channel knows of this backend.
pub(crate) async fn seen(channel: &Channel, backend: usize) -> BackendSnapshot {
    let snapshot = channel.snapshot().await.unwrap();
    let address = format!("{}:{PORT}", name(backend));
    let place = snapshot.names.iter().position(|name| *name == address).unwrap();
    snapshot.client.backends[place].clone()
}

/// Waits until it holds; says how long that took.
pub(crate) async fn until(most: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() <= most, "not within {most:?}: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed()
}

/// Asks for so many milliseconds of work, with a deadline; the answer names who did it.
pub(crate) async fn call(channel: &mut Channel, millis: u64, timeout: Duration) -> Result<String, CallError> {
    let mut request = http::Request::get(format!("/{millis}")).body(evenkeel::body::empty()).unwrap();
    request.extensions_mut().insert(Context::default().with_deadline(Instant::now() + timeout));
    let answer = channel.call(request).await?;
    let body = answer.into_body().collect().await.map_err(CallError::Broken)?;
    Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

/// Restarts every backend in turn under load; the trace.
pub(crate) fn rolling_restart(seed: u64) -> Vec<(u128, String)> {
    let (world, mut sim) = (World::default(), network(seed));
    world.add_backends(&mut sim, 3);
    let notes = world.clone();
    sim.client("client", async move {
        let channel = channel(config(seed), 3).await;
        let mut callers = JoinSet::new();
        for caller in 0..8 {
            callers.spawn(keep_calling(caller, channel.clone(), notes.clone()));
        }
        for backend in 0..3 {
            notes.handle(backend).stop();
            let left = async || state(&channel, backend).await != BackendState::Healthy;
            until(Duration::from_secs(2), "it leaves", left).await;
            let healthy = async || state(&channel, backend).await == BackendState::Healthy;
            until(Duration::from_secs(3), "it is back", healthy).await;
        }
        notes.note("restarted");
        callers.join_all().await;
        Ok(())
    });
    sim.run().unwrap();
    world.trace()
}

async fn keep_calling(caller: u32, mut channel: Channel, notes: World) {
    while !notes.trace().iter().any(|(_, what)| what == "restarted") {
        match call(&mut channel, 20, Duration::from_secs(10)).await {
            Ok(by) => notes.note(format!("{caller}: {by}")),
            Err(error) => notes.note(format!("{caller} failed: {error}")),
        }
    }
}

/// Connects over the simulated network.
#[derive(Clone, Default)]
pub(crate) struct Wire {
    weather: Option<Weather>,
    /// Its socket, and what reads it.
    endpoint: Arc<tokio::sync::OnceCell<(Arc<Wet>, Arc<Endpoint>)>>,
}

impl Wire {
    /// Its datagrams come from another port from now on.
    pub(crate) async fn move_away(&self) {
        self.endpoint.get().unwrap().0.move_away().await.unwrap();
    }
}

impl Connect for Wire {
    type Stream = TokioIo<TcpStream>;

    async fn connect(&self, backend: &str) -> io::Result<Self::Stream> {
        TcpStream::connect(backend).await.map(TokioIo::new)
    }

    fn peer_address(stream: &Self::Stream) -> Option<SocketAddr> {
        stream.inner().peer_addr().ok()
    }

    async fn endpoint(&self, _to: SocketAddr) -> io::Result<Option<Arc<Endpoint>>> {
        let Some(weather) = &self.weather else { return Ok(None) };
        let made = self.endpoint.get_or_try_init(|| async {
            let socket = weather.socket(0).await?;
            let endpoint = Endpoint::new(Arc::clone(&socket) as Arc<dyn Datagrams>);
            Ok::<_, io::Error>((socket, endpoint))
        });
        Ok(Some(Arc::clone(&made.await?.1)))
    }
}

/// Accepts from the simulated network.
struct Door {
    listener: TcpListener,
    datagrams: Option<Arc<Wet>>,
}

impl Accept for Door {
    type Stream = TokioIo<TcpStream>;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        self.listener.accept().await.map(|(stream, _)| TokioIo::new(stream))
    }

    fn datagrams(&self) -> io::Result<Option<Arc<dyn Datagrams>>> {
        Ok(self.datagrams.clone().map(|socket| socket as Arc<dyn Datagrams>))
    }
}

const PORT: u16 = 8080;
/// From the end of a server to the start of the next.
pub(crate) const RESTART: Duration = Duration::from_millis(200);
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
pub(crate) const PING_EVERY: Duration = Duration::from_millis(200);
pub(crate) const PING_TIMEOUT: Duration = Duration::from_millis(100);
pub(crate) const BACKOFF_MOST: Duration = Duration::from_millis(500);
/// There and back, at the slowest, and the steps of simulated time.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(15);
