//! Says in the log which signals are left out and which are back, and does not repeat itself.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::Time;

/// What was said of each signal last.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    said: BTreeMap<String, Said>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    at: Time,
    is_out: bool,
}

impl Telling {
    /// These are left out now, and why.
    pub(crate) fn tell(&mut self, now: Time, left_out: &[(String, String)]) {
        for (signal, reason) in left_out {
            if self.is_news(now, signal) {
                tracing::warn!(signal, reason, "a signal is left out");
            }
        }
        for (signal, said) in self.said.iter_mut().filter(|(_, said)| said.is_out) {
            if !left_out.iter().any(|(out, _)| out == signal) {
                said.is_out = false;
                tracing::info!(signal, "a signal that was left out counts again");
            }
        }
    }

    /// One that comes and goes is news once a minute.
    fn is_news(&mut self, now: Time, signal: &str) -> bool {
        match self.said.get_mut(signal) {
            Some(said) if said.is_out || now.since(said.at) < AGAIN => false,
            _ => {
                self.said.insert(signal.to_owned(), Said { at: now, is_out: true });
                true
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn has_said(&self, signal: &str) -> bool {
        self.said.contains_key(signal)
    }
}

const AGAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_and_goes_is_told_once_a_minute() {
        let (mut telling, now) = (Telling::default(), Time::from_secs(100));
        let out = [("queue".to_owned(), "it panicked".to_owned())];
        let said_at = |telling: &Telling| telling.said["queue"].at;
        for tenth in 0..100 {
            let at = now + Duration::from_millis(100) * tenth;
            telling.tell(at, if tenth % 2 == 0 { &out } else { &[] });
        }
        assert_eq!(said_at(&telling), now);
        assert!(!telling.said["queue"].is_out);

        telling.tell(now + AGAIN, &out);

        assert_eq!(said_at(&telling), now + AGAIN);
    }
}
