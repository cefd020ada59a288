//! A client of one service: what it does between requests ([`Client`]) and for each request ([`Picker`]).
//!
//! The order of the modules is the order a request meets them; then what happens between requests.

mod picker;
mod refusal;
mod throttle;

pub mod pick;

mod errors;
mod flow;
mod glance;
mod retry;
mod slots;

mod backend;
mod backoff;
mod clusters;
mod config;
mod eject;
mod health;
mod lease;
mod member;
mod probes;
mod roster;
pub mod subset;
mod vigil;
mod watching;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

pub use backend::{BackendId, BackendList, BackendSpec, BadBackends};
pub use clusters::{CLUSTERS_MOST, ClusterSnapshot, ClustersConfig, Reading, Shares, SharesLocal, Spill};
pub use config::{
    BackoffConfig, ChecksConfig, ClientConfig, ErrorsConfig, FlowConfig, IdleConfig, ProbesConfig, SubsetConfig,
};
pub use eject::{EjectConfig, EjectCounts};
pub use health::{BackendState, HealthEvent};
pub use pick::PolicyName;
use picker::Candidate;
pub use picker::{Local, Picker, Ticket, WAKE_MORE_AFTER};
pub use refusal::Refusal;
pub use retry::{Behind, Cause, Fate, HedgeConfig, Repeat, RetryConfig, Stop, Tries, UNSENT_WAITS};
pub use throttle::{CUSTOMERS_APART, HeldBack, ThrottleConfig};

use crate::snapshot::{BackendSnapshot, ClientSnapshot, RefusalCounts};
use crate::time::CLOCK_JUMP;
use crate::{Announcement, Greeting, InvalidConfig, LoadReport, Mode, Notice, RequestMeta, Rng, Time};
use eject::Ejection;
use errors::Forgetting;
use flow::Limits;
use pick::Policy;
use probes::ProbeBudget;
use roster::{Roster, Told};
use subset::{Algorithm, ClientIdentity, Dealer};
use watching::Watching;

/// What the driver must do; drained after every call into the brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a connection, then say [`Client::handle_connected`] or [`Client::handle_lost`].
    Connect(BackendId),
    /// Not used any more: close the connection once what is in flight there has ended. The brain has forgotten it:
    /// nothing more is to be told of this connection, or its end would be taken for the end of a later one.
    Disconnect(BackendId),
    /// Not used for now (A8): close the connection once what is in flight there has ended, and tell nothing more of it.
    /// The brain knows the backend still and will want it checked, so whatever that takes is kept.
    Deactivate(BackendId),
    /// Ask the backend how it is, without a connection, and tell [`Client::handle_checked`]. It is told which
    /// announcement was [heard](Client::heard) last. No answer is no news; the brain counts silences itself.
    Check(BackendId),
}

/// What a backend answered to a check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// Whether it wants requests.
    pub notice: Notice,
    /// Whether it remembers who asked, and will say unasked when that changes.
    pub remembered: bool,
    /// How it is.
    pub report: LoadReport,
}

