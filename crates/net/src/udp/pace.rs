//! How fast datagrams are read: a flood of them costs a bounded part of a core, and the system drops the rest.

use std::time::Duration;

use tokio::time::Instant;

/// So many a second, and so many at once.
#[derive(Debug)]
pub(crate) struct Pace {
    each: Duration,
    ahead_most: Duration,
    /// When all that was allowed would have been read at the pace.
    due: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        let each = Duration::from_secs(1) / per_second;
        Pace { each, ahead_most: each * burst, due: Instant::now() }
    }

    /// Returns at once while there are few; waits where `count` more are too many.
    pub(crate) async fn allow(&mut self, count: usize) {
        let now = Instant::now();
        self.due = self.due.max(now) + self.each * u32::try_from(count).unwrap_or(u32::MAX);
        if self.due > now + self.ahead_most {
            tokio::time::sleep_until(self.due - self.ahead_most).await;
        }
    }
}
