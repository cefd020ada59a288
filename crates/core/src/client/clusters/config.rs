//! What can be set for a client of several clusters.

use std::time::Duration;

use crate::{InvalidConfig, Mode};

/// When requests leave the nearest cluster, and how far the next is used (B19).
///
/// ```
/// use evenkeel_core::client::ClustersConfig;
///
/// let mut config = ClustersConfig::default();
/// config.full = 1.5;
/// let error = config.check().unwrap_err();
/// assert_eq!(error.to_string(), "clusters.full = 1.5 is not possible: must be from 0.1 to 1.0");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClustersConfig {
    /// Off: the nearest cluster with a usable backend gets everything. Observe: so too, and what would be spilled is
    /// shown. Default on.
    pub mode: Mode,
    /// Utilization of its most loaded tasks at which the nearest cluster is full. Lower keeps more in reserve and spills
    /// sooner. Default 0.85.
    pub full: f64,
    /// How much sooner a cluster is full for requests from elsewhere; half of it is taken off before requests come home.
    /// Wider leaves more to those who are at home there. Default 0.05.
    pub margin: f64,
    /// Time between two decisions. Shorter leaves a full cluster sooner, on fewer readings. Default 250 ms.
    pub period: Duration,
    /// Share of the requests that may come home in a second. Lower is calmer and pays for the longer way for longer.
    /// Default 0.1.
    pub home_rate: f64,
}

impl Default for ClustersConfig {
    fn default() -> Self {
        ClustersConfig { mode: Mode::On, full: 0.85, margin: 0.05, period: Duration::from_millis(250), home_rate: 0.1 }
    }
}

impl ClustersConfig {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let ClustersConfig { mode: _, full, margin, period, home_rate } = *self;
        InvalidConfig::unless_in_range("clusters.full", full, 0.1, 1.0)?;
        InvalidConfig::unless_in_range("clusters.margin", margin, 0.0, full / 2.0)?;
        let (least, most) = (Duration::from_millis(10), Duration::from_secs(10));
        InvalidConfig::unless_in_range("clusters.period", period, least, most)?;
        InvalidConfig::unless_in_range("clusters.home_rate", home_rate, 0.001, 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_settings_are_refused_by_name() {
        let good = ClustersConfig::default();
        assert_eq!(good.check(), Ok(()));
        let bad = [
            ("clusters.full", ClustersConfig { full: f64::NAN, ..good.clone() }),
            ("clusters.margin", ClustersConfig { margin: 0.5, ..good.clone() }),
            ("clusters.period", ClustersConfig { period: Duration::ZERO, ..good.clone() }),
            ("clusters.home_rate", ClustersConfig { home_rate: 0.0, ..good }),
        ];
        for (field, config) in bad {
            assert_eq!(config.check().map_err(|error| error.field), Err(field));
        }
    }
}
