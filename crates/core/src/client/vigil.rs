//! How a backend is watched that nobody uses (A5, A8): its connection is let go, and checks go on without one.
//!
//! ```text
//!              idle for long               remembered, or three silences
//!    kept ────────────────────▶ parting ─────────────────────────────▶ inactive ◀─┐ answered
//!     ▲                            │ used meanwhile                     │  │  │   │
//!     ├────────────────────────────┘                                    │  │  └───┘ checked now and then
//!     │                                             wanted by a request │  │
//!     ├──────── connected ──────── waking ◀─────────────────────────────┘  │ silences, a reset, or no datagrams
//!     │                            ▲ wanted                                ▼
//!     └── then parting again ──────┴────────────── connected ────────── visiting
//! ```
//!
//! A backend pushes its notices to those it remembers, so a connection is let go only once it has answered that it
//! does. Silence says nothing about a backend while it can be connected to: then datagrams do not get through, and it is
//! visited now and then instead. Only a connection that cannot be made makes it *refusing*.

use std::time::Duration;

use super::config::{ChecksConfig, IdleConfig};
use super::slots::Slot;
use crate::notice::{Announcement, Notice};
use crate::{Readiness, Rng, Time};

/// What there is between a client and a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing: a connection is being made, or tried again later.
    None,
    /// A connection that is used.
    Kept,
    /// A connection that is let go as soon as the backend remembers us without it.
    Parting,
    /// Checks.
    Inactive,
    /// Checks, and a connection in the making to see how it is.
    Visiting,
    /// A connection in the making that a request wants.
    Waking,
}

/// What a vigil wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Connect,
    Check,
    Deactivate,
}

/// When connections are let go and backends checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct VigilSettings {
    pub(crate) idle: IdleConfig,
    pub(crate) checks: ChecksConfig,
}

/// The watch over one backend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vigil {
    pub(crate) link: Link,
    /// The last announcement that was heard, and what it said.
    heard: Option<(Announcement, Readiness)>,
    /// Checks in a row without an answer.
    pub(crate) silences: u32,
    /// Datagrams stayed unanswered while connections could be made.
    is_deaf: bool,
    takes_checks: bool,
    /// It was asked once more because it did not remember us; not a third time in a row.
    asked_again: bool,
    /// Until when the answer to a check may take.
    answer_by: Option<Time>,
    /// When to look, check or visit.
    due: Option<Time>,
    /// When a request first wanted it.
    pub(crate) wanted_at: Time,
    /// What had ended there when it was last looked at, and since when it has been idle.
    uses: u64,
    idle_since: Time,
}

