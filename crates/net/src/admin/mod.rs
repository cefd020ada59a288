//! Looking in: metrics, state, health and a live page of this process's channels and servers, on an address of their
//! own; and, where the program allows it, switches of overload control.
//!
//! Never on the path of a request: what is shown is asked from the drivers by message, when somebody looks. The address
//! is meant to be on loopback; there, only requests that name the machine itself are answered, so that no page on the
//! web can read it through a name of its own (DNS rebinding).

mod answer;
mod host;
mod page;
mod prometheus;
mod state;
mod switches;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::server::Phase;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::client::{Channel, Clusters};
use crate::clock::Clock;
use crate::server::{Handle, Look};
use answer::{Caller, Door};
use state::State;
use switches::{Switchboard, Switches};

/// What can be looked at, and the server that shows it.
///
/// ```no_run
/// # async fn example(channel: evenkeel::Channel, server: evenkeel::Server) -> std::io::Result<()> {
/// let admin = evenkeel::admin::Admin::new().with_channel(channel).with_server(server.handle());
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9090").await?;
/// tokio::spawn(admin.serve(listener)); // http://127.0.0.1:9090/ is the live page
/// # Ok(())
/// # }
/// ```
///
/// | path | answer |
/// |---|---|
/// | `/` | the live page |
/// | `/state` | everything that is known, as JSON; `docs/state.md` explains each field |
/// | `/admission` | what each mechanism of overload control may do; with `POST` and [`Admin::with_switches`] their switches |
/// | `/metrics` | the state as Prometheus text; `docs/metrics.md` explains each |
/// | `/healthz` | 200 while the process answers |
/// | `/readyz` | 200 when every server is serving and every channel has a usable backend, else 503 and why |
///
/// It holds the channels it shows: they live as long as it does.
#[derive(Debug)]
#[must_use = "nothing is shown until it serves"]
pub struct Admin {
    channels: Vec<Channel>,
    servers: Vec<Handle>,
    clusters: Vec<Clusters>,
    switches: bool,
    clock: Clock,
    began: evenkeel_core::Time,
}

impl Default for Admin {
    fn default() -> Self {
        let clock = Clock::new();
        Admin {
            channels: Vec::new(),
            servers: Vec::new(),
            clusters: Vec::new(),
            switches: false,
            clock,
            began: clock.now(),
        }
    }
}

impl Admin {
    /// With nothing to look at yet.
    pub fn new() -> Self {
        Admin::default()
    }

    /// Shows this channel too.
    pub fn with_channel(mut self, channel: Channel) -> Self {
        self.channels.push(channel);
        self
    }

    /// Shows these clusters too, and the channel of each.
    pub fn with_clusters(mut self, clusters: Clusters) -> Self {
        self.channels.extend(clusters.channels().map(|(_, channel)| channel.clone()));
        self.clusters.push(clusters);
        self
    }

    /// Shows this server too.
    pub fn with_server(mut self, server: Handle) -> Self {
        self.servers.push(server);
        self
    }

    /// Lets whoever reaches the address switch overload control of the servers shown: everything off at once, or single
    /// mechanisms off, to observe or on. Default: the address shows and changes nothing.
    ///
    /// ```no_run
    /// # async fn example(server: evenkeel::Server) -> std::io::Result<()> {
    /// let admin = evenkeel::admin::Admin::new().with_server(server.handle()).with_switches();
    /// tokio::spawn(admin.serve(tokio::net::TcpListener::bind("127.0.0.1:9901").await?));
    /// // curl --json '{"all": "off"}' 127.0.0.1:9901/admission
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Nobody is asked who they are, so keep the address on loopback or behind something that asks. Pages of other sites
    /// are refused: a request says that it is JSON, and one that a browser sent comes from this address itself.
    pub fn with_switches(mut self) -> Self {
        self.switches = true;
        self
    }

