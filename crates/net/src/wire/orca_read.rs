//! Reading a load report off an answer: on every call of a client, so without allocating.
//!
//! Decoding the whole message with its maps takes 1.7 times as long (1.0 against 0.6 µs); only the numbers that balance
//! are kept here.

use std::time::Duration;

use evenkeel_core::LoadReport;
use http::{HeaderMap, HeaderValue};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::{grpc, names, orca_json};

/// The report on an answer's headers or trailers, not yet sanitized. The binary header wins over the textual one,
/// which may be `TEXT`, `JSON` or `BIN`.
pub fn read(headers: &HeaderMap) -> Option<LoadReport> {
    let numbers = if let Some(value) = headers.get(names::LOAD_METRICS_BIN) {
        parse_binary(bounded(value)?)?
    } else {
        let value = std::str::from_utf8(bounded(headers.get(names::LOAD_METRICS)?)?).ok()?;
        match value.split_once(' ')? {
            ("TEXT", value) => parse_text(value)?,
            ("JSON", value) => orca_json::parse(value)?,
            ("BIN", value) => parse_binary(value.as_bytes())?,
            _ => return None,
        }
    };
    Some(numbers.report())
}

/// What of an ORCA report says how loaded a backend is.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) cpu_utilization: f64,
    pub(super) application_utilization: f64,
    pub(super) rps: f64,
    pub(super) rps_fractional: f64,
    pub(super) eps: f64,
    /// Under our own names, where 0 is said and not left out.
    pub(super) own: LoadReport,
}

impl Numbers {
    /// Sets a plain field by its name in text or JSON. Names nobody knows are a newer peer's.
    pub(super) fn set(&mut self, name: &str, value: f64) {
        match name {
            "cpu_utilization" | "cpuUtilization" => self.cpu_utilization = value,
            "application_utilization" | "applicationUtilization" => self.application_utilization = value,
            "rps_fractional" | "rpsFractional" => self.rps_fractional = value,
            "rps" => self.rps = value,
            "eps" => self.eps = value,
            _ => {}
        }
    }

    /// Sets one of `named_metrics`; only ours matter.
    pub(super) fn set_named(&mut self, name: &str, value: f64) {
        let own = &mut self.own;
        match name.strip_prefix("evenkeel.").unwrap_or_default() {
            "utilization" => own.utilization = Some(value),
            "qps" => own.qps = Some(value),
            "eps" => own.eps = Some(value),
            "utilization_slow" => own.utilization_slow = Some(value),
            "in_flight" => own.in_flight = (0.0..=f64::from(u32::MAX)).contains(&value).then_some(value as u32),
            "runnable" => own.runnable = Some(value),
            "processors" => own.processors = Some(value),
            "latency_s" => own.latency = Duration::try_from_secs_f64(value).ok(),
            _ => {}
        }
    }

    /// In ORCA's own fields 0 is unset.
    pub(super) fn report(self) -> LoadReport {
        let set = |value: f64| (value != 0.0).then_some(value);
        LoadReport {
            utilization: set(self.application_utilization).or(set(self.cpu_utilization)).or(self.own.utilization),
            qps: set(self.rps_fractional).or(set(self.rps)).or(self.own.qps),
            eps: set(self.eps).or(self.own.eps),
            ..self.own
        }
    }
}

fn bounded(value: &HeaderValue) -> Option<&[u8]> {
    Some(value.as_bytes()).filter(|bytes| (1..=HEADER_MAX).contains(&bytes.len()))
}

/// One bad entry spoils the report, as with Envoy. Its first releases wrote `:` for `=`.
fn parse_text(text: &str) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    for entry in text.split(',') {
        let (name, value) = entry.split_once(['=', ':'])?;
        let (name, value) = (name.trim(), value.trim().parse().ok()?);
        match name.strip_prefix("named_metrics.") {
            Some(name) => numbers.set_named(name, value),
            None => numbers.set(name, value),
        }
    }
    Some(numbers)
}

fn parse_binary(value: &[u8]) -> Option<Numbers> {
    if value.len() > HEADER_USUAL {
        return parse_message(&grpc::decode_bin(value)?);
    }
    // Clearing a buffer for the longest would cost more than reading a usual one.
    let mut buffer = [0; HEADER_USUAL / 4 * 3];
    parse_message(grpc::decode_bin_into(value, &mut buffer)?)
}

/// Field numbers as in [`OrcaLoadReport`](super::orca::OrcaLoadReport).
fn parse_message(mut bytes: &[u8]) -> Option<Numbers> {
    let mut numbers = Numbers::default();
    let rest = &mut bytes;
    while !rest.is_empty() {
        match decode_key(rest).ok()? {
            (1, WireType::SixtyFourBit) => numbers.cpu_utilization = double(rest)?,
            (3, WireType::Varint) => numbers.rps = decode_varint(rest).ok()? as f64,
            (6, WireType::SixtyFourBit) => numbers.rps_fractional = double(rest)?,
            (7, WireType::SixtyFourBit) => numbers.eps = double(rest)?,
            (8, WireType::LengthDelimited) => {
                let (name, value) = parse_entry(delimited(rest)?)?;
                numbers.set_named(name, value);
            }
            (9, WireType::SixtyFourBit) => numbers.application_utilization = double(rest)?,
            (number, wire_type) => skip_field(wire_type, number, rest, DecodeContext::default()).ok()?,
        }
    }
    Some(numbers)
}

/// Key and value of a map's entry; what is missing is empty or 0.
fn parse_entry(mut bytes: &[u8]) -> Option<(&str, f64)> {
    let (mut name, mut value) = (&[][..], 0.0);
    let rest = &mut bytes;
    while !rest.is_empty() {
        match decode_key(rest).ok()? {
            (1, WireType::LengthDelimited) => name = delimited(rest)?,
            (2, WireType::SixtyFourBit) => value = double(rest)?,
            (number, wire_type) => skip_field(wire_type, number, rest, DecodeContext::default()).ok()?,
        }
    }
    Some((std::str::from_utf8(name).ok()?, value))
}

fn double(bytes: &mut &[u8]) -> Option<f64> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(f64::from_le_bytes(*value))
}

fn delimited<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_varint(bytes).ok()?).ok()?;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

/// Longer is no report: ours have about 300 bytes.
const HEADER_MAX: usize = 4096;
const HEADER_USUAL: usize = 512;
