//! Some servers of unequal speed, a channel that spreads load over them, another one that hardly anybody uses, and the
//! live page of it all, in one process: `cargo run -p evenkeel --example admin_page`, then open the address it prints.
//!
//! The first server shown works for real, and has a cache that fills and empties: watch what it refuses.
//! The backends of the quiet channel are inactive most of the time. The last of them takes no datagrams.
//!
//! `--backends N` (10), `--down N` of them unreachable (0), `--lame N` of them in lame duck (0), `--listen ADDRESS`
//! (127.0.0.1:0), `--seconds S` until it ends (600).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::admin::Admin;
use evenkeel::body::{BoxError, empty};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::server::Handle;
use evenkeel::{Channel, ChannelConfig, Server};
use evenkeel_core::server::{Quota, Usage};
use evenkeel_core::{Criticality, LinkState, ServerConfig};
use http_body_util::{BodyExt, Full};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower::{Service, service_fn};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let [backends, down, lame, seconds] =
        [("--backends", 10), ("--down", 0), ("--lame", 0), ("--seconds", 600)].map(|(name, usual)| number(name, usual));
    let (backends, down, lame, seconds) = (backends?, down?, lame?, seconds?);
    let listen = argument("--listen").unwrap_or_else(|| "127.0.0.1:0".to_owned());

    let admin_listener = TcpListener::bind(listen).await?;
    let mut listeners = Vec::new();
    for _ in 0..backends {
        listeners.push(TcpListener::bind("127.0.0.1:0").await?);
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    // Ports are closed only when all are open, or the system would give them to the next ones.
    let (down, lame) = (usize::try_from(down)?, usize::try_from(lame)?);
    let quiet: Vec<SocketAddr> = addresses.iter().copied().skip(down + lame).take(QUIET).collect();
    let mut handles = Vec::new();
    for ((listener, address), place) in listeners.into_iter().zip(&addresses).zip(0..).skip(down) {
        let server = Server::new().without_signals();
        let server = if quiet.last() == Some(address) { server.without_datagrams() } else { server };
        handles.push(start(server, listener, place, backends));
    }
    let mut config = ChannelConfig::default();
    // One client is all there is: it uses every backend.
    config.client.subset.size = u32::try_from(backends)?.max(1);
    let backends = Fixed::new(addresses.iter().map(SocketAddr::to_string));
    let channel = Channel::with(config, Tcp, "search", backends)?.usable().await?;
    handles.iter().take(lame).for_each(Handle::lame_duck);
    let archive = if quiet.is_empty() { None } else { Some(channel_let_go(&quiet).await?) };

    let admin = Admin::new().with_channel(channel.clone()).with_switches();
    let admin = archive.iter().cloned().fold(admin, Admin::with_channel);
    let busy = start_busy().await?;
    let admin = admin.with_server(busy.clone());
    let admin = handles.into_iter().take(SERVERS_SHOWN).fold(admin, Admin::with_server);
    println!("http://{}/", admin_listener.local_addr()?);
    tokio::spawn(admin.serve(admin_listener));
    tokio::select! {
        () = drive(channel, archive) => {}
        () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
    }
    Ok(())
}

/// A server that works for real and has to refuse now and then, and those who ask it.
async fn start_busy() -> Result<Handle, BoxError> {
    let began = std::time::Instant::now();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut config = ServerConfig::default();
    config.admission.quotas.customers.push(("maps".to_owned(), Quota::of_cpu(0.2)));
    let server = Server::new().without_signals().with_config(config).with_reserved_cpu(1.0);
    // From 86 % up to 94 %, down to 78 % and back in half a minute: `SHEDDABLE` goes first, at 85 %.
    let server = server.with_signal("cache", 100.0, move || 86.0 + 8.0 * (began.elapsed().as_secs_f64() / 5.0).sin());
    let (address, handle) = (listener.local_addr()?, server.handle());
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
        let found = METHODS.iter().find(|(name, _)| request.uri().path() == *name);
        burn(found.map_or(Duration::ZERO, |(_, work)| Duration::from_micros(*work)));
        if let Some(context) = evenkeel::Context::current().filter(|context| context.degrade() > 0) {
            context.mark_degraded(context.degrade());
        }
        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from_static(b"done\n"))))
    });
    tokio::spawn(async move { server.serve(listener, service).await });
    let channel = Channel::connect("busy", [address]).await?;
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        for tick in 0_usize.. {
            ticks.tick().await;
            let (path, _) = METHODS[[0, 1, 1, 1, 2, 1][tick % 6]];
            let request = http::Request::get(path)
                .header("evenkeel-criticality", Criticality::ALL[[2, 0, 1, 3, 2][tick % 5]].as_str())
                .header("evenkeel-customer", ["mail", "maps", "news"][tick % 3]);
            tokio::spawn(send(channel.clone(), request));
        }
    });
    Ok(handle)
}

