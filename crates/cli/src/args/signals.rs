//! How limits of a backend, and what its signals refuse from, are read.

use evenkeel_core::server::{SignalsConfig, Thresholds};

/// From where a signal of the machine refuses, or that it does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SignalArg {
    signal: Signal,
    thresholds: Option<Thresholds>,
}

/// Those that a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Cpu,
    Memory,
    Load,
    Delay,
    Throttled,
}

impl Signal {
    const ALL: [(&str, Signal); 5] = [
        ("cpu", Signal::Cpu),
        ("memory", Signal::Memory),
        ("load", Signal::Load),
        ("delay", Signal::Delay),
        ("throttled", Signal::Throttled),
    ];
}

impl SignalArg {
    /// Sets it; says which one it is.
    pub(crate) fn apply(self, config: &mut SignalsConfig) -> &'static str {
        let own = match self.signal {
            Signal::Cpu => &mut config.cpu,
            Signal::Memory => &mut config.memory,
            Signal::Load => &mut config.load,
            Signal::Delay => &mut config.delay,
            Signal::Throttled => &mut config.throttled,
        };
        *own = self.thresholds;
        Signal::ALL.into_iter().find(|(_, signal)| *signal == self.signal).map_or("", |(name, _)| name)
    }
}

pub(super) fn signal(text: &str) -> Result<SignalArg, String> {
    let (name, from) = text.split_once('=').unwrap_or((text, ""));
    let known = Signal::ALL.into_iter().find(|(one, _)| *one == name.to_ascii_lowercase());
    let Some((name, signal)) = known else {
        let names = Signal::ALL.map(|(name, _)| name).join(", ");
        return Err(format!("{name:?} is no signal: use one of {names}, as in memory=0.5,0.6,0.7,0.8"));
    };
    if from.eq_ignore_ascii_case("off") {
        return Ok(SignalArg { signal, thresholds: None });
    }
    let steps: Result<Vec<f64>, _> = from.split(',').map(|step| step.trim().parse::<f64>()).collect();
    let steps = steps.ok().and_then(|steps| <[f64; 4]>::try_from(steps).ok());
    let Some(steps) = steps else {
        let what = "off, or four numbers that rise: for SHEDDABLE, SHEDDABLE_PLUS, CRITICAL and CRITICAL_PLUS";
        return Err(format!("after {name}= write {what}"));
    };
    // The others may be as high as never.
    if matches!(signal, Signal::Cpu | Signal::Memory | Signal::Throttled) && steps[0] > SHARE_MOST {
        return Err(format!("{name} is a share, and none begins above {SHARE_MOST}: write 0.5 for 50 %"));
    }
    Ok(SignalArg { signal, thresholds: Some(Thresholds(steps)) })
}

/// Bytes, plain or in a unit of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|sign: char| !sign.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        _ => None,
    };
    let bytes = shift.and_then(|shift| digits.parse::<u64>().ok()?.checked_mul(1 << shift));
    bytes
        .filter(|bytes| (BYTES_LEAST..=BYTES_MOST).contains(bytes))
        .ok_or_else(|| "write bytes from 1MiB to 1048576GiB, as in 512MiB (KiB, MiB and GiB are known)".to_owned())
}

/// A share of what there is; a little more than all can be in use for a while, and where less is reserved than there is.
const SHARE_MOST: f64 = 10.0;
/// A process has more than that before it does anything.
const BYTES_LEAST: u64 = 1 << 20;
const BYTES_MOST: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (text, expected) in [("1048576", 1 << 20), ("512MiB", 512 << 20), ("2g", 2 << 30), ("2048kib", 2 << 20)] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "MiB", "-1MiB", "1.5GiB", "1TB", "512 MiB", "1023KiB", "99999999999999GiB", "ﬁve"] {
            assert!(bytes(text).unwrap_err().starts_with("write bytes from 1MiB"), "{text:?}");
        }
    }

    #[test]
    fn a_signal_has_four_thresholds_or_none() {
        let mut config = SignalsConfig::default();

        assert_eq!(signal("delay=0.1,0.2,0.3,0.4").unwrap().apply(&mut config), "delay");
        assert_eq!(signal("Memory=OFF").unwrap().apply(&mut config), "memory");
        signal("cpu=0.8, 0.9, 1, 2").unwrap().apply(&mut config);

        assert_eq!((config.delay, config.memory), (Some(Thresholds([0.1, 0.2, 0.3, 0.4])), None));
        assert_eq!(config.cpu, Some(Thresholds([0.8, 0.9, 1.0, 2.0])));
    }

    #[test]
    fn what_is_no_signal_or_no_threshold_is_refused_with_what_would_do() {
        for text in ["", "disk=1,2,3,4", "=1,2,3,4"] {
            let told = signal(text).unwrap_err();
            assert!(told.contains("is no signal: use one of cpu, memory, load, delay, throttled"), "{told}");
        }
        for text in ["memory", "memory=", "memory=0.5", "memory=0.5,0.6,0.7", "memory=a,b,c,d", "memory=1,2,3,4,5"] {
            let told = signal(text).unwrap_err();
            assert!(told.starts_with("after memory= write off, or four numbers that rise: for SHEDDABLE"), "{told}");
        }
    }
}
