//! Connections over TCP.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Id};

use super::link::Connect;
use super::post::Endpoint;
use crate::socket;
use crate::udp::Udp;

/// Connects to `host:port`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connect for Tcp {
    type Stream = TokioIo<TcpStream>;

    async fn connect(&self, backend: &str) -> io::Result<Self::Stream> {
        let stream = TcpStream::connect(backend).await?;
        socket::prepare(&stream)?;
        Ok(TokioIo::new(stream))
    }

    fn peer_address(stream: &Self::Stream) -> Option<SocketAddr> {
        stream.inner().peer_addr().ok()
    }

    /// All channels of a runtime share one for each family of addresses.
    async fn endpoint(&self, to: SocketAddr) -> io::Result<Option<Arc<Endpoint>>> {
        let (runtime, is_ipv6) = (Handle::current().id(), to.is_ipv6());
        let mut endpoints = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.retain(|shared| shared.endpoint.strong_count() > 0);
        let mine = endpoints.iter().find(|shared| shared.runtime == runtime && shared.is_ipv6 == is_ipv6);
        if let Some(endpoint) = mine.and_then(|shared| shared.endpoint.upgrade()) {
            return Ok(Some(endpoint));
        }
        let any = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let endpoint = Endpoint::new(Arc::new(Udp::bind(SocketAddr::new(any, 0))?));
        endpoints.push(Shared { runtime, is_ipv6, endpoint: Arc::downgrade(&endpoint) });
        Ok(Some(endpoint))
    }
}

/// A socket is read by the runtime that it was made in, and sends to one family of addresses.
struct Shared {
    runtime: Id,
    is_ipv6: bool,
    endpoint: Weak<Endpoint>,
}

/// Those of the process, for as long as somebody uses them.
static ENDPOINTS: Mutex<Vec<Shared>> = Mutex::new(Vec::new());