impl Action {
    /// The backend it is about.
    pub fn backend(self) -> BackendId {
        match self {
            Action::Connect(backend)
            | Action::Disconnect(backend)
            | Action::Deactivate(backend)
            | Action::Check(backend) => backend,
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
    probes: ProbeBudget,
    ejection: Ejection,
    /// Whether those that are out are left out, or there are too few others.
    ejects: bool,
    policy: Arc<dyn Policy>,
    /// Handed in, so that no change of settings replaces it.
    is_custom_policy: bool,
    refit_at: Option<Time>,
    /// A policy that decides nothing.
    watching: Option<Watching>,
    watching_refit_at: Option<Time>,
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
        let policy = config.policy.build(&config.pick);
        Ok(Client::with_policy(now, config, (policy, false), rng))
    }

    /// The same with a policy that has no name in the configuration; what `config` says of the policy is not looked at.
    pub fn with_custom_policy(
        now: Time,
        config: ClientConfig,
        policy: Arc<dyn Policy>,
        rng: &mut Rng,
    ) -> Result<Self, InvalidConfig> {
        config.check()?;
        Ok(Client::with_policy(now, config, (policy, true), rng))
    }

    fn with_policy(now: Time, config: ClientConfig, policy: (Arc<dyn Policy>, bool), rng: &mut Rng) -> Self {
        let (policy, is_custom_policy) = policy;
        let mut roster = Roster::default();
        roster.on_config(now, &config, rng);
        Client {
            drawn: rng.next_u64(),
            backends: BackendList::empty(),
            algorithm: config.subset.algorithm.unwrap_or(Algorithm::Random),
            roster,
            probes: ProbeBudget::default(),
            ejection: Ejection::default(),
            ejects: false,
            refit_at: policy.refit_period().map(|period| now + period),
            policy,
            is_custom_policy,
            watching: watching_of(&config),
            watching_refit_at: Some(now),
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
        self.ejection.on_change(self.now, &self.config.eject);
        self.replan();
        Ok(())
    }

    /// A connection asked for by [`Action::Connect`] stands, and this is what the backend said on it first.
    pub fn handle_connected(
        &mut self,
        now: Time,
        backend: BackendId,
        said: impl Into<Greeting>,
    ) -> Option<StateChange> {
        self.on_event(now, backend, |roster, now, rng| roster.on_connected(now, backend, said.into(), rng))
    }

    /// The backend said on its connection that it wants requests from now on, or no more (A4, A7).
    pub fn handle_readiness(&mut self, now: Time, backend: BackendId, said: impl Into<Notice>) -> Option<StateChange> {
        self.on_event(now, backend, |roster, now, rng| roster.on_told(now, backend, said.into(), rng))
    }

    /// The backend said so unasked and without a connection (A5). When this returns nothing begins there against it;
    /// the check that follows acknowledges.
    pub fn handle_pushed(&mut self, now: Time, backend: BackendId, said: Notice) -> Option<StateChange> {
        self.on_event(now, backend, |roster, now, rng| roster.on_pushed(now, backend, said, rng))
    }

    /// The backend answered an [`Action::Check`].
    pub fn handle_checked(&mut self, now: Time, backend: BackendId, said: &Checked) -> Option<StateChange> {
        self.on_event(now, backend, |roster, now, rng| roster.on_checked(now, backend, said, rng))
    }

    /// The backend does not know the key of an [`Action::Check`]: it is connected to some time soon, for a new one.
    pub fn handle_reset(&mut self, now: Time, backend: BackendId) {
        self.on_event(now, backend, |roster, now, rng| roster.on_reset(now, backend, rng));
    }

    /// The connection ended, or could not be made.
    pub fn handle_lost(&mut self, now: Time, backend: BackendId) -> Option<StateChange> {
        self.on_event(now, backend, |roster, now, rng| roster.on_lost(now, backend, rng))
    }

    /// A request wanted an inactive backend ([`Ticket::wakes`], [`Refusal::Waking`]): such are connected to.
    pub fn handle_wishes(&mut self, now: Time) {
        self.on_clock(now);
        self.roster.on_wishes(self.now, &mut self.rng);
        self.take_news();
    }

    /// The last announcement of a backend that was acted on: what an [`Action::Check`] says was heard.
    pub fn heard(&self, backend: BackendId) -> Option<Announcement> {
        self.roster.heard(backend)
    }

    /// A load report that did not come with an answer. Those that do go to [`Picker::finish`].
    pub fn handle_report(&mut self, now: Time, backend: BackendId, report: &LoadReport) {
        self.on_clock(now);
        self.roster.on_report(now, backend, report);
    }

    /// The settings in force.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Other settings from now on, without losing a connection or a count. An error leaves everything as it was.
    pub fn handle_config(&mut self, now: Time, config: ClientConfig) -> Result<(), InvalidConfig> {
        config.check()?;
        self.on_clock(now);
        let stays = self.is_custom_policy || (config.policy, &config.pick) == (self.config.policy, &self.config.pick);
        let policy = if stays { Arc::clone(&self.policy) } else { config.policy.build(&config.pick) };
        let watches = (config.observe_policy, &config.pick) == (self.config.observe_policy, &self.config.pick);
        let before = std::mem::replace(&mut self.config, config);
        if let Err(error) = self.handle_backends(now, self.backends.clone()) {
            self.config = before;
            return Err(error);
        }
        if before.throttle.window != self.config.throttle.window {
            self.roster.slots().throttle.forget();
        }
        if before.retry.window != self.config.retry.window {
            self.roster.slots().retries.forget();
        }
        if self.roster.on_config(self.now, &self.config, &mut self.rng) {
            self.replan();
        }
        self.refit_at = policy.refit_period().map(|period| self.now + period);
        self.policy = policy;
        if !watches {
            (self.watching, self.watching_refit_at) = (watching_of(&self.config), Some(self.now));
        }
        self.changed = true;
        Ok(())
    }

    /// Time has passed; to be called at [`Client::poll_timeout`], and harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_clock(now);
        if self.roster.on_timeout(self.now, &mut self.rng) {
            self.replan();
        }
        self.take_news();
        if self.ejection.next_timeout().is_some_and(|at| at <= self.now) {
            let usable = self.roster.candidates(false).count();
            self.changed |= self.ejection.look(self.now, &self.config.eject, &self.roster.ended(), usable);
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
        let watching = self.watching_refit_at.filter(|_| self.watching.is_some());
        [self.roster.next_timeout(), self.refit_at, self.ejection.next_timeout(), watching].into_iter().flatten().min()
    }

    /// A new picker, if anything changed since the last one; the driver publishes it to all threads. Takes time in
    /// proportion to the subset, so after many events at once it is enough to ask once.
    pub fn poll_picker(&mut self) -> Option<Arc<Picker>> {
        let is_watching_due = self.watching.is_some() && self.watching_refit_at.is_some_and(|at| at <= self.now);
        if !self.changed && !is_watching_due {
            return None;
        }
        // Who only watches must not make the other one learn more often.
        let decides_anew = std::mem::take(&mut self.changed);
        self.generation = self.generation.wrapping_add(1);
        self.ejects = self.applies_ejection();
        let mut picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
        let refit = |rng: &mut Rng| self.policy.refit(self.now, &among, rng);
        if let Some(successor) = Some(&mut self.rng).filter(|_| decides_anew).and_then(refit) {
            self.policy = Arc::clone(&successor);
            picker.policy = successor;
        }
        self.refit_watching(&mut picker);
        Some(Arc::new(picker))
    }

    /// What only watches learns from the same.
    fn refit_watching(&mut self, picker: &mut Picker) {
        let Some(watching) = &mut self.watching else { return };
        let among = picker.candidates_for(&NO_REQUEST);
        // Chance of its own, so that the one that decides draws what it would have drawn.
        if let Some(successor) = watching.policy.refit(self.now, &among, &mut Rng::from_seed(self.generation)) {
            watching.policy = successor;
        }
        self.watching_refit_at = watching.policy.refit_period().map(|period| self.now + period);
        watching.tally.make(&picker.candidates);
        picker.watching = Some(watching.clone());
    }

    /// Everything people and metrics may want to know, as plain data.
    pub fn snapshot(&self, now: Time) -> ClientSnapshot {
        let picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
        let places: BTreeMap<_, _> = picker.backends().zip(0..).collect();
        let backends = self.roster.members().map(|(backend, member)| {
            let weight = places.get(&backend).map(|&place| self.policy.weight(now, &among, place));
            let snapshot = self.roster.snapshot_of(now, backend, member, weight, picker.forgetting);
            let out_until = self.ejection.out_until(backend);
            let is_left_out = self.ejects && out_until.is_some() && snapshot.state == BackendState::Healthy;
            let is_watched = self.config.errors.mode == Mode::Observe && snapshot.recent_errors > 0;
            let why = match snapshot.why {
                _ if is_left_out => LEFT_OUT,
                _ if is_watched && snapshot.weight.is_some() => ERRORS_OBSERVED,
                why => why,
            };
            let tally = self.watching.as_ref().map(|watching| &watching.tally);
            let observed_picks = tally.map(|tally| tally.picks_of(member.slot, backend));
            BackendSnapshot { why, out_until, observed_picks, ..snapshot }
        });
        ClientSnapshot {
            policy: self.policy.name(),
            algorithm: self.algorithm,
            backends_known: self.backends.len(),
            subset_size: self.roster.wished(),
            state_changes: self.roster.state_changes(),
            refused: RefusalCounts::new(self.roster.slots().refused()),
            nonsense_reports: self.roster.slots().nonsense(),
            woken: self.roster.slots().woken(),
            throttled: self.roster.slots().throttle.counts(),
            retries: self.roster.slots().retries.counts(&picker.retrying, now),
            checks: self.roster.check_counts(),
            ejected: self.ejection.counts(),
            observed_policy: self.watching.as_ref().map(|one| one.tally.counts(one.policy.name())),
            backends: backends.collect::<Vec<BackendSnapshot>>(),
        }
    }

    fn on_event(
        &mut self,
        now: Time,
        backend: BackendId,
        happened: impl FnOnce(&mut Roster, Time, &mut Rng) -> Told,
    ) -> Option<StateChange> {
        self.on_clock(now);
        let told = happened(&mut self.roster, self.now, &mut self.rng);
        self.take_news();
        let (from, to, news) = told?;
        if news {
            self.replan();
        }
        (from != to).then_some(StateChange { backend, from, to })
    }

    fn take_news(&mut self) {
        let (actions, changed) = self.roster.take_news();
        self.actions.extend(actions);
        self.changed |= changed;
    }

    fn ask_for_checks(&mut self) {
        let budget = self.probes.allowed(self.now, self.roster.uses(), &self.config.probes);
        if budget == 0 {
            return;
        }
        let picker = self.picker();
        let among = picker.candidates_for(&NO_REQUEST);
        let mut wanted = self.policy.wants_checked(self.now, &among, budget, &mut self.rng);
        wanted.retain(|&backend| self.roster.answers_checks(backend));
        wanted.truncate(budget);
        self.probes.spend(wanted.len());
        for backend in wanted {
            self.roster.check(backend);
        }
        self.take_news();
    }

    /// Connects to whom it should be connected to now, and lets go of the others.
    fn replan(&mut self) {
        let plan = self.roster.replan(self.now);
        self.changed |= !plan.dropped.is_empty();
        self.actions.extend(plan.dropped.into_iter().map(Action::Disconnect));
        self.actions.extend(plan.added.into_iter().map(Action::Connect));
    }

    fn picker(&self) -> Picker {
        let (flow, errors) = (&self.config.flow, &self.config.errors);
        let is_in = |one: &Candidate| !(self.ejects && self.is_out(one));
        let mut candidates: Vec<Candidate> = self.roster.candidates(false).filter(is_in).collect();
        let awake = candidates.len();
        candidates.extend(self.roster.candidates(true).filter(is_in));
        Picker {
            slots: Arc::clone(self.roster.slots()),
            candidates: candidates.into_boxed_slice(),
            awake,
            waking_since: self.roster.waking_since(),
            policy: Arc::clone(&self.policy),
            watching: self.watching.clone(),
            limits: Limits { active_max: flow.active_max, streams_max: flow.streams_max },
            forgetting: Forgetting::new(errors.half_life, flow.active_max).in_mode(errors.mode),
            throttling: (&self.config.throttle).into(),
            retrying: (&self.config.retry).into(),
            generation: self.generation,
            owner: self.drawn as u32,
        }
    }

    /// Whether those that are out are left out of the next picker.
    fn applies_ejection(&mut self) -> bool {
        let all = || self.roster.candidates(false).chain(self.roster.candidates(true));
        let (usable, outside) = (all().count(), all().filter(|one| self.is_out(one)).count());
        self.ejection.applies(&self.config.eject, usable - outside, outside, self.roster.wished())
    }

    fn is_out(&self, candidate: &Candidate) -> bool {
        self.ejection.out_until(candidate.backend).is_some()
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
            self.ejection.on_clock_jump(self.now, now);
            self.roster.slots().throttle.forget();
            self.roster.slots().throttle.hints.forget_all();
            self.roster.slots().retries.forget();
            self.refit_at = self.refit_at.map(|at| at.moved(self.now, now));
            self.watching_refit_at = self.watching_refit_at.map(|at| at.moved(self.now, now));
            self.now = now;
        }
        self.now = self.now.max(now);
    }
}

fn watching_of(config: &ClientConfig) -> Option<Watching> {
    config.observe_policy.map(|name| Watching::new(name.build(&config.pick)))
}

/// What a policy sees where it is not asked for a request.
const NO_REQUEST: RequestMeta = RequestMeta::PLAIN;
/// What errors would do while they are only observed.
const ERRORS_OBSERVED: &str = "recent errors would count as requests in flight; they are only observed";
/// Why a backend gets nothing while it is out.
const LEFT_OUT: &str = "left out for a while: it fails where others do not";
/// Backends beyond the subset that may stand in, at least; as many as the subset where that is more.
const SPARES_LEAST: u32 = 8;
