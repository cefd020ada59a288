//! What is asked of every TCP connection, at either end.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Small messages leave at once, and hosts that vanish without a word are noticed by the kernel, also where the other
/// end answers no pings of ours.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE / 3).with_interval(SILENCE / 3))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    Ok(())
}

/// As long as a ping and its answer may take by default.
const SILENCE: Duration = Duration::from_secs(15);
