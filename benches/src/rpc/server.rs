//! The process of the backends: says where they listen, serves until its stdin is closed.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use evenkeel::server::{Accept, Detached};
use hyper_util::rt::TokioIo;
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
            Stack::Evenkeel => serve_evenkeel(listeners, flavour).await,
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

async fn serve_evenkeel(listeners: Vec<TcpListener>, flavour: Flavour) {
    let mut server = evenkeel::Server::new().without_signals();
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
