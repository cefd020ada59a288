//! What each cluster is asked to do over what it can do, where there are several.

use std::collections::BTreeMap;

use evenkeel_core::Readiness;

use super::results::points_of;
use super::tally::Window;
use super::{ORIGIN, World};
use crate::document::Series;

impl World<'_> {
    /// Processors of each cluster that take requests now, as processors of speed 1.
    pub(super) fn capacities(&self) -> Vec<f64> {
        let mut all = vec![0.0; self.scenario.clusters.count as usize];
        for task in self.tasks.iter().filter(|task| task.service == 0) {
            if task.is_up && task.brain.readiness() == Readiness::Ready {
                all[task.cluster as usize] += task.machine.cores() * task.pace.speed();
            }
        }
        all
    }

    pub(super) fn cluster_figures(&self, metrics: &mut BTreeMap<String, f64>, series: &mut BTreeMap<String, Series>) {
        let clusters = self.scenario.clusters.count;
        if clusters < 2 || self.central.is_some() {
            return;
        }
        let mut most_of_all = 0.0_f64;
        for cluster in 0..clusters {
            let all: Vec<(f64, f64)> =
                self.measured().filter_map(|(end, window)| Some((end, self.offered(window, cluster)?))).collect();
            let steady: Vec<f64> = all.iter().filter(|(end, _)| self.is_steady(*end)).map(|(_, over)| *over).collect();
            let (most, least) =
                steady.iter().fold((0.0_f64, f64::INFINITY), |(most, least), &one| (most.max(one), least.min(one)));
            let mut put = |name: &str, value: f64| metrics.insert(format!("cluster{cluster}_{name}"), value);
            if !steady.is_empty() {
                put("offered", all.iter().map(|(_, over)| over).sum::<f64>() / all.len() as f64);
                put("offered_most", most);
                put("offered_least", least);
            }
            if let Some((_, last)) = all.last() {
                put("offered_last", *last);
            }
            most_of_all = most_of_all.max(most);
            series.insert(format!("cluster{cluster}_offered"), points_of("share of capacity", all.into_iter()));
        }
        metrics.insert("offered_most".to_owned(), most_of_all);
        self.home_figures(metrics, series);
    }

    fn home_figures(&self, metrics: &mut BTreeMap<String, f64>, series: &mut BTreeMap<String, Series>) {
        let home = |windows: &[(f64, &Window)]| {
            let [sent, home] = windows.iter().fold([0, 0], |[sent, home], (_, window)| {
                [sent + u64::from(window.sent[0]), home + u64::from(window.sent[1])]
            });
            (sent > 0).then(|| home as f64 / sent as f64)
        };
        let all: Vec<(f64, &Window)> = self.measured().collect();
        let in_the_end = &all[all.len().saturating_sub(LAST_WINDOWS)..];
        for (name, share) in [("home_share", home(&all)), ("home_share_last", home(in_the_end))] {
            if let Some(share) = share {
                metrics.insert(name.to_owned(), share);
            }
        }
        let worst = all.iter().filter_map(|one| home(&[*one])).fold(1.0, f64::min);
        metrics.insert("home_share_least".to_owned(), worst);
        let points = all.iter().filter_map(|one| Some((one.0, home(&[*one])?)));
        series.insert("home_share".to_owned(), points_of("share", points));
    }

    /// CPU asked of a cluster over what it can do; nothing where it can do nothing and is asked for nothing.
    fn offered(&self, window: &Window, cluster: u32) -> Option<f64> {
        let cpu = window.offered.get(cluster as usize).copied().unwrap_or(0.0);
        let capacity = window.capacity.get(cluster as usize).copied()? * self.scenario.window.seconds();
        (cpu > 0.0 || capacity > 0.0).then(|| if capacity > 0.0 { (cpu / capacity).min(OVER_MOST) } else { OVER_MOST })
    }

    /// Whether a window that ends then begins at least two seconds after whatever changed last.
    fn is_steady(&self, end: f64) -> bool {
        let begins = end - self.scenario.window.seconds();
        let seconds = |at: u64| at.saturating_sub(ORIGIN) as f64 / 1e9;
        let is_near =
            |at: u64| at < u64::MAX && (seconds(at) - 1e-6..seconds(at) + STEP_LASTS - 1e-6).contains(&begins);
        // One that changes while the window runs is as near.
        let is_inside = |at: u64| at < u64::MAX && seconds(at) > begins && seconds(at) < end - 1e-6;
        !self.faults.iter().any(|fault| [fault.from, fault.until].into_iter().any(|at| is_near(at) || is_inside(at)))
    }
}

/// Seconds that clients have to answer to a step.
const STEP_LASTS: f64 = 2.0;
/// The last windows of a run: whether requests are home again.
const LAST_WINDOWS: usize = 5;
/// A cluster without capacity that is asked for something.
const OVER_MOST: f64 = 1000.0;
