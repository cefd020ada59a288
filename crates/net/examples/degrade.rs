//! A search that looks through less of its corpus when there is too much to do, and says so on its answers (B1):
//! `cargo run --release -p evenkeel --example degrade`.
//!
//! The server has a thread of its own. It is asked for half of what it can do, for all of it, and for half more.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::body::{BoxError, empty};
use evenkeel::wire::names;
use evenkeel::{CallError, Channel, Context, Server};
use evenkeel_core::server::Usage;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{Service, service_fn};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (corpus, full) = corpus_that_takes_a_while();
    println!("a search of all {} documents takes {:.1} ms", corpus.len(), full.as_secs_f64() * 1e3);

    let (ready, address) = std::sync::mpsc::channel();
    std::thread::spawn(move || serve(corpus, &ready));
    let channel = Channel::connect("search", [address.recv()?]).await?;

    println!("{:>5} {:>8} {:>8} {:>8} {:>8}", "load", "full", "degraded", "refused", "failed");
    for load in [0.5, 1.0, 1.5] {
        let [whole, degraded, refused, failed] = drive(&channel, full.div_f64(load)).await;
        println!("{load:>4}x {whole:>8} {degraded:>8} {refused:>8} {failed:>8}");
    }
    Ok(())
}

/// What is asked of the task: the less of the corpus, the higher the level.
fn search(corpus: &[String], word: &str) -> String {
    let context = Context::current().unwrap_or_default();
    let level = context.degrade().min(3);
    if level > 0 {
        context.mark_degraded(level);
    }
    let part = corpus.len() * (4 - usize::from(level)) / 4;
    format!("{} of {part}\n", matches(&corpus[..part], word))
}

fn matches(corpus: &[String], word: &str) -> usize {
    corpus.iter().filter(|document| document.contains(word)).count()
}

/// A server on one processor: with more threads it would tell how many there are by itself.
fn serve(corpus: Arc<[String]>, ready: &std::sync::mpsc::Sender<SocketAddr>) -> Result<(), BoxError> {
    // Searches compute without a pause: after each few of them the runtime is to see what has arrived.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(3).build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        ready.send(listener.local_addr()?)?;
        let service = service_fn(move |request: http::Request<Incoming>| {
            let corpus = Arc::clone(&corpus);
            async move {
                let word = request.uri().query().unwrap_or_default();
                Ok::<_, Infallible>(http::Response::new(search(&corpus, word)))
            }
        });
        let usage = || Usage { processors: Some(1.0), ..Usage::default() };
        Server::new().with_usage(usage).serve(listener, service).await
    })
}

/// Asks once in each gap, whatever becomes of it: full, degraded, refused and failed.
async fn drive(channel: &Channel, gap: Duration) -> [u64; 4] {
    let mut ticks = tokio::time::interval(TICK);
    let (began, mut asked, mut asking) = (Instant::now(), 0, JoinSet::new());
    while began.elapsed() < LASTS {
        ticks.tick().await;
        while gap * asked < began.elapsed() {
            asking.spawn(ask(channel.clone()));
            asked += 1;
        }
    }
    let mut counts = [0; 4];
    for end in asking.join_all().await {
        counts[end as usize] += 1;
    }
    counts
}

enum End {
    Full,
    Degraded,
    Refused,
    Failed,
}

async fn ask(mut channel: Channel) -> End {
    let request = http::Request::get("/search?keel").body(empty()).expect("a path is a target");
    let context = Context::default().with_deadline(tokio::time::Instant::now() + DEADLINE);
    let (head, body) = match context.scope(channel.call(request)).await {
        Ok(response) => response.into_parts(),
        Err(CallError::Refused(_)) => return End::Refused,
        Err(_) => return End::Failed,
    };
    match body.collect().await {
        Err(_) => End::Failed,
        Ok(_) if head.headers.contains_key(names::REFUSED) => End::Refused,
        Ok(_) if head.headers.contains_key(names::DEGRADED) => End::Degraded,
        Ok(_) => End::Full,
    }
}

/// Large enough that searches are most of the work, however fast the machine and the build.
fn corpus_that_takes_a_while() -> (Arc<[String]>, Duration) {
    let mut count = DOCUMENTS_LEAST;
    loop {
        let corpus: Arc<[String]> = (0..count).map(document).collect();
        let full = full_search(&corpus);
        if full >= SEARCH_LEAST {
            return (corpus, full);
        }
        count *= 2;
    }
}

fn document(number: usize) -> String {
    let word = ["hull", "mast", "keel", "sail"][number % 4];
    format!("document {number}: of ships and the sea, and what a {word} is good for in a storm").repeat(2)
}

/// The mean of some, so that loads are shares of what can be done.
fn full_search(corpus: &[String]) -> Duration {
    let began = Instant::now();
    let found: usize = (0..RUNS).map(|_| matches(corpus, "keel")).sum();
    assert_eq!(found, RUNS as usize * corpus.len() / 4, "every fourth document has it");
    began.elapsed() / RUNS
}

const DOCUMENTS_LEAST: usize = 4_000;
const SEARCH_LEAST: Duration = Duration::from_millis(3);
const RUNS: u32 = 50;
const TICK: Duration = Duration::from_millis(2);
const LASTS: Duration = Duration::from_secs(3);
const DEADLINE: Duration = Duration::from_secs(1);
