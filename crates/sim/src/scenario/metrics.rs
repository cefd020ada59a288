//! Which figures a run can have, so that a check of one that no run has is refused before anything runs.
//!
//! A run may lack some of these: nobody was served, or the fault never healed. What stands here is what could be.

use evenkeel_core::Criticality;

use super::closest::closest;
use super::{FaultKind, Model, ORACLE, Scenario, Switch};

/// Figures, whether runs of the scenario can have them, and what it takes.
struct Family {
    names: Vec<String>,
    is_there: bool,
    needs: &'static str,
}

fn family(names: &[&str], is_there: bool, needs: &'static str) -> Family {
    Family { names: names.iter().map(|&name| name.to_owned()).collect(), is_there, needs }
}

impl Scenario {
    /// The names of all figures that a run of it can have. Of the scenario as it is: those of a variant are the variant's.
    ///
    /// ```
    /// use evenkeel_sim::scenario::Scenario;
    ///
    /// let scenario = Scenario::parse("")?;
    /// assert!(scenario.metrics().contains(&"p99_ms".to_owned()));
    /// assert!(!scenario.metrics().contains(&"goodput".to_owned()), "that takes [overload]");
    /// # Ok::<(), evenkeel_sim::scenario::BadScenario>(())
    /// ```
    pub fn metrics(&self) -> Vec<String> {
        self.families().into_iter().filter(|family| family.is_there).flat_map(|family| family.names).collect()
    }

    /// What is wrong with the name of a figure, if anything is.
    pub(super) fn wrong_metric(&self, name: &str) -> Option<String> {
        let families = self.families();
        let mut having = families.iter().filter(|family| family.names.iter().any(|one| one == name)).peekable();
        if having.clone().any(|family| family.is_there) {
            return None;
        }
        if let Some(family) = having.peek() {
            return Some(format!("nothing measures it here: it takes {}", family.needs));
        }
        if let Some(what) = self.wrong_number(name) {
            return Some(what);
        }
        let known = families.iter().filter(|family| family.is_there).flat_map(|family| &family.names);
        let near = closest(name, known.map(String::as_str)).map(|near| format!("did you mean {near:?}? "));
        let near = near.unwrap_or_default();
        Some(format!("unknown figure: {near}docs/scenarios.md has all of them below Metrics"))
    }

    /// What is wrong with the number of a fault, layer or cluster that the figure is about, if there is no such one.
    fn wrong_number(&self, name: &str) -> Option<String> {
        let counts = [
            ("fault", 0, self.faults.len()),
            ("layer", 1, self.layers.len()),
            ("cluster", 0, self.clusters.count as usize),
        ];
        counts.into_iter().find_map(|(word, first, count)| {
            let number = name.strip_prefix(word)?.split('_').next()?.parse::<usize>().ok()?;
            let is_there = (first..first + count).contains(&number);
            (!is_there)
                .then(|| format!("there is no {word} {number}: they are counted from {first}, and there are {count}"))
        })
    }

    fn families(&self) -> Vec<Family> {
        let is_world = self.model == Model::World;
        let mut families = vec![
            family(&OF_A_WORLD, is_world, "model = \"world\""),
            family(&OF_A_DEALING, !is_world, "model = \"dealing\""),
        ];
        if is_world {
            families.extend(self.of_settings());
            families.extend(self.of_parts());
            families.extend(self.of_faults());
        }
        families
    }

    /// What is measured where something is switched on.
    fn of_settings(&self) -> Vec<Family> {
        let is_oracle = self.policy == ORACLE;
        let (has_idle, has_clusters) = (self.idle.after.is_some(), self.clusters.count > 1);
        let overload = || Criticality::ALL.map(|level| format!("overload_{}", of_level(level)));
        let mut of_overload = family(&OF_OVERLOAD, self.overload.is_some(), "[overload]");
        of_overload.names.extend(overload());
        of_overload.names.extend(self.customers.keys().map(|name| format!("customer_{name}_error_share")));
        let mut of_retries = family(&["amplification"], !self.retry.is_off(), "retry.mode or retry.naive");
        of_retries.names.extend((1..=ATTEMPTS_TOLD).map(|number| format!("attempts_{number}")));
        of_retries.names.extend((1..=self.layers.len()).map(|layer| format!("layer{layer}_amplification")));
        vec![
            family(&["rejected", "held_back"], !self.server.is_off(), "server.mode"),
            family(&["ejected", "panics"], self.client.eject != Switch::Off, "client.eject"),
            family(&OF_IDLE, has_idle && !is_oracle, "idle.after, and another policy than the oracle"),
            family(
                &OF_CLUSTERS,
                has_clusters && !is_oracle,
                "clusters.count above 1, and another policy than the oracle",
            ),
            of_overload,
            of_retries,
        ]
    }

