//! The driver's part in the correspondence with backends: keeps one for each that the brain knows, asks and tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::{Announcement, BackendId};
use tokio::sync::mpsc;

use super::Event;
use crate::client::post::{Correspondent, Endpoint, EndpointSnapshot, Introduction};

/// The correspondents of a channel.
pub(super) struct Post {
    every: Duration,
    with: BTreeMap<BackendId, Correspondent>,
    /// Those in use, held for as long as the channel: one for each address family.
    endpoints: Vec<Arc<Endpoint>>,
}

impl Post {
    /// `every` is how often backends are asked, as they are told.
    pub(super) fn new(every: Duration) -> Self {
        Post { every, with: BTreeMap::new(), endpoints: Vec::new() }
    }

    /// A backend said how to go on without its connection, or that there is no such way. Whether there is.
    pub(super) fn on_introduced(
        &mut self,
        backend: BackendId,
        introduced: Option<(Introduction, Arc<Endpoint>)>,
        events: &mpsc::UnboundedSender<Event>,
    ) -> bool {
        let Some((introduction, endpoint)) = introduced else {
            self.with.remove(&backend);
            return false;
        };
        let known = self.with.get_mut(&backend).filter(|correspondent| correspondent.is_over(&endpoint));
        if let Some(correspondent) = known {
            correspondent.renew(&introduction);
        } else {
            // The old one first: its entry may stand where the new one is to be.
            self.with.remove(&backend);
            let Some(correspondent) = endpoint.join(&introduction, backend, events.clone()) else { return false };
            self.with.insert(backend, correspondent);
        }
        if !self.endpoints.iter().any(|known| Arc::ptr_eq(known, &endpoint)) {
            self.endpoints.push(endpoint);
        }
        true
    }

    /// Whether news under this key are of the present correspondence.
    pub(super) fn is_current(&self, backend: BackendId, key: u64) -> bool {
        self.with.get(&backend).is_some_and(|correspondent| correspondent.key() == key)
    }

    /// Asks how the backend is, and acknowledges what was `heard` of it.
    pub(super) fn ask(&self, backend: BackendId, heard: Option<Announcement>) {
        if let Some(correspondent) = self.with.get(&backend) {
            correspondent.ask(heard, self.every);
        }
    }

    /// The brain has forgotten the backend.
    pub(super) fn leave(&mut self, backend: BackendId) {
        self.with.remove(&backend);
    }

    pub(super) fn snapshots(&self) -> Vec<EndpointSnapshot> {
        self.endpoints.iter().map(|endpoint| endpoint.snapshot()).collect()
    }
}
