//! A client of one service: what it does between requests ([`Client`]) and for each request ([`Picker`]).
//!
//! The order of the modules is the order a request meets them; then what happens between requests.

mod picker;
mod refusal;

pub mod pick;

mod errors;
mod flow;
mod slots;

mod backend;
mod backoff;
mod config;
mod health;
mod member;
mod roster;
pub mod subset;

use std::collections::VecDeque;
use std::sync::Arc;

pub use backend::{BackendId, BackendList, BackendSpec, BadBackends};
pub use config::{BackoffConfig, ClientConfig, ErrorsConfig, FlowConfig, SubsetConfig};
pub use health::{BackendState, HealthEvent};
pub use pick::PolicyName;
pub use picker::{Local, Picker, Ticket};
pub use refusal::Refusal;

use crate::snapshot::{BackendSnapshot, ClientSnapshot, RefusalCounts};
use crate::{InvalidConfig, Kind, LoadReport, Readiness, Rng, Time};
use errors::Forgetting;
use flow::Limits;
use pick::Policy;
use roster::Roster;
use subset::{Algorithm, ClientIdentity, Dealer};

/// What the driver must do; drained after every call into the brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection, then say [`Client::handle_connected`] or [`Client::handle_lost`].
    Connect(BackendId),
    /// Not used any more: close the connection once what is in flight there has ended.
    Disconnect(BackendId),
}

impl Action {
    /// The backend it is about.
    pub fn backend(self) -> BackendId {
        match self {
            Action::Connect(backend) | Action::Disconnect(backend) => backend,
        }
    }
}

/// A backend changed its state in this client's eyes: for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Which.
    pub backend: BackendId,
    /// What it was.
    pub from: BackendState,
    /// What it is.
    pub to: BackendState,
}

/// The slow brain of a client: learns of backends, decides whom to connect to, and makes pickers.
///
/// A driver tells it what happened (`handle_*`), then drains [`Client::poll_action`], publishes what
/// [`Client::poll_picker`] gives, and calls [`Client::handle_timeout`] at [`Client::poll_timeout`]. State grows with
/// the subset, not with the service. `now` may stand still or jump; nothing panics and nothing waits for ever.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    identity: ClientIdentity,
    backends: BackendList,
    algorithm: Algorithm,
    roster: Roster,
    policy: Arc<dyn Policy>,
    refit_at: Option<Time>,
    actions: VecDeque<Action>,
    generation: u64,
    changed: bool,
    now: Time,
    rng: Rng,
}

impl Client {
    /// A client without backends. `rng` gives it a seed of its own, for jitter and for random subsets.
    pub fn new(now: Time, config: ClientConfig, rng: &mut Rng) -> Result<Self, InvalidConfig> {
        config.check()?;
        let policy = config.policy.build()?;
        Ok(Client::with_policy(now, config, policy, rng))
    }

    /// The same with a policy that has no name in the configuration; what `config` says of the policy is not looked at.
    pub fn with_custom_policy(
        now: Time,
        config: ClientConfig,
        policy: Arc<dyn Policy>,
        rng: &mut Rng,
    ) -> Result<Self, InvalidConfig> {
        config.check()?;
        Ok(Client::with_policy(now, config, policy, rng))
    }

    fn with_policy(now: Time, config: ClientConfig, policy: Arc<dyn Policy>, rng: &mut Rng) -> Self {
        let drawn = rng.next_u64();
        let identity = config.subset.client.map_or(ClientIdentity::Drawn(drawn), ClientIdentity::Ordinal);
        Client {
            identity,
            backends: BackendList::empty(),
            algorithm: config.subset.algorithm.unwrap_or(Algorithm::Random),
            roster: Roster::default(),
            refit_at: policy.refit_period().map(|period| now + period),
            policy,
            config,
            actions: VecDeque::new(),
            generation: 0,
            changed: true,
            now,
            rng: Rng::from_seed(rng.next_u64()),
        }
    }

    /// These are the backends of the service now. An error leaves everything as it was.
    pub fn handle_backends(&mut self, now: Time, backends: BackendList) -> Result<(), InvalidConfig> {
        self.on_clock(now);
        let algorithm = self.algorithm_for(&backends);
        let size = self.config.subset.size;
        let dealer = Dealer { algorithm, identity: self.identity, seed: self.config.subset.seed };
        let deal = dealer.deal(&backends, size, size.max(SPARES_LEAST))?;
        self.algorithm = algorithm;
        self.roster.on_deal(deal.order.iter().map(|&place| backends.specs()[place as usize].id), deal.members);
        self.backends = backends;
        self.replan();
        Ok(())
    }

    /// A connection asked for by [`Action::Connect`] stands, and this is what the backend said on it first.
    pub fn handle_connected(&mut self, now: Time, backend: BackendId, said: Readiness) -> Option<StateChange> {
        self.on_event(now, backend, HealthEvent::Connected(said))
    }

    /// The backend wants requests from now on, or wants no more (A4, A7).
    pub fn handle_readiness(&mut self, now: Time, backend: BackendId, said: Readiness) -> Option<StateChange> {
        self.on_event(now, backend, HealthEvent::Told(said))
    }

    /// The connection ended, or could not be made.
    pub fn handle_lost(&mut self, now: Time, backend: BackendId) -> Option<StateChange> {
        self.on_event(now, backend, HealthEvent::Lost)
    }

