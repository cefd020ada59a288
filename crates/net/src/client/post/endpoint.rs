//! One socket for all correspondences of a runtime: who is meant, and what is not worth telling anybody.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use evenkeel_core::{Announcement, BackendId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::correspondence::{Correspondence, Introduction};
use crate::client::driver::Event;
use crate::clock::Clock;
use crate::udp::{Batch, Datagrams, Pace, Received};
use crate::wire::datagram::Sealed;

/// Why a datagram that came in was not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// No datagram of ours.
    Malformed,
    /// Not vouched for by the key it names.
    Forged,
    /// Heard before, or too late to matter.
    Replayed,
    /// Of a key or from an address that nobody corresponds with here.
    Stranger,
    /// Genuine, perhaps, but nobody asked.
    Unexpected,
}

impl Dropped {
    /// In the order of [`EndpointSnapshot::dropped`].
    pub const ALL: [Dropped; 5] =
        [Dropped::Malformed, Dropped::Forged, Dropped::Replayed, Dropped::Stranger, Dropped::Unexpected];

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Dropped::Malformed => "malformed",
            Dropped::Forged => "forged",
            Dropped::Replayed => "replayed",
            Dropped::Stranger => "stranger",
            Dropped::Unexpected => "unexpected",
        }
    }
}

/// A socket and everybody who corresponds over it. Its task ends with the last one who holds it.
pub struct Endpoint {
    socket: Arc<dyn Datagrams>,
    table: Mutex<BTreeMap<Peer, Entered>>,
    dropped: [AtomicU64; Dropped::ALL.len()],
    unsent: AtomicU64,
    reading: AbortHandle,
}

/// What an endpoint has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointSnapshot {
    /// Where it is bound, if the system says so.
    pub address: Option<SocketAddr>,
    /// Channels times backends.
    pub correspondents: usize,
    /// What came in and was not believed, in the order of [`Dropped::ALL`].
    pub dropped: [u64; Dropped::ALL.len()],
    /// Questions the system would not send.
    pub unsent: u64,
}

/// Who is at the other end: an address, and the number of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Peer {
    ip: IpAddr,
    port: u16,
    key: u64,
}

/// A correspondence, and whom to tell.
struct Entered {
    correspondence: Correspondence,
    backend: BackendId,
    events: mpsc::UnboundedSender<Event>,
}

/// A channel's end of its correspondence with one backend; dropping it ends it.
pub(crate) struct Correspondent {
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    key: u64,
}

impl Endpoint {
    /// Reads from this socket from now on.
    ///
    /// # Panics
    /// Called outside a tokio runtime.
    pub fn new(socket: Arc<dyn Datagrams>) -> Arc<Endpoint> {
        Arc::new_cyclic(|endpoint| {
            let reading = tokio::spawn(read(Arc::clone(&socket), Weak::clone(endpoint))).abort_handle();
            let (table, dropped) = (Mutex::default(), Default::default());
            Endpoint { socket, table, dropped, unsent: AtomicU64::new(0), reading }
        })
    }

    /// What it has counted.
    pub fn snapshot(&self) -> EndpointSnapshot {
        EndpointSnapshot {
            address: self.socket.local_address().ok(),
            correspondents: self.table().len(),
            dropped: std::array::from_fn(|reason| self.dropped[reason].load(Ordering::Relaxed)),
            unsent: self.unsent.load(Ordering::Relaxed),
        }
    }

