//! A server by itself: where it listens, when it is ready, what it reports, how it drains.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::plain;
use crate::plain::{fetch, get};
use crate::support::{listener, until};
use evenkeel::body::{BoxError, empty};
use evenkeel::server::{Accept, Handle};
use evenkeel::{Channel, Server};
use evenkeel_core::server::{Phase, Usage};
use evenkeel_core::{LoadReport, Readiness, ServerConfig};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::{Service, service_fn};

/// Lets one request to `/held` go.
static RELEASE: Notify = Notify::const_new();

type Ended = JoinHandle<Result<(), BoxError>>;

/// Answers with the thread it runs on, after as many milliseconds as the path says.
async fn start(server: Server) -> (SocketAddr, Handle, Ended) {
    let listener = listener().await;
    let (address, handle) = (listener.local_addr().unwrap(), server.handle());
    let serving = server.without_signals().serve(listener, service_fn(answer));
    (address, handle, tokio::spawn(serving))
}

async fn answer(request: http::Request<Incoming>) -> Result<http::Response<String>, Infallible> {
    if request.uri().path() == "/held" {
        RELEASE.notified().await;
    }
    let millis = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    Ok(http::Response::new(std::thread::current().name().unwrap_or("?").to_owned()))
}

async fn phase(handle: &Handle) -> Option<Phase> {
    handle.snapshot().await.map(|snapshot| snapshot.phase)
}

fn report(head: &http::response::Parts) -> LoadReport {
    evenkeel::wire::orca::read(&head.headers).unwrap()
}

