//! A backend written in frames, so that it can turn requests away in ways that no library would.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::listener;

/// What it does with every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// `RST_STREAM` with `REFUSED_STREAM`: never ran.
    Refused,
    /// GOAWAY below its stream: never ran.
    GoAway,
    /// `RST_STREAM` with `INTERNAL_ERROR`: may have run.
    Reset,
    /// A status that only sounds as if it never ran.
    Unavailable,
    /// The connection is closed: may have run.
    Closed,
}

pub(crate) struct Raw {
    pub(crate) address: SocketAddr,
    /// Requests that reached it.
    pub(crate) reached: Arc<AtomicU64>,
}

/// Knows no watch, so it counts as ready.
pub(crate) async fn start(turn: Turn) -> Raw {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let reached = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&reached);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let reached = Arc::clone(&counting);
            // Ends when the client goes away.
            tokio::spawn(async move { drop(speak(stream, turn, &reached).await) });
        }
    });
    Raw { address, reached }
}

async fn speak(mut stream: TcpStream, turn: Turn, reached: &AtomicU64) -> std::io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        let id = u32::from_be_bytes([s0, s1, s2, s3]);
        match kind {
            SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[])).await?,
            // The first two streams of a connection ask for watches: no such thing here.
            HEADERS if id <= 3 => stream.write_all(&frame(HEADERS, END, id, &[STATUS_404])).await?,
            HEADERS => {
                reached.fetch_add(1, Ordering::Relaxed);
                let answer = match turn {
                    Turn::Refused => frame(RST_STREAM, 0, id, &7_u32.to_be_bytes()),
                    Turn::Reset => frame(RST_STREAM, 0, id, &2_u32.to_be_bytes()),
                    Turn::Unavailable => frame(HEADERS, END, id, &SERVICE_UNAVAILABLE),
                    Turn::GoAway => frame(GOAWAY, 0, 0, &[(id - 2).to_be_bytes(), [0; 4]].concat()),
                    Turn::Closed => return Ok(()),
                };
                stream.write_all(&answer).await?;
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), payload].concat()
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
/// `END_STREAM` and `END_HEADERS`.
const END: u8 = 5;
/// `:status: 404` of HPACK's static table.
const STATUS_404: u8 = 0x8d;
/// `:status: 503`, written out under the name at index 8.
const SERVICE_UNAVAILABLE: [u8; 5] = [0x08, 3, b'5', b'0', b'3'];
