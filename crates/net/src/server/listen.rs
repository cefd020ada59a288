//! Where a server listens: an address, a listener of the program's, or what a test puts in its place.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::identity::PeerInfo;
use crate::udp::{Datagrams, Udp};

/// Takes connections: TCP, or what a test puts in its place.
///
/// ```
/// use hyper_util::rt::TokioIo;
/// use std::io;
///
/// /// Connections made inside this process.
/// struct InMemory(tokio::sync::mpsc::Receiver<tokio::io::DuplexStream>);
///
/// impl evenkeel::server::Accept for InMemory {
///     type Stream = TokioIo<tokio::io::DuplexStream>;
///
///     async fn accept(&mut self) -> io::Result<Self::Stream> {
///         self.0.recv().await.map(TokioIo::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
///     }
/// }
/// ```
pub trait Accept: Send {
    /// A byte stream.
    type Stream: Read + Write + Send + Unpin + 'static;

    /// The next connection. Dropped before it ends it must lose none. An error is tried again a little later.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Who is at the other end, as far as it is known: a listener that authenticates says so here. Asked once for each
    /// connection, before anything of it is read. Default: nothing is known.
    fn peer(_stream: &Self::Stream) -> PeerInfo {
        PeerInfo::default()
    }

    /// The stream as one that any runtime can take up, for [`per_core`](super::Server::per_core); streams that cannot
    /// be moved are served by the caller's runtime.
    fn detach(stream: Self::Stream) -> io::Result<Detached<Self::Stream>> {
        Ok(Detached::Bound(stream))
    }

    /// A socket for datagrams beside this listener, at the same address; `None` where there are none.
    fn datagrams(&self) -> io::Result<Option<Arc<dyn Datagrams>>> {
        Ok(None)
    }
}

/// A stream that can be moved to another runtime, or not.
#[derive(Debug)]
pub enum Detached<S> {
    /// It can.
    Free(std::net::TcpStream),
    /// It stays where it was accepted.
    Bound(S),
}

/// What [`Server::serve`](super::Server::serve) can listen at: an address as [`SocketAddr`] or as text, or anything
/// that already listens.
///
/// A program that wants to know which port it was given binds a listener itself and hands it over:
/// ```
/// # async fn example() -> std::io::Result<()> {
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// println!("listening on {}", listener.local_addr()?);
/// # Ok(())
/// # }
/// ```
pub trait Listen: Send {
    /// What takes the connections.
    type Listener: Accept;

    /// Begins to listen.
    fn listen(self) -> impl Future<Output = io::Result<Self::Listener>> + Send;
}

impl<A: Accept> Listen for A {
    type Listener = A;

    async fn listen(self) -> io::Result<A> {
        Ok(self)
    }
}

impl Listen for SocketAddr {
    type Listener = TcpListener;

    async fn listen(self) -> io::Result<TcpListener> {
        TcpListener::bind(self).await
    }
}

impl Listen for &str {
    type Listener = TcpListener;

    async fn listen(self) -> io::Result<TcpListener> {
        TcpListener::bind(self).await
    }
}

impl Listen for String {
    type Listener = TcpListener;

    async fn listen(self) -> io::Result<TcpListener> {
        TcpListener::bind(self).await
    }
}

impl Listen for std::net::TcpListener {
    type Listener = TcpListener;

    async fn listen(self) -> io::Result<TcpListener> {
        self.set_nonblocking(true)?;
        TcpListener::from_std(self)
    }
}

impl Accept for TcpListener {
    type Stream = TokioIo<TcpStream>;

    async fn accept(&mut self) -> io::Result<TokioIo<TcpStream>> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Fails only on sockets that are closed already.
        drop(crate::socket::prepare(&stream));
        Ok(TokioIo::new(stream))
    }

    fn peer(stream: &TokioIo<TcpStream>) -> PeerInfo {
        // Fails only on sockets that are closed already.
        PeerInfo { address: stream.inner().peer_addr().ok(), authenticated: None }
    }

    fn detach(stream: TokioIo<TcpStream>) -> io::Result<Detached<TokioIo<TcpStream>>> {
        stream.into_inner().into_std().map(Detached::Free)
    }

    /// On the same port, or on any where somebody else has that one: clients are told which.
    fn datagrams(&self) -> io::Result<Option<Arc<dyn Datagrams>>> {
        let mut address = self.local_addr()?;
        let bound = match Udp::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tracing::warn!(%address, "somebody else has this port for datagrams: another one is used");
                address.set_port(0);
                Udp::bind(address)
            }
            bound => bound,
        };
        Ok(Some(Arc::new(bound?)))
    }
}
