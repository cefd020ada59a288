//! What is going on, as plain data: metrics, page and simulator all read the same.

use std::time::Duration;

use crate::client::subset::Algorithm;
use crate::client::{BackendId, BackendState, Cause, EjectCounts, Refusal, Stop};
use crate::server::{AdmissionSnapshot, Phase};
use crate::{Cutoff, LoadReport, Outcome, Time};

/// A client as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSnapshot {
    /// The policy that decides, by its name.
    pub policy: &'static str,
    /// How backends were dealt.
    pub algorithm: Algorithm,
    /// Backends of the service.
    pub backends_known: usize,
    /// Backends this client wishes to use.
    pub subset_size: usize,
    /// How often a backend went from one state to another: `[from][to]`, in the order of [`BackendState::ALL`].
    pub state_changes: [[u64; 3]; 3],
    /// Requests not sent, by reason.
    pub refused: RefusalCounts,
    /// Fields of load reports that could not be true.
    pub nonsense_reports: u64,
    /// Inactive backends that a request wanted, so that they were connected to again.
    pub woken: u64,
    /// Requests not sent because the service refuses such, or that would not have been.
    pub throttled: ThrottleCounts,
    /// Attempts beyond the first, and why there were not more.
    pub retries: RetryCounts,
    /// Checks of backends, and what came of them.
    pub checks: CheckCounts,
    /// Backends that were left out because they fail where others do not.
    pub ejected: EjectCounts,
    /// What the policy that only watches would have done, if there is one.
    pub observed_policy: Option<WatchCounts>,
    /// The members and those who stand in, most preferred first.
    pub backends: Vec<BackendSnapshot>,
}

/// One backend in a client's eyes.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSnapshot {
    /// Which.
    pub backend: BackendId,
    /// What it is believed to be.
    pub state: BackendState,
    /// Since when.
    pub since: Time,
    /// When a connection is tried next.
    pub retry_at: Option<Time>,
    /// What there is between client and backend.
    pub link: LinkState,
    /// How the client learns how it is.
    pub checked_by: CheckedBy,
    /// Checks in a row without an answer. While it can be connected to, that is no news of the backend.
    pub silences: u32,
    /// Requests in flight from this client.
    pub active: u32,
    /// Streams open from this client.
    pub streams: u32,
    /// Recent errors, as the active requests they count for; or would, while that is only observed.
    pub recent_errors: u32,
    /// The share the policy means it to get, relative to the others; `None` where it gets nothing.
    pub weight: Option<f64>,
    /// Why.
    pub why: &'static str,
    /// Its last load report, and when that came.
    pub report: Option<(Time, LoadReport)>,
    /// Attempts that ended, in the order of [`Outcome::ALL`].
    pub ended: [u64; Outcome::ALL.len()],
    /// What it said it refuses, while that is believed.
    pub cutoff: Option<Cutoff>,
    /// Requests that would have gone there and were not sent because of that.
    pub held: u64,
    /// Until when it is left out because it fails where others do not, if it is; or would be.
    pub out_until: Option<Time>,
    /// Requests that a policy that only watches would have sent there, if there is one.
    pub observed_picks: Option<u64>,
}

/// What a policy that only watches would have picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchCounts {
    /// Its name.
    pub policy: &'static str,
    /// Requests it looked at.
    pub picks: u64,
    /// Those of them that it would have sent elsewhere; among equals that is whose turn it is.
    pub differing: u64,
}

/// What a client's throttle (B7) refused, in the order of [`Criticality::ALL`](crate::Criticality::ALL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThrottleCounts {
    /// By what was accepted of late.
    pub local: [u64; 4],
    /// By what backends said they admit.
    pub hints: [u64; 4],
    /// What `local` would have refused while it only observes.
    pub local_observed: [u64; 4],
    /// What `hints` would have refused while it only observes.
    pub hints_observed: [u64; 4],
}

/// What a client tried again (B12 to B15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCounts {
    /// Further attempts, in the order of [`Cause::ALL`].
    pub made: [u64; Cause::ALL.len()],
    /// Those that would have been made while it only observes.
    pub observed: [u64; Cause::ALL.len()],
    /// Requests that were not tried again, in the order of [`Stop::COUNTED`].
    pub stopped: [u64; Stop::COUNTED.len()],
    /// Retries that could be made now: those of customers that have asked for something of late.
    pub left: u64,
    /// After how long a request is hedged; unknown before enough were answered, and where none is.
    pub hedge_after: Option<Duration>,
}

/// What there is between a client and a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// No connection: it is being made, or tried again later.
    Connecting,
    /// A connection.
    Connected,
    /// None, since nobody used it; the backend is checked (A8).
    Inactive,
    /// Inactive until a request wanted it; the connection is being made.
    Waking,
}

impl LinkState {
    /// Every one.
    pub const ALL: [LinkState; 4] =
        [LinkState::Connecting, LinkState::Connected, LinkState::Inactive, LinkState::Waking];

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            LinkState::Connecting => "connecting",
            LinkState::Connected => "connected",
            LinkState::Inactive => "inactive",
            LinkState::Waking => "waking",
        }
    }
}

/// How a client learns how a backend is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckedBy {
    /// On its connection.
    Connection,
    /// By datagrams, and by its pushes.
    Datagrams,
    /// By connecting now and then: it takes no datagrams, or they do not get through.
    Visits,
    /// Not at all at the moment.
    Nothing,
}

impl CheckedBy {
    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            CheckedBy::Connection => "connection",
            CheckedBy::Datagrams => "datagrams",
            CheckedBy::Visits => "visits",
            CheckedBy::Nothing => "nothing",
        }
    }
}

/// Checks of a client's backends, and what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// Checks and probes that the driver was asked to send.
    pub sent: u64,
    /// Answers.
    pub answered: u64,
    /// Checks whose answer did not come in time.
    pub silent: u64,
    /// Answers that the key is not known any more.
    pub resets: u64,
    /// Notices that came unasked.
    pub pushes: u64,
    /// Connections made only to see how a backend is.
    pub visits: u64,
}

impl BackendSnapshot {
    /// Attempts that ended this way.
    pub fn ended(&self, outcome: Outcome) -> u64 {
        self.ended[outcome.index()]
    }
}

/// Requests a client did not send, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts([u64; Refusal::ALL.len()]);

impl RefusalCounts {
    pub(crate) fn new(counts: [u64; Refusal::ALL.len()]) -> Self {
        RefusalCounts(counts)
    }

    /// Refused for this reason.
    pub fn of(&self, refusal: Refusal) -> u64 {
        self.0[refusal.index()]
    }

    /// Refused for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A server as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSnapshot {
    /// When this was so.
    pub now: Time,
    /// Where it is in its life.
    pub phase: Phase,
    /// Since when.
    pub since: Time,
    /// Requests being worked on.
    pub in_flight: u64,
    /// Requests let in so far.
    pub admitted: u64,
    /// Requests refused because their deadline had passed.
    pub too_late: u64,
    /// Requests refused because the server is closed.
    pub closed: u64,
    /// Clients that watch and have not yet acknowledged the last announcement; unknown while it is being made.
    pub unacknowledged: Option<u32>,
    /// Clients without a connection that it is still being pushed to; unknown while it is being made.
    pub unreached: Option<u32>,
    /// Clients that cannot acknowledge it, as far as they are known; unknown while it is being made.
    pub silent: Option<u32>,
    /// How long ago it was told to end, if it was.
    pub draining_for: Option<Duration>,
    /// What it tells its clients.
    pub report: LoadReport,
    /// Who is let in, and why.
    pub admission: AdmissionSnapshot,
}
