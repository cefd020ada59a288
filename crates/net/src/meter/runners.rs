//! Who runs or could run, for the queue and for the executor load average (B10).

use std::fmt;
use std::sync::{Arc, OnceLock};

use evenkeel_core::server::Running;

use super::thread::number;

/// The count of a server's runnable handlers, and whom to call when one rests while a request waits for that.
#[derive(Default)]
pub struct Runners {
    running: Arc<Running>,
    hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Runners {
    /// Counts there.
    pub fn new(running: Arc<Running>) -> Self {
        Runners { running, hook: OnceLock::new() }
    }

    /// Called each time a handler rests while a request waits, on the thread where it rests, often in the middle of a
    /// poll: it must be short and must not panic. The first one stays; `false` for every other.
    pub fn call_when_free(&self, hook: impl Fn() + Send + Sync + 'static) -> bool {
        self.hook.set(Box::new(hook)).is_ok()
    }

    /// The count.
    pub fn running(&self) -> &Arc<Running> {
        &self.running
    }

    #[inline]
    pub(super) fn runs(&self) {
        self.running.runs(number());
    }

    #[inline]
    pub(super) fn rests(&self) {
        if self.running.rests(number()) {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        if let Some(hook) = self.hook.get() {
            hook();
        }
    }
}

impl fmt::Debug for Runners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runners").field("running", &self.running.now()).finish_non_exhaustive()
    }
}
