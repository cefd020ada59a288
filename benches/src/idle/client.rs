//! The process of the client: takes on as many backends as it is told to.

use std::time::Duration;

use evenkeel::client::{Backend, Resolve, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::{BackendSnapshot, LinkState};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;

use super::server::allow_files;
use crate::process;

/// Runs the role: backends at this port, asked so often in milliseconds; 0 keeps their connections.
pub fn run(port: &str, every: &str) -> Result<(), String> {
    allow_files()?;
    let port: u16 = port.parse().map_err(|error| format!("{port:?}: {error}"))?;
    let every: u64 = every.parse().map_err(|error| format!("{every:?}: {error}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(obey(port, Duration::from_millis(every)))
}

async fn obey(port: u16, every: Duration) -> Result<(), String> {
    let (list, known) = watch::channel(Vec::new());
    let mut config = ChannelConfig::default();
    config.client.subset.size = 100_000;
    config.client.idle.after = (!every.is_zero()).then_some(Duration::from_millis(50));
    if !every.is_zero() {
        config.client.checks.every = every;
        config.client.checks.timeout = config.client.checks.timeout.min(every);
    }
    let channel = Channel::with(config, Tcp, "idle", Followed(known)).map_err(|error| error.to_string())?;
    process::say("ready");
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while let Some(order) = orders.next_line().await.map_err(|error| error.to_string())? {
        match order.split_once(' ') {
            Some(("grow", count)) => {
                let count: u32 = count.parse().map_err(|error| format!("{count:?}: {error}"))?;
                list.send_replace((0..count).map(|number| Backend::from(address(number, port))).collect());
                process::say("done");
            }
            None if order == "wait" => {
                let wanted = list.borrow().len();
                let is_there = |one: &&BackendSnapshot| one.link == LinkState::Connected;
                while snapshot(&channel).await?.backends.iter().filter(is_there).count() < wanted {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                process::say("done");
            }
            _ => process::say(&snapshot(&channel).await?.checks.answered.to_string()),
        }
    }
    Ok(())
}

async fn snapshot(channel: &Channel) -> Result<evenkeel_core::ClientSnapshot, String> {
    channel.snapshot().await.map(|all| all.client).ok_or_else(|| "the channel has ended".to_owned())
}

/// 127.1.0.1, 127.1.0.2, …: all of them are this machine.
fn address(number: u32, port: u16) -> String {
    format!("127.{}.{}.{}:{port}", 1 + number / 62_500, number / 250 % 250, 1 + number % 250)
}

/// Follows the list that is grown.
struct Followed(watch::Receiver<Vec<Backend>>);

impl Resolve for Followed {
    async fn next(&mut self) -> Option<Vec<Backend>> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}
