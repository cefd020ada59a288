//! The server: HTTP/1.1 and HTTP/2 on one port, behind the gate, with a life of its own (A4, A6, A7).
//!
//! It listens in lame duck until [`Handle::ready`], serves, and on SIGTERM tells every watching client, serves on until
//! all have acknowledged and nothing is in flight, ends the watch streams, closes its connections and returns.

mod body;
mod driver;
mod hub;
mod seat;
mod serve;

use std::sync::Arc;

use evenkeel_core::ServerConfig;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use driver::Handle;

use crate::body::BoxError;
use crate::clock::Clock;
use driver::{Driver, Event, Stage};
use hub::Hub;
use serve::{Door, Served};

/// A server that is being set up.
///
/// ```no_run
/// # use std::convert::Infallible;
/// # async fn example() -> Result<(), evenkeel::body::BoxError> {
/// let server = evenkeel::Server::new();
/// server.handle().ready(); // or later, once it is warm
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// let hello = tower::service_fn(|_request| async { Ok::<_, Infallible>(http::Response::new(String::from("hello"))) });
/// server.serve(listener, hello).await // until SIGTERM, and then until everything that arrived is answered
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    events: (mpsc::UnboundedSender<Event>, mpsc::UnboundedReceiver<Event>),
    on_sigterm: bool,
}

impl Default for Server {
    fn default() -> Self {
        Server { config: ServerConfig::default(), events: mpsc::unbounded_channel(), on_sigterm: true }
    }
}

impl Server {
    /// With the default settings: stops on SIGTERM. The process ignores that signal from then on, also once the server
    /// has stopped.
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

    /// What tells it that it is ready, a lame duck, or to stop.
    pub fn handle(&self) -> Handle {
        Handle::new(self.events.0.clone())
    }

    /// Serves until it has stopped: every request that arrived was answered, as far as `drain_most` allows.
    ///
    /// It is a lame duck until [`Handle::ready`]: it listens and serves what arrives, but clients send it nothing.
    pub async fn serve<S, B>(self, listener: TcpListener, service: S) -> Result<(), BoxError>
    where
        S: tower_service::Service<http::Request<Incoming>, Response = http::Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let clock = Clock::new();
        let (events, inbox) = self.events;
        let hub = Arc::new(Hub::new(events.clone()));
        let (brain, mut stage) = Driver::new(clock, self.config, Arc::clone(&hub))?;
        let door = Door { gate: brain.gate(), hub, clock };
        // Ends with this future, however that ends.
        let mut driving = JoinSet::new();
        driving.spawn(brain.run(inbox));
        if self.on_sigterm {
            stop_on_sigterm(events.clone())?;
        }
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else {
                        // Out of file descriptors and the like: those who wait are accepted a little later.
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    };
                    // Fails only on sockets that are closed already.
                    drop(stream.set_nodelay(true));
                    let served = Served { door: door.clone(), inner: service.clone() };
                    connections.spawn(connection(TokioIo::new(stream), served, stage.clone()));
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                // Those who have gone need not be waited for; the rest is told to close.
                () = reached(&mut stage, Stage::Closing) => break,
            }
        }
        drop(listener);
        let closed = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = closed => drop(events.send(Event::Closed)),
            () = reached(&mut stage, Stage::Stopped) => {}
        }
        while let Some(ended) = driving.join_next().await {
            ended?;
        }
        Ok(())
    }
}

async fn connection<S>(stream: TokioIo<tokio::net::TcpStream>, served: Served<S>, mut stage: watch::Receiver<Stage>)
where
    Served<S>: hyper::service::Service<
            http::Request<Incoming>,
            Response = http::Response<crate::body::BoxBody>,
            Error = BoxError,
        >,
    <Served<S> as hyper::service::Service<http::Request<Incoming>>>::Future: Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // So that peers that vanished, or never finish their head, do not hold a connection or a drain.
    builder.http1().timer(TokioTimer::new());
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT);
    let mut connection = std::pin::pin!(builder.serve_connection(stream, served));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = reached(&mut stage, Stage::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection ended");
    }
}

/// Returns when the server has come so far; a driver that is gone has stopped.
async fn reached(stage: &mut watch::Receiver<Stage>, goal: Stage) {
    drop(stage.wait_for(|stage| *stage >= goal).await.map(|_| ()));
}

fn stop_on_sigterm(events: mpsc::UnboundedSender<Event>) -> Result<(), BoxError> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => drop(events.send(Event::Stop)),
            () = events.closed() => {}
        }
    });
    Ok(())
}

/// As channels ping: a peer that is gone is noticed within 15 s.
const PING_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
const PING_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// After the system refused to accept: trying at once would only burn what is short already.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