    /// Serves until it is dropped, and closes its connections then.
    pub async fn serve(self, listener: TcpListener) -> Infallible {
        let door = Arc::new(Door { admin: self });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // Those who find no place wait in the listener's queue.
                stream = accept(&listener), if connections.len() < CONNECTIONS_MOST => {
                    connections.spawn(connection(stream, Arc::clone(&door)));
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
            }
        }
    }

    /// Asks every driver, all at once; one that does not answer in time is shown as silent.
    async fn look(&self) -> State {
        let channels: Vec<_> = self
            .channels
            .iter()
            .cloned()
            .map(|channel| tokio::spawn(async move { within(channel.snapshot()).await.flatten() }))
            .collect();
        let servers = self.look_at_servers();
        let mut state = State::new(self.clock.now().since(self.began), self.switches);
        for (channel, asked) in self.channels.iter().zip(channels) {
            match asked.await.ok().flatten() {
                Some(snapshot) => state.channels.push(state::ChannelState::from(&snapshot)),
                None => state.silent_channels.push(channel.service().to_owned()),
            }
        }
        for clusters in &self.clusters {
            let service =
                clusters.channels().next().map_or_else(String::new, |(_, nearest)| nearest.service().to_owned());
            for (name, snapshot) in within(clusters.snapshot()).await.flatten().unwrap_or_default() {
                state.clusters.push(state::ClusterState::new(service.clone(), name, &snapshot));
            }
        }
        for (server, look) in self.servers.iter().zip(servers.await) {
            state.servers.push(match look {
                Ok(look) => state::ServerState::new(&look, server.identities()),
                Err(phase) => state::ServerState::unknown(phase),
            });
        }
        state
    }

    /// Every server as it is, or the phase of one that says nothing; they are asked when this is called, not when it is awaited.
    fn look_at_servers(&self) -> impl Future<Output = Vec<Result<Box<Look>, &'static str>>> + use<> {
        let ask = |server: Handle| tokio::spawn(async move { within(server.look()).await });
        let asked: Vec<_> = self.servers.iter().cloned().map(ask).collect();
        async move {
            let mut looks = Vec::with_capacity(asked.len());
            for one in asked {
                looks.push(match one.await.ok().flatten() {
                    Some(Some(look)) => Ok(look),
                    Some(None) => Err(Phase::Stopped.as_str()),
                    None => Err(state::SILENT),
                });
            }
            looks
        }
    }

    async fn switchboard(&self) -> Switchboard {
        Switchboard::new(self.switches, &self.look_at_servers().await)
    }

    /// Tells those who are meant, and then looks: a driver does both in this order.
    async fn switch(&self, switches: &Switches) -> Switchboard {
        for (server, _) in self.servers.iter().zip(1..).filter(|(_, number)| switches.is_for(*number)) {
            server.switch(switches.modes.clone());
        }
        self.switchboard().await
    }
}

async fn within<T>(asked: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(DRIVER_ANSWERS_WITHIN, asked).await.ok()
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of file descriptors and the like: those who wait are accepted a little later.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(stream: TcpStream, door: Arc<Door>) {
    // One that listens on every address is asked on loopback too. An address that cannot be read is protected.
    let is_loopback = stream.local_addr().map_or(true, |address| address.ip().to_canonical().is_loopback());
    let caller = Caller { peer: stream.peer_addr().ok(), is_loopback };
    let service = service_fn(move |request: http::Request<Incoming>| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request, caller).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN);
    builder.max_headers(HEADERS_MOST).max_buf_size(HEAD_BYTES_MOST);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tokio::time::sleep(CONNECTION_MOST) => {
            connection.as_mut().graceful_shutdown();
            // One that does not read its answer is cut off.
            tokio::time::timeout(CLOSE_WITHIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the admin address ended");
    }
}

/// A scraper, a probe and some people with a few connections each.
const CONNECTIONS_MOST: usize = 32;
/// Also how long a connection may be idle, so that nobody holds a place for nothing.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const HEADERS_MOST: usize = 64;
const HEAD_BYTES_MOST: usize = 16 * 1024;
/// Browsers and scrapers open another one.
const CONNECTION_MOST: Duration = Duration::from_secs(120);
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// A driver answers between two events, in microseconds; a server that was never started does not.
const DRIVER_ANSWERS_WITHIN: Duration = Duration::from_secs(1);
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
