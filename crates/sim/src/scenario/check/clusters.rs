//! Places: enough of everything in each, and settings of spilling that core takes.

use evenkeel_core::client::CLUSTERS_MOST;

use super::super::error::BadScenario;
use super::super::policies::ORACLE;
use super::super::{Layer, Reach, Scenario};
use super::range::any_time;

impl Scenario {
    pub(super) fn check_clusters(&self) -> Result<(), BadScenario> {
        any_time("clusters.delay", self.clusters.delay)?;
        any_time("clusters.farther", self.clusters.farther)?;
        let (most, clusters) = (self.clients.count.min(self.backends.count), self.clusters.count);
        if !(1..=most).contains(&clusters) {
            let what = format!("must be from 1 to {most}, so that each has a client and a backend");
            return Err(BadScenario::value("clusters.count", clusters, what));
        }
        let lacks = |layer: &Layer| self.clusters.reach == Reach::Own && layer.backends.count < clusters;
        if let Some(place) = self.layers.iter().position(lacks) {
            let what = format!("must be at least clusters.count, which is {clusters}, or clusters.reach \"all\"");
            let count = self.layers[place].backends.count;
            return Err(BadScenario::value(format!("layer.{place}.backends.count"), count, what));
        }
        self.clusters.config().check().map_err(|bad| BadScenario::value(bad.field, bad.value, bad.allowed))?;
        if self.clusters.reach == Reach::Spill { self.check_spill() } else { Ok(()) }
    }

    /// What clients that spill are not modelled with.
    fn check_spill(&self) -> Result<(), BadScenario> {
        let most = CLUSTERS_MOST as u32;
        if !(2..=most).contains(&self.clusters.count) {
            let what = format!("must be from 2 to {most} where clients spill");
            return Err(BadScenario::value("clusters.count", self.clusters.count, what));
        }
        let cannot = if self.policy == ORACLE {
            "the oracle"
        } else if !self.layers.is_empty() {
            "layers"
        } else {
            return Ok(());
        };
        let what = format!("cannot be together with {cannot}: use \"own\" or \"all\"");
        Err(BadScenario::value("clusters.reach", "\"spill\"", what))
    }
}
