//! As many requests at once as the peer allows streams: who comes later waits here.
//!
//! h2 has a line of its own, but who has joined it cannot leave: a request that was given up in it is still sent, and
//! reset at once. A deadline that ends many of them looks like an attack to the peer, which hangs up
//! (`ENHANCE_YOUR_CALM`). That line still holds those whom long answers keep out: a place is given back at the head of
//! an answer, or a caller that holds answers unread would wait for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one connection.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Free or taken.
    all: AtomicUsize,
}

/// Held until the head of an answer is there.
pub(super) type Place = OwnedSemaphorePermit;

impl Default for Places {
    /// One place, for a watch: once that is answered the peer's settings are known.
    fn default() -> Self {
        Places { free: Arc::new(Semaphore::new(1)), all: AtomicUsize::new(1) }
    }
}

impl Places {
    /// Waits for a place, in the order of arrival. `allowed` says what the peer allows at present: it is asked when there
    /// is no place, so a peer that allows fewer later is left to h2's own line.
    pub(super) async fn take(&self, allowed: impl FnOnce() -> usize) -> Place {
        if let Ok(place) = Arc::clone(&self.free).try_acquire_owned() {
            return place;
        }
        let allowed = allowed().min(Semaphore::MAX_PERMITS);
        let before = self.all.fetch_max(allowed, Ordering::Relaxed);
        self.free.add_permits(allowed.saturating_sub(before));
        Arc::clone(&self.free).acquire_owned().await.expect("nobody closes it")
    }
}
