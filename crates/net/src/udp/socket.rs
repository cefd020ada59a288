//! UDP on a real socket: many datagrams for one system call, and the address of this machine that each was sent to.

use std::array;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::{Batch, Datagrams, Receiving};
use crate::wire::datagram::LENGTH;

/// A socket for datagrams, on the runtime it was made in.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    /// One part of [`BUFFER`] bytes for each message of a system call.
    buffers: Mutex<Box<[u8]>>,
}

impl Udp {
    /// Bound to this address. Must be called inside a runtime.
    pub fn bind(address: SocketAddr) -> io::Result<Udp> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        // The system may give less; then more is lost when many come at once.
        if let Err(error) = socket.set_recv_buffer_size(WAITING).and_then(|()| socket.set_send_buffer_size(WAITING)) {
            tracing::debug!(%error, "the buffers of a socket for datagrams stay small");
        }
        socket.bind(&address.into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Udp { socket, state, buffers: Mutex::new(vec![0; BUFFER * BATCH_SIZE].into()) })
    }

    fn read(&self, batch: &mut Batch) -> io::Result<()> {
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = {
            let mut parts = buffers.chunks_exact_mut(BUFFER);
            let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
                array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
            self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)?
        };
        for (meta, buffer) in metas[..count].iter().zip(buffers.chunks_exact(BUFFER)) {
            let bytes = &buffer[..meta.len.min(BUFFER)];
            if bytes.is_empty() {
                batch.push(bytes, meta.addr, meta.dst_ip);
            }
            // The system hands over several of one sender in one piece.
            for datagram in bytes.chunks(meta.stride.max(1)) {
                batch.push(datagram, meta.addr, meta.dst_ip);
            }
        }
        Ok(())
    }
}

impl Datagrams for Udp {
    fn receive<'a>(&'a self, batch: &'a mut Batch) -> Receiving<'a> {
        Box::pin(self.socket.async_io(Interest::READABLE, || self.read(batch)))
    }

    fn send(&self, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        let transmit = Transmit { destination: to, ecn: None, contents: bytes, segment_size: None, src_ip: from };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// As many of ours as Linux hands over in one piece at most; of anything larger it is enough to see that it is.
const BUFFER: usize = 64 * LENGTH;
/// What may wait to be read, or to be sent: thousands.
const WAITING: usize = 2 << 20;
