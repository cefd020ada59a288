//! What the slow brain knows of one backend it uses or tries to use.

use std::time::Duration;

use super::backoff::Backoff;
use super::config::BackoffConfig;
use super::health::{BackendState, HealthEvent};
use super::vigil::Vigil;
use crate::{Notice, Rng, Time};

/// One backend of the subset, or one that stands in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Where its requests are counted.
    pub(crate) slot: u32,
    pub(crate) state: BackendState,
    /// When the state last changed.
    pub(crate) since: Time,
    /// When to try to connect; `None` while trying or connected.
    pub(crate) retry_at: Option<Time>,
    /// Another stands in for it, until it is healthy again.
    pub(crate) written_off: bool,
    /// When the present or, while it is inactive, the last connection was made.
    connected_at: Option<Time>,
    backoff: Backoff,
    /// Whether it is connected to, or how it is watched instead.
    pub(crate) vigil: Vigil,
}

impl Member {
    /// Being connected to for the first time.
    pub(crate) fn new(now: Time, slot: u32) -> Self {
        Member {
            slot,
            state: BackendState::Refusing,
            since: now,
            retry_at: None,
            written_off: false,
            connected_at: None,
            backoff: Backoff::default(),
            vigil: Vigil::new(now),
        }
    }

    /// Takes in what happened.
    pub(crate) fn on_event(&mut self, now: Time, event: HealthEvent, config: &BackoffConfig, rng: &mut Rng) {
        let before = self.state;
        self.state = before.after(event);
        match event {
            HealthEvent::Lost => {
                let up_for = self.connected_at.take().map_or(Duration::ZERO, |at| now.since(at));
                self.retry_at = Some(self.backoff.next_try(now, up_for, config, rng));
            }
            HealthEvent::Connected(_) => {
                self.retry_at = None;
                self.connected_at = Some(now);
            }
            HealthEvent::Told(_) => {}
        }
        if before != self.state {
            self.since = now;
        }
    }

    /// Takes in what a datagram said, unless it is late.
    pub(crate) fn on_datagram(&mut self, now: Time, notice: Notice, config: &BackoffConfig, rng: &mut Rng) {
        if notice.announcement.is_some_and(|said| self.vigil.is_news(said, notice.readiness)) {
            self.on_event(now, HealthEvent::Told(notice.readiness), config, rng);
        }
    }

    /// How it stands in pickers: when this changes there must be another.
    pub(crate) fn standing(&self) -> (BackendState, bool, bool) {
        (self.state, self.vigil.is_connected(), self.vigil.is_inactive())
    }

    /// When it last became usable: it was connected to, or wanted requests again.
    pub(crate) fn usable_since(&self) -> Time {
        self.connected_at.map_or(self.since, |at| at.max(self.since))
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.state == BackendState::Healthy
    }

    /// Looks whether another should stand in for it: it asked for nothing new, or has been away for too long. Says
    /// whether that is news.
    pub(crate) fn look(&mut self, now: Time, replace_after: Duration) -> bool {
        let written_off = match self.state {
            BackendState::Healthy => false,
            BackendState::LameDuck => true,
            // Once replaced, until it is back: a lame duck that exits must not send its stand-in away.
            BackendState::Refusing => self.written_off || now.since(self.since) >= replace_after,
        };
        std::mem::replace(&mut self.written_off, written_off) != written_off
    }

    /// When it next needs the brain's attention by itself.
    pub(crate) fn next_timeout(&self, replace_after: Duration) -> Option<Time> {
        let waits = self.state == BackendState::Refusing && !self.written_off;
        let write_off = waits.then(|| self.since + replace_after);
        [self.retry_at, write_off, self.vigil.next_timeout()].into_iter().flatten().min()
    }

    /// The clock jumped back from `before` to `now`: everything keeps its distance.
    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.since = self.since.moved(before, now);
        self.connected_at = self.connected_at.map(|at| at.moved(before, now));
        self.retry_at = self.retry_at.map(|at| at.moved(before, now));
        self.vigil.on_clock_jump(before, now);
    }
}
