//! Whom a client should be connected to, and who stands in for whom (A12).
//!
//! The dealing gives an order of preference. The first of it who are not written off make up the subset; those
//! before them who are written off are kept as well, and tried again. So a lost or lame backend costs one connection
//! to the next in order, and its return lets exactly that one go.
//!
//! Nobody healthy goes before enough of those who replace them are healthy: a new dealing empties no picker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::backend::BackendId;
use super::config::BackoffConfig;
use super::errors::Forgetting;
use super::health::{BackendState, HealthEvent};
use super::lease::SlotLease;
use super::member::Member;
use super::picker::Candidate;
use super::slots::Slots;
use crate::snapshot::BackendSnapshot;
use crate::{LoadReport, Rng, Time};

/// The backends in use, by id.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// Most preferred first.
    order: Vec<BackendId>,
    /// How many usable ones there should be.
    wished: usize,
    members: BTreeMap<BackendId, Member>,
    /// Members that are to go once enough others are healthy.
    leaving: BTreeSet<BackendId>,
    /// When each member needs attention; at most one entry each.
    schedule: BTreeSet<(Time, BackendId)>,
    lease: SlotLease,
    backoff: BackoffConfig,
    replace_after: Duration,
    /// How often a backend went from one state to another: `[from][to]`.
    changes: [[u64; 3]; 3],
}

/// What must change.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) dropped: Vec<BackendId>,
    pub(crate) added: Vec<BackendId>,
}

impl Roster {
    /// Other settings; says whether [`Roster::replan`] has something to do.
    pub(crate) fn on_config(&mut self, now: Time, backoff: BackoffConfig, replace_after: Duration) -> bool {
        (self.backoff, self.replace_after) = (backoff, replace_after);
        self.look_again(now, now)
    }

    /// Another dealing. Members that `still_there` does not know go at once.
    pub(crate) fn on_deal(
        &mut self,
        now: Time,
        order: Vec<BackendId>,
        wished: usize,
        still_there: &BTreeSet<BackendId>,
    ) -> Vec<BackendId> {
        (self.order, self.wished) = (order, wished);
        let gone: Vec<BackendId> = self.members.keys().filter(|&one| !still_there.contains(one)).copied().collect();
        for &backend in &gone {
            self.remove(now, backend);
        }
        gone
    }

    /// Adds and drops members until it is who it should be, as far as that leaves enough who are healthy.
    pub(crate) fn replan(&mut self, now: Time) -> Plan {
        let wanted = self.wanted();
        let is_healthy = |backend: &BackendId| self.members.get(backend).is_some_and(Member::is_healthy);
        let mut missing = self.wished.saturating_sub(wanted.iter().filter(|&one| is_healthy(one)).count());
        let mut plan = Plan::default();
        self.leaving.clear();
        for (&backend, member) in self.members.iter().filter(|(backend, _)| !wanted.contains(backend)) {
            if member.is_healthy() && missing > 0 {
                missing -= 1;
                self.leaving.insert(backend);
            } else {
                plan.dropped.push(backend);
            }
        }
        for &backend in &plan.dropped {
            self.remove(now, backend);
        }
        // In the order of preference, so that candidates that follow each other are counted side by side in memory.
        for &backend in self.order.iter().filter(|&backend| wanted.contains(backend)) {
            if self.members.contains_key(&backend) {
                continue;
            }
            let Some(slot) = self.lease.take(now) else { break };
            let member = Member::new(now, slot);
            self.schedule.extend(member.next_timeout(self.replace_after).map(|at| (at, backend)));
            self.members.insert(backend, member);
            plan.added.push(backend);
        }
        plan
    }

    fn wanted(&self) -> BTreeSet<BackendId> {
        let mut counted = 0;
        let mut wanted = BTreeSet::new();
        for &backend in &self.order {
            if counted == self.wished {
                break;
            }
            wanted.insert(backend);
            counted += usize::from(!self.members.get(&backend).is_some_and(|member| member.written_off));
        }
        wanted
    }

    /// The state before and after, and whether [`Roster::replan`] has something to do; `None` for a stranger.
    pub(crate) fn on_event(
        &mut self,
        now: Time,
        backend: BackendId,
        event: HealthEvent,
        rng: &mut Rng,
    ) -> Option<(BackendState, BackendState, bool)> {
        self.unschedule(backend);
        let member = self.members.get_mut(&backend)?;
        let before = member.state;
        member.on_event(now, event, &self.backoff, rng);
        let news = member.look(now, self.replace_after);
        let (after, slot) = (member.state, member.slot);
        self.reschedule(backend);
        if before != after {
            self.set_shut(slot, after != BackendState::Healthy);
            self.changes[before as usize][after as usize] += 1;
        }
        Some((before, after, news || !self.leaving.is_empty()))
    }

