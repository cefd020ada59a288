//! What a backend says about its own load (A15): on every answer, on every check.

use std::time::Duration;

/// Whether a task wants requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// Send.
    Ready,
    /// Starting or about to stop: what arrives is served, but nothing new should be sent (A4, A7).
    LameDuck,
}

/// A load report. *Unknown is not zero*: what a backend did not say is `None`, and an idle one says 0.
///
/// Reports come from the network. [`LoadReport::sanitized`] makes nonsense unknown, and everything that keeps a
/// report keeps a sanitized one.
///
/// ```
/// use evenkeel_core::LoadReport;
///
/// let report = LoadReport { utilization: Some(f64::NAN), qps: Some(120.0), ..LoadReport::default() };
/// let (report, nonsense) = report.sanitized();
/// assert_eq!((report.utilization, report.qps, nonsense), (None, Some(120.0), 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadReport {
    /// CPU in use over CPU reserved, over about 2 s; above 1 where more is used than reserved.
    pub utilization: Option<f64>,
    /// The same over about 10 s.
    pub utilization_slow: Option<f64>,
    /// Requests answered per second.
    pub qps: Option<f64>,
    /// Those of them that failed, per second.
    pub eps: Option<f64>,
    /// Requests being worked on.
    pub in_flight: Option<u32>,
    /// Tasks running or ready to run.
    pub runnable: Option<f64>,
    /// Processors it may use.
    pub processors: Option<f64>,
    /// Mean time from arrival to answer, over about 2 s.
    pub latency: Option<Duration>,
}

impl LoadReport {
    /// Share of its answers that fail, as it says; 0 where it says nothing.
    pub(crate) fn failing_share(&self) -> f64 {
        let said = self.eps.zip(self.qps.filter(|&qps| qps > 0.0));
        said.map_or(0.0, |(eps, qps)| (eps / qps).clamp(0.0, 1.0))
    }

    /// The same without what cannot be true (NaN, infinite, negative, absurdly large, no processors), and how many
    /// fields that made unknown.
    pub fn sanitized(self) -> (LoadReport, u32) {
        let mut nonsense = 0;
        let mut keep = |value: Option<f64>, least: f64, most: f64| {
            let kept = value.filter(|v| v.is_finite() && (least..=most).contains(v));
            nonsense += u32::from(kept.is_none() && value.is_some());
            kept
        };
        let report = LoadReport {
            utilization: keep(self.utilization, 0.0, UTILIZATION_MOST),
            utilization_slow: keep(self.utilization_slow, 0.0, UTILIZATION_MOST),
            qps: keep(self.qps, 0.0, RATE_MOST),
            eps: keep(self.eps, 0.0, RATE_MOST),
            in_flight: self.in_flight,
            runnable: keep(self.runnable, 0.0, RATE_MOST),
            processors: keep(self.processors, PROCESSORS_LEAST, PROCESSORS_MOST),
            latency: self.latency,
        };
        (report, nonsense)
    }
}

/// 100 times what was reserved is no reading of a CPU.
const UTILIZATION_MOST: f64 = 100.0;
/// A billion a second is no rate of one task.
const RATE_MOST: f64 = 1e9;
/// A hundredth of a processor is the smallest share container schedulers hand out.
const PROCESSORS_LEAST: f64 = 0.01;
const PROCESSORS_MOST: f64 = 1e5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_becomes_unknown_and_the_rest_stays() {
        let report = LoadReport {
            utilization: Some(-0.1),
            utilization_slow: Some(f64::INFINITY),
            qps: Some(0.0),
            eps: Some(1e12),
            in_flight: Some(3),
            runnable: Some(f64::NAN),
            processors: Some(0.0),
            latency: Some(Duration::from_millis(2)),
        };

        let (kept, nonsense) = report.sanitized();

        assert_eq!(nonsense, 5);
        let expected = LoadReport {
            qps: Some(0.0),
            in_flight: Some(3),
            latency: Some(Duration::from_millis(2)),
            ..LoadReport::default()
        };
        assert_eq!(kept, expected);
    }
}
