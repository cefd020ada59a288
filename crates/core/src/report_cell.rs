//! A load report that many threads may write and read without a lock.
//!
//! Each field is an atomic of its own: a reader may see one field of a newer report beside another of an older one,
//! which is no worse than a report that arrived a moment earlier. Unknown is NaN, which no sanitized report contains.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::time::CLOCK_JUMP;
use crate::{LoadReport, Time};

#[derive(Debug)]
pub(crate) struct ReportCell {
    /// When it was told, plus one; 0 while nothing was.
    told: AtomicU64,
    utilization: AtomicU32,
    utilization_slow: AtomicU32,
    qps: AtomicU32,
    eps: AtomicU32,
    in_flight: AtomicU32,
    runnable: AtomicU32,
    processors: AtomicU32,
    latency_us: AtomicU32,
}

/// What a policy that probes wants of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Probe {
    pub(crate) told: Time,
    pub(crate) in_flight: f32,
    /// Infinite where it is not known.
    pub(crate) latency_us: f32,
}

impl ReportCell {
    /// Keeps what is not nonsense of `report`; says how many fields were. One that is a little older than the last is
    /// left; one that is much older comes from a clock that was set back.
    pub(crate) fn tell(&self, now: Time, report: &LoadReport) -> u32 {
        let (report, nonsense) = report.sanitized();
        let last = Time::from_nanos(self.told.load(Ordering::Relaxed).saturating_sub(1));
        if last > now && last.since(now) < CLOCK_JUMP {
            return nonsense;
        }
        store(&self.utilization, report.utilization);
        store(&self.utilization_slow, report.utilization_slow);
        store(&self.qps, report.qps);
        store(&self.eps, report.eps);
        store(&self.in_flight, report.in_flight.map(f64::from));
        store(&self.runnable, report.runnable);
        store(&self.processors, report.processors);
        store(&self.latency_us, report.latency.map(|latency| latency.as_secs_f64() * 1e6));
        self.told.store(now.nanos().saturating_add(1), Ordering::Release);
        nonsense
    }

    /// The last report, and when it was told.
    pub(crate) fn last(&self) -> Option<(Time, LoadReport)> {
        let told = self.told.load(Ordering::Acquire).checked_sub(1)?;
        let report = LoadReport {
            utilization: load(&self.utilization),
            utilization_slow: load(&self.utilization_slow),
            qps: load(&self.qps),
            eps: load(&self.eps),
            in_flight: load(&self.in_flight).map(|count| count as u32),
            runnable: load(&self.runnable),
            processors: load(&self.processors),
            latency: load(&self.latency_us).map(|micros| Duration::from_nanos((micros * 1e3) as u64)),
        };
        Some((Time::from_nanos(told), report))
    }

    /// When the last report was told, and the requests in flight and the latency it named: what a look at many backends
    /// needs, in three loads.
    #[inline]
    pub(crate) fn probe(&self) -> Option<Probe> {
        let told = self.told.load(Ordering::Acquire).checked_sub(1)?;
        let in_flight = f32::from_bits(self.in_flight.load(Ordering::Relaxed));
        let latency_us = f32::from_bits(self.latency_us.load(Ordering::Relaxed));
        let latency_us = if latency_us.is_nan() { f32::INFINITY } else { latency_us };
        (!in_flight.is_nan()).then_some(Probe { told: Time::from_nanos(told), in_flight, latency_us })
    }

    /// Forgets the last report: it was another backend's.
    pub(crate) fn clear(&self) {
        self.told.store(0, Ordering::Release);
    }
}

impl Default for ReportCell {
    fn default() -> Self {
        let unknown = || AtomicU32::new(f32::NAN.to_bits());
        ReportCell {
            told: AtomicU64::new(0),
            utilization: unknown(),
            utilization_slow: unknown(),
            qps: unknown(),
            eps: unknown(),
            in_flight: unknown(),
            runnable: unknown(),
            processors: unknown(),
            latency_us: unknown(),
        }
    }
}

fn store(cell: &AtomicU32, value: Option<f64>) {
    cell.store(value.map_or(f32::NAN, |v| v as f32).to_bits(), Ordering::Relaxed);
}

fn load(cell: &AtomicU32) -> Option<f64> {
    let value = f32::from_bits(cell.load(Ordering::Relaxed));
    (!value.is_nan()).then_some(f64::from(value))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_zero_and_nonsense_is_unknown() {
        let cell = ReportCell::default();
        assert_eq!(cell.last(), None);

        let idle =
            LoadReport { utilization: Some(0.0), qps: Some(f64::NAN), in_flight: Some(7), ..LoadReport::default() };
        assert_eq!(cell.tell(Time::ZERO, &idle), 1);

        let (told, seen) = cell.last().unwrap();
        assert_eq!(told, Time::ZERO);
        assert_eq!((seen.utilization, seen.qps, seen.eps, seen.in_flight), (Some(0.0), None, None, Some(7)));

        cell.clear();
        assert_eq!(cell.last(), None);
    }
}