fn burn(work: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < work {
        std::hint::black_box((0..200_u64).fold(7, |sum: u64, next| sum.rotate_left(3) ^ next));
    }
}

/// A channel that has let go of all its connections, so that the page has inactive backends from the start.
async fn channel_let_go(backends: &[SocketAddr]) -> Result<Channel, BoxError> {
    let mut config = ChannelConfig::default();
    // Minutes would be too long to watch.
    config.client.idle.after = Some(Duration::from_secs(1));
    config.client.checks.every = Duration::from_secs(2);
    config.client.checks.visit_every = Duration::from_secs(30);
    let backends = Fixed::new(backends.iter().map(SocketAddr::to_string));
    let channel = Channel::with(config, Tcp, "archive", backends)?.usable().await?;
    let all_inactive = async {
        while let Some(all) = channel.snapshot().await {
            if all.client.backends.iter().all(|backend| backend.link == LinkState::Inactive) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(8), all_inactive).await?;
    Ok(channel)
}

/// A server with two processors made of timers, so that many fit on a small machine; every third one is slower.
fn start(server: Server, listener: TcpListener, place: u64, backends: u64) -> Handle {
    let processors = Arc::new(Semaphore::new(PROCESSORS));
    let free = Arc::clone(&processors);
    let work = Duration::from_millis(2 * backends * (10 + 4 * (place % 3)) / 10);
    let answered = Arc::new(AtomicU64::new(0));
    let service = service_fn(move |_request: http::Request<hyper::body::Incoming>| {
        let (processors, answered) = (Arc::clone(&processors), Arc::clone(&answered));
        async move {
            if let Ok(_processor) = processors.acquire().await {
                tokio::time::sleep(work).await;
            }
            let mut response = http::Response::new(Full::new(Bytes::from_static(b"done\n")));
            if answered.fetch_add(1, Ordering::Relaxed) % FAILS_EACH == FAILS_EACH - 1 {
                *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let server = server.with_usage(move || {
        let busy = PROCESSORS - free.available_permits();
        let utilization = Some(busy as f64 / PROCESSORS as f64);
        Usage { utilization, processors: Some(PROCESSORS as f64), ..Usage::default() }
    });
    let handle = server.handle();
    tokio::spawn(async move { server.serve(listener, service).await });
    handle
}

/// Requests at a rate that swells and falls, whether or not they are answered; a few to those who hardly get any.
async fn drive(channel: Channel, archive: Option<Channel>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for tick in 0_u64.. {
        ticks.tick().await;
        let phase = (tick as f64 / 400.0).sin();
        for _ in 0..(6.5 + 3.0 * phase) as u64 {
            tokio::spawn(ask(channel.clone()));
        }
        if tick % ARCHIVE_EACH == ARCHIVE_EACH - 1 {
            archive.iter().cloned().for_each(|archive| drop(tokio::spawn(ask(archive))));
        }
    }
}

/// What does not come back is on the page.
async fn ask(channel: Channel) {
    send(channel, http::Request::get("/query")).await;
}

async fn send(mut channel: Channel, request: http::request::Builder) {
    let request = request.body(empty()).expect("a path is a target, and the headers are plain");
    if let Ok(response) = channel.call(request).await {
        drop(response.into_body().collect().await);
    }
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, usual: u64) -> Result<u64, BoxError> {
    argument(name)
        .map_or(Ok(usual), |text| text.parse().map_err(|_| format!("{name} wants a number, not {text}").into()))
}

const PROCESSORS: usize = 2;
const FAILS_EACH: u64 = 100;
/// A process usually has one or two; some more show what they look like.
const SERVERS_SHOWN: usize = 2;
/// Of the busy server: paths, and microseconds of work.
const METHODS: [(&str, u64); 3] = [("/export", 3000), ("/suggest", 200), ("/search", 900)];
/// Backends of the channel that hardly anybody uses.
const QUIET: usize = 3;
/// Ticks between two of its requests: 30 s.
const ARCHIVE_EACH: u64 = 1500;
