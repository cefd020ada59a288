//! Clusters of one service, nearest first.

use super::super::state::ClusterState;
use super::text::Text;

pub(super) fn of_clusters(text: &mut Text, clusters: &[ClusterState]) {
    let mut each = |name: &str, help: &str, value: fn(&ClusterState) -> Option<f64>| {
        text.gauge(name, help);
        for cluster in clusters {
            if let Some(value) = value(cluster) {
                text.sample(&[("service", &cluster.service), ("cluster", &cluster.name)], value);
            }
        }
    };
    each("evenkeel_cluster_share", "Share of requests that a cluster should get.", |one| Some(one.share));
    each("evenkeel_cluster_share_in_force", "Share of requests that it gets.", |one| Some(one.in_force));
    let load = "Utilization of its most loaded tasks, errors as more than full.";
    each("evenkeel_cluster_load", load, |one| one.load);
    each("evenkeel_cluster_errors", "Share of attempts of late that it refused or failed.", |one| Some(one.errors));
    each("evenkeel_cluster_capacity", "Processors of it that can be used.", |one| Some(one.capacity));
}
