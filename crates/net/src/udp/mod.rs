//! Datagrams as the system has them: one socket, answers leaving from the address that was asked.

mod pace;
mod socket;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

pub(crate) use pace::Pace;
pub use socket::Udp;

use crate::wire::datagram::LENGTH;

/// Sends and receives datagrams: UDP, or what a test puts in its place.
pub trait Datagrams: fmt::Debug + Send + Sync + 'static {
    /// Waits until some have come and puts them into `batch`, which is empty before. An error is tried again a little
    /// later.
    fn receive<'a>(&'a self, batch: &'a mut Batch) -> Receiving<'a>;

    /// Sends one, from this address of the machine if it says so. Never waits: what cannot be sent now is lost.
    fn send(&self, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()>;

    /// Where it is bound.
    fn local_address(&self) -> io::Result<SocketAddr>;
}

/// What [`Datagrams::receive`] gives.
pub type Receiving<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// Datagrams that came together.
#[derive(Debug, Default)]
pub struct Batch {
    received: Vec<Received>,
}

/// One datagram, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Who sent it.
    pub from: SocketAddr,
    /// Which address of this machine it was sent to, where that is known.
    pub to: Option<IpAddr>,
    length: usize,
    bytes: [u8; LENGTH],
}

impl Batch {
    /// Takes one in. Of one that is longer than any of ours only that is kept.
    pub fn push(&mut self, bytes: &[u8], from: SocketAddr, to: Option<IpAddr>) {
        let mut kept = [0; LENGTH];
        let length = bytes.len().min(LENGTH);
        kept[..length].copy_from_slice(&bytes[..length]);
        self.received.push(Received { from, to, length: bytes.len(), bytes: kept });
    }

    /// As they came.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Received> {
        self.received.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.received.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Makes room for the next ones.
    pub fn clear(&mut self) {
        self.received.clear();
    }
}

impl Received {
    /// What was sent; nothing where it was longer than any of ours.
    pub fn bytes(&self) -> &[u8] {
        if self.length > LENGTH { &[] } else { &self.bytes[..self.length] }
    }
}