    /// A load report that did not come with an answer. Those that do go to [`Picker::finish`].
    pub fn handle_report(&mut self, now: Time, backend: BackendId, report: &LoadReport) {
        self.on_clock(now);
        self.roster.on_report(now, backend, report);
    }

    /// Other settings from now on, without losing a connection or a count. An error leaves everything as it was.
    pub fn handle_config(&mut self, now: Time, config: ClientConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        self.on_clock(now);
        let policy =
            if config.policy == self.config.policy { Arc::clone(&self.policy) } else { config.policy.build()? };
        let before = (std::mem::replace(&mut self.config, config), self.identity);
        if let Some(ordinal) = self.config.subset.client {
            self.identity = ClientIdentity::Ordinal(ordinal);
        }
        if let Err(error) = self.handle_backends(now, self.backends.clone()) {
            (self.config, self.identity) = before;
            return Err(error);
        }
        self.refit_at = policy.refit_period().map(|period| now + period);
        self.policy = policy;
        self.changed = true;
        Ok(())
    }

    /// Time has passed; to be called at [`Client::poll_timeout`], and harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_clock(now);
        self.actions.extend(self.roster.due(now).map(Action::Connect));
        if self.roster.look(now, self.config.subset.replace_after) {
            self.replan();
        }
        self.roster.free_rested(now);
        if self.refit_at.is_some_and(|at| at <= now) {
            self.refit_at = self.policy.refit_period().map(|period| now + period);
            self.changed = true;
        }
    }

    /// What to do next, until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Client::handle_timeout`], if something is to happen by itself.
    pub fn poll_timeout(&self) -> Option<Time> {
        let roster = self.roster.next_timeout(self.now, self.config.subset.replace_after);
        [roster, self.refit_at].into_iter().flatten().min()
    }

    /// A new picker, if anything changed since the last one; the driver publishes it to all threads.
    pub fn poll_picker(&mut self) -> Option<Arc<Picker>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.generation += 1;
        let mut picker = self.picker();
        let among = picker.candidates_for(Kind::Unary);
        if let Some(successor) = self.policy.refit(self.now, &among, &mut self.rng) {
            self.policy = Arc::clone(&successor);
            picker.policy = successor;
        }
        Some(Arc::new(picker))
    }

    /// Everything people and metrics may want to know, as plain data.
    pub fn snapshot(&self, now: Time) -> ClientSnapshot {
        let picker = self.picker();
        let among = picker.candidates_for(Kind::Unary);
        let mut healthy = 0..;
        let backends = self.roster.members().map(|(backend, member)| {
            // Candidates are the healthy members, in the same order.
            let place = (member.state == BackendState::Healthy).then(|| healthy.next()).flatten();
            let weight = place.map(|place| self.policy.weight(now, &among, place));
            self.roster.snapshot_of(now, backend, member, weight, picker.forgetting)
        });
        ClientSnapshot {
            policy: self.policy.name(),
            algorithm: self.algorithm,
            backends_known: self.backends.len(),
            subset_size: self.roster.wished(),
            state_changes: self.roster.state_changes(),
            refused: RefusalCounts::new(self.roster.slots().refused()),
            nonsense_reports: self.roster.slots().nonsense(),
            backends: backends.collect::<Vec<BackendSnapshot>>(),
        }
    }

    fn on_event(&mut self, now: Time, backend: BackendId, event: HealthEvent) -> Option<StateChange> {
        self.on_clock(now);
        let (from, member) = self.roster.on_event(now, backend, event, &self.config.backoff, &mut self.rng)?;
        let to = member.state;
        if member.look(now, self.config.subset.replace_after) {
            self.replan();
        }
        (from != to).then(|| {
            self.changed = true;
            StateChange { backend, from, to }
        })
    }

    /// Connects to whom it should be connected to now, and lets go of the others.
    fn replan(&mut self) {
        let plan = self.roster.replan(self.now);
        self.changed |= !plan.dropped.is_empty();
        self.actions.extend(plan.dropped.into_iter().map(Action::Disconnect));
        self.actions.extend(plan.added.into_iter().map(Action::Connect));
    }

    fn picker(&self) -> Picker {
        let flow = &self.config.flow;
        Picker {
            slots: Arc::clone(self.roster.slots()),
            candidates: self.roster.candidates().collect(),
            policy: Arc::clone(&self.policy),
            limits: Limits { active_max: flow.active_max, streams_max: flow.streams_max },
            forgetting: Forgetting::new(self.config.errors.half_life, flow.active_max),
            generation: self.generation,
        }
    }

    fn algorithm_for(&self, backends: &BackendList) -> Algorithm {
        let both_have_ordinals = backends.has_ordinals() && matches!(self.identity, ClientIdentity::Ordinal(_));
        let fitting = if both_have_ordinals { Algorithm::Even } else { Algorithm::Random };
        self.config.subset.algorithm.unwrap_or(fitting)
    }

    /// Keeps the latest time; after a jump back by more than threads can disagree, counts on from there.
    fn on_clock(&mut self, now: Time) {
        if self.now.since(now) > CLOCK_JUMP {
            self.roster.on_clock_jump(self.now, now);
            self.refit_at = self.refit_at.map(|at| now + at.since(self.now));
            self.now = now;
        }
        self.now = self.now.max(now);
    }
}

/// Backends beyond the subset that may stand in, at least; as many as the subset where that is more.
const SPARES_LEAST: u32 = 8;
/// Threads read the clock a little apart; this much is a clock that was set back.
const CLOCK_JUMP: std::time::Duration = std::time::Duration::from_secs(1);
