//! What can be set for a client. Every default has its reason in `docs/defaults.md`.

use std::time::Duration;

use super::eject::EjectConfig;
use super::pick::{PickConfig, PolicyName};
use super::retry::RetryConfig;
use super::subset::{Algorithm, no_client_ordinal};
use super::throttle::ThrottleConfig;
use crate::plan::COUNT_MOST;
use crate::{InvalidConfig, Mode};

/// All settings of a client, swapped whole and checked first.
///
/// ```
/// use evenkeel_core::ClientConfig;
///
/// let mut config = ClientConfig::default();
/// config.flow.active_max = 0;
/// let error = config.check().unwrap_err();
/// assert_eq!(error.to_string(), "flow.active_max = 0 is not possible: must be from 1 to 1000000");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConfig {
    /// Which backends of the service this client uses.
    pub subset: SubsetConfig,
    /// Who of them gets the next request. Default `level`.
    pub policy: PolicyName,
    /// Another one whose picks are computed and counted for each request, and change nothing. Costs as much as it would to
    /// decide. Default: none.
    pub observe_policy: Option<PolicyName>,
    /// Settings of the policies that have some.
    pub pick: PickConfig,
    /// How much one backend may have in flight from this client.
    pub flow: FlowConfig,
    /// Whether and how long errors count as active requests.
    pub errors: ErrorsConfig,
    /// Which backends are left out because they fail.
    pub eject: EjectConfig,
    /// When to try a lost connection again.
    pub backoff: BackoffConfig,
    /// When a connection that nobody uses is let go.
    pub idle: IdleConfig,
    /// How backends without a connection are checked.
    pub checks: ChecksConfig,
    /// What policies may spend on probes.
    pub probes: ProbesConfig,
    /// When to send less to a service that refuses.
    pub throttle: ThrottleConfig,
    /// When to try again what was refused or failed.
    pub retry: RetryConfig,
}

/// Which backends a client uses (A9).
#[derive(Clone, Debug, PartialEq)]
pub struct SubsetConfig {
    /// Backends in use by one client. More spreads bursts and failures wider and costs connections. Default 20.
    pub size: u32,
    /// How they are dealt. Default: `even` where client and backends have ordinals, else `random`.
    pub algorithm: Option<Algorithm>,
    /// This client's place among the clients of the service: dense, from 0. Default: none.
    pub client: Option<u32>,
    /// What the dealing is shuffled with; the same for all clients of the service. Default 0.
    pub seed: u64,
    /// How long a member may be unreachable before another backend stands in for it. Shorter replaces sooner and
    /// reconnects more. Default 1 s; a lame duck is replaced at once.
    pub replace_after: Duration,
}

/// Limits of what is in flight to one backend (A2).
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Requests in flight to one backend. Lower protects it sooner and starves slow requests sooner. Default 100.
    pub active_max: u32,
    /// Long-lived streams open to one backend. Default 100.
    pub streams_max: u32,
}

/// How recent errors count (A14).
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorsConfig {
    /// Whether they do. Off, a backend that fails at once looks idle and draws traffic. Default on.
    pub mode: Mode,
    /// Time in which an error's weight halves. Longer avoids a failing backend more, and a healed one for longer.
    /// Default 1 s.
    pub half_life: Duration,
}

/// When a lost connection is tried again: after `first`, then twice that, up to `most`, each with jitter.
#[derive(Clone, Debug, PartialEq)]
pub struct BackoffConfig {
    /// Before the second try; the first is made at once. Default 50 ms.
    pub first: Duration,
    /// Never longer than this. Default 10 s.
    pub most: Duration,
    /// Share by which a wait is drawn shorter or longer, so that clients do not come back together. Default 0.2.
    pub jitter: f64,
}

/// When a connection that nobody uses is let go (A8): the backend is *inactive* then, and is checked without one.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleConfig {
    /// How long nobody has used it, looked at four times in that time. Shorter saves memory at both ends, and makes rare callers wait for a
    /// connection more often; `None` keeps all. Default 5 min.
    pub after: Option<Duration>,
}

