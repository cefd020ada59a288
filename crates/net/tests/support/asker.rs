//! A client of datagrams, written by hand: it is handed a key on a watch stream, and asks.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::wire::datagram::{Datagram, Key, Kind, LENGTH, Sealed};
use evenkeel::wire::grpc::{self, Handover, WatchEvent};
use evenkeel_core::{Announcement, LoadReport, Readiness};
use tokio::net::{TcpStream, UdpSocket};

pub(crate) struct Asker {
    pub(crate) socket: UdpSocket,
    pub(crate) to: SocketAddr,
    pub(crate) handover: Handover,
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) heard: Announcement,
    pub(crate) time: u32,
}

/// The first event of a watch stream, which then ends.
pub(crate) async fn first_event(server: SocketAddr) -> WatchEvent {
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{server}{}", grpc::WATCH_PATH));
    let request = request.header("content-type", "application/grpc").body(()).unwrap();
    let (answer, _acks) = client.send_request(request, false).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut arrived = BytesMut::new();
    loop {
        let bytes: Bytes = body.data().await.unwrap().unwrap();
        arrived.extend_from_slice(&bytes);
        if let Some(event) = grpc::unframe::<WatchEvent>(&mut arrived, 4096).unwrap() {
            connection.abort();
            return event;
        }
    }
}

impl Asker {
    /// Connects to be handed a key, and lets the connection go.
    pub(crate) async fn meet(server: SocketAddr) -> Asker {
        let event = first_event(server).await;
        let handover = event.datagrams.expect("the server has datagrams");
        Asker {
            socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(),
            to: SocketAddr::new(server.ip(), handover.port.try_into().unwrap()),
            key: Key::from_slice(&handover.key_bytes).unwrap(),
            sequence: 0,
            heard: Announcement { process: event.process, number: event.sequence as u32 },
            time: handover.time,
            handover,
        }
    }

    /// The next question.
    pub(crate) fn question(&mut self) -> [u8; LENGTH] {
        self.sequence += 1;
        let question = Datagram {
            kind: Kind::Question,
            secret: self.handover.secret,
            key: self.handover.key,
            sequence: self.sequence,
            announcement: self.heard,
            time: self.time,
            readiness: Readiness::LameDuck,
            remembered: false,
            every: Duration::from_secs(10),
            report: LoadReport::default(),
        };
        question.seal(&self.key)
    }

    pub(crate) async fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to).await.unwrap();
    }

    /// Whatever comes next, as it is.
    pub(crate) async fn receive(&self) -> Vec<u8> {
        let mut buffer = [0; 2048];
        let receiving = self.socket.recv_from(&mut buffer);
        let (length, from) =
            tokio::time::timeout(Duration::from_secs(60), receiving).await.expect("something comes").unwrap();
        assert_eq!(from, self.to, "it comes from where was asked");
        buffer[..length].to_vec()
    }

    /// The next one that is vouched for.
    pub(crate) async fn hear(&mut self) -> Datagram {
        let bytes = self.receive().await;
        assert_eq!(bytes.len(), LENGTH);
        let heard = Sealed::read(&bytes).unwrap().open(&self.key).expect("the key vouches for it");
        self.time = heard.time;
        heard
    }

    /// The next answer; says whether pushes came before it.
    pub(crate) async fn ask(&mut self) -> Datagram {
        let question = self.question();
        self.send(&question).await;
        loop {
            let heard = self.hear().await;
            if heard.kind == Kind::Answer {
                assert_eq!(heard.sequence, self.sequence, "nothing else was answered");
                return heard;
            }
        }
    }
}
