//! A channel: its backends, how evenly they are loaded, and the datagrams to them.

use std::time::Duration;

use evenkeel_core::client::EjectCounts;
use evenkeel_core::stats::Spread;
use evenkeel_core::{
    BackendSnapshot, BackendState, Cause, CheckCounts, ClientSnapshot, Criticality, Cutoff, LinkState, Mode, Outcome,
    Refusal, RetryCounts, Stop, ThrottleCounts, Time, WatchCounts,
};
use serde::Serialize;

use super::{Counts, Report, finite, seconds};
use crate::client::{ChannelSnapshot, Dropped, EndpointSnapshot};

#[derive(Debug, Serialize)]
pub(crate) struct ChannelState {
    pub(crate) service: String,
    pub(crate) policy: &'static str,
    /// What another policy would have done, where one is observed.
    pub(crate) observed_policy: Option<ObservedPolicy>,
    pub(crate) subset: Subset,
    pub(crate) spread: Option<SpreadState>,
    pub(crate) refused: Counts,
    pub(crate) throttled: Vec<Throttled>,
    pub(crate) retries: Retries,
    pub(crate) ended: Counts,
    pub(crate) state_changes: Vec<StateChanges>,
    pub(crate) nonsense_reports: u64,
    /// Backends without a connection since nobody used it.
    pub(crate) inactive: usize,
    /// How often a request wanted one of them.
    pub(crate) woken: u64,
    pub(crate) checks: Counts,
    pub(crate) ejected: Ejected,
    /// The sockets for datagrams that it uses; channels share them.
    pub(crate) sockets: Vec<Socket>,
    /// Why the last list of backends was not taken, if it was not.
    pub(crate) list_refused: Option<String>,
    pub(crate) backends: Vec<BackendView>,
    /// Why no backend can be used, if none can.
    #[serde(skip)]
    pub(crate) trouble: Option<String>,
}

/// A policy that only watches.
#[derive(Debug, Serialize)]
pub(crate) struct ObservedPolicy {
    pub(crate) policy: &'static str,
    /// Requests it looked at, and those of them that it would have sent elsewhere.
    pub(crate) picks: u64,
    pub(crate) differing: u64,
}

