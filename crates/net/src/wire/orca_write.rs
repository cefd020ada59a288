//! Writing the same load report onto many answers: all of it is written once, but for the requests in flight.

use evenkeel_core::LoadReport;
use http::HeaderValue;
use prost::Message;

use super::orca::{OrcaLoadReport, to_text};
use super::{grpc, visible};

/// A load report as far as it is the same for many answers.
#[derive(Clone, Debug)]
pub struct Written {
    /// Base64 of all whole groups of three bytes.
    binary: String,
    /// The bytes after them.
    rest: [u8; 2],
    rest_len: usize,
    text: String,
}

impl Written {
    /// Everything the report says but for its requests in flight.
    pub fn new(report: &LoadReport) -> Self {
        let report = OrcaLoadReport::from(&LoadReport { in_flight: None, ..*report });
        let bytes = report.encode_to_vec();
        let (whole, remaining) = bytes.split_at(bytes.len() / 3 * 3);
        let mut rest = [0; 2];
        rest[..remaining.len()].copy_from_slice(remaining);
        let mut text = to_text(&report).to_str().unwrap_or_default().to_owned();
        if text.contains('=') {
            text.push(',');
        } else {
            // A report of nothing is its prefix, without the blank no header may end with.
            text.push(' ');
        }
        text.push_str(IN_FLIGHT_TEXT);
        let mut binary = String::new();
        grpc::encode_bin_onto(whole, &mut binary);
        Written { binary, rest, rest_len: remaining.len(), text }
    }

    /// The value of `endpoint-load-metrics-bin`.
    pub fn binary(&self, in_flight: u32) -> HeaderValue {
        let mut end = [0; 2 + ENTRY_LEN];
        let (rest, entry) = end.split_at_mut(self.rest_len);
        rest.copy_from_slice(&self.rest[..self.rest_len]);
        let (head, value) = entry[..ENTRY_LEN].split_at_mut(ENTRY_HEAD.len());
        head.copy_from_slice(ENTRY_HEAD);
        value.copy_from_slice(&f64::from(in_flight).to_le_bytes());
        let end = &end[..self.rest_len + ENTRY_LEN];
        // Exactly as much as it needs, or the header would copy it.
        let mut text = String::with_capacity(self.binary.len() + (end.len() * 4).div_ceil(3));
        text.push_str(&self.binary);
        grpc::encode_bin_onto(end, &mut text);
        visible(text)
    }

    /// The value of `endpoint-load-metrics`, as text.
    pub fn text(&self, in_flight: u32) -> HeaderValue {
        let mut text = String::with_capacity(self.text.len() + DIGITS_MOST);
        text.push_str(&self.text);
        text.push_str(http::HeaderValue::from(in_flight).to_str().unwrap_or("0"));
        visible(text)
    }
}

/// An entry of the map `named_metrics` up to its number: field 8 of 29 bytes; the key, 18 bytes long; a double.
const ENTRY_HEAD: &[u8] = b"\x42\x1d\x0a\x12evenkeel.in_flight\x11";
const ENTRY_LEN: usize = ENTRY_HEAD.len() + 8;
const IN_FLIGHT_TEXT: &str = "named_metrics.evenkeel.in_flight=";
/// Of a `u32`.
const DIGITS_MOST: usize = 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{names, orca};
    use super::*;

    fn read(name: http::HeaderName, value: HeaderValue) -> Option<LoadReport> {
        orca::read(&http::HeaderMap::from_iter([(name, value)]))
    }

    #[test]
    fn every_form_reads_back_with_the_requests_in_flight() {
        let full = LoadReport {
            utilization: Some(0.25),
            utilization_slow: Some(0.5),
            qps: Some(0.0),
            eps: Some(1.5),
            in_flight: Some(99),
            runnable: None,
            processors: Some(2.0),
            latency: Some(Duration::from_millis(3)),
        };
        let less = LoadReport { eps: None, ..full };
        let least = LoadReport { utilization_slow: None, ..less };
        // Their lengths differ by what is left over of three bytes.
        for report in [full, less, least, LoadReport::default()] {
            let written = Written::new(&report);
            for in_flight in [0, 7, u32::MAX] {
                let expected = Some(LoadReport { in_flight: Some(in_flight), ..report });
                assert_eq!(read(names::LOAD_METRICS_BIN, written.binary(in_flight)), expected);
                assert_eq!(read(names::LOAD_METRICS, written.text(in_flight)), expected);
            }
        }
    }
}