/// How inactive backends are checked (A5, A8).
#[derive(Clone, Debug, PartialEq)]
pub struct ChecksConfig {
    /// How often each is asked how it is. Rarer costs less, and learns later of one that died. Default 10 s.
    pub every: Duration,
    /// How long an answer may take before it is asked again. Default 1 s.
    pub timeout: Duration,
    /// Silences in a row after which it is connected to, in order to know. Default 3.
    pub silences_max: u32,
    /// How often one is connected to that cannot be checked otherwise. Default 60 s.
    pub visit_every: Duration,
    /// Share by which each of these is drawn shorter or longer, so that clients do not ask together. Default 0.2.
    pub jitter: f64,
}

/// What policies that probe may spend; both limits hold.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbesConfig {
    /// Probes for each request. Default 0.5.
    pub per_request: f64,
    /// Probes of one client in a second. Default 100.
    pub per_second: f64,
}

impl Default for IdleConfig {
    fn default() -> Self {
        IdleConfig { after: Some(Duration::from_secs(300)) }
    }
}

impl Default for ChecksConfig {
    fn default() -> Self {
        ChecksConfig {
            every: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            silences_max: 3,
            visit_every: Duration::from_secs(60),
            jitter: 0.2,
        }
    }
}

impl Default for ProbesConfig {
    fn default() -> Self {
        ProbesConfig { per_request: 0.5, per_second: 100.0 }
    }
}

impl Default for SubsetConfig {
    fn default() -> Self {
        SubsetConfig { size: 20, algorithm: None, client: None, seed: 0, replace_after: Duration::from_secs(1) }
    }
}

impl Default for FlowConfig {
    fn default() -> Self {
        FlowConfig { active_max: 100, streams_max: 100 }
    }
}

impl Default for ErrorsConfig {
    fn default() -> Self {
        ErrorsConfig { mode: Mode::On, half_life: Duration::from_secs(1) }
    }
}

impl Default for BackoffConfig {
    fn default() -> Self {
        BackoffConfig { first: Duration::from_millis(50), most: Duration::from_secs(10), jitter: 0.2 }
    }
}

impl ClientConfig {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        InvalidConfig::unless_in_range("subset.size", self.subset.size, 1, COUNT_MOST)?;
        InvalidConfig::unless_in_range("subset.replace_after", self.subset.replace_after, 10 * millisecond, hour)?;
        InvalidConfig::unless_in_range("flow.active_max", self.flow.active_max, 1, IN_FLIGHT_MOST)?;
        InvalidConfig::unless_in_range("flow.streams_max", self.flow.streams_max, 1, IN_FLIGHT_MOST)?;
        InvalidConfig::unless_in_range("errors.half_life", self.errors.half_life, Duration::from_millis(10), hour)?;
        InvalidConfig::unless_in_range("backoff.first", self.backoff.first, millisecond, hour)?;
        InvalidConfig::unless_in_range("backoff.most", self.backoff.most, self.backoff.first, hour)?;
        InvalidConfig::unless_in_range("backoff.jitter", self.backoff.jitter, 0.0, 0.9)?;
        self.pick.check()?;
        self.eject.check()?;
        self.check_checks()?;
        self.throttle.check()?;
        self.retry.check()?;
        if self.subset.client.is_none() && self.subset.algorithm.is_some_and(Algorithm::needs_client_ordinal) {
            return Err(no_client_ordinal());
        }
        Ok(())
    }

    fn check_checks(&self) -> Result<(), InvalidConfig> {
        let (hundredth, day) = (Duration::from_millis(10), Duration::from_secs(24 * 3600));
        let ChecksConfig { every, timeout, silences_max, visit_every, jitter } = self.checks;
        if let Some(after) = self.idle.after {
            InvalidConfig::unless_in_range("idle.after", after, hundredth, day)?;
        }
        InvalidConfig::unless_in_range("checks.every", every, hundredth, Duration::from_secs(3600))?;
        InvalidConfig::unless_in_range("checks.timeout", timeout, Duration::from_millis(1), every)?;
        InvalidConfig::unless_in_range("checks.silences_max", silences_max, 1, 100)?;
        InvalidConfig::unless_in_range("checks.visit_every", visit_every, hundredth, day)?;
        InvalidConfig::unless_in_range("checks.jitter", jitter, 0.0, 0.9)?;
        InvalidConfig::unless_in_range("probes.per_request", self.probes.per_request, 0.0, 100.0)?;
        InvalidConfig::unless_in_range("probes.per_second", self.probes.per_second, 0.0, 1e6)
    }
}

/// More cannot be meant; a connection carries no more streams in practice.
const IN_FLIGHT_MOST: u32 = 1_000_000;
