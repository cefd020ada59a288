//! Datagrams at a server on real sockets: who is answered, who is remembered, who is pushed to.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::asker::{Asker, first_event};
use crate::support::{listener, until};
use evenkeel::Server;
use evenkeel::server::{DatagramSnapshot, Handle, Secret};
use evenkeel::wire::datagram::{Kind, LENGTH, Sealed};
use evenkeel_core::server::PeersConfig;
use evenkeel_core::{Readiness, ServerConfig};
use http_body_util::Empty;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;
use tower::service_fn;

struct Task {
    address: SocketAddr,
    handle: Handle,
    serving: JoinHandle<()>,
}

impl Task {
    async fn datagrams(&self) -> DatagramSnapshot {
        self.handle.datagrams().await.unwrap()
    }
}

async fn start(server: Server) -> Task {
    start_on(listener().await, server)
}

fn start_on(listener: TcpListener, server: Server) -> Task {
    let address = listener.local_addr().unwrap();
    let server = server.without_signals();
    let handle = server.handle();
    let service = service_fn(|_| async { Ok::<_, Infallible>(http::Response::new(Empty::<bytes::Bytes>::new())) });
    let serving = tokio::spawn(async move { server.serve(listener, service).await.unwrap() });
    Task { address, handle, serving }
}

fn secret(byte: u8) -> Secret {
    Secret::from_bytes([byte; 32])
}

#[tokio::test]
async fn a_question_is_answered_with_a_report_and_the_client_remembered() {
    for server in [Server::new(), Server::new().per_core()] {
        let task = start(server).await;
        let mut asker = Asker::meet(task.address).await;

        let answer = asker.ask().await;

        assert_eq!((answer.readiness, answer.remembered), (Readiness::Ready, true));
        assert_eq!(answer.announcement, asker.heard);
        assert_eq!(answer.report.in_flight, Some(0));
        until("its report has figures", async || asker.ask().await.report.processors.is_some()).await;
        let snapshot = task.datagrams().await;
        assert_eq!((snapshot.peers.known, snapshot.peers.unreached, snapshot.port), (1, 0, task.address.port()));
        assert_eq!(snapshot.answered, asker.sequence);
    }
}

#[tokio::test]
async fn every_stream_is_handed_a_key_of_its_own() {
    let task = start(Server::new().with_datagram_secret(secret(7))).await;

    let [first, second] = [first_event(task.address).await, first_event(task.address).await];

    assert!(first.process > 0 && first.process == second.process);
    let [first, second] = [first, second].map(|event| event.datagrams.unwrap());
    assert_eq!((first.secret, first.version), (secret(7).id(), 1));
    assert_ne!(first.key, second.key);
    assert_ne!(first.key_bytes, second.key_bytes);
}

#[tokio::test]
async fn without_datagrams_nothing_is_handed_over() {
    let task = start(Server::new().without_datagrams()).await;

    assert_eq!(first_event(task.address).await.datagrams, None);
    assert_eq!(task.handle.datagrams().await, None);
    assert!(UdpSocket::bind(task.address).await.is_ok());
}

#[tokio::test]
async fn what_no_key_vouches_for_changes_nothing_and_is_not_answered() {
    let task = start(Server::new()).await;
    let mut asker = Asker::meet(task.address).await;
    asker.ask().await;
    let before = task.datagrams().await;

    let question = asker.question();
    for place in (0..LENGTH).filter(|place| !(4..8).contains(place)) {
        let mut forged = question;
        forged[place] ^= 1;
        asker.send(&forged).await;
    }
    for length in [0, 1, 15, LENGTH - 1] {
        asker.send(&question[..length]).await;
    }
    let oversized = [&question[..], &[0]].concat();
    asker.send(&oversized).await;
    asker.send(&[0x5a; 9_000]).await;
    asker.sequence -= 1;

    let answer = asker.ask().await;
    assert!(answer.remembered, "the first thing that comes is the answer to a genuine question");
    let after = task.datagrams().await;
    // Two in the version and the kind, four too short, two too long.
    assert_eq!((after.malformed - before.malformed, after.forged), (2 + 4 + 2, LENGTH as u64 - 4 - 2));
    assert_eq!((after.answered, after.peers.known), (before.answered + 1, 1));
    assert_eq!((after.resets, after.unsent), (0, 0));
}

#[tokio::test]
async fn what_was_sent_before_is_not_answered_wherever_it_comes_from() {
    let task = start(Server::new()).await;
    let mut asker = Asker::meet(task.address).await;
    let question = asker.question();
    asker.send(&question).await;
    asker.hear().await;
    let thief = UdpSocket::bind("127.0.0.1:0").await.unwrap();

    for _ in 0..10 {
        asker.send(&question).await;
        thief.send_to(&question, asker.to).await.unwrap();
    }

    asker.ask().await;
    until("all were seen", async || task.datagrams().await.peers.replayed == 20).await;
    task.handle.lame_duck();
    assert_eq!(asker.hear().await.kind, Kind::Push);
    assert!(thief.try_recv_from(&mut [0; LENGTH]).is_err(), "nothing ever went there");
}

#[tokio::test]
async fn a_client_that_moved_is_pushed_to_where_it_is() {
    let task = start(Server::new()).await;
    let mut asker = Asker::meet(task.address).await;
    asker.ask().await;
    asker.socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    asker.ask().await;

    task.handle.lame_duck();

    assert_eq!(asker.hear().await.kind, Kind::Push);
    assert_eq!(task.datagrams().await.peers.known, 1);
}