impl From<WatchCounts> for ObservedPolicy {
    fn from(WatchCounts { policy, picks, differing }: WatchCounts) -> Self {
        ObservedPolicy { policy, picks, differing }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Subset {
    pub(crate) algorithm: &'static str,
    pub(crate) size: usize,
    pub(crate) known: usize,
}

/// Over the tasks that are healthy and reported their utilization within [`REPORT_FRESH`].
#[derive(Debug, Serialize)]
pub(crate) struct SpreadState {
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) most: f64,
    /// What the others hold and do not use because they are provisioned as the most loaded one is (A17).
    pub(crate) wasted_cores: f64,
    pub(crate) tasks: usize,
}

/// What came in on a socket for datagrams and was not believed, and what it would not send.
#[derive(Debug, Serialize)]
pub(crate) struct Socket {
    pub(crate) address: Option<String>,
    pub(crate) correspondents: usize,
    pub(crate) dropped: Counts,
    pub(crate) unsent: u64,
}

/// Backends left out because they fail where others do not.
#[derive(Debug, Serialize)]
pub(crate) struct Ejected {
    pub(crate) now: usize,
    pub(crate) total: u64,
    /// Those that would have been.
    pub(crate) observed: u64,
    pub(crate) panics: u64,
    /// Whether too few others are left, so that nobody is left out.
    pub(crate) panics_now: bool,
}

/// Requests that the throttle refused, or would have.
#[derive(Debug, Serialize)]
pub(crate) struct Throttled {
    pub(crate) criticality: &'static str,
    /// `local` or `hints`.
    pub(crate) by: &'static str,
    /// `on` or `observe`.
    pub(crate) mode: &'static str,
    pub(crate) count: u64,
}

/// Attempts beyond the first (B12 to B15).
#[derive(Debug, Serialize)]
pub(crate) struct Retries {
    pub(crate) made: Counts,
    /// Those that would have been made in observe.
    pub(crate) observed: Counts,
    /// Requests that were not tried again, by reason.
    pub(crate) stopped: Counts,
    /// Retries that could be made now.
    pub(crate) left: u64,
    /// After how long a request is hedged, where that is on and known.
    pub(crate) hedge_after_s: Option<f64>,
}

impl From<&RetryCounts> for Retries {
    fn from(counts: &RetryCounts) -> Self {
        let by_cause = |counts: [u64; Cause::ALL.len()]| {
            Counts(Cause::ALL.into_iter().zip(counts).map(|(cause, count)| (cause.as_str(), count)).collect())
        };
        let stopped = Stop::COUNTED.into_iter().zip(counts.stopped);
        Retries {
            made: by_cause(counts.made),
            observed: by_cause(counts.observed),
            stopped: Counts(stopped.map(|(stop, count)| (stop.as_str(), count)).collect()),
            left: counts.left,
            hedge_after_s: counts.hedge_after.map(seconds),
        }
    }
}

/// How often a backend went from one state to another.
#[derive(Debug, Serialize)]
pub(crate) struct StateChanges {
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    pub(crate) count: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct BackendView {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) link: &'static str,
    pub(crate) checked_by: &'static str,
    pub(crate) silences: u32,
    pub(crate) since_s: f64,
    pub(crate) retry_in_s: Option<f64>,
    pub(crate) active: u32,
    pub(crate) streams: u32,
    pub(crate) recent_errors: u32,
    pub(crate) weight: Option<f64>,
    pub(crate) why: &'static str,
    pub(crate) last_lost: Option<String>,
    pub(crate) report: Option<Report>,
    pub(crate) ended: Counts,
    /// What it said it refuses, from 0 to 4, while that is believed.
    pub(crate) cutoff: Option<f64>,
    /// Requests not sent there because of that.
    pub(crate) held: u64,
    /// How much longer it is left out because it fails where others do not; or would be.
    pub(crate) out_for_s: Option<f64>,
    /// Requests that the observed policy would have sent there.
    pub(crate) observed_picks: Option<u64>,
}

impl From<&ChannelSnapshot> for ChannelState {
    fn from(snapshot: &ChannelSnapshot) -> Self {
        let client = &snapshot.client;
        let together = |outcome: Outcome| client.backends.iter().map(|backend| backend.ended(outcome)).sum();
        let names = snapshot.names.iter().zip(&snapshot.last_lost);
        let mut backends: Vec<BackendView> = client
            .backends
            .iter()
            .zip(names)
            .map(|(backend, (name, lost))| BackendView::new(snapshot.now, backend, name, lost.as_deref()))
            .collect();
        // Their numbers are hashes: of no order that helps to find one.
        backends.sort_by(|one, other| one.name.cmp(&other.name));
        let is_usable = client.backends.iter().any(|backend| backend.state == BackendState::Healthy);
        let states = BackendState::ALL.into_iter().zip(client.state_changes);
        ChannelState {
            service: snapshot.service.clone(),
            policy: client.policy,
            observed_policy: client.observed_policy.map(ObservedPolicy::from),
            subset: Subset {
                algorithm: client.algorithm.versioned(),
                size: client.subset_size,
                known: client.backends_known,
            },
            spread: SpreadState::of(snapshot.now, &client.backends),
            refused: Counts(Refusal::ALL.map(|reason| (reason.as_str(), client.refused.of(reason))).into()),
            throttled: throttled(&client.throttled),
            retries: Retries::from(&client.retries),
            ended: Counts(Outcome::ALL.map(|outcome| (outcome.as_str(), together(outcome))).into()),
            state_changes: states.flat_map(|(from, counts)| changes_from(from, counts)).collect(),
            nonsense_reports: client.nonsense_reports,
            inactive: client.backends.iter().filter(|backend| backend.link == LinkState::Inactive).count(),
            woken: client.woken,
            checks: check_counts(client.checks),
            ejected: Ejected::of(snapshot.now, client),
            sockets: snapshot.endpoints.iter().map(Socket::from).collect(),
            list_refused: snapshot.list_refused.clone(),
            backends,
            trouble: (!is_usable).then(|| snapshot.trouble()),
        }
    }
}

fn throttled(counts: &ThrottleCounts) -> Vec<Throttled> {
    let ThrottleCounts { local, hints, local_observed, hints_observed } = counts;
    let (on, observe) = (Mode::On.as_str(), Mode::Observe.as_str());
    [("local", on, local), ("hints", on, hints), ("local", observe, local_observed), ("hints", observe, hints_observed)]
        .into_iter()
        .flat_map(|(by, mode, counts)| {
            let levels = Criticality::ALL.into_iter().zip(counts);
            levels.map(move |(level, &count)| Throttled { criticality: level.as_str(), by, mode, count })
        })
        .collect()
}

impl Ejected {
    fn of(now: Time, client: &ClientSnapshot) -> Self {
        let EjectCounts { ejected: total, observed, panics, panics_now } = client.ejected;
        let out = client.backends.iter().filter(|backend| backend.out_until.is_some_and(|at| at > now));
        Ejected { now: out.count(), total, observed, panics, panics_now }
    }
}

fn check_counts(counts: CheckCounts) -> Counts {
    let CheckCounts { sent, answered, silent, resets, pushes, visits } = counts;
    Counts(vec![
        ("sent", sent),
        ("answered", answered),
        ("silent", silent),
        ("resets", resets),
        ("pushes", pushes),
        ("visits", visits),
    ])
}

impl From<&EndpointSnapshot> for Socket {
    fn from(snapshot: &EndpointSnapshot) -> Self {
        let reasons = Dropped::ALL.into_iter().zip(snapshot.dropped);
        Socket {
            address: snapshot.address.map(|address| address.to_string()),
            correspondents: snapshot.correspondents,
            dropped: Counts(reasons.map(|(reason, count)| (reason.as_str(), count)).collect()),
            unsent: snapshot.unsent,
        }
    }
}

fn changes_from(from: BackendState, counts: [u64; BackendState::ALL.len()]) -> impl Iterator<Item = StateChanges> {
    let others = BackendState::ALL.into_iter().zip(counts).filter(move |(to, _)| *to != from);
    others.map(move |(to, count)| StateChanges { from: from.as_str(), to: to.as_str(), count })
}

impl SpreadState {
    fn of(now: Time, backends: &[BackendSnapshot]) -> Option<Self> {
        let loads: Vec<(f64, f64)> = backends
            .iter()
            .filter(|backend| backend.state == BackendState::Healthy)
            .filter_map(|backend| backend.report)
            .filter(|(at, _)| now.since(*at) <= REPORT_FRESH)
            // One that does not say how many processors it has counts as one.
            .filter_map(|(_, report)| Some((finite(report.utilization)?, finite(report.processors).unwrap_or(1.0))))
            .collect();
        let spread = Spread::of(loads.iter().map(|(utilization, _)| *utilization))?;
        let wasted: f64 = loads.iter().map(|(utilization, processors)| (spread.most - utilization) * processors).sum();
        Some(SpreadState {
            least: spread.least,
            mean: spread.mean,
            most: spread.most,
            wasted_cores: wasted,
            tasks: spread.count,
        })
    }
}

impl BackendView {
    fn new(now: Time, backend: &BackendSnapshot, name: &str, last_lost: Option<&str>) -> Self {
        BackendView {
            name: name.to_owned(),
            id: backend.backend.to_string(),
            state: backend.state.as_str(),
            link: backend.link.as_str(),
            checked_by: backend.checked_by.as_str(),
            silences: backend.silences,
            since_s: seconds(now.since(backend.since)),
            retry_in_s: backend.retry_at.filter(|at| *at != Time::NEVER).map(|at| seconds(at.since(now))),
            active: backend.active,
            streams: backend.streams,
            recent_errors: backend.recent_errors,
            weight: finite(backend.weight),
            why: backend.why,
            last_lost: last_lost.map(str::to_owned),
            report: backend.report.map(|(at, report)| Report::new(now.since(at), &report)),
            ended: Counts(Outcome::ALL.map(|outcome| (outcome.as_str(), backend.ended(outcome))).into()),
            cutoff: backend.cutoff.map(Cutoff::value),
            held: backend.held,
            out_for_s: backend.out_until.filter(|&at| at > now).map(|at| seconds(at.since(now))),
            observed_picks: backend.observed_picks,
        }
    }
}

/// A report older than this says little about now. Answers bring one each, so only a task that is not used is older.
const REPORT_FRESH: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use evenkeel_core::{BackendId, CheckedBy, LoadReport};

