//! The life of a server task (A6, A7): lame duck until ready, serving, lame duck again, drained, gone.
//!
//! ```text
//!   starting ──▶ serving ◀──▶ lame duck          (starting may become a lame duck too)
//!      │            │             │
//!      └────────────┴─── stop ────┴──▶ stopping ──▶ closing ──▶ stopped
//! ```
//!
//! Requests are served in every phase but the last: a lame duck asks for nothing new and refuses nothing.

use crate::{Readiness, Time};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Listens, initialises, warms up; a lame duck to its clients.
    Starting,
    /// Wants requests.
    Serving,
    /// Wants no new ones until it says so.
    LameDuck,
    /// Told to end; serves what is in flight and what still arrives.
    Stopping,
    /// Idle and unknown to its clients; connections are being closed.
    Closing,
    /// At its end.
    Stopped,
}

impl Phase {
    /// What clients are told.
    pub const fn readiness(self) -> Readiness {
        match self {
            Phase::Serving => Readiness::Ready,
            Phase::Starting | Phase::LameDuck | Phase::Stopping | Phase::Closing | Phase::Stopped => {
                Readiness::LameDuck
            }
        }
    }

    /// Whether `next` may follow.
    pub const fn may_become(self, next: Phase) -> bool {
        match self {
            Phase::Starting => matches!(next, Phase::Serving | Phase::LameDuck | Phase::Stopping),
            Phase::LameDuck => matches!(next, Phase::Serving | Phase::Stopping),
            Phase::Serving => matches!(next, Phase::LameDuck | Phase::Stopping),
            Phase::Stopping => matches!(next, Phase::Closing),
            Phase::Closing => matches!(next, Phase::Stopped),
            Phase::Stopped => false,
        }
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Serving => "serving",
            Phase::LameDuck => "lame_duck",
            Phase::Stopping => "stopping",
            Phase::Closing => "closing",
            Phase::Stopped => "stopped",
        }
    }
}

/// The phase, since when, and since when it has been stopping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    since: Time,
    stopping_since: Option<Time>,
}

impl Lifecycle {
    pub(crate) fn new(now: Time) -> Self {
        Lifecycle { phase: Phase::Starting, since: now, stopping_since: None }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn since(&self) -> Time {
        self.since
    }

    pub(crate) fn stopping_since(&self) -> Option<Time> {
        self.stopping_since
    }

    /// Enters `next` if it may follow; says whether it did.
    pub(crate) fn enter(&mut self, now: Time, next: Phase) -> bool {
        let may = self.phase.may_become(next);
        if may {
            (self.phase, self.since) = (next, now);
            if next == Phase::Stopping {
                self.stopping_since = Some(now);
            }
        }
        may
    }

    /// The clock jumped from `before` to `now`: what was waited stays waited.
    pub(crate) fn on_clock_jump(&mut self, before: Time, now: Time) {
        self.since = self.since.moved(before, now);
        self.stopping_since = self.stopping_since.map(|at| at.moved(before, now));
    }
}
