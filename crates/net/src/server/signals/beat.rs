//! A thread that does something every 50 ms (B10): what is busy cannot be relied on to look at itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use evenkeel_core::Time;

use crate::clock::Steady;

/// Ends with this value.
#[derive(Debug)]
pub(crate) struct Beat {
    ended: Arc<AtomicBool>,
    thread: Thread,
}

impl Beat {
    /// Does `what` every [`BEAT`], on a thread of its own. One that comes late is not made up for.
    pub(crate) fn start(clock: Steady, mut what: impl FnMut(Time) + Send + 'static) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&ended);
        let running = std::thread::Builder::new().name("evenkeel-beat".to_owned()).spawn(move || {
            while !over.load(Ordering::Acquire) {
                what(clock.now());
                std::thread::park_timeout(BEAT);
            }
        })?;
        Ok(Beat { ended, thread: running.thread().clone() })
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        // Not waited for: whoever drops it may be a task.
        self.ended.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Twice as often as the brain is told; a thread that wakes more often costs an idle server a percent of a processor.
const BEAT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_beats_until_it_is_dropped() {
        let (sender, beats) = mpsc::channel();
        let what = move |now| sender.send(now).unwrap_or_default();
        let beat = Beat::start(Steady::new(), what).unwrap();
        let first = beats.recv().unwrap();
        assert!(beats.recv().unwrap() > first);

        drop(beat);

        // What it holds goes with it, so this ends.
        while beats.recv_timeout(Duration::from_secs(10)) != Err(mpsc::RecvTimeoutError::Disconnected) {}
    }
}
