//! Load reports read back from every form, others' reports are understood, and no bytes do harm.

use std::time::Duration;

use evenkeel::wire::{grpc, names, orca};
use evenkeel_core::LoadReport;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use prost::Message;

fn with(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header value"))])
}

#[test]
fn an_idle_backend_is_told_from_a_silent_one_in_every_form() {
    let idle = LoadReport { utilization: Some(0.0), qps: Some(0.0), eps: Some(0.0), ..LoadReport::default() };

    for headers in both_forms(&idle) {
        assert_eq!(orca::read(&headers), Some(idle));
    }
    let silent = orca::OrcaLoadReport::from(&LoadReport::default());
    assert_eq!(silent, orca::OrcaLoadReport::default());
    assert_eq!(LoadReport::from(&silent), LoadReport::default());
}

#[test]
fn reports_of_others_are_understood() {
    let utilization = |name, value| orca::read(&with(name, value)).and_then(|report| report.utilization);

    assert_eq!(utilization("endpoint-load-metrics", "TEXT cpu_utilization=0.5,later_name=3"), Some(0.5));
    assert_eq!(
        utilization("endpoint-load-metrics", "TEXT cpu_utilization:0.5, application_utilization: 0.75"),
        Some(0.75)
    );
    assert_eq!(
        utilization("endpoint-load-metrics", r#"JSON {"cpu_utilization":0.5,"named_metrics":{"a":1}}"#),
        Some(0.5)
    );
    // 09 = field 1, double; then 0.5 in little endian.
    assert_eq!(utilization("endpoint-load-metrics", "BIN CQAAAAAAAOA/"), Some(0.5));
    assert_eq!(utilization("endpoint-load-metrics-bin", "CQAAAAAAAOA/,CQAAAAAAAPA/"), Some(0.5));
    for value in ["TEXT cpu_utilization", "TEXT cpu_utilization=x", "cpu_utilization=0.5", "BIN !", "TEXT ", ""] {
        assert_eq!(orca::read(&with("endpoint-load-metrics", value)), None, "{value:?}");
    }
    let long = format!("TEXT cpu_utilization=0.5{}", " ".repeat(4096));
    assert_eq!(utilization("endpoint-load-metrics", &format!("{long}1")), None);
}

#[test]
fn a_report_with_many_metrics_is_read_up_to_the_longest_header() {
    let mut report = orca::OrcaLoadReport { cpu_utilization: 0.5, ..Default::default() };
    let mut lengths = Vec::new();
    for metric in 0.. {
        report.named_metrics.insert(format!("metric{metric}"), 1.0);
        let value = orca::to_binary(&report);
        if value.len() > 4096 {
            break;
        }
        let read = orca::read(&HeaderMap::from_iter([(names::LOAD_METRICS_BIN, value.clone())]));
        assert_eq!(read.and_then(|read| read.utilization), Some(0.5), "{} bytes", value.len());
        lengths.push(value.len());
    }
    assert!(lengths.iter().any(|length| *length <= 512) && lengths.iter().any(|length| *length > 4000), "{lengths:?}");
}

#[test]
fn field_numbers_are_those_of_cncf_xds() {
    let report = orca::OrcaLoadReport {
        cpu_utilization: 1.0,
        mem_utilization: 1.0,
        rps: 1,
        request_cost: [("a".to_owned(), 1.0)].into(),
        utilization: [("a".to_owned(), 1.0)].into(),
        rps_fractional: 1.0,
        eps: 1.0,
        named_metrics: [("a".to_owned(), 1.0)].into(),
        application_utilization: 1.0,
    };

    let bytes = report.encode_to_vec();

    let (one, entry) = ([0, 0, 0, 0, 0, 0, 0xf0, 0x3f], [12, 0x0a, 1, b'a', 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    // Key of a field: number * 8 + wire type (0 varint, 1 eight bytes, 2 length-delimited).
    let expected: Vec<u8> = [
        &[0x09][..],
        &one,
        &[0x11],
        &one,
        &[0x18, 1],
        &[0x22],
        &entry,
        &[0x2a],
        &entry,
        &[0x31],
        &one,
        &[0x39],
        &one,
        &[0x42],
        &entry,
        &[0x49],
        &one,
    ]
    .concat();
    assert_eq!(bytes, expected);
}

fn both_forms(report: &LoadReport) -> [HeaderMap; 2] {
    let orca = orca::OrcaLoadReport::from(report);
    [
        HeaderMap::from_iter([(names::LOAD_METRICS, orca::to_text(&orca))]),
        HeaderMap::from_iter([(names::LOAD_METRICS_BIN, orca::to_binary(&orca))]),
    ]
}

fn any_report() -> impl Strategy<Value = LoadReport> {
    let number = || proptest::option::of(prop_oneof![Just(0.0), 0.0..100.0_f64]);
    let latency = proptest::option::of((0..1_000_000_000_000_u64).prop_map(Duration::from_nanos));
    let fields =
        (number(), number(), number(), number(), proptest::option::of(any::<u32>()), number(), number(), latency);
    fields.prop_map(|(utilization, utilization_slow, qps, eps, in_flight, runnable, processors, latency)| LoadReport {
        utilization,
        utilization_slow,
        qps,
        eps,
        in_flight,
        runnable,
        processors,
        latency,
    })
}

/// Bytes a header can hold, often close to a report.
fn any_value() -> impl Strategy<Value = HeaderValue> {
    let start = proptest::sample::select(
        &["", "TEXT ", "BIN ", "JSON ", "TEXT cpu_utilization=", "JSON {\"named_metrics\":{"][..],
    );
    let visible = prop_oneof![proptest::sample::select(&b"=,:{}\" 019.e-"[..]), b' '..=b'~', 0x80..=0xff_u8];
    (start, proptest::collection::vec(visible, 0..64)).prop_map(|(start, bytes)| {
        HeaderValue::from_bytes(&[start.as_bytes(), &bytes].concat()).expect("no control characters")
    })
}

/// Random bytes, or a report that was cut, or one with bytes put into it.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let noise = || proptest::collection::vec(any::<u8>(), 0..64);
    let report = any_report().prop_map(|report| orca::OrcaLoadReport::from(&report).encode_to_vec());
    prop_oneof![
        noise(),
        (report, noise(), any::<prop::sample::Index>()).prop_map(|(mut report, noise, place)| {
            let place = place.index(report.len() + 1);
            report.splice(place..place, noise.into_iter().take(3)).for_each(drop);
            report
        }),
    ]
}

/// Comparable even where numbers are NaN.
fn bits(report: LoadReport) -> String {
    format!("{report:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn any_bytes_in_the_headers_do_no_harm(value in any_value()) {
        for name in [names::LOAD_METRICS, names::LOAD_METRICS_BIN] {
            let headers = HeaderMap::from_iter([(name, value.clone())]);
            let _ = orca::read(&headers).map(LoadReport::sanitized);
        }
    }

    #[test]
    fn whatever_decodes_as_the_message_reads_the_same_without_it(bytes in any_message()) {
        let headers = HeaderMap::from_iter([(names::LOAD_METRICS_BIN, grpc::encode_bin(&bytes))]);

        let read = orca::read(&headers).map(bits);

        if let Ok(message) = orca::OrcaLoadReport::decode(bytes.as_slice()) && !bytes.is_empty() {
            prop_assert_eq!(read, Some(bits(LoadReport::from(&message))));
        }
    }

    #[test]
    fn reports_read_back_from_both_forms(report in any_report()) {
        for headers in both_forms(&report) {
            // A report that says nothing has no text after its prefix, and is none.
            prop_assert_eq!(orca::read(&headers).unwrap_or_default(), report);
        }
    }
}
