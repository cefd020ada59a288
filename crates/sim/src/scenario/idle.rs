//! What becomes of connections that nobody uses, as in core's `ClientConfig`.

use evenkeel_core::ClientConfig;
use serde::{Deserialize, Serialize};

use super::span::Span;

/// When connections are let go, and how backends are checked without one; but for `after` the defaults are core's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Idle {
    /// Lets a connection go that has not been used for so long. Default: never, so that a scenario is about one thing.
    pub after: Option<Span>,
    /// Time between two checks of an inactive backend.
    pub check_every: Span,
    /// How long an answer may take.
    pub check_timeout: Span,
    /// Checks without an answer until it is connected to.
    pub silences_max: u32,
    /// Time between two connections to an inactive backend that datagrams do not reach.
    pub visit_every: Span,
}

impl Idle {
    /// Gives a client's brain these settings.
    pub(crate) fn put_into(&self, config: &mut ClientConfig) {
        config.idle.after = self.after.map(Span::get);
        config.checks.every = self.check_every.get();
        config.checks.timeout = self.check_timeout.get();
        config.checks.silences_max = self.silences_max;
        config.checks.visit_every = self.visit_every.get();
    }
}

impl Default for Idle {
    fn default() -> Self {
        let checks = ClientConfig::default().checks;
        Idle {
            after: None,
            check_every: checks.every.into(),
            check_timeout: checks.timeout.into(),
            silences_max: checks.silences_max,
            visit_every: checks.visit_every.into(),
        }
    }
}
