//! What a request of the demo service asks for: the message, its limits, and its form in a query.

use std::fmt::{self, Display};
use std::str::FromStr;

#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "generated; tests/all/generated.rs sees that it is fresh"
)]
mod generated {
    include!("generated/evenkeel.demo.v1.rs");
}

pub(crate) use generated::demo_client::DemoClient;
pub(crate) use generated::demo_server::{Demo, DemoServer};
pub(crate) use generated::{WorkRequest, WorkResponse};

/// What reflection tells of the service.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/demo.bin");

/// A request that asks for what cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadWork {
    /// A field is out of range, or no number.
    Field { name: &'static str, value: String, allowed: String },
    /// There is no such field.
    Unknown(String),
}

impl Display for BadWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadWork::Field { name, value, allowed } => write!(f, "{name} = {value} is not possible: {allowed}"),
            BadWork::Unknown(name) => write!(f, "there is no {name}: use cpu_us, sleep_us, bytes or fail_ratio"),
        }
    }
}

impl WorkRequest {
    /// Says what is wrong, if anything is.
    pub(crate) fn check(&self) -> Result<(), BadWork> {
        unless_whole("cpu_us", self.cpu_us, MICROS_MOST)?;
        unless_whole("sleep_us", self.sleep_us, MICROS_MOST)?;
        unless_whole("bytes", self.bytes, BYTES_MOST)?;
        if (0.0..=1.0).contains(&self.fail_ratio) { Ok(()) } else { Err(bad_ratio(self.fail_ratio)) }
    }

    /// From the part of an address behind the question mark.
    pub(crate) fn from_query(query: &str) -> Result<Self, BadWork> {
        let mut work = WorkRequest::default();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name {
                "cpu_us" => work.cpu_us = whole("cpu_us", value, MICROS_MOST)?,
                "sleep_us" => work.sleep_us = whole("sleep_us", value, MICROS_MOST)?,
                "bytes" => work.bytes = whole("bytes", value, BYTES_MOST)?,
                "fail_ratio" => work.fail_ratio = parsed(value).ok_or_else(|| bad_ratio(shown(value)))?,
                unknown => return Err(BadWork::Unknown(shown(unknown))),
            }
        }
        work.check()?;
        Ok(work)
    }

    /// The same as a query.
    pub(crate) fn query(&self) -> String {
        let WorkRequest { cpu_us, sleep_us, bytes, fail_ratio } = self;
        format!("cpu_us={cpu_us}&sleep_us={sleep_us}&bytes={bytes}&fail_ratio={fail_ratio}")
    }
}

fn whole(name: &'static str, value: &str, most: u64) -> Result<u64, BadWork> {
    let number = parsed(value).ok_or_else(|| bad_whole(name, shown(value), most))?;
    unless_whole(name, number, most)?;
    Ok(number)
}

fn unless_whole(name: &'static str, value: u64, most: u64) -> Result<(), BadWork> {
    if value <= most { Ok(()) } else { Err(bad_whole(name, value, most)) }
}

fn bad_whole(name: &'static str, value: impl Display, most: u64) -> BadWork {
    let allowed = format!("must be a whole number from 0 to {most}");
    BadWork::Field { name, value: value.to_string(), allowed }
}

fn bad_ratio(value: impl Display) -> BadWork {
    BadWork::Field { name: "fail_ratio", value: value.to_string(), allowed: "must be a number from 0 to 1".to_owned() }
}

fn parsed<N: FromStr>(text: &str) -> Option<N> {
    text.parse().ok()
}

/// As much of what somebody sent as an error should repeat.
fn shown(text: &str) -> String {
    text.chars().take(SHOWN_MOST).collect()
}

/// An hour.
pub(crate) const MICROS_MOST: u64 = 3_600_000_000;
/// 16 MiB.
pub(crate) const BYTES_MOST: u64 = 16 * 1024 * 1024;
const SHOWN_MOST: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_back_as_it_was_written() {
        let work = WorkRequest { cpu_us: 2000, sleep_us: 7, bytes: 10, fail_ratio: 0.25 };

        assert_eq!(WorkRequest::from_query(&work.query()), Ok(work));
        assert_eq!(WorkRequest::from_query(""), Ok(WorkRequest::default()));
    }

    #[test]
    fn what_cannot_be_is_named_with_its_range() {
        let fault = |query: &str| WorkRequest::from_query(query).unwrap_err().to_string();

        let range = "is not possible: must be a whole number from 0 to 3600000000";
        assert_eq!(fault("cpu_us=-1"), format!("cpu_us = -1 {range}"));
        assert_eq!(fault("bytes=1&sleep_us=3600000001"), format!("sleep_us = 3600000001 {range}"));
        assert_eq!(fault("bytes"), "bytes =  is not possible: must be a whole number from 0 to 16777216");
        for ratio in ["NaN", "1.5", "-0.1", "inf", "often"] {
            let fault = fault(&format!("fail_ratio={ratio}"));
            assert_eq!(fault, format!("fail_ratio = {ratio} is not possible: must be a number from 0 to 1"));
        }
        assert_eq!(fault("cpu=1"), "there is no cpu: use cpu_us, sleep_us, bytes or fail_ratio");
    }
}
