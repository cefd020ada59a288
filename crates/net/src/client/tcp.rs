//! Connections over TCP.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::link::Connect;
use crate::socket;

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
}
