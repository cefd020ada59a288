//! What a backend says of itself, and which of its words are the later ones.
//!
//! A backend speaks over its connections and over datagrams, which may arrive late, twice or in another order. So it
//! numbers what it announces, and each of its processes has a number of its own that is higher than those before it.

use crate::Readiness;

/// Which announcement of which process: a later one compares greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Announcement {
    /// Which process of the backend.
    pub process: u64,
    /// Counts its announcements.
    pub number: u32,
}

/// Whether a backend wants requests, and where in its life it said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notice {
    /// Whether it does.
    pub readiness: Readiness,
    /// Not known of backends that do not count.
    pub announcement: Option<Announcement>,
}

impl From<Readiness> for Notice {
    fn from(readiness: Readiness) -> Self {
        Notice { readiness, announcement: None }
    }
}

/// What a backend says on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Greeting {
    /// Whether it wants requests.
    pub notice: Notice,
    /// Whether it can be asked how it is without a connection.
    pub takes_checks: bool,
}

impl From<Readiness> for Greeting {
    fn from(readiness: Readiness) -> Self {
        Greeting { notice: readiness.into(), takes_checks: false }
    }
}
