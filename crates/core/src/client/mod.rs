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
mod lease;
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
use crate::time::CLOCK_JUMP;
use crate::{InvalidConfig, LoadReport, Readiness, RequestMeta, Rng, Time};
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
    /// Not used any more: close the connection once what is in flight there has ended. The brain has forgotten it:
    /// nothing more is to be told of this connection, or its end would be taken for the end of a later one.
    Disconnect(BackendId),
    /// Ask the backend how it is and tell [`Client::handle_report`]; the policy would like to know. No answer is no
    /// news.
    Check(BackendId),
}

impl Action {
    /// The backend it is about.
    pub fn backend(self) -> BackendId {
        match self {
            Action::Connect(backend) | Action::Disconnect(backend) | Action::Check(backend) => backend,
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
    /// Who it is where it has no ordinal.
    drawn: u64,
    backends: BackendList,
    algorithm: Algorithm,
    roster: Roster,
    policy: Arc<dyn Policy>,
    /// Handed in, so that no change of settings replaces it.
    is_custom_policy: bool,
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
        Ok(Client::with_policy(now, config, (policy, false), rng))
    }

    /// The same with a policy that has no name in the configuration; what `config` says of the policy is not looked at.
    pub fn with_custom_policy(
        now: Time,
        config: ClientConfig,
        policy: Arc<dyn Policy>,
        rng: &mut Rng,
    ) -> Result<Self, InvalidConfig> {
        config.check_all_but_policy()?;
        Ok(Client::with_policy(now, config, (policy, true), rng))
    }

    fn with_policy(now: Time, config: ClientConfig, policy: (Arc<dyn Policy>, bool), rng: &mut Rng) -> Self {
        let (policy, is_custom_policy) = policy;
        let mut roster = Roster::default();
        roster.on_config(now, config.backoff.clone(), config.subset.replace_after);
        Client {
            drawn: rng.next_u64(),
            backends: BackendList::empty(),
            algorithm: config.subset.algorithm.unwrap_or(Algorithm::Random),
            roster,
            refit_at: policy.refit_period().map(|period| now + period),
            policy,
            is_custom_policy,
            config,
            actions: VecDeque::new(),
            // Drawn, so that a thread that serves two clients cannot take one's picker for the other's.
            generation: rng.next_u64(),
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
        let dealer = Dealer { algorithm, identity: self.identity(), seed: self.config.subset.seed };
        let deal = dealer.deal(&backends, size, size.max(SPARES_LEAST))?;
        self.algorithm = algorithm;
        let order = deal.order.iter().map(|&place| backends.specs()[place as usize].id).collect();
        let still_there = backends.specs().iter().map(|spec| spec.id).filter(|&id| self.roster.holds(id)).collect();
        let gone = self.roster.on_deal(self.now, order, deal.members, &still_there);
        self.changed |= !gone.is_empty();
        self.actions.extend(gone.into_iter().map(Action::Disconnect));
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
        config.check_all_but_policy()?;
        self.on_clock(now);
        let stays = self.is_custom_policy || config.policy == self.config.policy;
        let policy = if stays { Arc::clone(&self.policy) } else { config.policy.build()? };
        let before = std::mem::replace(&mut self.config, config);
        if let Err(error) = self.handle_backends(now, self.backends.clone()) {
            self.config = before;
            return Err(error);
        }
        if self.roster.on_config(self.now, self.config.backoff.clone(), self.config.subset.replace_after) {
            self.replan();
        }
        self.refit_at = policy.refit_period().map(|period| self.now + period);
        self.policy = policy;
        self.changed = true;
        Ok(())
    }

    /// Time has passed; to be called at [`Client::poll_timeout`], and harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_clock(now);
        let (connect, news) = self.roster.on_timeout(self.now);
        self.actions.extend(connect.into_iter().map(Action::Connect));
        if news {
            self.replan();
        }
        if self.refit_at.is_some_and(|at| at <= self.now) {
            self.refit_at = self.policy.refit_period().map(|period| self.now + period);
            self.changed = true;
            self.ask_for_checks();
        }
    }

    /// What to do next, until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Client::handle_timeout`], if something is to happen by itself.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.roster.next_timeout(), self.refit_at].into_iter().flatten().min()
    }

    /// A new picker, if anything changed since the last one; the driver publishes it to all threads. Takes time in
    /// proportion to the subset, so after many events at once it is enough to ask once.
    pub fn poll_picker(&mut self) -> Option<Arc<Picker>> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let mut picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
        if let Some(successor) = self.policy.refit(self.now, &among, &mut self.rng) {
            self.policy = Arc::clone(&successor);
            picker.policy = successor;
        }
        Some(Arc::new(picker))
    }

    /// Everything people and metrics may want to know, as plain data.
    pub fn snapshot(&self, now: Time) -> ClientSnapshot {
        let picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
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
        let (from, to, news) = self.roster.on_event(self.now, backend, event, &mut self.rng)?;
        if news {
            self.replan();
        }
        (from != to).then(|| {
            self.changed = true;
            StateChange { backend, from, to }
        })
    }

    fn ask_for_checks(&mut self) {
        let picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
        let wanted = self.policy.wants_checked(self.now, &among, CHECKS_MAX, &mut self.rng);
        self.actions.extend(wanted.into_iter().take(CHECKS_MAX).map(Action::Check));
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
            owner: self.drawn as u32,
        }
    }

    fn algorithm_for(&self, backends: &BackendList) -> Algorithm {
        let both_have_ordinals = backends.has_ordinals() && self.config.subset.client.is_some();
        let fitting = if both_have_ordinals { Algorithm::Even } else { Algorithm::Random };
        self.config.subset.algorithm.unwrap_or(fitting)
    }

    fn identity(&self) -> ClientIdentity {
        self.config.subset.client.map_or(ClientIdentity::Drawn(self.drawn), ClientIdentity::Ordinal)
    }

    /// Keeps the latest time; after a jump back by more than threads can disagree, counts on from there.
    fn on_clock(&mut self, now: Time) {
        if self.now.since(now) > CLOCK_JUMP {
            self.roster.on_clock_jump(self.now, now);
            self.refit_at = self.refit_at.map(|at| at.moved(self.now, now));
            self.now = now;
        }
        self.now = self.now.max(now);
    }
}

/// What a policy sees where it is not asked for a request.
const NO_REQUEST: RequestMeta = RequestMeta::PLAIN;
/// Backends checked for a policy each time it is refitted, at most.
const CHECKS_MAX: usize = 4;
/// Backends beyond the subset that may stand in, at least; as many as the subset where that is more.
const SPARES_LEAST: u32 = 8;
