//! What was seen of the requests: how long they took, how they ended, who answered.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::caller::Reply;

/// Counts of a load, growing.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Requests that were due.
    pub(crate) asked: u64,
    /// Those of them that found too many in flight.
    pub(crate) not_sent: u64,
    pub(crate) ok: u64,
    pub(crate) degraded: u64,
    pub(crate) failed: BTreeMap<String, u64>,
    pub(crate) refused: BTreeMap<String, u64>,
    /// Of all that were answered.
    pub(crate) latency: Latency,
    pub(crate) by_backend: BTreeMap<String, Latency>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Tally {
            asked: 0,
            not_sent: 0,
            ok: 0,
            degraded: 0,
            failed: BTreeMap::new(),
            refused: BTreeMap::new(),
            latency: Latency::new(),
            by_backend: BTreeMap::new(),
        }
    }

    pub(crate) fn count(&mut self, took: Duration, reply: Reply) {
        let (count, backend) = match reply {
            Reply::Ok(backend) => (&mut self.ok, backend),
            Reply::Degraded(backend) => (&mut self.degraded, backend),
            Reply::Failed(why) => return *self.failed.entry(why).or_default() += 1,
            Reply::Refused(why) => return *self.refused.entry(why).or_default() += 1,
        };
        *count += 1;
        self.latency.record(took);
        self.by_backend.entry(backend).or_insert_with(Latency::new).record(took);
    }

    /// Requests that got what they asked for, or less of it.
    pub(crate) fn answered(&self) -> u64 {
        self.ok + self.degraded
    }

    /// For whatever reason.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// For whatever reason.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Requests whose end was not waited for.
    pub(crate) fn unfinished(&self) -> u64 {
        self.asked - self.not_sent - self.answered() - self.failed() - self.refused()
    }
}

/// How long requests took, to a thousandth.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Histogram<u64>);

impl Latency {
    pub(crate) fn new() -> Self {
        Latency(Histogram::new(DIGITS).expect("three digits are possible"))
    }

    fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(MICROS_MOST);
        self.0.record(micros).expect("it grows up to a day");
    }

    /// How many were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// What this share of them did not exceed; nothing of nothing.
    pub(crate) fn ms(&self, share: f64) -> Option<f64> {
        (self.count() > 0).then(|| self.0.value_at_quantile(share) as f64 / 1e3)
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let [p50, p90, p99, p99_9, max] = [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| self.ms(share));
        Percentiles { p50, p90, p99, p99_9, max }
    }
}

/// In milliseconds; nothing where nothing was answered.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: Option<f64>,
    pub(crate) p90: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) p99_9: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// A number of milliseconds for people: as many digits as matter.
pub(crate) fn ms_text(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.2}"),
        Some(ms) if ms < 100.0 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.0}"),
    }
}

const DIGITS: u8 = 3;
/// A day: no deadline is longer.
const MICROS_MOST: u64 = 24 * 60 * 60 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_counted_once() {
        let mut tally = Tally::new();
        tally.asked = 7;
        tally.not_sent = 1;
        for reply in [
            Reply::Ok("a".to_owned()),
            Reply::Degraded("b".to_owned()),
            Reply::Failed("expired".to_owned()),
            Reply::Failed("expired".to_owned()),
            Reply::Refused("all_full".to_owned()),
        ] {
            tally.count(Duration::from_millis(3), reply);
        }

        assert_eq!((tally.ok, tally.degraded, tally.failed(), tally.refused()), (1, 1, 2, 1));
        assert_eq!((tally.latency.count(), tally.unfinished()), (2, 1));
        assert_eq!(tally.by_backend.len(), 2);
    }

    #[test]
    fn nothing_has_no_latency() {
        let latency = Latency::new();

        assert_eq!((latency.ms(0.5), latency.percentiles().max), (None, None));
        assert_eq!(ms_text(None), "-");
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let mut latency = Latency::new();
        for ms in 1..=100 {
            latency.record(Duration::from_millis(ms));
        }

        let Percentiles { p50, p99, max, .. } = latency.percentiles();

        // Three digits: to a thousandth.
        for (found, expected) in [(p50, 50.0), (p99, 99.0), (max, 100.0)] {
            assert!(found.is_some_and(|found| (found / expected - 1.0_f64).abs() < 0.001), "{found:?} {expected}");
        }
    }
}