#[tokio::test]
async fn it_listens_at_an_address_in_any_form_and_is_ready_at_once() {
    let free = async || listener().await.local_addr().unwrap();
    let (one, two, three) = (free().await, free().await, free().await);
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let four = own.local_addr().unwrap();
    let text: &'static str = Box::leak(two.to_string().into_boxed_str());

    tokio::spawn(Server::new().without_signals().serve(one, service_fn(answer)));
    tokio::spawn(Server::new().without_signals().serve(text, service_fn(answer)));
    tokio::spawn(Server::new().without_signals().serve(three.to_string(), service_fn(answer)));
    tokio::spawn(Server::new().without_signals().serve(own, service_fn(answer)));

    for address in [one, two, three, four] {
        until("it listens", async || tokio::net::TcpStream::connect(address).await.is_ok()).await;
        assert!(!fetch(address, "/").await.0.headers.contains_key("evenkeel-state"));
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error() {
    let taken = listener().await;
    let address = taken.local_addr().unwrap();

    assert!(Server::new().without_signals().serve(address, service_fn(answer)).await.is_err());
}

#[tokio::test]
async fn warming_keeps_it_a_lame_duck_that_serves() {
    let (warm, warming) = oneshot::channel();
    let (address, handle, _serving) = start(Server::new().prewarm(async { warming.await.unwrap() })).await;

    let (head, _) = fetch(address, "/").await;
    assert_eq!(
        (head.status.as_u16(), &head.headers["evenkeel-state"]),
        (200, &http::HeaderValue::from_static("lame_duck"))
    );
    assert_eq!(phase(&handle).await, Some(Phase::Starting));

    warm.send(()).unwrap();
    until("it is ready", async || phase(&handle).await == Some(Phase::Serving)).await;
}

#[tokio::test]
async fn warming_that_fails_ends_it() {
    let (_, _, serving) = start(Server::new().prewarm(async { panic!("no index") })).await;

    assert!(serving.await.unwrap().is_err());
}

#[tokio::test]
async fn a_program_may_say_itself_when_it_is_ready() {
    let (address, handle, _serving) = start(Server::new().ready_later()).await;
    assert!(fetch(address, "/").await.0.headers.contains_key("evenkeel-state"));
    assert_eq!(phase(&handle).await, Some(Phase::Starting));

    handle.ready();

    assert_eq!(phase(&handle).await, Some(Phase::Serving));
    assert_eq!(Phase::Serving.readiness(), Readiness::Ready);
}

#[tokio::test]
async fn what_the_source_says_is_reported_and_the_rest_is_read() {
    let usage = || Usage { utilization: Some(0.0), runnable: Some(3.0), ..Usage::default() };
    let (told, _, _serving) = start(Server::new().with_usage(usage)).await;
    let (own, _, _also) = start(Server::new()).await;

    until("it reports", async || report(&fetch(told, "/").await.0).runnable == Some(3.0)).await;
    let told = report(&fetch(told, "/").await.0);
    assert_eq!((told.utilization, told.in_flight), (Some(0.0), Some(1)));
    assert!(told.processors.is_some_and(|count| count >= 1.0), "of the machine: {told:?}");
    until("the process is read", async || report(&fetch(own, "/").await.0).utilization.is_some()).await;
    let own = report(&fetch(own, "/").await.0);
    assert!(own.processors.is_some_and(|count| count >= 1.0) && own.runnable.is_some(), "{own:?}");
}

#[tokio::test]
async fn a_handler_is_cut_when_nobody_waits_for_it_any_more() {
    let (address, handle, _serving) = start(Server::new()).await;
    let mut request = get("/60000");
    request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", http::HeaderValue::from_static("20"));

    let answer = plain::http1(address).await.send_request(request).await.unwrap();

    assert_eq!(answer.status(), 504);
    assert_eq!(handle.snapshot().await.unwrap().in_flight, 0);
}

fn draining(silent: Duration) -> Server {
    let least = Duration::from_millis(20);
    Server::new().with_config(ServerConfig {
        drain_least: least,
        drain_least_silent: silent,
        ..ServerConfig::default()
    })
}

#[tokio::test]
async fn clients_of_ours_are_not_waited_for_longer_than_they_need() {
    let (address, handle, serving) = start(draining(Duration::from_secs(20))).await;
    let _channel = Channel::connect("service", [address]).await.unwrap();
    until("nobody is silent", async || handle.snapshot().await.unwrap().silent == Some(0)).await;
    let began = Instant::now();

    handle.stop();
    serving.await.unwrap().unwrap();

    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn clients_that_cannot_acknowledge_are_given_time_and_served_meanwhile() {
    let least = Duration::from_millis(600);
    for is_gone in [true, false] {
        let (address, handle, serving) = start(draining(least)).await;
        let mut stranger = plain::http1(address).await;
        stranger.send_request(get("/")).await.unwrap();
        let kept = (!is_gone).then_some(stranger);
        // However long the late one takes, the server is there.
        let mut channel = Channel::connect("service", [address]).await.unwrap();
        let held = tokio::spawn(async move { channel.call(get("/held")).await.unwrap().status() });
        until("one is held", async || handle.snapshot().await.unwrap().in_flight == 1).await;
        let began = Instant::now();

        handle.stop();
        until("it is leaving", async || phase(&handle).await == Some(Phase::Stopping)).await;
        assert_eq!(fetch(address, "/").await.0.status, 200, "one who comes late");
        RELEASE.notify_one();
        assert_eq!(held.await.unwrap(), 200);
        serving.await.unwrap().unwrap();

        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
        drop(kept);
    }
}

#[tokio::test]
async fn cores_share_the_connections_and_drain_like_one() {
    let (address, handle, serving) = start(draining(Duration::from_millis(300)).per_core()).await;
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut names = BTreeSet::new();
    for _ in 0..2 * cores {
        names.insert(fetch(address, "/").await.1);
    }
    let expected: BTreeSet<String> = (0..cores).map(|number| format!("evenkeel-core-{number}")).collect();
    assert_eq!(names, expected);

    let mut sender = plain::http2(address).await;
    let slow = sender.send_request(get("/400"));
    let slow = tokio::spawn(slow);
    until("it is in flight", async || handle.snapshot().await.unwrap().in_flight == 1).await;
    handle.stop();
    assert!(slow.await.unwrap().is_ok(), "what is in flight is answered");
    serving.await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn cores_end_with_a_server_that_is_aborted() {
    let (address, _, serving) = start(Server::new().per_core()).await;
    let mut held = plain::http2(address).await;
    held.send_request(get("/")).await.unwrap();

    serving.abort();

    until("its connections are gone", async || held.send_request(get("/")).await.is_err()).await;
}

/// Connections made inside this process: what a deterministic network test would put here.
struct InMemory(mpsc::Receiver<DuplexStream>);

impl Accept for InMemory {
    type Stream = TokioIo<DuplexStream>;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        match self.0.recv().await {
            Some(stream) => Ok(TokioIo::new(stream)),
            None => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn a_listener_of_another_kind_takes_its_place() {
    for server in [Server::new(), Server::new().per_core()] {
        let (connect, connections) = mpsc::channel(1);
        tokio::spawn(server.without_signals().serve(InMemory(connections), service_fn(answer)));
        let (ours, theirs) = tokio::io::duplex(1024);
        connect.send(theirs).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);

        let request = http::Request::get("/").header("host", "service").body(empty()).unwrap();
        let answer = sender.send_request(request).await.unwrap();

        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_says_nothing_or_half_a_preface_is_not_held() {
    let (connect, connections) = mpsc::channel(1);
    tokio::spawn(Server::new().without_signals().serve(InMemory(connections), service_fn(answer)));
    for said in ["", "PRI * HTTP/2.0\r\n"] {
        let (mut ours, theirs) = tokio::io::duplex(1024);
        connect.send(theirs).await.unwrap();
        ours.write_all(said.as_bytes()).await.unwrap();
        let began = Instant::now();

        ours.read_to_end(&mut Vec::new()).await.unwrap();

        assert!((10..12).contains(&began.elapsed().as_secs()), "{said:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn who_cannot_acknowledge_gets_no_watch_but_the_state() {
    let (address, _, _serving) = start(Server::new()).await;
    let watch = get("/evenkeel.v1.Watch/Watch");

    let (head, text) = fetch(address, "/evenkeel.v1.Watch/Watch").await;
    assert_eq!((head.status.as_u16(), text.as_str()), (200, "SERVING\n"));
    let (head, text) = plain::read(plain::http2(address).await.send_request(watch).await.unwrap()).await;
    assert_eq!((head.status.as_u16(), text.as_str()), (200, "SERVING\n"));
}

#[tokio::test]
async fn a_connection_may_become_something_else() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let upgrading = service_fn(|mut request: http::Request<Incoming>| async move {
        tokio::spawn(async move {
            let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
            let (mut from, mut to) = tokio::io::split(TokioIo::new(upgraded));
            tokio::io::copy(&mut from, &mut to).await.unwrap();
        });
        let head = http::Response::builder().status(101).header("connection", "upgrade").header("upgrade", "echo");
        Ok::<_, Infallible>(head.body(String::new()).unwrap())
    });
    let server = Server::new().without_signals().ready_later();
    tokio::spawn(server.serve(listener, upgrading));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();

    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nhello").await.unwrap();

    let mut read = Vec::new();
    until("it echoes", async || {
        stream.read_buf(&mut read).await.unwrap();
        read.ends_with(b"\r\n\r\nhello")
    })
    .await;
    let head = String::from_utf8(read).unwrap().to_lowercase();
    assert!(head.starts_with("http/1.1 101") && head.contains("connection: upgrade"), "{head}");
}
