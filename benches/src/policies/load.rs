//! The process of those who ask: at random, as often as the backends can bear, whatever becomes of it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::Rng;
use http_body_util::BodyExt;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwma};
use tower::{Service, ServiceExt, service_fn};

use super::fleet::number;
use crate::process;

type Nothing = http_body_util::Empty<bytes::Bytes>;
type Request = http::Request<Nothing>;
type Failed = Box<dyn std::error::Error + Send + Sync>;
type Asking = std::pin::Pin<Box<dyn Future<Output = bool>>>;

/// What came of all requests but the first ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answered {
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub failed_share: f64,
}

impl Answered {
    pub(super) fn read(line: &str) -> io::Result<Self> {
        let said: Value = serde_json::from_str(line)?;
        Ok(Answered {
            p50_ms: number(&said, "p50_ms")?,
            p99_ms: number(&said, "p99_ms")?,
            p999_ms: number(&said, "p999_ms")?,
            failed_share: number(&said, "failed_share")?,
        })
    }
}

#[derive(Default)]
struct Tally {
    took: Vec<Duration>,
    failed: u32,
}

/// Asks for so long, by a policy of ours or as `kind` says.
pub(super) fn run(kind: &str, seconds: &str, seed: &str, targets: &[String]) -> Result<(), String> {
    let seconds: f64 = seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
    let seed: u64 = seed.parse().map_err(|_| format!("{seed} is no seed"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(LocalSet::new().run_until(async {
        let ask = asker(kind, seed, targets).await.map_err(|error| error.to_string())?;
        let tally = drive(ask, seconds, seed).await;
        process::say(&summary(&tally.borrow()));
        Ok(())
    }))
}

/// Picks a backend and sends; whether it was answered well.
type Ask = Box<dyn FnMut(Request) -> Asking>;

async fn asker(kind: &str, seed: u64, targets: &[String]) -> Result<Ask, Failed> {
    match kind {
        PROXY => {
            let mut connections = Vec::new();
            for _ in 0..PROXY_CONNECTIONS {
                connections.push(connect(&targets[0]).await?);
            }
            let mut turn = connections.into_iter().cycle();
            Ok(Box::new(move |request| {
                let mut connection: SendRequest<Nothing> = turn.next().expect("there are some");
                Box::pin(async move { good(connection.send_request(request).await).await })
            }))
        }
        TOWER => {
            let mut services = Vec::new();
            for target in targets {
                let connection = connect(target).await?;
                let service = service_fn(move |request: Request| connection.clone().send_request(request));
                services.push(PeakEwma::new(service, RTT, DECAY_NS, CompleteOnResponse::default()));
            }
            let mut balance = Balance::new(ServiceList::new(services));
            balance.ready().await?;
            Ok(Box::new(move |request| {
                // Every service is ready at all times; the next one is chosen by asking.
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(balance.poll_ready(&mut context).is_ready(), "every service is ready");
                let answer = balance.call(request);
                Box::pin(async move { good(answer.await).await })
            }))
        }
        policy => {
            let mut config = ChannelConfig::default();
            config.client.policy = policy.parse()?;
            config.client.flow.active_max = 1_000_000;
            config.seed = Some(seed);
            let addresses: Result<Vec<std::net::SocketAddr>, _> = targets.iter().map(|text| text.parse()).collect();
            let channel = Channel::with(config, Tcp, "service", Fixed::new(addresses?))?.usable().await?;
            Ok(Box::new(move |request| {
                let answer = channel.clone().call(request.map(evenkeel::body::boxed));
                Box::pin(async move { good(answer.await).await })
            }))
        }
    }
}

async fn connect(target: &str) -> Result<SendRequest<Nothing>, Failed> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Whether it is an answer, read to its end.
async fn good<B: http_body::Body, E>(answer: Result<http::Response<B>, E>) -> bool {
    match answer {
        Ok(answer) if answer.status().is_success() => answer.into_body().collect().await.is_ok(),
        _ => false,
    }
}

async fn drive(mut ask: Ask, seconds: f64, seed: u64) -> Rc<RefCell<Tally>> {
    let (tally, mut rng) = (Rc::<RefCell<Tally>>::default(), Rng::from_seed(seed));
    let began = Instant::now();
    let (counts_from, end) =
        (began + Duration::from_secs_f64(seconds * SETTLING), began + Duration::from_secs_f64(seconds));
    let mut next = began;
    while next < end {
        sleep_until(next).await;
        let cpu_us = if rng.unit() < DEAR_SHARE { DEAR_US } else { CHEAP_US };
        let request = http::Request::get(format!("http://service/work?cpu_us={cpu_us}"));
        let request = request.body(Nothing::new()).expect("a request that can be");
        let (asking, tally, due) = (ask(request), Rc::clone(&tally), next);
        tokio::task::spawn_local(async move {
            let is_good = timeout(PATIENCE, asking).await.unwrap_or(false);
            if due >= counts_from {
                let mut tally = tally.borrow_mut();
                tally.failed += u32::from(!is_good);
                // From when it was due: a late one counts as a slow one.
                tally.took.push(if is_good { due.elapsed() } else { PATIENCE });
            }
        });
        next += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / RATE);
    }
    // Until all of them have ended, one way or the other.
    tokio::time::sleep(PATIENCE + Duration::from_secs(1)).await;
    tally
}

fn summary(tally: &Tally) -> String {
    let mut took = tally.took.clone();
    took.sort_unstable();
    let at = |share: f64| took.get((took.len() as f64 * share) as usize).map_or(0.0, |took| took.as_secs_f64() * 1e3);
    let failed_share = f64::from(tally.failed) / (took.len().max(1)) as f64;
    json!({ "p50_ms": at(0.5), "p99_ms": at(0.99), "p999_ms": at(0.999), "failed_share": failed_share }).to_string()
}

pub(super) const PROXY: &str = "proxy";
pub(super) const TOWER: &str = "tower_peak_ewma";
const PROXY_CONNECTIONS: usize = 8;
/// As tower's own documentation has them.
const RTT: Duration = Duration::from_millis(30);
const DECAY_NS: f64 = 1e10;
const CHEAP_US: u32 = 2_000;
const DEAR_US: u32 = 40_000;
const DEAR_SHARE: f64 = 0.05;
/// Three quarters of 15 processors of speed 1, at 3.9 ms.
const RATE: f64 = 0.75 * 15.0 / 3.9e-3;
/// Share of the time that does not count: weights are being learned.
const SETTLING: f64 = 0.25;
const PATIENCE: Duration = Duration::from_secs(3);
