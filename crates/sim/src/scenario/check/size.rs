//! How large a world may be: what is kept of it fits into memory, and its times into the clock.

use crate::model::Arrivals;
use crate::scenario::error::BadScenario;
use crate::scenario::{Scenario, Span};

impl Scenario {
    pub(super) fn check_size(&self) -> Result<(), BadScenario> {
        self.check_windows(self.backends.count)?;
        let rate = Arrivals::rate_of(self);
        if (RATE_LEAST..=RATE_MOST).contains(&rate) {
            return Ok(());
        }
        let what = format!("makes {rate} requests per second: must make {RATE_LEAST} to {RATE_MOST}");
        Err(BadScenario::value("clients.load", self.clients.load, what))
    }

    /// Every window keeps a number for each task, of which the first service has so many.
    pub(super) fn check_windows(&self, backends: u32) -> Result<(), BadScenario> {
        let behind = self.layers.iter().map(|layer| u64::from(layer.backends.count));
        let tasks = behind.fold(u64::from(backends), u64::saturating_add);
        let windows = self.duration.nanos() / self.window.nanos();
        let most = (LOADS_MOST / tasks).clamp(1, WINDOWS_MOST);
        if windows <= most {
            return Ok(());
        }
        let least = Span::from_nanos(self.duration.nanos().div_ceil(most));
        let what = format!("{windows} windows of {tasks} tasks are too many to keep: use {least} or longer");
        Err(BadScenario::value("window", self.window, what))
    }
}

/// A time that is typical of something that happens often: what is longer does not happen in any run.
pub(super) fn up_to_a_day(field: &str, value: Span) -> Result<(), BadScenario> {
    if value > Span::ZERO && value <= DAY {
        return Ok(());
    }
    Err(BadScenario::value(field, value, format!("must be above 0 and at most {DAY}")))
}

/// A request in eleven days: longer gaps than any run.
pub(super) const RATE_LEAST: f64 = 1e-6;

/// One for each tick of the clock.
pub(super) const RATE_MOST: f64 = 1e9;

/// More points than a picture can show.
const WINDOWS_MOST: u64 = 100_000;

/// Loads of all tasks in all windows: a few hundred megabytes.
const LOADS_MOST: u64 = 50_000_000;

const DAY: Span = Span::from_secs(24 * 3_600);
