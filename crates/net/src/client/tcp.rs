//! Connections over TCP.

use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::link::Connect;

/// Connects to `host:port`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl Connect for Tcp {
    type Stream = TokioIo<TcpStream>;

    async fn connect(&self, backend: &str) -> io::Result<Self::Stream> {
        let stream = TcpStream::connect(backend).await?;
        stream.set_nodelay(true)?;
        give_up_on_silence(&stream)?;
        Ok(TokioIo::new(stream))
    }
}

/// Hosts that vanish without a word are noticed by the kernel, also where a backend answers no pings of ours.
fn give_up_on_silence(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE / 3).with_interval(SILENCE / 3))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    Ok(())
}

/// As long as a ping and its answer may take by default.
const SILENCE: Duration = Duration::from_secs(15);
