//! An endpoint on a socket whose network is the test.

use std::io;

use evenkeel_core::{LoadReport, Readiness};

use super::*;
use crate::client::post::Heard;
use crate::udp::Receiving;
use crate::wire::datagram::{Datagram, Kind, LENGTH, Secret};

/// A socket whose network is the test.
#[derive(Debug)]
struct Loose {
    incoming: tokio::sync::Mutex<mpsc::UnboundedReceiver<(Vec<u8>, SocketAddr)>>,
    outgoing: mpsc::UnboundedSender<([u8; LENGTH], SocketAddr)>,
}

impl Datagrams for Loose {
    fn receive<'a>(&'a self, batch: &'a mut Batch) -> Receiving<'a> {
        Box::pin(async move {
            let next = self.incoming.lock().await.recv().await;
            let (bytes, from) = next.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
            batch.push(&bytes, from, None);
            Ok(())
        })
    }

    fn send(&self, bytes: &[u8], to: SocketAddr, _from: Option<IpAddr>) -> io::Result<()> {
        let bytes = bytes.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        self.outgoing.send((bytes, to)).map_err(|_| io::ErrorKind::NotConnected.into())
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        Ok(address(1))
    }
}

/// An endpoint, what it sends, and what is sent to it.
struct Network {
    endpoint: Arc<Endpoint>,
    sent: mpsc::UnboundedReceiver<([u8; LENGTH], SocketAddr)>,
    arriving: mpsc::UnboundedSender<(Vec<u8>, SocketAddr)>,
}

fn network() -> Network {
    let (arriving, incoming) = mpsc::unbounded_channel();
    let (outgoing, sent) = mpsc::unbounded_channel();
    let socket = Loose { incoming: tokio::sync::Mutex::new(incoming), outgoing };
    Network { endpoint: Endpoint::new(Arc::new(socket)), sent, arriving }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 8080))
}

fn introduction(backend: u8, key_number: u64) -> Introduction {
    let secret = Secret::from_bytes([backend; 32]);
    let (id, key) = (secret.id(), secret.key(key_number));
    Introduction { address: address(backend), process: 1, secret: id, key_number, key, time: 0 }
}

fn push(backend: u8, key: u64) -> Vec<u8> {
    let secret = Secret::from_bytes([backend; 32]);
    let said = Datagram {
        kind: Kind::Push,
        secret: secret.id(),
        key,
        sequence: 0,
        announcement: Announcement { process: 1, number: 1 },
        time: 0,
        readiness: Readiness::LameDuck,
        remembered: true,
        every: Duration::ZERO,
        report: LoadReport::default(),
    };
    said.seal(&secret.key(key)).to_vec()
}

#[tokio::test]
async fn each_channel_hears_its_own_backends_and_strangers_are_counted() {
    let network = network();
    let (events, mut inbox) = mpsc::unbounded_channel();
    let (first, second) = (BackendId::from_name("a"), BackendId::from_name("b"));
    let _one = network.endpoint.join(&introduction(2, 20), first, events.clone()).unwrap();
    let two = network.endpoint.join(&introduction(3, 30), second, events.clone()).unwrap();

    network.arriving.send((b"hello".to_vec(), address(2))).unwrap();
    network.arriving.send((push(2, 20), address(3))).unwrap();
    network.arriving.send((push(2, 21), address(2))).unwrap();
    network.arriving.send((push(3, 30), address(3))).unwrap();

    let Some(Event::Heard(backend, 30, Heard::Push(_))) = inbox.recv().await else { panic!("not heard") };
    assert_eq!(backend, second);
    assert_eq!(network.endpoint.snapshot().dropped, [1, 0, 0, 2, 0]);

    drop(two);
    network.arriving.send((push(3, 30), address(3))).unwrap();
    network.arriving.send((push(2, 20), address(2))).unwrap();

    let Some(Event::Heard(backend, 20, _)) = inbox.recv().await else { panic!("not heard") };
    assert_eq!(backend, first, "who has left hears nothing");
    assert_eq!((network.endpoint.snapshot().dropped[3], network.endpoint.snapshot().correspondents), (3, 1));
}

#[tokio::test]
async fn a_key_that_is_handed_over_twice_stays_with_the_first() {
    let network = network();
    let (events, _inbox) = mpsc::unbounded_channel();
    let backend = BackendId::from_name("a");
    let join = |given: &Introduction| network.endpoint.join(given, backend, events.clone());

    let first = join(&introduction(2, 20)).unwrap();
    assert!(join(&introduction(2, 20)).is_none());
    let mut other = join(&introduction(3, 30)).unwrap();
    other.renew(&introduction(2, 20));

    assert_eq!((first.key(), other.key()), (20, 30));
    drop(first);
    assert_eq!(network.endpoint.snapshot().correspondents, 1);
}

#[tokio::test]
async fn questions_follow_a_backend_to_its_new_address() {
    let mut network = network();
    let (events, mut inbox) = mpsc::unbounded_channel();
    let mut one = network.endpoint.join(&introduction(2, 20), BackendId::from_name("a"), events).unwrap();

    one.renew(&Introduction { address: address(9), ..introduction(2, 21) });
    one.ask(None, Duration::from_secs(10));

    let (question, to) = network.sent.recv().await.unwrap();
    assert_eq!((Sealed::read(&question).unwrap().key(), to), (20, address(9)));
    network.arriving.send((push(2, 20), address(2))).unwrap();
    network.arriving.send((push(2, 20), address(9))).unwrap();
    assert!(matches!(inbox.recv().await, Some(Event::Heard(_, 20, Heard::Push(_)))));
    assert_eq!(network.endpoint.snapshot().dropped[3], 1, "the old address is a stranger's");
}

#[tokio::test]
async fn the_task_ends_with_the_last_one_who_holds_the_endpoint() {
    let network = network();
    let (events, _inbox) = mpsc::unbounded_channel();
    let one = network.endpoint.join(&introduction(2, 20), BackendId::from_name("a"), events).unwrap();

    drop(network.endpoint);
    tokio::task::yield_now().await;
    assert!(!network.arriving.is_closed());
    drop(one);

    network.arriving.closed().await;
}

#[test]
fn an_inactive_backend_costs_little() {
    let each = size_of::<Peer>() + size_of::<Entered>() + size_of::<(BackendId, Correspondent)>();
    assert!(each <= 300, "{each} bytes");
}
