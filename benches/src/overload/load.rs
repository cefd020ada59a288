//! The process of those who ask: as often as they are told to, whatever becomes of it, and what they were answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_core::Rng;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::clock::{cores, pin};
use crate::process;

type Nothing = http_body_util::Empty<bytes::Bytes>;

/// What came of the requests that were sent while it counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Answers in time, a second.
    pub per_second: f64,
    /// Of the critical requests, how many were answered in time.
    pub critical_share: f64,
    /// Of the answers in time.
    pub p99_ms: f64,
}

impl Served {
    /// What a role said.
    ///
    /// # Errors
    /// It said something else.
    pub fn read(line: &str) -> std::io::Result<Self> {
        let said: serde_json::Value = serde_json::from_str(line)?;
        let number =
            |name: &str| said[name].as_f64().ok_or_else(|| std::io::Error::other(format!("no {name}: {line}")));
        let (per_second, critical_share) = (number("per_second")?, number("critical_share")?);
        Ok(Served { per_second, critical_share, p99_ms: number("p99_ms")? })
    }
}

/// Requests of one criticality.
#[derive(Default)]
struct Tally {
    sent: u32,
    took: Vec<Duration>,
}

/// Two callers that wait for each answer: how many a second.
pub fn pace(address: &str, seconds: &str) -> Result<(), String> {
    let span = Duration::from_secs(seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?);
    run_here(async {
        let connections = connect(address, 2).await?;
        let answered = RefCell::new(0_u32);
        let end = Instant::now() + span;
        let caller = async |connection: &SendRequest<Nothing>| {
            while Instant::now() < end {
                ask(connection.clone(), true).await.ok_or("a server with room answers")?;
                *answered.borrow_mut() += 1;
            }
            Ok::<_, String>(())
        };
        tokio::try_join!(caller(&connections[0]), caller(&connections[1]))?;
        process::say(&(f64::from(answered.take()) / span.as_secs_f64()).to_string());
        Ok(())
    })
}

/// Asks at these rates, critical and other, to settle and then to count.
pub fn run(address: &str, arguments: &[String]) -> Result<(), String> {
    let numbers: Result<Vec<f64>, _> = arguments.iter().map(|text| text.parse()).collect();
    let Ok(&[critical, other, settling, counted]) = numbers.as_deref() else {
        return Err(format!("{arguments:?} are not two rates and two spans"));
    };
    run_here(async {
        let connections = connect(address, CONNECTIONS).await?;
        let tallies: Rc<[RefCell<Tally>; 2]> = Rc::default();
        let (mut rng, mut asked, mut began) = (Rng::from_seed(1), 0, None);
        let counts_from = Instant::now() + Duration::from_secs_f64(settling);
        let end = counts_from + Duration::from_secs_f64(counted);
        let mut next = Instant::now();
        while next < end {
            sleep_until(next).await;
            let (is_critical, counts) = (rng.unit() < critical / (critical + other), next >= counts_from);
            let (connection, tallies) = (connections[asked % CONNECTIONS].clone(), Rc::clone(&tallies));
            if counts {
                began.get_or_insert_with(Instant::now);
                tallies[usize::from(is_critical)].borrow_mut().sent += 1;
            }
            tokio::task::spawn_local(async move {
                let took = ask(connection, is_critical).await;
                if counts {
                    tallies[usize::from(is_critical)].borrow_mut().took.extend(took);
                }
            });
            asked += 1;
            // Nobody waits for another: arrivals at random, at this rate.
            next += Duration::from_secs_f64(-(1.0 - rng.unit()).ln() / (critical + other));
        }
        // Longer than planned where this core was too busy to ask as often.
        let seconds = began.map_or(counted, |began: Instant| began.elapsed().as_secs_f64());
        tokio::time::sleep(PATIENCE * 2).await;
        process::say(&summary(&tallies, seconds));
        Ok(())
    })
}

fn summary(tallies: &[RefCell<Tally>; 2], seconds: f64) -> String {
    let critical = tallies[1].borrow();
    let critical_share = critical.took.len() as f64 / f64::from(critical.sent.max(1));
    let mut took = [&tallies[0].borrow().took[..], &critical.took[..]].concat();
    took.sort_unstable();
    let p99 = took.get(took.len() * 99 / 100).map_or(0.0, Duration::as_secs_f64);
    let per_second = took.len() as f64 / seconds;
    json!({ "per_second": per_second, "critical_share": critical_share, "p99_ms": p99 * 1e3 }).to_string()
}

fn run_here(work: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    pin(cores()[0]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(LocalSet::new().run_until(work))
}

async fn connect(address: &str, connections: usize) -> Result<Vec<SendRequest<Nothing>>, String> {
    let mut connected = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let made = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        tokio::spawn(made.1);
        connected.push(made.0);
    }
    Ok(connected)
}

/// How long it took, if it was answered in time with anything but a refusal.
async fn ask(mut connection: SendRequest<Nothing>, is_critical: bool) -> Option<Duration> {
    let criticality = if is_critical { "CRITICAL" } else { "SHEDDABLE" };
    let request = http::Request::get("http://service/").header("evenkeel-criticality", criticality);
    let request = request.body(Nothing::new()).ok()?;
    let began = Instant::now();
    let answer = timeout(PATIENCE, connection.send_request(request)).await.ok()?.ok()?;
    answer.status().is_success().then(|| began.elapsed())
}

const CONNECTIONS: usize = 16;
const PATIENCE: Duration = Duration::from_millis(500);
