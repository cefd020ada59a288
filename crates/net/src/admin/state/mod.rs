//! Everything there is to see, as `/state` gives it: the names here are an interface.
//!
//! Metrics and page are made from the same. *Unknown is null*, never zero; what is not finite is unknown.

mod admission;
mod channel;
mod cluster;
mod server;

use std::time::Duration;

use evenkeel_core::LoadReport;
use evenkeel_core::server::Phase;
use serde::{Serialize, Serializer};

use crate::meter::{Ledger, process_time};

pub(crate) use admission::{AdmissionState, ByName, SpenderState, by_mechanism};
pub(crate) use channel::{BackendView, ChannelState, Retries, Socket};
pub(crate) use cluster::ClusterState;
pub(crate) use server::{DatagramState, PHASES, SILENT, ServerState};

#[derive(Debug, Serialize)]
pub(crate) struct State {
    pub(crate) version: &'static str,
    /// Since the admin address was set up, by the process's own clock: what rates are made over.
    pub(crate) uptime_s: f64,
    pub(crate) process: Process,
    /// Whether mechanisms of overload control may be switched here.
    pub(crate) switches: bool,
    pub(crate) channels: Vec<ChannelState>,
    pub(crate) servers: Vec<ServerState>,
    /// Of services in several clusters, nearest first.
    pub(crate) clusters: Vec<ClusterState>,
    /// Services whose channel did not answer: nothing else is known of it.
    pub(crate) silent_channels: Vec<String>,
}

/// CPU of the whole process, in seconds of this machine.
#[derive(Debug, Serialize)]
pub(crate) struct Process {
    /// Null where the system does not tell.
    pub(crate) cpu_s: Option<f64>,
    /// Of that, what was charged to requests as it was used. What is spent outside of handlers is spread over them later.
    pub(crate) charged_s: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) age_s: f64,
    pub(crate) utilization: Option<f64>,
    pub(crate) utilization_slow: Option<f64>,
    pub(crate) qps: Option<f64>,
    pub(crate) eps: Option<f64>,
    pub(crate) in_flight: Option<u32>,
    pub(crate) runnable: Option<f64>,
    pub(crate) processors: Option<f64>,
    pub(crate) latency_ms: Option<f64>,
}

/// Numbers by name, in a fixed order.
#[derive(Debug)]
pub(crate) struct Counts(pub(crate) Vec<(&'static str, u64)>);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

impl State {
    pub(crate) fn new(uptime: Duration, switches: bool) -> Self {
        State {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: seconds(uptime),
            process: Process::read(),
            switches,
            channels: Vec::new(),
            servers: Vec::new(),
            clusters: Vec::new(),
            silent_channels: Vec::new(),
        }
    }

    /// Why it is not ready, one line each; nothing where it is.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let channels = self.channels.iter().filter_map(|channel| {
            Some(format!("channel to {}: no usable backend: {}", channel.service, channel.trouble.as_ref()?))
        });
        let silent = self.silent_channels.iter().map(|service| format!("channel to {service}: does not answer"));
        let servers = self.servers.iter().zip(1..).filter(|(server, _)| server.phase != Phase::Serving.as_str());
        let servers = servers.map(|(server, number)| format!("server {number}: {}", server.phase));
        channels.chain(silent).chain(servers).collect()
    }
}

impl Process {
    fn read() -> Self {
        Process { charged_s: seconds(Ledger::read().metered), cpu_s: process_time().map(seconds) }
    }
}

impl Report {
    fn new(age: Duration, report: &LoadReport) -> Self {
        Report {
            age_s: seconds(age),
            utilization: finite(report.utilization),
            utilization_slow: finite(report.utilization_slow),
            qps: finite(report.qps),
            eps: finite(report.eps),
            in_flight: report.in_flight,
            runnable: finite(report.runnable),
            processors: finite(report.processors),
            latency_ms: report.latency.map(|latency| latency.as_secs_f64() * 1e3),
        }
    }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// To the microsecond: more would only be digits.
fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e6
}

/// Costs of requests: some take less than a microsecond.
fn nanoseconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e9).round() / 1e9
}
