//! A server: its life, what it tells its clients, and those without a connection.

use std::time::Duration;

use evenkeel_core::ServerSnapshot;
use evenkeel_core::server::Phase;
use serde::Serialize;

use super::{Counts, Report, seconds};
use crate::server::DatagramSnapshot;

/// What a server that has stopped, or never began, does not say is null.
#[derive(Debug, Serialize)]
pub(crate) struct ServerState {
    pub(crate) phase: &'static str,
    pub(crate) since_s: Option<f64>,
    pub(crate) in_flight: Option<u64>,
    pub(crate) admitted: Option<u64>,
    pub(crate) refused: Option<Counts>,
    pub(crate) unacknowledged: Option<u32>,
    pub(crate) draining_s: Option<f64>,
    pub(crate) report: Option<Report>,
    /// Null where it has none.
    pub(crate) datagrams: Option<DatagramState>,
}

/// Clients without a connection, and the datagrams to and from them.
#[derive(Debug, Serialize)]
pub(crate) struct DatagramState {
    pub(crate) port: u16,
    pub(crate) peers: u32,
    pub(crate) unreached: u32,
    /// What became of those that came.
    pub(crate) received: Counts,
    /// What became of clients that were pushed to.
    pub(crate) pushed: Counts,
    pub(crate) pushes: u64,
    /// Clients that are remembered no more, by reason.
    pub(crate) dropped: Counts,
    pub(crate) unsent: u64,
    pub(crate) pauses: u64,
}

impl From<&DatagramSnapshot> for DatagramState {
    fn from(snapshot: &DatagramSnapshot) -> Self {
        let DatagramSnapshot { port, peers, answered, malformed, forged, resets, resets_withheld, unsent, pauses } =
            *snapshot;
        DatagramState {
            port,
            peers: peers.known,
            unreached: peers.unreached,
            received: Counts(vec![
                ("answered", answered),
                ("replayed", peers.replayed),
                ("forged", forged),
                ("malformed", malformed),
                ("reset", resets),
                ("withheld", resets_withheld),
            ]),
            pushed: Counts(vec![("acknowledged", peers.acknowledged), ("given_up", peers.given_up)]),
            pushes: peers.pushes,
            dropped: Counts(vec![("forgotten", peers.forgotten), ("evicted", peers.evicted)]),
            unsent,
            pauses,
        }
    }
}

impl ServerState {
    pub(crate) fn new(snapshot: &ServerSnapshot, datagrams: Option<&DatagramSnapshot>) -> Self {
        ServerState {
            phase: snapshot.phase.as_str(),
            since_s: Some(seconds(snapshot.now.since(snapshot.since))),
            in_flight: Some(snapshot.in_flight),
            admitted: Some(snapshot.admitted),
            refused: Some(Counts(vec![("too_late", snapshot.too_late), ("closed", snapshot.closed)])),
            unacknowledged: snapshot.unacknowledged,
            draining_s: snapshot.draining_for.map(seconds),
            report: Some(Report::new(Duration::ZERO, &snapshot.report)),
            datagrams: datagrams.map(DatagramState::from),
        }
    }

    /// One that says nothing.
    pub(crate) fn unknown(phase: &'static str) -> Self {
        ServerState {
            phase,
            since_s: None,
            in_flight: None,
            admitted: None,
            refused: None,
            unacknowledged: None,
            draining_s: None,
            report: None,
            datagrams: None,
        }
    }
}

/// The names in labels and JSON, and that of a server that does not answer.
pub(crate) const PHASES: [&str; 7] = [
    Phase::Starting.as_str(),
    Phase::Serving.as_str(),
    Phase::LameDuck.as_str(),
    Phase::Stopping.as_str(),
    Phase::Closing.as_str(),
    Phase::Stopped.as_str(),
    SILENT,
];

/// The phase of a server whose driver does not answer: it was never started, or the process is overwhelmed.
pub(crate) const SILENT: &str = "silent";
