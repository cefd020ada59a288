//! Writing the same load report onto many answers: all of it is written once, but for the requests in flight.

use std::fmt::Write as _;
use std::time::Duration;

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
        let mut end = End::after(&self.rest[..self.rest_len]);
        end.entry(ENTRY_HEAD, f64::from(in_flight));
        self.binary_with(&end)
    }

    /// The same of an answer that says what its request cost: `request_cost` of `cpu`, in normalised seconds.
    pub fn binary_with_cost(&self, in_flight: u32, cost: Duration) -> HeaderValue {
        let mut end = End::after(&self.rest[..self.rest_len]);
        end.entry(ENTRY_HEAD, f64::from(in_flight));
        end.entry(COST_HEAD, cost.as_secs_f64());
        self.binary_with(&end)
    }

    fn binary_with(&self, end: &End) -> HeaderValue {
        let end = &end.bytes[..end.len];
        // Exactly as much as it needs, or the header would copy it.
        let mut text = String::with_capacity(self.binary.len() + (end.len() * 4).div_ceil(3));
        text.push_str(&self.binary);
        grpc::encode_bin_onto(end, &mut text);
        visible(text)
    }

    /// The value of `endpoint-load-metrics`, as text.
    pub fn text(&self, in_flight: u32) -> HeaderValue {
        visible(self.text_of(in_flight))
    }

    /// The same of an answer that says what its request cost until then. Not as `request_cost`: Envoy discards a whole report
    /// for one name it does not know, and takes any metric that is named.
    pub fn text_with_cost(&self, in_flight: u32, cost: Duration) -> HeaderValue {
        let mut text = self.text_of(in_flight);
        write!(text, "{COST_TEXT}{:?}", cost.as_secs_f64()).expect("writing to a string");
        visible(text)
    }

    fn text_of(&self, in_flight: u32) -> String {
        let mut text = String::with_capacity(self.text.len() + DIGITS_MOST);
        text.push_str(&self.text);
        text.push_str(http::HeaderValue::from(in_flight).to_str().unwrap_or("0"));
        text
    }
}

/// What differs from answer to answer, after the bytes that were left over.
struct End {
    bytes: [u8; 2 + ENTRY_LEN + COST_LEN],
    len: usize,
}

impl End {
    fn after(rest: &[u8]) -> Self {
        let mut end = End { bytes: [0; 2 + ENTRY_LEN + COST_LEN], len: 0 };
        end.push(rest);
        end
    }

    /// An entry of a map of numbers.
    fn entry(&mut self, head: &[u8], value: f64) {
        self.push(head);
        self.push(&value.to_le_bytes());
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

/// An entry of the map `named_metrics` up to its number: field 8 of 29 bytes; the key, 18 bytes long; a double.
const ENTRY_HEAD: &[u8] = b"\x42\x1d\x0a\x12evenkeel.in_flight\x11";
const ENTRY_LEN: usize = ENTRY_HEAD.len() + 8;
/// An entry of the map `request_cost` likewise: field 4 of 14 bytes; the key, 3 bytes long; a double.
const COST_HEAD: &[u8] = b"\x22\x0e\x0a\x03cpu\x11";
const COST_LEN: usize = COST_HEAD.len() + 8;
const COST_TEXT: &str = ",named_metrics.evenkeel.cost_cpu_s=";
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
                let cost = Duration::from_micros(1500);
                assert_eq!(read(names::LOAD_METRICS_BIN, written.binary_with_cost(in_flight, cost)), expected);
                assert_eq!(read(names::LOAD_METRICS, written.text_with_cost(in_flight, cost)), expected);
            }
        }
    }

    #[test]
    fn a_request_says_what_it_cost_as_orca_has_it() {
        let written = Written::new(&LoadReport { qps: Some(7.0), ..LoadReport::default() });
        let cost = Duration::from_micros(1500);

        let binary = grpc::decode_bin(written.binary_with_cost(2, cost).as_bytes()).unwrap();
        let report = OrcaLoadReport::decode(&*binary).unwrap();

        assert_eq!(report.request_cost, [("cpu".to_owned(), 0.0015)].into());
        assert!((report.named_metrics["evenkeel.in_flight"] - 2.0).abs() < 1e-9);
        assert!(
            written.text_with_cost(2, cost).to_str().unwrap().ends_with(",named_metrics.evenkeel.cost_cpu_s=0.0015")
        );
    }
}
