//! One client task: the brain of core, its picker, and the connections it was told to make.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_core::{Announcement, BackendId, Client, Local, Notice, Picker, Readiness, Rng};

use super::datagrams::Key;
use super::event::RequestId;
use super::requests::NOBODY;
use super::spilling::Spilling;
use crate::admission::Admission;
use crate::baseline::Baseline;

/// A client of one service.
#[derive(Debug)]
pub(crate) struct ClientTask {
    pub(crate) brain: Client,
    pub(crate) picker: Arc<Picker>,
    pub(crate) local: Local,
    pub(crate) rng: Rng,
    /// Connections, in places that are used again.
    pub(crate) links: Vec<Link>,
    /// Where the connection of each candidate of the picker is.
    pub(crate) routes: Vec<u32>,
    /// When it will be woken; `u64::MAX` for never.
    pub(crate) wakes_at: u64,
    /// Not ours: hears no notice, acknowledges none.
    pub(crate) is_foreign: bool,
    /// Where it is.
    pub(crate) cluster: u32,
    /// The client it is a part of, for one cluster; itself where it is no part.
    pub(crate) home: u32,
    /// Decides which of its parts gets a request, where it spills.
    pub(crate) spilling: Option<Box<Spilling>>,
    /// Its service, counted from the first.
    pub(crate) service: u32,
    /// Learns what a baseline needs to know.
    pub(crate) baseline: Option<Arc<dyn Baseline>>,
    pub(crate) admission: Option<Box<dyn Admission>>,
    /// Counts up with every process of this client.
    pub(crate) process: u32,
    /// Gone: asks nothing, hears nothing.
    pub(crate) is_gone: bool,
    /// Where the connection to each backend is that the brain means; not those it has let go of.
    pub(crate) places: BTreeMap<u32, u32>,
    /// What each backend is asked with that has no connection.
    pub(crate) keys: BTreeMap<u32, Key>,
    /// Requests that no connection stands for yet.
    pub(crate) waiting: Vec<RequestId>,
}

/// A connection as its client sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) backend: u32,
    /// Unique in the world; 0 where the place is free.
    pub(crate) epoch: u32,
    /// Which process of the backend it reached.
    pub(crate) process: u32,
    /// When that greeted, and the last of its announcements that arrived.
    pub(crate) greeted: u64,
    pub(crate) announced: u32,
    pub(crate) state: LinkState,
    /// Requests on it that have not ended for the client.
    pub(crate) in_flight: u32,
    /// Nothing sent earlier may arrive later: the last arrival in each direction.
    pub(crate) up_until: u64,
    pub(crate) down_until: u64,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Dialling,
    Open,
    /// The brain has let go of it; it closes when nothing is in flight.
    Leaving,
}

impl Link {
    /// What its backend said on it last, which was this.
    pub(crate) fn notice(&self, readiness: Readiness) -> Notice {
        let announcement = Announcement { process: u64::from(self.process), number: self.announced };
        Notice { readiness, announcement: Some(announcement) }
    }
}

impl ClientTask {
    /// A place for a new connection.
    pub(crate) fn open(&mut self, backend: u32, epoch: u32) -> u32 {
        let link = Link {
            backend,
            epoch,
            process: 0,
            greeted: 0,
            announced: 0,
            state: LinkState::Dialling,
            in_flight: 0,
            up_until: 0,
            down_until: 0,
        };
        let place = self.links.iter().position(|link| link.epoch == 0).unwrap_or(self.links.len());
        if place == self.links.len() {
            self.links.push(link);
        } else {
            self.links[place] = link;
        }
        self.places.insert(backend, place as u32);
        place as u32
    }

    /// The brain means this connection no more.
    pub(crate) fn forget_place(&mut self, backend: u32, place: u32) {
        if self.places.get(&backend) == Some(&place) {
            self.places.remove(&backend);
        }
    }

    /// The connection in this place, if it is still that one.
    pub(crate) fn link(&mut self, place: u32, epoch: u32) -> Option<&mut Link> {
        self.links.get_mut(place as usize).filter(|link| link.epoch == epoch && epoch != 0)
    }

    /// The connection the brain means when it speaks of a backend.
    pub(crate) fn place_of(&self, backend: BackendId) -> Option<u32> {
        self.places.get(&(backend.0 as u32)).copied()
    }

    /// The connection that the brain means stands.
    pub(crate) fn is_connected(&self, backend: u32) -> bool {
        let link = self.places.get(&backend).and_then(|&place| self.links.get(place as usize));
        link.is_some_and(|link| link.state == LinkState::Open)
    }

    /// Takes the brain's new picker; says whether there is one.
    pub(crate) fn refresh_picker(&mut self) -> bool {
        let Some(picker) = self.brain.poll_picker() else { return false };
        self.routes.clear();
        for backend in picker.backends() {
            // Those that are inactive have none, and get no request before they have.
            self.routes.push(self.place_of(backend).unwrap_or(NOBODY));
        }
        self.picker = picker;
        true
    }
}