    /// Begins a correspondence; what is heard goes to `events`. `None` if there is one under this key already: what a
    /// backend hands over twice is no key for either.
    pub(crate) fn join(
        self: &Arc<Self>,
        introduction: &Introduction,
        backend: BackendId,
        events: mpsc::UnboundedSender<Event>,
    ) -> Option<Correspondent> {
        let (address, key) = (introduction.address, introduction.key_number);
        match self.table().entry(Peer::new(address, key)) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => {
                place.insert(Entered { correspondence: Correspondence::new(introduction), backend, events })
            }
        };
        Some(Correspondent { endpoint: Arc::clone(self), address, key })
    }

    fn hear(&self, now: Instant, batch: &Batch) {
        let mut table = self.table();
        for received in batch.iter() {
            if let Err(reason) = hear(&mut table, now, received) {
                self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<Peer, Entered>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hear(table: &mut BTreeMap<Peer, Entered>, now: Instant, received: &Received) -> Result<(), Dropped> {
    let sealed = Sealed::read(received.bytes()).map_err(|_| Dropped::Malformed)?;
    let entered = table.get_mut(&Peer::new(received.from, sealed.key())).ok_or(Dropped::Stranger)?;
    let heard = entered.correspondence.hear(now, &sealed)?;
    // A driver that is gone has no use for news.
    drop(entered.events.send(Event::Heard(entered.backend, sealed.key(), heard)));
    Ok(())
}

/// Reads until the endpoint is gone. However many come in, reading them takes a bounded part of a core.
async fn read(socket: Arc<dyn Datagrams>, endpoint: Weak<Endpoint>) {
    let (clock, mut pace) = (Clock::new(), Pace::new(READ_PER_SECOND, READ_BURST));
    let mut batch = Batch::default();
    loop {
        batch.clear();
        if let Err(error) = socket.receive(&mut batch).await {
            tracing::debug!(%error, "datagrams cannot be read now");
            tokio::time::sleep(READ_AGAIN_AFTER).await;
            continue;
        }
        let Some(endpoint) = endpoint.upgrade() else { return };
        endpoint.hear(Instant::now(), &batch);
        drop(endpoint);
        pace.take(clock.now(), batch.len() as u32);
        if let Some(at) = pace.opens_at(clock.now()) {
            tokio::time::sleep_until(clock.instant_of(at)).await;
        }
    }
}

impl Correspondent {
    /// The number of the key in use: news under another one are old.
    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// Whether it goes over this endpoint.
    pub(crate) fn is_over(&self, endpoint: &Arc<Endpoint>) -> bool {
        Arc::ptr_eq(&self.endpoint, endpoint)
    }

    /// The backend handed over a key again, perhaps at another address. One that somebody else has changes nothing.
    pub(crate) fn renew(&mut self, introduction: &Introduction) {
        let mut table = self.endpoint.table();
        let before = Peer::new(self.address, self.key);
        let Some(mut entered) = table.remove(&before) else { return };
        let key = entered.correspondence.key_after(introduction);
        let after = Peer::new(introduction.address, key);
        if table.contains_key(&after) {
            table.insert(before, entered);
            return;
        }
        entered.correspondence.renew(introduction);
        table.insert(after, entered);
        (self.address, self.key) = (introduction.address, key);
    }

    /// Sends a question that acknowledges what was `heard`. What the network loses is not sent again here.
    pub(crate) fn ask(&self, heard: Option<Announcement>, every: Duration) {
        let mut table = self.endpoint.table();
        let Some(entered) = table.get_mut(&Peer::new(self.address, self.key)) else { return };
        let question = entered.correspondence.ask(heard, every);
        drop(table);
        if let Err(error) = self.endpoint.socket.send(&question, self.address, None) {
            tracing::debug!(%error, to = %self.address, "question not sent");
            self.endpoint.unsent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Peer {
    fn new(address: SocketAddr, key: u64) -> Peer {
        Peer { ip: address.ip().to_canonical(), port: address.port(), key }
    }
}

impl Drop for Correspondent {
    /// A backend need not push to one that is gone. Lost on the way, it forgets by itself.
    fn drop(&mut self) {
        let left = self.endpoint.table().remove(&Peer::new(self.address, self.key));
        if let Some(farewell) = left.and_then(|mut entered| entered.correspondence.farewell()) {
            drop(self.endpoint.socket.send(&farewell, self.address, None));
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Ten thousand backends that answer ten times a second.
const READ_PER_SECOND: u32 = 100_000;
/// What may have gathered while nobody read.
const READ_BURST: u32 = 10_000;
/// Errors of a socket that has nothing to read are rare and pass.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
