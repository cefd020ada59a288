//! Who is let in at the backends when there is too much, as in core's `AdmissionConfig`; and when that is.

use std::collections::BTreeMap;

use evenkeel_core::server::{AdmissionConfig, Modes, Quota, ServerConfig};
use evenkeel_core::{InvalidConfig, Mode};
use serde::{Deserialize, Serialize};

use super::span::Span;

/// Admission at every backend of every service; but for `mode` the defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// All of it. Default off, so that a scenario is about one thing: only deadlines are looked at.
    pub mode: Switch,
    /// The line in front of the handlers.
    pub queue: Switch,
    /// The cutoff by criticality.
    pub cutoff: Switch,
    /// Hints to clients.
    pub hints: Switch,
    /// The most requests in handlers.
    pub limit: Switch,
    /// As a multiple of what is needed when nothing is wrong.
    pub limit_times: f64,
    /// Customers over their quota.
    pub quota: Switch,
    /// Work that may wait in good times, as time of all cores.
    pub burst: Span,
    /// How long a request that is being cut may wait, as a multiple of what the dearest cost.
    pub age: f64,
    /// How long clients may believe a hint.
    pub hint_ttl: Span,
    /// CPU that answering a refusal takes, as a share of what a request costs on average. Default 0.1.
    pub refusal_cost: f64,
    /// Whether all counts that clients say they held back, or only a little for each request, as of anybody. Default true.
    pub trusts_clients: bool,
    /// What an answer saves of its CPU for each level by which it is asked to be cheaper, as a share. Default 0: handlers
    /// know no cheaper answers.
    pub degrade_saves: f64,
    /// CPU seconds in a second that a customer may use on each backend, by name. Default: no limit.
    pub quotas: BTreeMap<String, f64>,
    /// Whether quotas hold even while there is room. Default false.
    pub quotas_hard: bool,
}

/// How far a mechanism may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    /// Does not look.
    Off,
    /// Counts what it would do.
    Observe,
    /// Does it.
    On,
}

/// The part of the run in which there is too much, for figures of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overload {
    /// When it begins.
    pub from: Span,
    /// When it ends.
    pub until: Span,
    /// Time after its beginning that goodput and latency do not count. Default 1 s.
    #[serde(default = "skip")]
    pub skip: Span,
    /// Length of the windows that must be near the goodput of the whole for it to have settled. Default 200 ms.
    #[serde(default = "window")]
    pub window: Span,
}

fn window() -> Span {
    Span::from_millis(200)
}

fn skip() -> Span {
    Span::from_secs(1)
}

impl ServerSettings {
    /// Whether anything but deadlines is looked at.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == Switch::Off
    }

    /// Settings of a backend's brain.
    pub(crate) fn config(&self) -> ServerConfig {
        let all: Mode = self.mode.into();
        let core = Modes::default();
        let modes = Modes {
            // Deadlines are looked at in any case.
            all: Mode::On,
            deadline: Mode::On,
            quota: all.min(self.quota.into()),
            cutoff: all.min(self.cutoff.into()),
            limit: all.min(self.limit.into()),
            queue: all.min(self.queue.into()),
            attempts: all.min(core.attempts),
            degrade: all.min(core.degrade),
            hints: all.min(self.hints.into()),
        };
        let quota = |cpu: f64| Quota { hard: self.quotas_hard, ..Quota::of_cpu(cpu) };
        let mut admission = AdmissionConfig {
            modes,
            burst: self.burst.get(),
            age: self.age,
            limit: self.limit_times,
            hint_ttl: self.hint_ttl.get(),
            ..AdmissionConfig::default()
        };
        admission.quotas.customers = self.quotas.iter().map(|(name, &cpu)| (name.clone(), quota(cpu))).collect();
        ServerConfig { admission, ..ServerConfig::default() }
    }

    /// What core says of them.
    pub(crate) fn check_core(&self) -> Result<(), InvalidConfig> {
        self.config().check()
    }
}

impl From<Switch> for Mode {
    fn from(switch: Switch) -> Mode {
        match switch {
            Switch::Off => Mode::Off,
            Switch::Observe => Mode::Observe,
            Switch::On => Mode::On,
        }
    }
}

impl From<Mode> for Switch {
    fn from(mode: Mode) -> Switch {
        match mode {
            Mode::Off => Switch::Off,
            Mode::Observe => Switch::Observe,
            Mode::On => Switch::On,
        }
    }
}

impl Default for ServerSettings {
    fn default() -> Self {
        let core = AdmissionConfig::default();
        ServerSettings {
            mode: Switch::Off,
            queue: core.modes.queue.into(),
            cutoff: core.modes.cutoff.into(),
            hints: core.modes.hints.into(),
            limit: core.modes.limit.into(),
            limit_times: core.limit,
            quota: core.modes.quota.into(),
            burst: core.burst.into(),
            age: core.age,
            hint_ttl: core.hint_ttl.into(),
            refusal_cost: 0.1,
            trusts_clients: true,
            degrade_saves: 0.0,
            quotas: BTreeMap::new(),
            quotas_hard: false,
        }
    }
}
