//! A server: its life, what it tells its clients, and those without a connection.

use std::time::Duration;

use evenkeel_core::server::{Phase, ServerRefusal};
use serde::Serialize;

use super::{AdmissionState, Counts, Report, seconds};
use crate::server::{DatagramSnapshot, IdentitySnapshot, Look};

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
    /// Who is let in, and why.
    pub(crate) admission: Option<AdmissionState>,
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
    pub(crate) fn new(look: &Look, identities: IdentitySnapshot) -> Self {
        let snapshot = &look.server;
        let refused = ServerRefusal::ALL.into_iter().zip(&snapshot.admission.refused);
        ServerState {
            phase: snapshot.phase.as_str(),
            since_s: Some(seconds(snapshot.now.since(snapshot.since))),
            in_flight: Some(snapshot.in_flight),
            admitted: Some(snapshot.admitted),
            refused: Some(Counts(refused.map(|(reason, counts)| (reason.as_str(), counts.iter().sum())).collect())),
            unacknowledged: snapshot.unacknowledged,
            draining_s: snapshot.draining_for.map(seconds),
            report: Some(Report::new(Duration::ZERO, &snapshot.report)),
            admission: Some(AdmissionState::new(look, identities)),
            datagrams: look.datagrams.as_ref().map(DatagramState::from),
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
            admission: None,
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
