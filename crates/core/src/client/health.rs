//! The three states of a backend in its client's eyes (A3), and what may follow what.
//!
//! ```text
//!              connected, ready              told: lame duck
//!   refusing ────────────────────▶ healthy ──────────────────▶ lame duck
//!      ▲  │                          │  ▲                        │  │
//!      │  └───── connected, lame ────┼──┼───────────────────────▶│  │
//!      │                             │  └────── told: ready ─────┘  │
//!      └──────────── lost ───────────┴────────────── lost ──────────┘
//! ```
//!
//! A client has a connection while the state is not *refusing*, or has let go of it because nobody used it (`vigil.rs`):
//! an inactive backend is still healthy or a lame duck, and datagrams tell it. Nothing but a new connection leads out
//! of *refusing*: a notice that arrives without one is late news of a connection that is gone.

use crate::Readiness;

/// What a client believes of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendState {
    /// No connection: not there yet, gone, or unreachable.
    Refusing,
    /// Willing, and connected or inactive.
    Healthy,
    /// Connected or inactive, serves what arrives, asks for nothing new.
    LameDuck,
}

/// What can happen to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthEvent {
    /// A connection stands, and this is what the backend said on it first.
    Connected(Readiness),
    /// The backend said this on its connection.
    Told(Readiness),
    /// The connection ended, or could not be made.
    Lost,
}

impl BackendState {
    /// In the order of the picture above.
    pub const ALL: [BackendState; 3] = [BackendState::Refusing, BackendState::Healthy, BackendState::LameDuck];

    /// The state after `event`; the same one where the event says nothing new.
    #[must_use]
    pub const fn after(self, event: HealthEvent) -> BackendState {
        match (self, event) {
            (_, HealthEvent::Lost) | (BackendState::Refusing, HealthEvent::Told(_)) => BackendState::Refusing,
            (_, HealthEvent::Connected(Readiness::Ready) | HealthEvent::Told(Readiness::Ready)) => {
                BackendState::Healthy
            }
            (_, HealthEvent::Connected(Readiness::LameDuck) | HealthEvent::Told(Readiness::LameDuck)) => {
                BackendState::LameDuck
            }
        }
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            BackendState::Refusing => "refusing",
            BackendState::Healthy => "healthy",
            BackendState::LameDuck => "lame_duck",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BackendState::{Healthy, LameDuck, Refusing};
    use super::*;

    #[test]
    fn a_state_as_number_is_its_place_in_all() {
        assert!(BackendState::ALL.into_iter().enumerate().all(|(place, state)| state as usize == place));
    }

    #[test]
    fn every_state_has_an_answer_to_every_event() {
        use HealthEvent::{Connected, Lost, Told};
        let table = [
            (Connected(Readiness::Ready), [Healthy, Healthy, Healthy]),
            (Connected(Readiness::LameDuck), [LameDuck, LameDuck, LameDuck]),
            (Told(Readiness::Ready), [Refusing, Healthy, Healthy]),
            (Told(Readiness::LameDuck), [Refusing, LameDuck, LameDuck]),
            (Lost, [Refusing, Refusing, Refusing]),
        ];
        for (event, after) in table {
            assert_eq!(BackendState::ALL.map(|state| state.after(event)), after, "{event:?}");
        }
    }
}
