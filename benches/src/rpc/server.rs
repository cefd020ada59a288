//! The process of the backends: says where they listen, serves until its stdin is closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use bytes::Bytes;
use evenkeel::server::{Accept, Detached};
use evenkeel_core::server::Usage;
use evenkeel_core::{Mode, ServerConfig};
use http_body_util::Empty;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

use super::BACKENDS;
use super::echo::Echo;
use super::runtime::Flavour;
use super::stack::Stack;
use crate::clock;
use crate::process;

/// Runs the role.
pub fn run(stack: Stack, flavour: Flavour) {
    process::end_with_parent();
    let core = clock::cores().into_iter().next_back().expect("a process runs on some core");
    flavour.build(core).block_on(async {
        let mut listeners = Vec::new();
        for _ in 0..BACKENDS {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports"));
        }
        let address = |listener: &TcpListener| listener.local_addr().expect("a bound socket has an address");
        let addresses: Vec<String> =
            listeners.iter().map(address).map(|address: SocketAddr| address.to_string()).collect();
        process::say(&addresses.join(" "));
        match stack {
            Stack::Tonic => serve_tonic(listeners).await,
            Stack::Evenkeel => serve_evenkeel(listeners, evenkeel::Server::new(), flavour).await,
            Stack::Off => serve_evenkeel(listeners, without_admission(), flavour).await,
            Stack::Refusing => serve_evenkeel(listeners, refusing(), flavour).await,
            Stack::Static => serve_static(listeners).await,
            Stack::Hyper | Stack::H2 => unreachable!("only clients go without a stack"),
        }
    });
}

async fn serve_tonic(listeners: Vec<TcpListener>) {
    let mut serving = tokio::task::JoinSet::new();
    for listener in listeners {
        // As tonic's own `serve` sets it.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        serving.spawn(tonic::transport::Server::builder().add_service(Echo).serve_with_incoming(incoming));
    }
    while let Some(ended) = serving.join_next().await {
        ended.expect("a backend serves until the process ends").expect("tonic serves");
    }
}

/// The same few headers to every call: the least an answer can cost.
async fn serve_static(listeners: Vec<TcpListener>) {
    let mut listeners = All(listeners);
    loop {
        let stream = listeners.accept().await.expect("a listener accepts");
        let service = service_fn(|_| std::future::ready(Ok::<_, Infallible>(refusal())));
        tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service));
    }
}

fn refusal() -> http::Response<Empty<Bytes>> {
    let mut response = http::Response::new(Empty::new());
    let headers = [("content-type", "application/grpc"), ("grpc-status", "8"), ("grpc-message", "too much")];
    for (name, value) in headers {
        response.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    response
}

fn without_admission() -> evenkeel::Server {
    let mut config = ServerConfig::default();
    config.admission.modes.all = Mode::Off;
    evenkeel::Server::new().with_config(config)
}

/// A signal of its own says that there is far too much. It falls all the time: one that refusing does not bring down is left out.
fn refusing() -> evenkeel::Server {
    let mut full = 1e9;
    evenkeel::Server::new().with_usage(move || {
        full *= 0.999;
        Usage { plugged: Some(full), ..Usage::default() }
    })
}

async fn serve_evenkeel(listeners: Vec<TcpListener>, server: evenkeel::Server, flavour: Flavour) {
    let mut server = server.without_signals();
    if flavour == Flavour::PerCore {
        server = server.per_core();
    }
    server.serve(All(listeners), Routes::new(Echo).prepare()).await.expect("evenkeel serves");
}

/// One server that is found at many addresses: what runs on each core is there once, not for each.
struct All(Vec<TcpListener>);

impl Accept for All {
    type Stream = TokioIo<TcpStream>;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        let next = poll_fn(|cx| {
            self.0.iter().map(|listener| listener.poll_accept(cx)).find(Poll::is_ready).unwrap_or(Poll::Pending)
        });
        let (stream, _) = next.await?;
        stream.set_nodelay(true)?;
        Ok(TokioIo::new(stream))
    }

    fn detach(stream: Self::Stream) -> io::Result<Detached<Self::Stream>> {
        TcpListener::detach(stream)
    }
}