impl Vigil {
    pub(crate) fn new(now: Time) -> Self {
        Vigil {
            link: Link::None,
            heard: None,
            silences: 0,
            is_deaf: false,
            takes_checks: false,
            asked_again: false,
            answer_by: None,
            due: None,
            wanted_at: now,
            uses: 0,
            idle_since: now,
        }
    }

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.link, Link::Kept | Link::Parting)
    }

    pub(crate) fn is_inactive(&self) -> bool {
        matches!(self.link, Link::Inactive | Link::Visiting)
    }

    /// Whether it can be asked without a connection.
    pub(crate) fn takes_checks(&self) -> bool {
        self.takes_checks
    }

    /// Whether checks are made by connecting: there are no datagrams, or they do not get through.
    pub(crate) fn is_visited(&self) -> bool {
        self.is_deaf || !self.takes_checks
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        [self.answer_by, self.due].into_iter().flatten().min()
    }

    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.idle_since = self.idle_since.moved(before, now);
        self.wanted_at = self.wanted_at.moved(before, now);
        self.answer_by = self.answer_by.map(|at| at.moved(before, now));
        self.due = self.due.map(|at| at.moved(before, now));
    }

    /// The last announcement that was heard.
    pub(crate) fn heard(&self) -> Option<Announcement> {
        self.heard.map(|(announcement, _)| announcement)
    }

    /// What a notice over a connection makes of the backend: a datagram may have said something later.
    pub(crate) fn settle(&mut self, notice: Notice) -> Readiness {
        if let (Some(said), Some((heard, readiness))) = (notice.announcement, self.heard) {
            // Of another process, a connection knows better than a datagram.
            if said.process == heard.process && said.number < heard.number {
                return readiness;
            }
        }
        self.heard = notice.announcement.map(|said| (said, notice.readiness));
        notice.readiness
    }

    /// Whether what a datagram said is news: not late, and not of another process than the one connected to.
    pub(crate) fn is_news(&mut self, said: Announcement, readiness: Readiness) -> bool {
        let news = match self.heard() {
            Some(heard) if self.is_connected() => said.process == heard.process && said.number > heard.number,
            Some(heard) => said > heard,
            None => !self.is_connected(),
        };
        if news {
            self.heard = Some((said, readiness));
        }
        news
    }

    /// A connection stands.
    pub(crate) fn on_connected(
        &mut self,
        now: Time,
        (takes_checks, is_ready): (bool, bool),
        slot: &Slot,
        settings: &VigilSettings,
        rng: &mut Rng,
    ) -> Option<Step> {
        let was_visiting = self.link == Link::Visiting;
        slot.in_flight.wake();
        self.takes_checks = takes_checks;
        self.keep(now, slot, settings, rng);
        (was_visiting && is_ready).then(|| self.part(now, slot, settings, rng)).flatten()
    }

    /// There is no connection, and none could be made.
    pub(crate) fn on_lost(&mut self, slot: &Slot) {
        slot.in_flight.wake();
        self.link = Link::None;
        (self.answer_by, self.due, self.silences, self.asked_again) = (None, None, 0, false);
    }

    /// A request wants it.
    pub(crate) fn on_wanted(&mut self, now: Time) -> Option<Step> {
        let is_underway = self.link == Link::Visiting;
        (self.link, self.wanted_at) = (Link::Waking, now);
        (self.answer_by, self.due) = (None, None);
        (!is_underway).then_some(Step::Connect)
    }

    /// Answered a check; `remembered` is whether it will push its notices.
    pub(crate) fn on_answer(
        &mut self,
        now: Time,
        remembered: bool,
        slot: &Slot,
        settings: &VigilSettings,
        rng: &mut Rng,
    ) -> Option<Step> {
        (self.answer_by, self.silences, self.is_deaf) = (None, 0, false);
        if !matches!(self.link, Link::Parting | Link::Inactive) {
            return None;
        }
        if !remembered && !std::mem::replace(&mut self.asked_again, true) {
            return Some(self.ask(now, settings));
        }
        self.asked_again = false;
        match self.link {
            Link::Parting if remembered => return self.let_go(now, slot, settings, rng),
            Link::Parting => self.keep(now, slot, settings, rng),
            _ => self.due = Some(now + swung(settings.checks.every, settings, rng)),
        }
        None
    }

    /// The backend does not know the key any more: a new one comes with a connection.
    pub(crate) fn on_reset(&mut self, now: Time, slot: &Slot, settings: &VigilSettings, rng: &mut Rng) -> Option<Step> {
        match self.link {
            Link::Inactive => {
                // All its clients hear it within one period: they come back over another.
                self.answer_by = None;
                self.takes_checks = false;
                self.due = Some(now + settings.checks.every.mul_f64(rng.unit()));
                None
            }
            // The key came with this very connection: somebody else answers for it.
            Link::Parting => self.on_silences(now, slot, settings, rng),
            Link::None | Link::Kept | Link::Visiting | Link::Waking => None,
        }
    }

    /// Time has passed: an answer is overdue, or something is due.
    pub(crate) fn on_timeout(
        &mut self,
        now: Time,
        is_healthy: bool,
        slot: &Slot,
        settings: &VigilSettings,
        rng: &mut Rng,
    ) -> Option<Step> {
        if self.answer_by.is_some_and(|at| at <= now) {
            self.answer_by = None;
            self.silences += 1;
            // A deaf one has been asked often enough.
            let is_silent = self.is_deaf || self.silences >= settings.checks.silences_max;
            return if is_silent { self.on_silences(now, slot, settings, rng) } else { Some(self.ask(now, settings)) };
        }
        if self.due.is_none_or(|at| at > now) {
            return None;
        }
        self.due = None;
        match self.link {
            Link::Kept => self.look(now, is_healthy, slot, settings, rng),
            Link::Inactive if self.is_visited() => Some(self.visit()),
            Link::Inactive => Some(self.ask(now, settings)),
            Link::None | Link::Parting | Link::Visiting | Link::Waking => None,
        }
    }

    /// Other settings: what is due is due by them.
    pub(crate) fn on_config(&mut self, now: Time, settings: &VigilSettings, rng: &mut Rng) {
        match self.link {
            Link::Kept => self.due = next_look(now, settings, rng),
            Link::Inactive => self.due = self.due.map(|at| at.min(now + self.period(settings))),
            Link::None | Link::Parting | Link::Visiting | Link::Waking => {}
        }
    }

    /// Looks whether it has been used since the last look.
    fn look(
        &mut self,
        now: Time,
        is_healthy: bool,
        slot: &Slot,
        settings: &VigilSettings,
        rng: &mut Rng,
    ) -> Option<Step> {
        let uses = slot.uses();
        let is_used = uses != self.uses || slot.in_flight.counts() != (0, 0);
        if is_used {
            (self.uses, self.idle_since) = (uses, now);
        }
        // A lame duck is about to go, or to be ready: its connection says which.
        let after = settings.idle.after.filter(|_| is_healthy && !is_used);
        if after.is_some_and(|after| now.since(self.idle_since) >= after) {
            return self.part(now, slot, settings, rng);
        }
        self.due = next_look(now, settings, rng);
        None
    }

    /// The connection is to go, once the backend remembers us without it.
    fn part(&mut self, now: Time, slot: &Slot, settings: &VigilSettings, rng: &mut Rng) -> Option<Step> {
        self.link = Link::Parting;
        (self.due, self.asked_again) = (None, false);
        if self.takes_checks { Some(self.ask(now, settings)) } else { self.let_go(now, slot, settings, rng) }
    }

    fn let_go(&mut self, now: Time, slot: &Slot, settings: &VigilSettings, rng: &mut Rng) -> Option<Step> {
        if !slot.in_flight.try_sleep() {
            self.keep(now, slot, settings, rng);
            return None;
        }
        self.link = Link::Inactive;
        self.due = Some(now + swung(self.period(settings), settings, rng));
        Some(Step::Deactivate)
    }

    /// The connection stays.
    fn keep(&mut self, now: Time, slot: &Slot, settings: &VigilSettings, rng: &mut Rng) {
        self.link = Link::Kept;
        (self.uses, self.idle_since) = (slot.uses(), now);
        (self.answer_by, self.silences, self.asked_again) = (None, 0, false);
        self.due = next_look(now, settings, rng);
    }

    fn ask(&mut self, now: Time, settings: &VigilSettings) -> Step {
        self.answer_by = Some(now + settings.checks.timeout);
        Step::Check
    }

    fn on_silences(&mut self, now: Time, slot: &Slot, settings: &VigilSettings, rng: &mut Rng) -> Option<Step> {
        (self.answer_by, self.asked_again) = (None, false);
        if self.link == Link::Parting {
            self.is_deaf = true;
            return self.let_go(now, slot, settings, rng);
        }
        // Gone, or out of reach of datagrams alone: a connection tells.
        (self.link == Link::Inactive).then(|| self.visit())
    }

    /// Whether a process said this that began before the one that was heard last.
    pub(crate) fn is_of_earlier_process(&self, notice: Notice) -> bool {
        notice.announcement.zip(self.heard()).is_some_and(|(said, heard)| said.process < heard.process)
    }

    pub(crate) fn visit_if_inactive(&mut self) -> Option<Step> {
        (self.link == Link::Inactive).then(|| {
            self.answer_by = None;
            self.visit()
        })
    }

    fn visit(&mut self) -> Step {
        self.link = Link::Visiting;
        self.due = None;
        Step::Connect
    }

    fn period(&self, settings: &VigilSettings) -> Duration {
        if self.is_visited() { settings.checks.visit_every } else { settings.checks.every }
    }
}

/// Often enough to know the idle time to a quarter.
fn next_look(now: Time, settings: &VigilSettings, rng: &mut Rng) -> Option<Time> {
    settings.idle.after.map(|after| now + swung(after / 4, settings, rng))
}

/// Drawn shorter or longer, so that clients do not ask together.
fn swung(period: Duration, settings: &VigilSettings, rng: &mut Rng) -> Duration {
    period.mul_f64(1.0 + settings.checks.jitter * (2.0 * rng.unit() - 1.0))
}
