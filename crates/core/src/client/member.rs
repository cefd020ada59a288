//! What the slow brain knows of one backend it uses or tries to use.

use std::time::Duration;

use super::backoff::Backoff;
use super::config::BackoffConfig;
use super::health::{BackendState, HealthEvent};
use crate::{Rng, Time};

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
    /// Whether another should stand in for it, as of the last look.
    pub(crate) written_off: bool,
    backoff: Backoff,
}

impl Member {
    /// Being connected to for the first time.
    pub(crate) fn new(now: Time, slot: u32) -> Self {
        let state = BackendState::Refusing;
        Member { slot, state, since: now, retry_at: None, written_off: false, backoff: Backoff::default() }
    }

    /// Takes in what happened; says whether the state changed.
    pub(crate) fn on_event(&mut self, now: Time, event: HealthEvent, config: &BackoffConfig, rng: &mut Rng) -> bool {
        let before = self.state;
        self.state = before.after(event);
        match event {
            HealthEvent::Lost => {
                let up_for = if before == BackendState::Refusing { Duration::ZERO } else { now.since(self.since) };
                self.retry_at = Some(self.backoff.next_try(now, up_for, config, rng));
            }
            HealthEvent::Connected(_) => self.retry_at = None,
            HealthEvent::Told(_) => {}
        }
        if before != self.state {
            self.since = now;
        }
        before != self.state
    }

    /// Looks whether another should stand in for it: it asked for nothing new, or has been away for too long. Says
    /// whether that is news.
    pub(crate) fn look(&mut self, now: Time, replace_after: Duration) -> bool {
        let written_off = match self.state {
            BackendState::Healthy => false,
            BackendState::LameDuck => true,
            BackendState::Refusing => now.since(self.since) >= replace_after,
        };
        std::mem::replace(&mut self.written_off, written_off) != written_off
    }

    /// When it next needs the brain's attention by itself.
    pub(crate) fn next_timeout(&self, now: Time, replace_after: Duration) -> Option<Time> {
        let waits = self.state == BackendState::Refusing && !self.written_off;
        let write_off = waits.then(|| (self.since + replace_after).max(now));
        [self.retry_at, write_off].into_iter().flatten().min()
    }

    /// The clock jumped back from `before` to `now`: what lies ahead keeps its distance.
    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.since = now;
        self.retry_at = self.retry_at.map(|at| now + at.since(before));
    }
}
