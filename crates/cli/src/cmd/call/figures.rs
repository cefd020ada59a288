//! What `call` tells, as plain data: the text prints the same as the JSON document.

use std::collections::BTreeMap;

use evenkeel::client::ChannelSnapshot;
use evenkeel_core::{CheckCounts, ClientSnapshot, Outcome};
use serde::Serialize;

use crate::load::{Latency, Load, Percentiles, retries};

/// The JSON document.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// From the first request to the last answer.
    pub(super) seconds: f64,
    /// Requests answered in a second.
    pub(super) per_second: f64,
    pub(super) requests: Requests,
    /// The failed ones by what went wrong.
    pub(super) failures: BTreeMap<String, u64>,
    /// Of those answered, in an open loop from when they were due.
    pub(super) latency_ms: Percentiles,
    /// Attempts beyond the first: after a refusal or a failure, or since the one before certainly never ran.
    pub(super) retries: u64,
    pub(super) checks: Checks,
    pub(super) backends: Vec<Backend>,
}

/// How backends without a connection were watched.
#[derive(Debug, Serialize)]
pub(super) struct Checks {
    pub(super) sent: u64,
    pub(super) answered: u64,
    pub(super) silent: u64,
    pub(super) resets: u64,
    pub(super) pushes: u64,
    /// Connections made only to see how a backend is.
    pub(super) visits: u64,
    /// Backends connected to again since a request wanted them.
    pub(super) woken: u64,
}

/// Every request that was due is in exactly one of the others.
#[derive(Debug, Serialize)]
pub(super) struct Requests {
    pub(super) asked: u64,
    pub(super) ok: u64,
    pub(super) degraded: u64,
    pub(super) failed: u64,
    pub(super) refused: BTreeMap<String, u64>,
    /// Due while too many were in flight.
    pub(super) not_sent: u64,
    /// In flight when Ctrl-C came.
    pub(super) unfinished: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) link: &'static str,
    pub(super) checked_by: &'static str,
    /// Attempts in the channel's count, by how they ended.
    pub(super) ended: BTreeMap<&'static str, u64>,
    pub(super) latency_ms: Percentiles,
}

impl Checks {
    fn new(client: &ClientSnapshot) -> Self {
        let CheckCounts { sent, answered, silent, resets, pushes, visits } = client.checks;
        Checks { sent, answered, silent, resets, pushes, visits, woken: client.woken }
    }
}

impl Figures {
    pub(super) fn new(load: &Load, snapshot: &ChannelSnapshot) -> Self {
        let (tally, seconds) = (load.tally(), load.elapsed().as_secs_f64());
        let nothing = Latency::new();
        let backends = snapshot.names.iter().zip(&snapshot.client.backends).map(|(name, backend)| Backend {
            name: name.clone(),
            state: backend.state.as_str(),
            link: backend.link.as_str(),
            checked_by: backend.checked_by.as_str(),
            ended: Outcome::ALL.into_iter().map(|outcome| (outcome.as_str(), backend.ended(outcome))).collect(),
            latency_ms: tally.by_backend.get(name).unwrap_or(&nothing).percentiles(),
        });
        let mut backends: Vec<Backend> = backends.collect();
        backends.sort_by(|a, b| a.name.cmp(&b.name));
        Figures {
            seconds,
            per_second: tally.answered() as f64 / seconds.max(f64::MIN_POSITIVE),
            requests: Requests {
                asked: tally.asked,
                ok: tally.ok,
                degraded: tally.degraded,
                failed: tally.failed(),
                not_sent: tally.not_sent,
                unfinished: tally.unfinished(),
                refused: tally.refused.clone(),
            },
            latency_ms: tally.latency.percentiles(),
            retries: retries(snapshot, &tally),
            failures: tally.failed,
            checks: Checks::new(&snapshot.client),
            backends,
        }
    }

    pub(super) fn answered(&self) -> u64 {
        self.requests.ok + self.requests.degraded
    }
}
