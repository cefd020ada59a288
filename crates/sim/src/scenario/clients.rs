//! Who asks, how often and for what; what lies in between.

use std::collections::BTreeMap;

use evenkeel_core::Mode;
use evenkeel_core::client::ClustersConfig;
use serde::{Deserialize, Serialize};

use super::span::Span;

/// Shares by name; what they add up to is the whole.
pub type Mix = BTreeMap<String, f64>;

/// The clients of the first service: open loop, they ask whether or not they are answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// How many. Default 100.
    pub count: u32,
    /// Requests per second of all together. Without it `load` says.
    pub rate: Option<f64>,
    /// Requests as a share of what all cores can serve. Default 0.7.
    pub load: f64,
    /// How unequal they are: client n asks in proportion to 1 / n^zipf. Default 0, all equal.
    pub zipf: f64,
    /// How long a caller waits. Default 10 s.
    pub deadline: Span,
    /// Share of clients that are not ours: they go round robin, hear no notice and acknowledge none. Default 0.
    pub foreign: f64,
    /// Clients of ours that have another policy.
    pub others: Option<Others>,
    /// Whether each client asks for one method alone, client n for the n-th in turn, whatever their shares. Default false.
    pub apart: bool,
    /// Share of clients that ask rarely. Default 0.
    pub rare: f64,
    /// How often one of those asks, as a share of how often it would otherwise. Default 0.001.
    pub rarely: f64,
    /// How the rate moves; factors multiply. Default: it does not.
    pub rhythm: Vec<Rhythm>,
}

/// Clients with another policy than `policy`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Others {
    /// Share of clients, spread evenly. Default 0.5.
    pub share: f64,
    /// One of evenkeel. Default `least_loaded`.
    pub policy: String,
}

impl Default for Others {
    fn default() -> Self {
        Others { share: 0.5, policy: "least_loaded".to_owned() }
    }
}

/// One way in which the rate moves over time, as a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Rhythm {
    /// `times` from `at` on, for `lasts` (to the end where it is not given).
    Step {
        /// When.
        at: Span,
        /// For how long.
        lasts: Option<Span>,
        /// Factor.
        times: f64,
    },
    /// From 1 at `at` to `times` after `over`, and stays there.
    Ramp {
        /// When it begins.
        at: Span,
        /// How long it takes.
        over: Span,
        /// Factor at its end.
        times: f64,
    },
    /// `times` for `lasts` at the beginning of every `every`.
    Burst {
        /// Period.
        every: Span,
        /// How long each lasts.
        lasts: Span,
        /// Factor.
        times: f64,
    },
    /// A sine around 1, down to `1 - swing` and up to `1 + swing`, beginning at its mean and rising.
    Diurnal {
        /// Length of a day.
        period: Span,
        /// From 0 to 1.
        swing: f64,
    },
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Method {
    /// For people.
    pub name: String,
    /// Share of requests; shares need not add up to 1. Default 1.
    pub share: f64,
    /// Seconds of a core of speed 1. Default: exactly 10 ms.
    pub cpu: Distribution,
    /// Time it waits for something else after its CPU, without using any. Default: none.
    pub wait: Option<Distribution>,
}

/// How a time is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Distribution {
    /// Always the same.
    Fixed {
        /// That.
        mean: Span,
    },
    /// Memoryless.
    Exponential {
        /// Mean.
        mean: Span,
        /// Largest value, as a multiple of the mean. Default 10,000.
        cut: Option<f64>,
    },
    /// Normal, with what is below 0 drawn as 0, so its mean is a little above `centre`.
    Normal {
        /// Mean before clipping.
        centre: Span,
        /// Standard deviation before clipping.
        deviation: Span,
    },
    /// Log-normal.
    Lognormal {
        /// Mean.
        mean: Span,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Largest value, as a multiple of the mean. Default 10,000.
        cut: Option<f64>,
    },
    /// One of two values.
    Bimodal {
        /// The usual one.
        least: Span,
        /// The other one.
        most: Span,
        /// How often it is the other one.
        share: f64,
    },
    /// Bounded Pareto.
    Pareto {
        /// Smallest value.
        least: Span,
        /// Largest value, as a multiple of the smallest.
        range: f64,
        /// How fast the tail falls. Smaller is heavier.
        alpha: f64,
    },
}

/// Messages keep their order on a connection; what is lost comes later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// One way. Default 250 µs.
    pub delay: Span,
    /// Mean of an exponential time on top. Default none.
    pub jitter: Span,
    /// Share of messages that must be sent again. Default 0.
    pub loss: f64,
    /// How much later those arrive. Default 200 ms.
    pub resend: Span,
    /// Share of datagrams that never arrive. Default as `loss`.
    pub datagram_loss: Option<f64>,
    /// How long a silent connection is believed in. Default 10 s.
    pub silence: Span,
}