    pub(crate) fn on_report(&self, now: Time, backend: BackendId, report: &LoadReport) {
        if let Some(slot) = self.members.get(&backend).and_then(|member| self.slots().get(member.slot)) {
            self.slots().count_nonsense(slot.report.tell(now, report));
        }
    }

    /// Those whose time to connect has come, and whether someone was written off.
    pub(crate) fn on_timeout(&mut self, now: Time) -> (Vec<BackendId>, bool) {
        let (mut connect, mut news) = (Vec::new(), false);
        while let Some((_, backend)) = self.schedule.first().copied().filter(|(at, _)| *at <= now) {
            self.unschedule(backend);
            let Some(member) = self.members.get_mut(&backend) else { break };
            if member.retry_at.is_some_and(|at| at <= now) {
                member.retry_at = None;
                connect.push(backend);
            }
            news |= member.look(now, self.replace_after);
            self.reschedule(backend);
        }
        if self.lease.next_timeout().is_some_and(|at| at <= now) {
            self.lease.free_rested(now);
        }
        (connect, news)
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let members = self.schedule.first().map(|&(at, _)| at);
        members.into_iter().chain(self.lease.next_timeout()).min()
    }

    /// The clock jumped from `before` to `now`.
    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.lease.on_clock_jump(before, now);
        self.look_again(before, now);
    }

    /// Looks at everyone again: the clock or a setting changed under them.
    fn look_again(&mut self, before: Time, now: Time) -> bool {
        let mut news = false;
        self.schedule.clear();
        for (&backend, member) in &mut self.members {
            member.on_clock_jump(before, now);
            news |= member.look(now, self.replace_after);
            self.schedule.extend(member.next_timeout(self.replace_after).map(|at| (at, backend)));
        }
        news
    }

    /// The members in the order of preference, then those that are leaving.
    pub(crate) fn members(&self) -> impl Iterator<Item = (BackendId, &Member)> {
        self.order
            .iter()
            .filter(|backend| !self.leaving.contains(backend))
            .chain(&self.leaving)
            .filter_map(|backend| Some((*backend, self.members.get(backend)?)))
    }

    /// Connected and willing, in the same order.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let healthy = self.members().filter(|(_, member)| member.is_healthy());
        healthy.filter_map(|(backend, &Member { slot, .. })| {
            Some(Candidate { backend, slot, counts: Arc::clone(self.slots().get(slot)?) })
        })
    }

    pub(crate) fn holds(&self, backend: BackendId) -> bool {
        self.members.contains_key(&backend)
    }

    pub(crate) fn slots(&self) -> &Arc<Slots> {
        self.lease.slots()
    }

    pub(crate) fn wished(&self) -> usize {
        self.wished
    }

    pub(crate) fn state_changes(&self) -> [[u64; 3]; 3] {
        self.changes
    }

    pub(crate) fn snapshot_of(
        &self,
        now: Time,
        backend: BackendId,
        member: &Member,
        weight: Option<(f64, &'static str)>,
        forgetting: Forgetting,
    ) -> BackendSnapshot {
        let slot = self.slots().get(member.slot);
        let (active, streams) = slot.map_or((0, 0), |slot| slot.in_flight.counts());
        BackendSnapshot {
            backend,
            state: member.state,
            since: member.since,
            retry_at: member.retry_at,
            active,
            streams,
            recent_errors: slot.map_or(0, |slot| slot.errors.count(now, forgetting)),
            weight: weight.map(|(weight, _)| weight),
            why: weight.map_or(member.state.as_str(), |(_, why)| why),
            report: slot.and_then(|slot| slot.report.last()),
            ended: slot.map_or_else(Default::default, |slot| slot.ended()),
        }
    }

    fn remove(&mut self, now: Time, backend: BackendId) {
        self.leaving.remove(&backend);
        self.unschedule(backend);
        if let Some(member) = self.members.remove(&backend) {
            self.set_shut(member.slot, true);
            self.lease.give_back(now, member.slot);
        }
    }

    /// At once and for every thread, whichever picker it holds.
    fn set_shut(&self, slot: u32, shut: bool) {
        if let Some(slot) = self.slots().get(slot) {
            slot.in_flight.set_shut(shut);
        }
    }

    /// Before a member changes.
    fn unschedule(&mut self, backend: BackendId) {
        if let Some(at) = self.next_of(backend) {
            self.schedule.remove(&(at, backend));
        }
    }

    /// After a member changed.
    fn reschedule(&mut self, backend: BackendId) {
        self.schedule.extend(self.next_of(backend).map(|at| (at, backend)));
    }

    fn next_of(&self, backend: BackendId) -> Option<Time> {
        self.members.get(&backend)?.next_timeout(self.replace_after)
    }
}

impl Member {
    fn is_healthy(&self) -> bool {
        self.state == BackendState::Healthy
    }
}
