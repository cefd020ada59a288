//! What happens to members: each event changes one, and everything that follows from it is kept here.

use std::sync::Arc;

use super::Roster;
use crate::client::config::BackoffConfig;
use crate::client::member::Member;
use crate::client::slots::Slot;
use crate::client::vigil::{Link, Step, VigilSettings};
use crate::client::{Action, BackendId, BackendState, Checked, HealthEvent};
use crate::{Greeting, Notice, Readiness, Rng, Time};

/// The state before and after, and whether [`Roster::replan`] has something to do; `None` for a stranger.
pub(crate) type Told = Option<(BackendState, BackendState, bool)>;

/// What decides over a member.
#[derive(Clone, Copy)]
struct Settings<'a> {
    backoff: &'a BackoffConfig,
    vigil: &'a VigilSettings,
}

impl Roster {
    /// A connection stands, and this is what the backend said on it first.
    pub(crate) fn on_connected(&mut self, now: Time, backend: BackendId, greeting: Greeting, rng: &mut Rng) -> Told {
        self.with_member(now, backend, rng, |member, slot, settings, rng| {
            let said = member.vigil.settle(greeting.notice);
            member.on_event(now, HealthEvent::Connected(said), settings.backoff, rng);
            let about = (greeting.takes_checks, said == Readiness::Ready);
            member.vigil.on_connected(now, about, slot, settings.vigil, rng)
        })
    }

    /// The backend said this on its connection.
    pub(crate) fn on_told(&mut self, now: Time, backend: BackendId, notice: Notice, rng: &mut Rng) -> Told {
        self.with_member(now, backend, rng, |member, _, settings, rng| {
            if member.vigil.is_connected() {
                let said = member.vigil.settle(notice);
                member.on_event(now, HealthEvent::Told(said), settings.backoff, rng);
            }
            None
        })
    }

    /// The backend said this unasked, without a connection: it is asked again, which acknowledges.
    pub(crate) fn on_pushed(&mut self, now: Time, backend: BackendId, notice: Notice, rng: &mut Rng) -> Told {
        self.counts.pushes += 1;
        self.with_member(now, backend, rng, |member, _, settings, rng| {
            member.on_datagram(now, notice, settings.backoff, rng);
            Some(Step::Check)
        })
    }

    /// The backend answered a check.
    pub(crate) fn on_checked(&mut self, now: Time, backend: BackendId, checked: &Checked, rng: &mut Rng) -> Told {
        self.counts.answered += 1;
        self.on_report(now, backend, &checked.report);
        self.with_member(now, backend, rng, |member, slot, settings, rng| {
            let is_of_earlier = member.vigil.is_inactive() && member.vigil.is_of_earlier_process(checked.notice);
            member.on_datagram(now, checked.notice, settings.backoff, rng);
            let step = member.vigil.on_answer(now, checked.remembered, slot, settings.vigil, rng);
            // It answers now, so its clock was set back or it is another one: a connection knows better.
            if is_of_earlier { member.vigil.visit_if_inactive().or(step) } else { step }
        })
    }

    /// The backend does not know the key it was asked with.
    pub(crate) fn on_reset(&mut self, now: Time, backend: BackendId, rng: &mut Rng) -> Told {
        self.counts.resets += 1;
        self.with_member(now, backend, rng, |member, slot, settings, rng| {
            member.vigil.on_reset(now, slot, settings.vigil, rng)
        })
    }

    /// The connection ended, or could not be made.
    pub(crate) fn on_lost(&mut self, now: Time, backend: BackendId, rng: &mut Rng) -> Told {
        self.with_member(now, backend, rng, |member, slot, settings, rng| {
            member.on_event(now, HealthEvent::Lost, settings.backoff, rng);
            member.vigil.on_lost(slot);
            None
        })
    }

    /// Connects to those that requests want.
    pub(crate) fn on_wishes(&mut self, now: Time, rng: &mut Rng) {
        let is_wanted = |member: &Member| {
            let slot = self.lease.slots().get(member.slot);
            member.vigil.is_inactive() && member.is_healthy() && slot.is_some_and(|slot| slot.in_flight.is_wanted())
        };
        let wanted: Vec<_> =
            self.members.iter().filter(|(_, one)| is_wanted(one)).map(|(&backend, _)| backend).collect();
        for backend in wanted {
            self.with_member(now, backend, rng, |member, _, _, _| member.vigil.on_wanted(now));
        }
    }

    /// Changes one member, and keeps everything that follows from it: schedule, marks, counts, what the driver must do.
    fn with_member(
        &mut self,
        now: Time,
        backend: BackendId,
        rng: &mut Rng,
        change: impl FnOnce(&mut Member, &Slot, Settings<'_>, &mut Rng) -> Option<Step>,
    ) -> Told {
        self.unschedule(backend);
        let member = self.members.get_mut(&backend)?;
        let slot = Arc::clone(self.lease.slots().get(member.slot)?);
        let (before, stood_before) = ((member.state, member.vigil.link, member.vigil.silences), member.standing());
        let settings = Settings { backoff: &self.backoff, vigil: &self.vigil };
        let step = change(member, &slot, settings, rng);
        // Wanted before it was a lame duck, and willing again: nobody would say so a second time.
        let is_wanted = member.is_healthy() && member.vigil.link == Link::Inactive && slot.in_flight.is_wanted();
        let woken = if is_wanted { member.vigil.on_wanted(now) } else { None };
        let news = member.look(now, self.replace_after);
        let after = (member.state, member.vigil.link, member.vigil.silences);
        if before.0 != after.0 {
            // At once and for every thread, whichever picker it holds.
            slot.in_flight.set_shut(after.0 != BackendState::Healthy);
            self.changes[before.0 as usize][after.0 as usize] += 1;
        }
        self.counts.silent += u64::from(after.2 > before.2);
        self.counts.visits += u64::from(before.1 != Link::Visiting && after.1 == Link::Visiting);
        self.changed |= stood_before != member.standing();
        self.reschedule(backend);
        for step in step.into_iter().chain(woken) {
            match step {
                Step::Connect => self.actions.push(Action::Connect(backend)),
                Step::Deactivate => self.actions.push(Action::Deactivate(backend)),
                Step::Check => self.check(backend),
            }
        }
        Some((before.0, after.0, news || !self.leaving.is_empty()))
    }

    /// Whether it said that it answers questions without a connection. One that never did would be asked in vain.
    pub(crate) fn answers_checks(&self, backend: BackendId) -> bool {
        self.members.get(&backend).is_some_and(|member| member.vigil.takes_checks())
    }

    /// Has the backend asked how it is.
    pub(crate) fn check(&mut self, backend: BackendId) {
        self.counts.sent += 1;
        self.actions.push(Action::Check(backend));
    }

    /// Does what is due; says whether someone was written off.
    pub(crate) fn on_timeout(&mut self, now: Time, rng: &mut Rng) -> bool {
        let mut news = false;
        while let Some((_, backend)) = self.schedule.first().copied().filter(|(at, _)| *at <= now) {
            let told = self.with_member(now, backend, rng, |member, slot, settings, rng| {
                if member.retry_at.is_some_and(|at| at <= now) {
                    member.retry_at = None;
                    return Some(Step::Connect);
                }
                member.vigil.on_timeout(now, member.is_healthy(), slot, settings.vigil, rng)
            });
            let Some((_, _, is_news)) = told else { break };
            news |= is_news;
        }
        if self.lease.next_timeout().is_some_and(|at| at <= now) {
            self.lease.free_rested(now);
        }
        news
    }
}
