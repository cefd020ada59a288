//! Whom a client should be connected to, and who stands in for whom (A12).
//!
//! The dealing gives an order of preference. The first of it who are not written off make up the subset; those
//! before them who are written off are kept as well, and tried again. So a lost or lame backend costs one connection
//! to the next in order, and its return lets exactly that one go.
//!
//! Nobody healthy goes before enough of those who replace them are healthy: a new dealing empties no picker.

mod events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::Action;
use super::backend::BackendId;
use super::config::{BackoffConfig, ClientConfig};
use super::eject::Ended;
use super::errors::Forgetting;
use super::lease::SlotLease;
use super::member::Member;
use super::picker::Candidate;
use super::slots::Slots;
use super::vigil::{Link, VigilSettings};
use crate::snapshot::{BackendSnapshot, CheckCounts, CheckedBy, LinkState};
use crate::{Announcement, LoadReport, Rng, Time};
pub(crate) use events::Told;

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
    vigil: VigilSettings,
    replace_after: Duration,
    /// What the driver must do.
    actions: Vec<Action>,
    /// Candidates are not what they were.
    changed: bool,
    counts: CheckCounts,
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
    pub(crate) fn on_config(&mut self, now: Time, config: &ClientConfig, rng: &mut Rng) -> bool {
        self.backoff = config.backoff.clone();
        self.vigil = VigilSettings { idle: config.idle.clone(), checks: config.checks.clone() };
        self.replace_after = config.subset.replace_after;
        for member in self.members.values_mut() {
            member.vigil.on_config(now, &self.vigil, rng);
        }
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

    /// What the driver must do since this was last asked, and whether candidates changed.
    pub(crate) fn take_news(&mut self) -> (Vec<Action>, bool) {
        (std::mem::take(&mut self.actions), std::mem::take(&mut self.changed))
    }

    pub(crate) fn on_report(&self, now: Time, backend: BackendId, report: &LoadReport) {
        if let Some(slot) = self.members.get(&backend).and_then(|member| self.slots().get(member.slot)) {
            self.slots().count_nonsense(slot.hear(now, report, 0));
        }
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

    /// Willing, in the same order: those with a connection, or those that are inactive.
    pub(crate) fn candidates(&self, are_inactive: bool) -> impl Iterator<Item = Candidate> {
        let usable = self.members().filter(move |(_, member)| {
            let is_there = if are_inactive { member.vigil.is_inactive() } else { member.vigil.is_connected() };
            member.is_healthy() && is_there
        });
        usable.filter_map(|(backend, member)| {
            let (slot, since) = (member.slot, member.usable_since());
            Some(Candidate { backend, slot, since, counts: Arc::clone(self.slots().get(slot)?) })
        })
    }

    /// When the last one that is willing began to be connected again, if any is.
    pub(crate) fn waking_since(&self) -> Option<Time> {
        let waking = self.members.values().filter(|one| one.is_healthy() && one.vigil.link == Link::Waking);
        waking.map(|member| member.vigil.wanted_at).max()
    }

    /// Attempts that have ended on each member.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        let slot = |member: &Member| self.slots().get(member.slot);
        self.members.iter().filter_map(|(&backend, member)| Some((backend, slot(member)?.ended()))).collect()
    }

    /// Attempts that have ended on those that are members now.
    pub(crate) fn uses(&self) -> u64 {
        let slots = self.members.values().filter_map(|member| self.slots().get(member.slot));
        slots.fold(0, |sum, slot| sum.wrapping_add(slot.uses()))
    }

    /// The last announcement of a backend that was acted on.
    pub(crate) fn heard(&self, backend: BackendId) -> Option<Announcement> {
        self.members.get(&backend)?.vigil.heard()
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

    pub(crate) fn check_counts(&self) -> CheckCounts {
        self.counts
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
        let vigil = &member.vigil;
        let (active, streams) = slot.map_or((0, 0), |slot| slot.in_flight.counts());
        let (cutoff, held) = self.slots().throttle.hints.told(now, member.slot);
        BackendSnapshot {
            backend,
            state: member.state,
            since: member.since,
            retry_at: member.retry_at,
            link: match vigil.link {
                Link::None => LinkState::Connecting,
                Link::Kept | Link::Parting => LinkState::Connected,
                Link::Inactive | Link::Visiting => LinkState::Inactive,
                Link::Waking => LinkState::Waking,
            },
            checked_by: match vigil.link {
                Link::None | Link::Waking => CheckedBy::Nothing,
                Link::Kept | Link::Parting => CheckedBy::Connection,
                Link::Inactive | Link::Visiting if vigil.is_visited() => CheckedBy::Visits,
                Link::Inactive | Link::Visiting => CheckedBy::Datagrams,
            },
            silences: vigil.silences,
            active,
            streams,
            recent_errors: slot.map_or(0, |slot| slot.errors.weigh(now, forgetting)),
            weight: weight.map(|(weight, _)| weight),
            why: weight.map_or(member.state.as_str(), |(_, why)| why),
            report: slot.and_then(|slot| slot.report.last()),
            ended: slot.map_or_else(Default::default, |slot| slot.ended()),
            cutoff,
            held,
            out_until: None,
            observed_picks: None,
        }
    }

    fn remove(&mut self, now: Time, backend: BackendId) {
        self.leaving.remove(&backend);
        self.unschedule(backend);
        if let Some(member) = self.members.remove(&backend) {
            if let Some(slot) = self.slots().get(member.slot) {
                slot.in_flight.set_shut(true);
            }
            self.lease.give_back(now, member.slot);
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
