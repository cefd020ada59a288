//! Whom a client should be connected to, and who stands in for whom (A12).
//!
//! The dealing gives an order of preference. The first of it who are not written off make up the subset; those
//! before them who are written off are kept as well, and tried again. So a lost or lame backend costs one connection
//! to the next in order, and its return lets exactly that one go.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::backend::BackendId;
use super::config::BackoffConfig;
use super::errors::Forgetting;
use super::health::{BackendState, HealthEvent};
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
    slots: Arc<Slots>,
    free: Vec<u32>,
    /// Slots of backends that are gone, oldest first: threads may hold an old picker a little longer.
    resting: VecDeque<(Time, u32)>,
    made: u32,
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
    pub(crate) fn on_deal(&mut self, order: impl Iterator<Item = BackendId>, wished: usize) {
        self.order = order.collect();
        self.wished = wished;
    }

    /// Looks at every member; says whether someone is written off, or not any more, who was not before.
    pub(crate) fn look(&mut self, now: Time, replace_after: Duration) -> bool {
        self.members.values_mut().fold(false, |news, member| member.look(now, replace_after) | news)
    }

    /// Adds and drops members until it is who it should be.
    pub(crate) fn replan(&mut self, now: Time) -> Plan {
        let wanted = self.wanted();
        let mut plan = Plan::default();
        plan.dropped.extend(self.members.keys().filter(|&backend| !wanted.contains(backend)));
        // In the order of preference, so that candidates that follow each other are counted side by side in memory.
        let missing =
            self.order.iter().filter(|&backend| wanted.contains(backend) && !self.members.contains_key(backend));
        plan.added.extend(missing);
        for backend in &plan.dropped {
            if let Some(member) = self.members.remove(backend) {
                self.resting.push_back((now, member.slot));
            }
        }
        plan.added.retain(|&backend| {
            let slot = self.take_slot();
            slot.is_some_and(|slot| self.members.insert(backend, Member::new(now, slot)).is_none())
        });
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
            let written_off = self.members.get(&backend).is_some_and(|member| member.written_off);
            counted += usize::from(!written_off);
        }
        wanted
    }

    /// The state before, and the member as it is now, if the backend is in use.
    pub(crate) fn on_event(
        &mut self,
        now: Time,
        backend: BackendId,
        event: HealthEvent,
        config: &BackoffConfig,
        rng: &mut Rng,
    ) -> Option<(BackendState, &mut Member)> {
        let member = self.members.get_mut(&backend)?;
        let before = member.state;
        if member.on_event(now, event, config, rng) {
            self.changes[before as usize][member.state as usize] += 1;
        }
        Some((before, member))
    }

    pub(crate) fn on_report(&self, now: Time, backend: BackendId, report: &LoadReport) {
        if let Some(slot) = self.members.get(&backend).and_then(|member| self.slots.get(member.slot)) {
            self.slots.count_nonsense(slot.report.tell(now, report));
        }
    }

    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        for member in self.members.values_mut() {
            member.on_clock_jump(before, now);
        }
        for (since, _) in &mut self.resting {
            *since = now;
        }
    }

    /// Those whose time to connect has come; from now on they are being connected to.
    pub(crate) fn due(&mut self, now: Time) -> impl Iterator<Item = BackendId> {
        self.members.iter_mut().filter_map(move |(&backend, member)| {
            let due = member.retry_at.is_some_and(|at| at <= now);
            due.then(|| {
                member.retry_at = None;
                backend
            })
        })
    }

    /// Makes slots usable again whose backends have been gone for long enough and have nothing in flight.
    pub(crate) fn free_rested(&mut self, now: Time) {
        for _ in 0..self.resting.len() {
            let Some((since, number)) = self.resting.pop_front() else { return };
            let slot = self.slots.get(number);
            if now.since(since) < SLOT_REST {
                self.resting.push_front((since, number));
                return;
            }
            match slot.filter(|slot| slot.in_flight.counts() == (0, 0)) {
                Some(slot) => {
                    slot.clear();
                    self.free.push(number);
                }
                None => self.resting.push_back((now, number)),
            }
        }
    }

    pub(crate) fn next_timeout(&self, now: Time, replace_after: Duration) -> Option<Time> {
        let members = self.members.values().filter_map(|member| member.next_timeout(now, replace_after));
        let resting = self.resting.front().map(|&(since, _)| since + SLOT_REST);
        members.chain(resting).min()
    }

    /// Connected and willing, in the order of preference.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        let healthy = self.members().filter(|(_, member)| member.state == BackendState::Healthy);
        healthy.filter_map(|(backend, &Member { slot, .. })| {
            Some(Candidate { backend, slot, counts: Arc::clone(self.slots.get(slot)?) })
        })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (BackendId, &Member)> {
        self.order.iter().filter_map(|backend| Some((*backend, self.members.get(backend)?)))
    }

    pub(crate) fn slots(&self) -> &Arc<Slots> {
        &self.slots
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
        let slot = self.slots.get(member.slot);
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

    fn take_slot(&mut self) -> Option<u32> {
        let number = self.free.pop().or_else(|| {
            let number = self.made;
            self.made = number.checked_add(1)?;
            Some(number)
        })?;
        self.slots.make(number).map(|_| number)
    }
}

/// Far longer than a thread holds a picker without asking for the current one.
const SLOT_REST: Duration = Duration::from_secs(10);
