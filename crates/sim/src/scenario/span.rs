//! A time written as people write it: `"250us"`, `"10ms"`, `"1m 30s"`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span of simulated time.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

impl Span {
    /// Nothing.
    pub const ZERO: Span = Span(Duration::ZERO);

    /// So many seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Span(Duration::from_secs(seconds))
    }

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Span(Duration::from_millis(millis))
    }

    /// So many microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Span(Duration::from_micros(micros))
    }

    /// So many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Span(Duration::from_nanos(nanos))
    }

    /// As the standard library has it.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// In nanoseconds, as events are queued by.
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Span(duration)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&humantime::format_duration(self.0).to_string())
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InWords)
    }
}

/// Reads a time from a text; a bare number is told what it lacks.
struct InWords;

impl de::Visitor<'_> for InWords {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, as in \"10ms\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        let duration = humantime::parse_duration(text)
            .map_err(|_| E::custom(format!("{text:?} is no time: write a number and a unit, as in \"10ms\"")))?;
        Ok(Span(duration))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Span, E> {
        let example = if number > 0 { number } else { 1 };
        Err(E::custom(format!("{number} has no unit: write a time with its unit, as in \"{example}s\"")))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Span, E> {
        Err(E::custom(format!("{number} has no unit: write a time with its unit, as in \"{number}s\"")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Span, E> {
        Err(E::custom(format!("{number} has no unit: write a time with its unit, as in \"1500ms\"")))
    }
}
