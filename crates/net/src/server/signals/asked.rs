//! A source of the program, asked on a thread of its own (B10): one that hangs holds up nobody but itself.
//!
//! The server takes the last answer. One that has not answered for a few seconds has none, until it answers again.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, Thread};
use std::time::Duration;

use evenkeel_core::Time;

use crate::clock::Steady;

/// Ends with this value, as soon as its source returns.
pub(crate) struct Asked<T> {
    name: String,
    clock: Steady,
    answers: Arc<Answers<T>>,
    asking: Asking<T>,
}

/// What it says, or why it says nothing.
type Answer<T> = Result<T, String>;
type Source<T> = Box<dyn FnMut() -> Answer<T> + Send>;

enum Asking<T> {
    NotYet(Source<T>),
    Since(Time, Thread),
    /// The system has no thread for it.
    Never(String),
}

struct Answers<T> {
    last: Mutex<Option<(Time, Answer<T>)>>,
    changed: Condvar,
    ended: AtomicBool,
}

impl<T: Clone + Send + 'static> Asked<T> {
    /// Not asked before [`Asked::start`].
    pub(crate) fn new(clock: Steady, name: &str, source: impl FnMut() -> Answer<T> + Send + 'static) -> Self {
        let answers = Answers { last: Mutex::default(), changed: Condvar::new(), ended: AtomicBool::new(false) };
        let asking = Asking::NotYet(Box::new(source));
        Asked { name: name.to_owned(), clock, answers: Arc::new(answers), asking }
    }

    /// Begins to ask, ten times a second or as often as it answers.
    pub(crate) fn start(&mut self) {
        let now = self.clock.now();
        let never = Asking::Never("it was started twice".to_owned());
        let Asking::NotYet(mut source) = std::mem::replace(&mut self.asking, never) else { return };
        let (answers, clock) = (Arc::clone(&self.answers), self.clock);
        let started = Builder::new().name(format!("evenkeel-{}", self.name)).spawn(move || {
            while !answers.ended.load(Ordering::Acquire) {
                let (answer, rest) = ask(&mut source);
                answers.tell(clock.now(), answer);
                std::thread::park_timeout(rest);
            }
        });
        self.asking = match started {
            Ok(running) => Asking::Since(now, running.thread().clone()),
            Err(error) => Asking::Never(format!("there is no thread for it: {error}")),
        };
    }

    /// Waits until it has answered for the first time, and no longer than this.
    pub(crate) fn wait_for_first(&self, until: Time) {
        let mut last = self.answers.last.lock().unwrap_or_else(PoisonError::into_inner);
        while let (None, Asking::Since(..)) = (&*last, &self.asking) {
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return;
            }
            let woken = self.answers.changed.wait_timeout(last, left);
            (last, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The last answer; nothing while it may still be thinking about the first.
    pub(crate) fn last(&self) -> Option<Answer<T>> {
        let since = match &self.asking {
            Asking::NotYet(_) => return None,
            Asking::Since(since, _) => *since,
            Asking::Never(why) => return Some(Err(why.clone())),
        };
        let last = self.answers.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (at, answer) = last.map_or((since, None), |(at, answer)| (at, Some(answer)));
        let age = self.clock.now().since(at);
        match answer {
            // What it failed with stays so until it answers.
            Some(Err(why)) => Some(Err(why)),
            _ if age >= SILENT_MOST => Some(Err(format!("it has not answered for {} s", age.as_secs()))),
            sound => sound,
        }
    }
}

impl<T> Answers<T> {
    fn tell(&self, now: Time, answer: Answer<T>) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, answer));
        self.changed.notify_all();
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        // Not waited for: it may never return.
        self.answers.ended.store(true, Ordering::Release);
        if let Asking::Since(_, thread) = &self.asking {
            thread.unpark();
        }
    }
}

impl<T> fmt::Debug for Asked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What it says, and how long to leave it alone.
fn ask<T>(source: &mut Source<T>) -> (Answer<T>, Duration) {
    match catch_unwind(AssertUnwindSafe(source)) {
        Ok(answer) => (answer, EVERY),
        // What it panicked over is said by the panic.
        Err(_) => (Err("it panicked".to_owned()), AFTER_PANIC),
    }
}

/// As often as the server reads its signals.
const EVERY: Duration = Duration::from_millis(100);
/// So that one that always panics prints it six times a minute.
const AFTER_PANIC: Duration = Duration::from_secs(10);
/// Thirty readings that were missed: whatever it counts may be anything by now.
pub(crate) const SILENT_MOST: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn one_that_hangs_keeps_its_last_answer_for_a_while_and_is_back_when_it_answers() {
        let (say, hears) = mpsc::channel::<f64>();
        let clock = Steady::new();
        let mut asked = Asked::new(clock, "queue", move || hears.recv().map_err(|error| error.to_string()));
        asked.start();
        assert_eq!(asked.last(), None, "nothing to read yet");
        say.send(0.5).unwrap();
        asked.wait_for_first(Time::NEVER);
        assert_eq!(asked.last(), Some(Ok(0.5)));

        let silent = loop {
            match asked.last().unwrap() {
                Ok(value) => assert!((value - 0.5).abs() < f64::EPSILON),
                Err(why) => break why,
            }
            std::thread::park_timeout(Duration::from_millis(10));
        };

        assert_eq!(silent, "it has not answered for 3 s");
        say.send(0.25).unwrap();
        while asked.last() != Some(Ok(0.25)) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    #[test]
    fn one_that_never_answered_is_not_waited_for_and_is_left_out() {
        let (_say, hears) = mpsc::channel::<f64>();
        let clock = Steady::new();
        let mut asked = Asked::new(clock, "queue", move || hears.recv().map_err(|error| error.to_string()));
        asked.start();

        asked.wait_for_first(clock.now() + Duration::from_millis(5));

        while asked.last().is_none() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        assert!(matches!(asked.last(), Some(Err(why)) if why.starts_with("it has not answered for")));
    }

    #[test]
    fn one_that_panics_is_left_alone_for_a_while_and_then_asked_again() {
        let mut asked = 0;
        let mut source: Source<f64> = Box::new(move || {
            asked += 1;
            assert!(asked > 1, "not the first time");
            Ok(0.5)
        });

        assert_eq!(ask(&mut source), (Err("it panicked".to_owned()), AFTER_PANIC));
        assert_eq!(ask(&mut source), (Ok(0.5), EVERY));
    }

    #[test]
    fn what_its_source_holds_goes_with_it() {
        let (held, gone) = mpsc::channel::<()>();
        let mut asked = Asked::new(Steady::new(), "queue", move || {
            let _held: &mpsc::Sender<()> = &held;
            Ok(1.0)
        });
        asked.start();

        drop(asked);

        assert_eq!(gone.recv_timeout(Duration::from_secs(60)), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
