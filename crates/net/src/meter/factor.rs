//! How fast this machine is beside the reference machine (A18): costs of different machines compare.

use std::time::Duration;

use evenkeel_core::InvalidConfig;

/// Normalised seconds of CPU in one of this machine's: 2 on one that does the same work in half the time. `evenkeel
/// calibrate` measures it. Default 1.
///
/// ```
/// use evenkeel::meter::Factor;
/// use std::time::Duration;
///
/// let fast = Factor::new(2.0)?;
/// assert_eq!(fast.normalised(Duration::from_millis(3)), Duration::from_millis(6));
/// assert!(Factor::new(0.0).is_err());
/// # Ok::<_, evenkeel_core::InvalidConfig>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(f64);

impl Factor {
    /// From 0.01 to 100: further apart no two machines of a service are.
    pub fn new(factor: f64) -> Result<Self, InvalidConfig> {
        InvalidConfig::unless_in_range("cpu_factor", factor, 0.01, 100.0)?;
        Ok(Factor(factor))
    }

    /// CPU time of this machine as the reference machine would have taken.
    pub fn normalised(self, cpu: Duration) -> Duration {
        cpu.mul_f64(self.0)
    }

    /// The number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl Default for Factor {
    fn default() -> Self {
        Factor(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_factor_is_refused() {
        for wrong in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.009, 101.0] {
            assert_eq!(Factor::new(wrong).unwrap_err().field, "cpu_factor", "{wrong}");
        }
        assert!(Factor::new(0.01).is_ok() && Factor::new(100.0).is_ok());
    }
}
