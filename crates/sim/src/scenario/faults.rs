//! What goes wrong, and what is changed while it runs.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// One fault or change: when, to whom, what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it begins.
    pub at: Span,
    /// For how long; to the end where it is not given.
    pub lasts: Option<Span>,
    /// Which service: 0 is the first, 1 the layer behind it, as in figures. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub layer: u32,
    /// Which of its backends: `"0"`, `"0-9"`, `"50%"` (every second), or `"all"`. Default `"0"`.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub backends: String,
    /// What.
    #[serde(flatten)]
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends at once; connections are reset, a new one is there after `lasts`.
    Kill,
    /// Takes everything, answers nothing.
    Hang,
    /// Answers with an error, fast and cheap.
    Fail {
        /// Share of requests. Default 1.
        #[serde(default = "one")]
        share: f64,
        /// CPU it takes. Default 1 ms.
        #[serde(default = "millisecond")]
        cpu: Span,
    },
    /// Refuses as a task with too much does: elsewhere it may go better.
    Refuse {
        /// Share of requests. Default 1.
        #[serde(default = "one")]
        share: f64,
    },
    /// Cores at this share of their speed.
    Slow {
        /// Factor, above 0.
        speed: f64,
    },
    /// Handlers wait so many times as long for what they wait for: something behind them is slow.
    Stall {
        /// Factor, above 0.
        times: f64,
    },
    /// No message gets through between these backends and these clients.
    Partition {
        /// Share of clients cut off. Default 1.
        #[serde(default = "one")]
        clients: f64,
    },
    /// No datagram gets through between these backends and these clients; connections do.
    NoDatagrams {
        /// Share of clients it concerns. Default 1.
        #[serde(default = "one")]
        clients: f64,
    },
    /// Says it wants no requests, and wants them again after `lasts`.
    LameDuck,
    /// SIGTERM to one after another; each drains, ends and is started again.
    Restart {
        /// At a time. Default 1.
        #[serde(default = "one_task")]
        together: u32,
        /// From the end of the old process until the new one listens. Default 1 s.
        #[serde(default = "second")]
        down: Span,
        /// How long the new one is a lame duck before it is ready. Default none.
        #[serde(default)]
        prewarm: Span,
    },
    /// From now on there are more or fewer backends or clients: `+1b`, `-10%b`, `+10%c`, as `evenkeel plan` has it.
    Resize {
        /// The change.
        change: String,
    },
    /// All clients change to another policy of core.
    Policy {
        /// Its name.
        policy: String,
    },
}

impl FaultKind {
    /// As a scenario writes it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Hang => "hang",
            FaultKind::Fail { .. } => "fail",
            FaultKind::Refuse { .. } => "refuse",
            FaultKind::Slow { .. } => "slow",
            FaultKind::Stall { .. } => "stall",
            FaultKind::Partition { .. } => "partition",
            FaultKind::NoDatagrams { .. } => "no_datagrams",
            FaultKind::LameDuck => "lame_duck",
            FaultKind::Restart { .. } => "restart",
            FaultKind::Resize { .. } => "resize",
            FaultKind::Policy { .. } => "policy",
        }
    }
}

fn first() -> String {
    "0".to_owned()
}

/// What is not written down is not written back: kinds that are about no backends would refuse it.
fn is_first(backends: &str) -> bool {
    backends == "0"
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(layer: &u32) -> bool {
    *layer == 0
}

fn one() -> f64 {
    1.0
}

fn one_task() -> u32 {
    1
}

fn second() -> Span {
    Span::from_secs(1)
}

fn millisecond() -> Span {
    Span::from_millis(1)
}
