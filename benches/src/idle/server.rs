//! The process of the backends: says its port, serves at all addresses of loopback, and says to each line on its stdin how
//! many clients without a connection it knows; ends when its stdin is closed.

use std::convert::Infallible;

use evenkeel::server::Handle;
use http_body_util::Full;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

use crate::process;

/// Runs the role.
pub fn run() -> Result<(), String> {
    allow_files()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let listener = TcpListener::bind("0.0.0.0:0").await.map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        process::say(&port.to_string());
        let hello = tower::service_fn(|_| async {
            Ok::<_, Infallible>(http::Response::new(Full::new(bytes::Bytes::from_static(b"hello"))))
        });
        let server = evenkeel::Server::new().without_signals();
        let handle = server.handle();
        tokio::select! {
            ended = server.serve(listener, hello) => ended.map_err(|error| error.to_string()),
            obeyed = obey(&handle) => obeyed,
        }
    })
}

async fn obey(handle: &Handle) -> Result<(), String> {
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    while orders.next_line().await.map_err(|error| error.to_string())?.is_some() {
        let known = handle.datagrams().await.map_or(0, |datagrams| datagrams.peers.known);
        process::say(&known.to_string());
    }
    Ok(())
}

/// As many open files as the system lets a process have: each connection is one.
pub fn allow_files() -> Result<(), String> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|error| error.to_string())?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(|error| error.to_string())
}