    use super::*;

    fn backend(state: BackendState, reported: Time, utilization: f64, processors: Option<f64>) -> BackendSnapshot {
        BackendSnapshot {
            backend: BackendId::from_name("a"),
            state,
            since: Time::ZERO,
            retry_at: Some(Time::NEVER),
            link: LinkState::Connected,
            checked_by: CheckedBy::Connection,
            silences: 0,
            active: 0,
            streams: 0,
            recent_errors: 0,
            weight: Some(f64::INFINITY),
            why: "",
            report: Some((
                reported,
                LoadReport { utilization: Some(utilization), processors, ..LoadReport::default() },
            )),
            ended: [0; Outcome::ALL.len()],
            cutoff: None,
            held: 0,
            out_until: None,
            observed_picks: None,
        }
    }

    #[test]
    fn waste_is_in_processors_and_of_healthy_tasks_with_fresh_reports_only() {
        let (now, old) = (Time::from_secs(100), Time::from_secs(80));
        let backends = [
            backend(BackendState::Healthy, now, 0.9, Some(2.0)),
            backend(BackendState::Healthy, now, 0.5, Some(4.0)),
            backend(BackendState::Healthy, now, 0.7, None),
            backend(BackendState::Healthy, old, 0.1, Some(8.0)),
            backend(BackendState::Healthy, now, f64::NAN, Some(8.0)),
            backend(BackendState::LameDuck, now, 0.1, Some(8.0)),
        ];

        let spread = SpreadState::of(now, &backends).unwrap();

        assert_eq!((spread.tasks, spread.least, spread.most), (3, 0.5, 0.9));
        assert!((spread.wasted_cores - (0.4 * 4.0 + 0.2)).abs() < 1e-9, "{spread:?}");
        assert!(SpreadState::of(now, &backends[3..]).is_none());
    }

    #[test]
    fn what_is_not_finite_or_never_is_null() {
        let view = BackendView::new(Time::ZERO, &backend(BackendState::Healthy, Time::ZERO, f64::NAN, None), "a", None);

        let json = serde_json::to_value(&view).unwrap();

        assert!(json["weight"].is_null() && json["retry_in_s"].is_null() && json["report"]["utilization"].is_null());
    }
}
