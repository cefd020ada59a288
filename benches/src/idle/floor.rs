//! What the system itself takes: as many datagrams of the same size, sent, echoed and counted by nothing but sockets.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UdpSocket;

use crate::process;

/// Echoes until its stdin is closed; says its port.
pub fn echo() -> Result<(), String> {
    process::end_with_parent();
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        process::say(&socket.local_addr()?.port().to_string());
        let mut bytes = [0; 256];
        loop {
            let (length, from) = socket.recv_from(&mut bytes).await?;
            socket.send_to(&bytes[..length], from).await?;
        }
    })
}

/// Sends so many a second to this port, and says to each line on its stdin how many have come back.
pub fn ask(port: &str, per_second: &str) -> Result<(), String> {
    let port: u16 = port.parse().map_err(|error| format!("{port:?}: {error}"))?;
    let per_second: u32 = per_second.parse().map_err(|error| format!("{per_second:?}: {error}"))?;
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let mut orders = BufReader::new(tokio::io::stdin()).lines();
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let (mut back, mut bytes) = (0_u64, [0; 256]);
        process::say("ready");
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => {
                    for _ in 0..per_second / 1_000 {
                        socket.send_to(&[0; 96], ("127.0.0.1", port)).await?;
                    }
                }
                received = socket.recv_from(&mut bytes) => {
                    received?;
                    back += 1;
                }
                order = orders.next_line() => match order? {
                    Some(_) => process::say(&back.to_string()),
                    None => return Ok(()),
                },
            }
        }
    })
}

fn run(work: impl Future<Output = std::io::Result<()>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(work).map_err(|error| error.to_string())
}
