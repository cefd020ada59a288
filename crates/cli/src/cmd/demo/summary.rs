//! What the demo found, as plain data: the JSON document, field by field.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::client::ChannelSnapshot;
use evenkeel_core::stats::Spread;
use serde::Serialize;

use super::fleet::{CORES_EACH, Member};
use crate::load::{self, Tally, retries};

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    pub(super) spread: Extent,
    /// Cores the others left unused compared with the busiest backend.
    pub(super) wasted: f64,
    pub(super) latency_ms: Latency,
    pub(super) requests: Requests,
    /// Attempts made again since the one before certainly never ran.
    pub(super) retries: u64,
    pub(super) backends: Vec<Backend>,
}

/// Utilization over the run: processor time used over processor time there was.
#[derive(Debug, Serialize)]
pub(super) struct Extent {
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Requests {
    pub(super) ok: u64,
    pub(super) degraded: u64,
    pub(super) failed: u64,
    pub(super) refused: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Backend {
    pub(super) name: String,
    pub(super) speed: f64,
    pub(super) cores: u32,
    pub(super) utilization: f64,
    /// Answered by it.
    pub(super) requests: u64,
    pub(super) latency_ms: Latency,
    /// In the client's eyes when the run ended.
    pub(super) state: &'static str,
    pub(super) restarts: u32,
    /// For its restarts.
    pub(super) away_s: f64,
}

impl Summary {
    /// Of members that have stopped, after a load that took `took`.
    pub(super) fn new(took: Duration, members: &[Member], tally: &Tally, snapshot: &ChannelSnapshot) -> Self {
        let backends: Vec<Backend> = members.iter().map(|member| backend(took, member, tally, snapshot)).collect();
        let spread = Spread::of(backends.iter().map(|backend| backend.utilization));
        let Spread { least, mean, most, wasted, .. } = spread.expect("a demo has backends");
        Summary {
            spread: Extent { min: least, mean, max: most },
            wasted: wasted * f64::from(CORES_EACH),
            latency_ms: Latency { p50: tally.latency.ms(0.5), p99: tally.latency.ms(0.99) },
            requests: Requests {
                ok: tally.ok,
                degraded: tally.degraded,
                failed: tally.failed(),
                refused: tally.refused.clone(),
            },
            retries: retries(snapshot, tally),
            backends,
        }
    }
}

fn backend(took: Duration, member: &Member, tally: &Tally, snapshot: &ChannelSnapshot) -> Backend {
    let name = member.address.to_string();
    let there_s = took.saturating_sub(member.away).as_secs_f64() * f64::from(CORES_EACH);
    let place = snapshot.names.iter().position(|known| *known == name);
    let latency = tally.by_backend.get(&name);
    Backend {
        speed: member.speed,
        cores: CORES_EACH,
        utilization: if there_s > 0.0 { member.busy_core_s / there_s } else { 0.0 },
        requests: latency.map_or(0, load::Latency::count),
        latency_ms: Latency {
            p50: latency.and_then(|latency| latency.ms(0.5)),
            p99: latency.and_then(|latency| latency.ms(0.99)),
        },
        state: place.map_or("unknown", |place| snapshot.client.backends[place].state.as_str()),
        restarts: member.restarts,
        away_s: member.away.as_secs_f64(),
        name,
    }
}