    /// What is measured of each layer, cluster, customer and criticality.
    fn of_parts(&self) -> Vec<Family> {
        let layers = (1..=self.layers.len())
            .flat_map(|layer| ["requests", "utilization"].map(|what| format!("layer{layer}_{what}")));
        let clusters = (0..self.clusters.count).filter(|_| self.clusters.count > 1);
        let is_oracle = self.policy == ORACLE;
        let offered = clusters.clone().filter(|_| !is_oracle).flat_map(|cluster| {
            ["offered", "offered_most", "offered_least", "offered_last"].map(|what| format!("cluster{cluster}_{what}"))
        });
        let clusters = clusters.map(|cluster| format!("cluster{cluster}_utilization")).chain(offered);
        let customers = self.customers.keys().map(|name| format!("customer_{name}_served_share"));
        let names = layers.chain(clusters).chain(customers).collect();
        let levels = Criticality::ALL.map(of_level).into();
        vec![
            Family { names, is_there: true, needs: "" },
            Family { names: levels, is_there: !self.criticality.is_empty(), needs: "[criticality]" },
        ]
    }

    fn of_faults(&self) -> Vec<Family> {
        let is_resized = self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Resize { .. }));
        let mut families = vec![family(&OF_A_RESIZE, is_resized, "a fault of the kind resize")];
        for (number, fault) in self.faults.iter().enumerate() {
            let is_of_backends = !matches!(fault.kind, FaultKind::Resize { .. } | FaultKind::Policy { .. });
            let is_first = is_of_backends && fault.layer == 0;
            let is_restart = matches!(fault.kind, FaultKind::Restart { .. });
            let named = |names: &[&str], is_there, needs| Family {
                names: names.iter().map(|name| format!("fault{number}_{name}")).collect(),
                is_there,
                needs,
            };
            families.push(named(&["failed"], is_of_backends, "a fault that is about backends"));
            let shares = ["fair", "share", "during_share", "others_share"];
            families.push(named(&shares, is_first, "a fault of backends of the first service"));
            let is_healed = is_first && fault.lasts.is_some();
            families.push(named(&["back_s"], is_healed, "a fault of the first service that ends: give it lasts"));
            families.push(named(&["restarted_share"], is_restart, "a fault of the kind restart"));
        }
        families
    }
}

fn of_level(level: Criticality) -> String {
    format!("{}_served_share", level.as_str().to_lowercase())
}

/// Attempts by their number; those with higher numbers count as the last.
pub(crate) const ATTEMPTS_TOLD: usize = 10;

const OF_A_WORLD: [&str; 27] = [
    "requests",
    "served",
    "failed",
    "expired",
    "unsent",
    "refused",
    "served_share",
    "failed_share",
    "refused_share",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "mean_ms",
    "first_half_p99_ms",
    "second_half_p99_ms",
    "in_handlers_most",
    "restarts",
    "utilization",
    "spread",
    "spread_1s",
    "spread_1s_p95",
    "spread_60s",
    "spread_60s_p95",
    "most_to_mean",
    "wasted_cores",
    "events",
];
const OF_A_DEALING: [&str; 7] = [
    "connections_least",
    "connections_mean",
    "connections_most",
    "least_to_mean",
    "most_to_mean",
    "expected_least_to_mean",
    "expected_most_to_mean",
];
const OF_IDLE: [&str; 8] =
    ["inactive_share", "waited", "datagrams_per_second", "unreached", "woken", "visits", "became_refusing", "told_ms"];
const OF_CLUSTERS: [&str; 4] = ["offered_most", "home_share", "home_share_last", "home_share_least"];
const OF_A_RESIZE: [&str; 6] = [
    "connections_before",
    "connections_lost",
    "connections_lost_share",
    "plan_lost",
    "plan_lost_share",
    "least_lost_share",
];
const OF_OVERLOAD: [&str; 20] = [
    "goodput",
    "latency_unloaded_p99_ms",
    "accepted_p99_ms",
    "accepted_p99_ratio",
    "critical_p50_ms",
    "critical_p99_ms",
    "settle_s",
    "worst_100ms",
    "recover_s",
    "other_customers_error_share",
    "other_customers_error_worst",
    "inversion_of_refused",
    "inversion_of_accepted",
    "overload_rejected",
    "overload_held_back",
    "cutoff_mean",
    "cutoff_std",
    "degrade_mean",
    "degrade_moves",
    "line_mean_ms",
];
