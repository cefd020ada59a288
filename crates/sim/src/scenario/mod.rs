//! A scenario: who calls whom, how often, on which machines, and what goes wrong. A TOML file that people copy and edit.
//!
//! Every field has a default that a reader would expect, so the shortest scenario is a line. Times are written as
//! `"250us"`, `"10ms"`, `"1m 30s"`.

mod backends;
mod check;
mod clients;
mod closest;
mod error;
mod faults;
mod goals;
mod idle;
mod metrics;
mod parse;
mod pick;
mod places;
mod policies;
mod retry;
mod selection;
mod server;
mod set;
mod span;
mod words;

pub use backends::{Backends, Background, Machine, Neighbours, Readings, Warmup};
pub use check::SEEDS_MOST;
pub use clients::{Clients, Clusters, Distribution, Layer, Method, Mix, Network, Others, Reach, Rhythm, SpillBy};
pub(crate) use closest::closest;
pub use error::BadScenario;
use evenkeel_core::client::ErrorsConfig;
use evenkeel_core::{ClientConfig, PolicyName, ThrottleConfig};
pub use faults::{Fault, FaultKind};
pub use goals::{Check, FigureKind, FigureSpec, Published, PublishedLine, Variant};
pub use idle::Idle;
pub(crate) use metrics::ATTEMPTS_TOLD;
pub use pick::{PrequalSettings, ProbesSettings, WeightedSettings};
pub(crate) use policies::ORACLE;
pub use retry::RetrySettings;
pub use selection::selection;
use serde::{Deserialize, Serialize};
pub use server::{Overload, ServerSettings, Switch};
pub use span::Span;

/// Everything one run depends on, but for its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// One line for the list.
    pub about: String,
    /// What is simulated: requests in a world, or only who is dealt whom.
    pub model: Model,
    /// Seeds a check averages over, starting from the one given. Default 1.
    pub seeds: u32,
    /// Simulated time, `settle` included. Default 60 s.
    pub duration: Span,
    /// Time at the start that no figure counts. Default 10 s.
    pub settle: Span,
    /// Time over which the load of a task is a mean. Default 1 s.
    pub window: Span,
    /// Who gets the next request: a policy of core, or a baseline of the laboratory. Default `level`.
    pub policy: String,
    /// What a client that keeps failing holds back by itself. Default none; `envoy` is Envoy's admission control.
    pub admission: Option<String>,
    /// Which backends each client uses.
    pub subset: Subset,
    /// Limits and errors, as in core's `ClientConfig`.
    pub client: ClientSettings,
    /// Whether clients try again what was refused or failed.
    pub retry: RetrySettings,
    /// Who is let in at the backends.
    pub server: ServerSettings,
    /// When there is too much: figures of that are made where it is given.
    pub overload: Option<Overload>,
    /// What becomes of connections that nobody uses.
    pub idle: Idle,
    /// Who asks, and how often.
    pub clients: Clients,
    /// Who answers.
    pub backends: Backends,
    /// What is asked; one with 10 ms of CPU where none is given.
    #[serde(rename = "method")]
    pub methods: Vec<Method>,
    /// Share of each criticality, by name. Empty: all critical.
    pub criticality: Mix,
    /// Share of each customer, by name. Empty: nobody in particular.
    pub customers: Mix,
    /// What lies between clients and backends.
    pub network: Network,
    /// Services behind the backends, each called by the tasks of the one before.
    #[serde(rename = "layer")]
    pub layers: Vec<Layer>,
    /// Places that clients and backends are divided over.
    pub clusters: Clusters,
    /// What goes wrong, and what is changed while it runs.
    #[serde(rename = "fault")]
    pub faults: Vec<Fault>,
    /// The same world under other settings, on the same trace.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// What must come out.
    #[serde(rename = "check")]
    pub checks: Vec<Check>,
    /// What is drawn.
    #[serde(rename = "figure")]
    pub figures: Vec<FigureSpec>,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Requests on machines, over a network.
    #[default]
    World,
    /// Only who is dealt whom: connections, no requests.
    Dealing,
}

/// Which backends a client uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Subset {
    /// Backends one client uses. Default 20.
    pub size: u32,
    /// `random`, `rounds` or `even`. Default `even`.
    pub algorithm: String,
}

/// Settings of the client's brain; defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSettings {
    /// Requests in flight to one backend, at most.
    pub active_max: u32,
    /// Whether recent errors of a backend count as requests in flight there (A14).
    pub errors: Switch,
    /// Time in which an error's weight halves.
    pub error_half_life: Span,
    /// Whether clients hold back by what was accepted of late (B7). Default off, so that a scenario is about one thing.
    pub throttle: Switch,
    /// Requests sent for each one accepted.
    pub k: f64,
    /// How far back requests and accepts count.
    pub throttle_window: Span,
    /// Whether clients hold back by what backends say that they admit.
    pub hints: Switch,
    /// Whether backends are left out that fail where others do not. Default off, so that a scenario is about one thing.
    pub eject: Switch,
    /// Settings of `weighted`.
    pub weighted: WeightedSettings,
    /// Settings of `prequal`.
    pub prequal: PrequalSettings,
    /// What policies may spend on probes.
    pub probes: ProbesSettings,
    /// How fast the policy `level` corrects uneven CPU.
    pub level_gain: f64,
}

impl ClientSettings {
    /// Gives a client's brain these settings.
    pub(crate) fn put_into(&self, config: &mut ClientConfig) {
        config.flow.active_max = self.active_max;
        config.errors = ErrorsConfig { mode: self.errors.into(), half_life: self.error_half_life.get() };
        config.throttle = self.throttling();
        config.pick.level.gain = self.level_gain;
        config.eject.mode = self.eject.into();
        self.weighted.put_into(config);
        self.prequal.put_into(config);
        self.probes.put_into(config);
    }

    fn throttling(&self) -> ThrottleConfig {
        ThrottleConfig {
            local: self.throttle.into(),
            hints: self.hints.into(),
            k: self.k,
            window: self.throttle_window.get(),
            ..ThrottleConfig::default()
        }
    }
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            about: String::new(),
            model: Model::World,
            seeds: 1,
            duration: Span::from_secs(60),
            settle: Span::from_secs(10),
            window: Span::from_secs(1),
            policy: PolicyName::default().as_str().to_owned(),
            admission: None,
            subset: Subset::default(),
            client: ClientSettings::default(),
            retry: RetrySettings::default(),
            server: ServerSettings::default(),
            overload: None,
            idle: Idle::default(),
            clients: Clients::default(),
            backends: Backends::default(),
            methods: Vec::new(),
            criticality: Mix::default(),
            customers: Mix::default(),
            network: Network::default(),
            layers: Vec::new(),
            clusters: Clusters::default(),
            faults: Vec::new(),
            variants: Vec::new(),
            checks: Vec::new(),
            figures: Vec::new(),
        }
    }
}

impl Default for Subset {
    fn default() -> Self {
        Subset { size: 20, algorithm: "even".to_owned() }
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        let core = evenkeel_core::ClientConfig::default();
        ClientSettings {
            active_max: core.flow.active_max,
            errors: Switch::On,
            error_half_life: core.errors.half_life.into(),
            throttle: Switch::Off,
            k: core.throttle.k,
            throttle_window: core.throttle.window.into(),
            hints: Switch::On,
            eject: Switch::Off,
            weighted: WeightedSettings::default(),
            prequal: PrequalSettings::default(),
            probes: ProbesSettings::default(),
            level_gain: core.pick.level.gain,
        }
    }
}
