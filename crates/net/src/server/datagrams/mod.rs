//! Datagrams at a server (A5, A8): questions are answered with a load report, announcements pushed to who asked lately.
//!
//! A key is handed over on each watch stream, and derives from the server's secret, so that nothing is kept for a client
//! that does not ask. What no key vouches for changes nothing and is not answered; what is read a second is limited, so a
//! flood costs a bounded share of one processor. See `wire/datagram.rs` for what is said.

mod address;
mod answering;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::server::{Gate, Peers, PeersConfig, PeersSnapshot};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::hub::Hub;
use super::listen::Accept;
use crate::clock::Clock;
use crate::wire::datagram::{Secret, VERSION};
use crate::wire::grpc::Handover;
use answering::Answering;

/// Whether a server has datagrams, and what their keys derive from.
#[derive(Clone, Debug)]
pub(crate) enum Offer {
    /// A secret drawn by the system: keys end with the process.
    Drawn,
    Given(Secret),
    Nothing,
}

/// What a server knows of its clients without a connection, shared by who answers them and who makes announcements.
#[derive(Debug)]
pub(crate) struct Desk {
    secret: Secret,
    process: u64,
    port: u16,
    clock: Clock,
    handed_over: AtomicU64,
    book: Mutex<Book>,
    /// There is something to push.
    announced: Notify,
    counts: Counts,
}

#[derive(Debug)]
struct Book {
    peers: Peers,
    /// The `unreached` that the driver knows of, or is about to look at.
    told: u32,
    /// Nobody answers any more.
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Counts {
    answered: AtomicU64,
    malformed: AtomicU64,
    forged: AtomicU64,
    resets: AtomicU64,
    resets_withheld: AtomicU64,
    unsent: AtomicU64,
    pauses: AtomicU64,
}

/// How the datagrams of a server are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramSnapshot {
    /// Where it listens for them.
    pub port: u16,
    /// Who asks, and what was pushed to them.
    pub peers: PeersSnapshot,
    /// Questions answered.
    pub answered: u64,
    /// No questions at all: of another length, version or kind.
    pub malformed: u64,
    /// Questions that their key does not vouch for.
    pub forged: u64,
    /// Questions under another secret that were answered with a reset.
    pub resets: u64,
    /// The same, beyond the rate at which resets are sent.
    pub resets_withheld: u64,
    /// Answers, pushes and resets that the system did not take.
    pub unsent: u64,
    /// How often reading was paused because too many came.
    pub pauses: u64,
}

/// Listens for datagrams beside `listener` and answers them on a task of `tasks`. A server without is none the worse, so
/// whatever fails is only said.
pub(crate) fn open<L: Accept>(
    listener: &L,
    offer: Offer,
    config: PeersConfig,
    clock: Clock,
    (hub, gate): (&Arc<Hub>, &Arc<Gate>),
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let secret = match offer {
        Offer::Nothing => return tasks,
        Offer::Given(secret) => Ok(secret),
        Offer::Drawn => Secret::random().map_err(|error| error.to_string()),
    };
    let opened = secret.and_then(|secret| {
        let Some(socket) = listener.datagrams().map_err(|error| error.to_string())? else { return Ok(None) };
        let address = socket.local_address().map_err(|error| error.to_string())?;
        Ok(Some((secret, socket, address)))
    });
    match opened {
        Ok(Some((secret, socket, address))) => {
            let desk = Arc::new(Desk {
                secret,
                process: hub.process(),
                port: address.port(),
                clock,
                handed_over: AtomicU64::new(0),
                book: Mutex::new(Book { peers: Peers::new(clock.now(), config), told: 0, is_closed: false }),
                announced: Notify::new(),
                counts: Counts::default(),
            });
            hub.open_desk(Arc::clone(&desk));
            let answering = Answering::new(socket, address.is_ipv6(), desk, Arc::clone(hub), Arc::clone(gate));
            tasks.spawn(answering.run());
        }
        Ok(None) => {}
        Err(error) => tracing::warn!(error, "no datagrams: clients keep a connection to be told of changes"),
    }
    tasks
}

impl Desk {
    /// A fresh key, and where to use it.
    pub(crate) fn hand_over(&self) -> Handover {
        let count = self.handed_over.fetch_add(1, Ordering::Relaxed);
        let key = self.secret.key_number(self.process, count);
        Handover {
            version: VERSION.into(),
            port: self.port.into(),
            secret: self.secret.id(),
            key,
            key_bytes: self.secret.key(key).as_bytes().to_vec(),
            time: self.clock.millis(),
        }
    }

    /// Everybody remembered is to hear of it.
    pub(crate) fn on_announced(&self, number: u32) {
        self.book().peers.handle_announced(self.clock.now(), number);
        self.announced.notify_one();
    }

    /// How many are still being pushed to, for the driver: it is told again when that changes.
    pub(crate) fn unreached_told(&self) -> u32 {
        let mut book = self.book();
        book.told = if book.is_closed { 0 } else { book.peers.unreached() };
        book.told
    }

    /// Nothing is pushed any more.
    pub(crate) fn close(&self) {
        self.book().is_closed = true;
    }

    pub(crate) fn snapshot(&self) -> DatagramSnapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { answered, malformed, forged, resets, resets_withheld, unsent, pauses } = &self.counts;
        DatagramSnapshot {
            port: self.port,
            peers: self.book().peers.snapshot(),
            answered: read(answered),
            malformed: read(malformed),
            forged: read(forged),
            resets: read(resets),
            resets_withheld: read(resets_withheld),
            unsent: read(unsent),
            pauses: read(pauses),
        }
    }

    /// Datagrams of all kinds that came: each costs something.
    pub(crate) fn received(&self) -> u64 {
        let Counts { answered, malformed, forged, resets, resets_withheld, unsent: _, pauses: _ } = &self.counts;
        let came = [answered, malformed, forged, resets, resets_withheld];
        came.iter().fold(0, |sum: u64, count| sum.wrapping_add(count.load(Ordering::Relaxed)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
