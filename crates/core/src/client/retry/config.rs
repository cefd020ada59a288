//! What can be set for retries. Every default has its reason in `docs/defaults.md`.

use std::time::Duration;

use crate::{InvalidConfig, Mode};

/// How often and for how much of its traffic a client tries again (B12 to B15).
#[derive(Clone, Debug, PartialEq)]
pub struct RetryConfig {
    /// Whether it does. What certainly never left is sent again in any case. Default on.
    pub mode: Mode,
    /// Attempts of one request, the first included. More help where few tasks refuse, and cost more where many do.
    /// Default 3.
    pub attempts: u32,
    /// Retries as a share of the requests of the last `window`, for each customer; one in a window is always allowed.
    /// Higher mends more, and grows load by as much where everything is refused. Default 0.1.
    pub share: f64,
    /// How far back requests and retries count. Shorter allows rare callers more. Default 10 s.
    pub window: Duration,
    /// Share of attempts that were refused in the last `window` above which refusals are not retried: many tasks are
    /// overloaded, not few (B13). At 1 only the budget and the service's own verdict say so. Default 0.5.
    pub refused_most: f64,
    /// Wait before the first retry of what failed, drawn between half and one and a half of it, and doubled for each
    /// further one. What was refused is tried elsewhere at once. Default 20 ms.
    pub wait: Duration,
    /// A second attempt beside one that takes long.
    pub hedge: HedgeConfig,
}

/// Whether a request that may run twice is also sent elsewhere when its answer takes long; the first answer wins.
#[derive(Clone, Debug, PartialEq)]
pub struct HedgeConfig {
    /// Whether it is; never more than `retry.mode`. Default off.
    pub mode: Mode,
    /// After how long. Default: what one answer in twenty takes longer than, as learned.
    pub after: Option<Duration>,
}

impl Default for RetryConfig {
    fn default() -> Self {
        RetryConfig {
            mode: Mode::On,
            attempts: 3,
            share: 0.1,
            window: Duration::from_secs(10),
            refused_most: 0.5,
            wait: Duration::from_millis(20),
            hedge: HedgeConfig { mode: Mode::Off, after: None },
        }
    }
}

impl RetryConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let (millisecond, second) = (Duration::from_millis(1), Duration::from_secs(1));
        InvalidConfig::unless_in_range("retry.attempts", self.attempts, 1, 5)?;
        // Every request tried five times makes four retries for each.
        InvalidConfig::unless_in_range("retry.share", self.share, 0.0, 4.0)?;
        InvalidConfig::unless_in_range("retry.window", self.window, second, 600 * second)?;
        InvalidConfig::unless_in_range("retry.refused_most", self.refused_most, 0.0, 1.0)?;
        InvalidConfig::unless_in_range("retry.wait", self.wait, Duration::ZERO, 10 * second)?;
        match self.hedge.after {
            Some(after) => InvalidConfig::unless_in_range("retry.hedge.after", after, millisecond, 60 * second),
            None => Ok(()),
        }
    }
}
