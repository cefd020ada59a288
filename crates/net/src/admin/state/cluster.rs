//! One cluster in a client's eyes.

use evenkeel_core::client::ClusterSnapshot;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct ClusterState {
    pub(crate) service: String,
    pub(crate) name: String,
    /// Share of requests that it should get, and that it gets.
    pub(crate) share: f64,
    pub(crate) in_force: f64,
    pub(crate) load: Option<f64>,
    pub(crate) errors: f64,
    pub(crate) capacity: f64,
    pub(crate) usable: u32,
    pub(crate) why: &'static str,
}

impl ClusterState {
    pub(crate) fn new(service: String, name: String, snapshot: &ClusterSnapshot) -> Self {
        let ClusterSnapshot { share, in_force, load, errors, capacity, usable, why } = *snapshot;
        ClusterState { service, name, share, in_force, load, errors, capacity, usable, why }
    }
}
