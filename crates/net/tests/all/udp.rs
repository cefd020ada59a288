//! Datagrams on real sockets of the loopback.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use evenkeel::server::Accept;
use evenkeel::udp::{Batch, Datagrams, Udp};
use evenkeel::wire::datagram::LENGTH;
use tokio::net::{TcpListener, UdpSocket};

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.unwrap()
}

/// Reads until so many have come.
async fn received(udp: &dyn Datagrams, count: usize) -> Vec<(Vec<u8>, SocketAddr, Option<IpAddr>)> {
    let mut all = Vec::new();
    let mut batch = Batch::default();
    while all.len() < count {
        batch.clear();
        within(udp.receive(&mut batch)).await.unwrap();
        all.extend(batch.iter().map(|one| (one.bytes().to_vec(), one.from, one.to)));
    }
    all
}

async fn answers_leave_from_the_address_asked(bound: &str, asked: &str) {
    let udp = Udp::bind(at(bound)).unwrap();
    let port = udp.local_address().unwrap().port();
    let asking = UdpSocket::bind((asked.parse::<IpAddr>().unwrap(), 0)).await.unwrap();
    let asked: IpAddr = asked.parse().unwrap();
    asking.send_to(b"how are you", (asked, port)).await.unwrap();

    let (bytes, from, to) = received(&udp, 1).await.remove(0);
    assert_eq!((bytes.as_slice(), to.map(|to| to.to_canonical())), (&b"how are you"[..], Some(asked)));
    udp.send(b"well", from, to).unwrap();

    let mut buffer = [0; 64];
    let (length, from) = within(asking.recv_from(&mut buffer)).await.unwrap();
    assert_eq!((&buffer[..length], from), (&b"well"[..], SocketAddr::new(asked, port)));
}

#[tokio::test]
async fn an_answer_leaves_from_the_address_that_was_asked() {
    answers_leave_from_the_address_asked("0.0.0.0:0", "127.0.0.1").await;
    answers_leave_from_the_address_asked("0.0.0.0:0", "127.0.0.2").await;
    answers_leave_from_the_address_asked("127.0.0.3:0", "127.0.0.3").await;
}

#[tokio::test]
async fn both_families_are_answered_on_one_socket() {
    if Udp::bind(at("[::1]:0")).is_err() {
        return; // A machine without IPv6.
    }
    answers_leave_from_the_address_asked("[::]:0", "::1").await;
    answers_leave_from_the_address_asked("[::]:0", "127.0.0.2").await;
}

#[tokio::test]
async fn datagrams_keep_their_order_and_their_ends() {
    let udp = Udp::bind(at("127.0.0.1:0")).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let sent: Vec<Vec<u8>> = (0..200_u8).map(|number| vec![number; usize::from(number) % (LENGTH + 1)]).collect();
    for bytes in &sent {
        sender.send_to(bytes, udp.local_address().unwrap()).await.unwrap();
    }

    let all = received(&udp, sent.len()).await;

    assert_eq!(all.into_iter().map(|(bytes, ..)| bytes).collect::<Vec<_>>(), sent);
}

#[tokio::test]
async fn those_that_the_system_hands_over_in_one_piece_come_one_by_one() {
    let udp = Udp::bind(at("127.0.0.1:0")).unwrap();
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let state = quinn_udp::UdpSocketState::new((&sender).into()).unwrap();
    let segments = state.max_gso_segments().min(60);
    let contents: Vec<u8> = (0..segments).flat_map(|number| [number as u8; LENGTH]).collect();
    let transmit = quinn_udp::Transmit {
        destination: udp.local_address().unwrap(),
        ecn: None,
        contents: &contents,
        segment_size: Some(LENGTH),
        src_ip: None,
    };
    state.try_send((&sender).into(), &transmit).unwrap();

    let all = received(&udp, segments).await;

    let expected: Vec<Vec<u8>> = (0..segments).map(|number| vec![number as u8; LENGTH]).collect();
    assert_eq!(all.into_iter().map(|(bytes, ..)| bytes).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn what_is_longer_than_any_of_ours_is_seen_as_such() {
    let udp = Udp::bind(at("127.0.0.1:0")).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for length in [LENGTH, LENGTH + 1, 1_400, 65_000] {
        sender.send_to(&vec![7; length], udp.local_address().unwrap()).await.unwrap();
    }

    let lengths: Vec<usize> = received(&udp, 4).await.iter().map(|(bytes, ..)| bytes.len()).collect();

    assert_eq!(lengths, [LENGTH, 0, 0, 0]);
}

#[tokio::test]
async fn a_listener_has_datagrams_on_its_own_port_or_on_another_if_that_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let beside = listener.datagrams().unwrap().unwrap();
    assert_eq!(beside.local_address().unwrap(), address);

    let elsewhere = listener.datagrams().unwrap().unwrap();

    let other = elsewhere.local_address().unwrap();
    assert!(other.ip() == address.ip() && other.port() != address.port());
}