/// A service behind the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// For people.
    pub name: String,
    /// Requests one task of the layer before makes here for each of its own. Default 1.
    pub calls: u32,
    /// Its tasks.
    pub backends: super::Backends,
    /// What its requests cost.
    #[serde(rename = "method")]
    pub methods: Vec<Method>,
}

/// Places; clients and backends are divided over them evenly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clusters {
    /// How many. Default 1.
    pub count: u32,
    /// One way between two of them, instead of `network.delay`. Default 10 ms.
    pub delay: Span,
    /// How much longer for each one that lies between two of them, in the order of their numbers. Default none.
    pub farther: Span,
    /// Whom a client knows. Default those of its own.
    pub reach: Reach,
    /// Utilization of its most loaded tasks at which a cluster is full, for clients that spill. Default core's.
    pub full: f64,
    /// How much sooner it is full for requests from elsewhere. Default core's.
    pub margin: f64,
    /// How often a client decides. Default core's.
    pub period: Span,
    /// Whether clients that spill do, and who decides. Default on.
    pub spill: SpillBy,
}

/// Which backends a client knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Those of its own cluster.
    #[default]
    Own,
    /// Those of every cluster, as one service.
    All,
    /// Those of every cluster, nearest first: the next is used when one is full (B19).
    Spill,
}

/// How far spilling may go, and who decides which cluster gets how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpillBy {
    /// Everything stays at home.
    Off,
    /// So it does, and clients say what they would do.
    Observe,
    /// Each client, by what it hears.
    #[default]
    On,
    /// One who knows what is asked for and what each cluster can do: what clients are compared with.
    Ideal,
}

impl From<SpillBy> for Mode {
    fn from(by: SpillBy) -> Self {
        match by {
            SpillBy::Off | SpillBy::Ideal => Mode::Off,
            SpillBy::Observe => Mode::Observe,
            SpillBy::On => Mode::On,
        }
    }
}

impl Clusters {
    pub(crate) fn config(&self) -> ClustersConfig {
        let Clusters { full, margin, period, spill, .. } = *self;
        ClustersConfig { mode: spill.into(), full, margin, period: period.get(), ..ClustersConfig::default() }
    }

    /// How far apart two of them are: 0 for one and the same.
    pub(crate) fn steps(one: u32, other: u32) -> u32 {
        one.abs_diff(other)
    }

    /// The clusters as one of them sees them, nearest first; of those equally far the next in turn.
    pub(crate) fn nearest(&self, own: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.count).map(|step| (own + step) % self.count).collect();
        if self.farther > Span::ZERO {
            all.sort_by_key(|&other| Clusters::steps(own, other));
        }
        all
    }
}

impl Default for Clients {
    fn default() -> Self {
        Clients {
            count: 100,
            rate: None,
            load: 0.7,
            zipf: 0.0,
            deadline: Span::from_secs(10),
            foreign: 0.0,
            others: None,
            apart: false,
            rare: 0.0,
            rarely: 0.001,
            rhythm: Vec::new(),
        }
    }
}

impl Default for Method {
    fn default() -> Self {
        Method { name: String::new(), share: 1.0, cpu: Distribution::Fixed { mean: Span::from_millis(10) }, wait: None }
    }
}

impl Default for Network {
    fn default() -> Self {
        Network {
            delay: Span::from_micros(250),
            jitter: Span::ZERO,
            loss: 0.0,
            resend: Span::from_millis(200),
            datagram_loss: None,
            silence: Span::from_secs(10),
        }
    }
}

impl Default for Layer {
    fn default() -> Self {
        Layer { name: String::new(), calls: 1, backends: super::Backends::default(), methods: Vec::new() }
    }
}

impl Default for Clusters {
    fn default() -> Self {
        let core = ClustersConfig::default();
        Clusters {
            count: 1,
            delay: Span::from_millis(10),
            farther: Span::ZERO,
            reach: Reach::Own,
            full: core.full,
            margin: core.margin,
            period: core.period.into(),
            spill: SpillBy::On,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_first_and_of_those_equally_far_the_next_in_turn() {
        let ring = Clusters { count: 4, ..Clusters::default() };
        assert_eq!((ring.nearest(0), ring.nearest(2)), (vec![0, 1, 2, 3], vec![2, 3, 0, 1]));
        let row = Clusters { farther: Span::from_millis(5), ..ring };
        assert_eq!((row.nearest(0), row.nearest(2)), (vec![0, 1, 2, 3], vec![2, 3, 1, 0]));
    }
}