#[tokio::test]
async fn answers_and_pushes_leave_from_the_address_that_was_asked() {
    for everywhere in ["0.0.0.0:0", "[::]:0"] {
        let Ok(listener) = TcpListener::bind(everywhere).await else { continue };
        let task = start_on(listener, Server::new());
        let at = SocketAddr::new([127, 0, 0, 2].into(), task.address.port());
        let mut asker = Asker::meet(at).await;
        assert!(asker.ask().await.remembered);

        task.handle.lame_duck();

        assert_eq!(asker.hear().await.kind, Kind::Push, "which looks where it came from");
    }
}

#[tokio::test]
async fn another_secret_is_answered_with_a_reset_that_only_the_asker_can_know() {
    let [old, new] = [start(Server::new()).await, start(Server::new()).await];
    let mut asker = Asker::meet(old.address).await;
    asker.to = new.address;
    let question = asker.question();

    asker.send(&question).await;

    let bytes = asker.receive().await;
    let (before, reset) = (Sealed::read(&question).unwrap(), Sealed::read(&bytes).unwrap());
    assert_eq!((bytes.len(), reset.kind()), (LENGTH, Kind::Reset));
    assert_eq!((reset.sequence(), reset.key(), reset.tag()), (before.sequence(), before.key(), before.tag()));
    assert_eq!(new.datagrams().await.peers.known, 0);

    for _ in 0..2_000 {
        asker.send(&question).await;
    }
    until("resets are limited in rate", async || {
        let snapshot = new.datagrams().await;
        snapshot.resets_withheld > 0 && snapshot.resets + snapshot.resets_withheld >= 1_000
    })
    .await;
}

#[tokio::test]
async fn a_restart_with_the_same_secret_keeps_keys_valid() {
    let old = start(Server::new().with_datagram_secret(secret(9))).await;
    let mut asker = Asker::meet(old.address).await;
    asker.ask().await;
    old.handle.stop();
    old.serving.await.unwrap();
    let new = start(Server::new().with_datagram_secret(secret(9))).await;
    asker.to = new.address;
    // The old one told it that it leaves.
    asker.socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();

    let answer = asker.ask().await;
    assert!(answer.announcement > asker.heard, "a later process");
    assert!(!answer.remembered, "what it repeats is of another process");
    assert_eq!(new.datagrams().await.peers.known, 0);

    asker.heard = answer.announcement;
    assert!(asker.ask().await.remembered);
}

#[tokio::test]
async fn a_lame_duck_is_pushed_until_it_is_acknowledged() {
    let task = start(Server::new()).await;
    let mut asker = Asker::meet(task.address).await;
    asker.ask().await;

    task.handle.lame_duck();
    for _ in 0..3 {
        let push = asker.hear().await;
        assert_eq!((push.kind, push.sequence, push.readiness), (Kind::Push, 0, Readiness::LameDuck));
        assert_eq!(push.announcement.number, asker.heard.number + 1);
    }
    asker.heard.number += 1;
    asker.ask().await;

    let peers = task.datagrams().await.peers;
    assert_eq!((peers.unreached, peers.acknowledged, peers.given_up), (0, 1, 0));
    assert!((3..=6).contains(&peers.pushes), "{peers:?}");
}

#[tokio::test]
async fn a_stop_waits_for_acknowledgements_and_not_for_those_who_have_gone() {
    let config = ServerConfig { drain_least: Duration::ZERO, ..ServerConfig::default() };
    for acknowledges in [true, false] {
        let task = start(Server::new().with_config(config.clone())).await;
        let mut asker = Asker::meet(task.address).await;
        asker.ask().await;
        let began = Instant::now();

        task.handle.stop();
        assert_eq!(asker.hear().await.readiness, Readiness::LameDuck);
        if acknowledges {
            asker.heard.number += 1;
            let question = asker.question();
            asker.send(&question).await;
        }
        task.serving.await.unwrap();

        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(acknowledges || took >= Duration::from_millis(650), "all repeats were waited for: {took:?}");
        assert!(UdpSocket::bind(task.address).await.is_ok(), "the port is free again");
    }
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_nothing_behind() {
    let task = start(Server::new()).await;
    let mut asker = Asker::meet(task.address).await;
    asker.ask().await;

    task.serving.abort();

    until("its port is free again", async || UdpSocket::bind(task.address).await.is_ok()).await;
}

#[tokio::test]
async fn a_crowd_takes_a_bounded_table_and_a_flood_a_bounded_rate() {
    let peers = PeersConfig { most: 100, ..PeersConfig::default() };
    let config = ServerConfig { peers, ..ServerConfig::default() };
    let task = start(Server::new().with_config(config).with_datagram_secret(secret(3))).await;
    let mut asker = Asker::meet(task.address).await;

    // As many clients, each with a key of its own; none of the answers is larger than its question.
    for number in 0..1_000 {
        (asker.handover.key, asker.key) = (number, secret(3).key(number));
        let answer = asker.ask().await;
        assert!(answer.remembered);
    }
    let crowded = task.datagrams().await;
    assert_eq!((crowded.peers.known, crowded.peers.evicted), (100, 900));

    let mut forged = asker.question();
    forged[LENGTH - 1] ^= 1;
    let began = Instant::now();
    for _ in 0..50_000 {
        // A full buffer is what is to be seen.
        drop(asker.socket.try_send_to(&forged, asker.to));
        if began.elapsed().as_millis().is_multiple_of(2) {
            tokio::task::yield_now().await;
        }
    }
    until("a genuine question gets through again", async || {
        let question = asker.question();
        asker.send(&question).await;
        tokio::time::timeout(Duration::from_millis(100), asker.hear()).await.is_ok()
    })
    .await;
    let flooded = task.datagrams().await;
    let most = 2_048.0 * 2.0 + 20_000.0 * began.elapsed().as_secs_f64();
    assert!((flooded.forged as f64) <= most, "{flooded:?} in {:?}", began.elapsed());
    assert_eq!(flooded.peers.known, 100);
}
