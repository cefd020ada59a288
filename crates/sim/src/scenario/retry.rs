//! Whether clients try again what was refused or failed, as in core's `RetryConfig`; and what others do instead.

use evenkeel_core::RetryConfig;
use evenkeel_core::client::HedgeConfig;
use serde::{Deserialize, Serialize};

use super::server::Switch;
use super::span::Span;

/// Retries of every client, of layers too; but for `mode` the defaults are core's. Requests may run twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// Whether. Default off, so that a scenario is about one thing; what never left is sent again in any case.
    pub mode: Switch,
    /// Attempts of one request, the first included.
    pub attempts: u32,
    /// Retries as a share of requests.
    pub share: f64,
    /// How far back both count.
    pub window: Span,
    /// Share of refused attempts above which refusals are not retried.
    pub refused_most: f64,
    /// Wait before the first retry of what failed.
    pub wait: Span,
    /// Whether a request of the first service is also sent elsewhere when its answer takes long. Default off.
    pub hedge: Switch,
    /// After how long; learned where it is not given.
    pub hedge_after: Option<Span>,
    /// Clients that are not ours in this: so many attempts of whatever was not served, at once, each with the whole of the
    /// caller's time, without a budget and deaf to verdicts. Default: none.
    pub naive: Option<u32>,
}

impl RetrySettings {
    pub(crate) fn config(&self) -> RetryConfig {
        RetryConfig {
            mode: self.mode.into(),
            attempts: self.attempts,
            share: self.share,
            window: self.window.get(),
            refused_most: self.refused_most,
            wait: self.wait.get(),
            hedge: HedgeConfig { mode: self.hedge.into(), after: self.hedge_after.map(Span::get) },
        }
    }

    /// Whether anybody tries again what was refused or failed.
    pub(crate) fn is_off(&self) -> bool {
        self.mode == Switch::Off && self.naive.is_none()
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        let core = RetryConfig::default();
        RetrySettings {
            mode: Switch::Off,
            attempts: core.attempts,
            share: core.share,
            window: core.window.into(),
            refused_most: core.refused_most,
            wait: core.wait.into(),
            hedge: Switch::Off,
            hedge_after: None,
            naive: None,
        }
    }
}
