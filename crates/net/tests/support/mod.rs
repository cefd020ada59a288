//! Servers on real sockets to call, and ways to wait for what must come.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

pub(crate) mod asker;
pub(crate) mod raw;
pub(crate) mod scripted;
pub(crate) mod task;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::body::{BoxBody, empty};
use evenkeel::server::Handle;
use evenkeel::{CallError, Channel, Server};
use evenkeel_core::{BackendState, ServerConfig};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower::{Service, service_fn};

pub(crate) struct Running {
    pub(crate) handle: Handle,
    pub(crate) address: SocketAddr,
    pub(crate) serving: JoinHandle<()>,
    pub(crate) served: Arc<AtomicU64>,
}

/// A listener on a port that no outgoing connection is given by the system: one that is bound again after a restart
/// must not have been taken meanwhile.
pub(crate) async fn listener() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port = 10_000 + (std::process::id() as u16 % 500) * 40 + NEXT.fetch_add(1, Ordering::Relaxed) % 40;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
}

/// A server that answers with its own address after as many milliseconds as its path says, or two.
pub(crate) async fn start() -> Running {
    start_on(listener().await)
}

pub(crate) fn start_on(listener: TcpListener) -> Running {
    start_as(Server::new(), listener)
}

pub(crate) fn start_as(starting: Server, listener: TcpListener) -> Running {
    let address = listener.local_addr().unwrap();
    let served = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&served);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let served = Arc::clone(&counting);
        async move {
            let path = request.uri().path().to_owned();
            let millis = path.trim_start_matches('/').parse().unwrap_or(2);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            tokio::time::sleep(Duration::from_millis(millis)).await;
            served.fetch_add(1, Ordering::Relaxed);
            let text = if path == "/empty" { String::new() } else { format!("{address} got {} bytes", body.len()) };
            let mut response = http::Response::new(Full::new(Bytes::from(text)));
            if path == "/fail" {
                *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let config = ServerConfig { drain_least: Duration::from_millis(20), ..ServerConfig::default() };
    let starting = starting.with_config(config).without_signals();
    let handle = starting.handle();
    let serving = tokio::spawn(async move { starting.serve(listener, service).await.unwrap() });
    Running { handle, address, serving, served }
}

pub(crate) fn request(body: BoxBody) -> http::Request<BoxBody> {
    http::Request::post("http://service/work").body(body).unwrap()
}

pub(crate) async fn call(channel: &mut Channel) -> Result<String, CallError> {
    let response = channel.call(request(empty())).await?;
    let body = response.into_body().collect().await.map_err(CallError::Broken)?;
    Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), waiting).await.is_ok(), "never: {what}");
}

/// How many backends the channel sees in this state.
pub(crate) async fn in_state(channel: &Channel, state: BackendState) -> usize {
    channel.snapshot().await.unwrap().client.backends.iter().filter(|backend| backend.state == state).count()
}

pub(crate) async fn channel_to(servers: &[Running]) -> Channel {
    let channel = Channel::connect("service", servers.iter().map(|server| server.address.to_string())).await.unwrap();
    until("all are used", async || in_state(&channel, BackendState::Healthy).await == servers.len()).await;
    channel
}
