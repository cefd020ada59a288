//! One module for each command. Each computes its figures first, and then prints them as JSON or as pictures.

pub(crate) mod backend;
pub(crate) mod calibrate;
pub(crate) mod call;
pub(crate) mod demo;
pub(crate) mod plan;
pub(crate) mod sim;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use evenkeel::admin::Admin;
use evenkeel::client::BadList;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::failure::Failure;

/// What the commands with sockets run on: a thread for each processor.
fn runtime() -> Result<Runtime, Failure> {
    start(&mut Builder::new_multi_thread())
}

/// The same for handlers that compute: connections are looked at after each few of their slices. By default that is
/// after 61 of them, and what arrives meanwhile waits unseen.
fn runtime_for_work() -> Result<Runtime, Failure> {
    start(Builder::new_multi_thread().event_interval(EVENT_INTERVAL))
}

fn start(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::Run(format!("no threads can be started: {error}")))
}

/// Listens there, or says which option to change.
async fn bind(option: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another process listens there: stop it, or choose another port, 0 for a free one"
            }
            io::ErrorKind::AddrNotAvailable => "this machine has no such address: use 127.0.0.1 or one of its own",
            io::ErrorKind::PermissionDenied => "ports below 1024 are for the system: choose a higher one",
            _ => "choose another address",
        };
        Failure::Run(format!("cannot listen on {option} {address}: {error}; {advice}"))
    })
}

/// Addresses of which none is there twice.
fn unlike(addresses: &[String]) -> Result<impl Iterator<Item = &str>, Failure> {
    let mut known = BTreeSet::new();
    match addresses.iter().find(|&address| !known.insert(address)) {
        Some(twice) => Err(Failure::Usage(BadList::Twice(twice.clone()).to_string())),
        None => Ok(addresses.iter().map(String::as_str)),
    }
}

/// Shows what there is to see on that address, as long as `helping` is kept; says where it is.
async fn show(admin: Admin, address: SocketAddr, helping: &mut JoinSet<()>) -> Result<SocketAddr, Failure> {
    let listener = bind("--admin", address).await?;
    let address = listener.local_addr()?;
    helping.spawn(async move { match admin.serve(listener).await {} });
    Ok(address)
}

/// Slices of 0.1 ms between two looks: 0.7 ms, short against any deadline, and a look takes microseconds.
const EVENT_INTERVAL: u32 = 7;
