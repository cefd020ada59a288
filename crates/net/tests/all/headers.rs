//! Headers read back as they were written, others' are understood, and no bytes from the network do harm.

use std::time::Duration;

use evenkeel::wire::headers::{self, UnknownCriticality};
use evenkeel::wire::names;
use evenkeel_core::{Criticality, Cutoff, Hint, Lot};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

fn with(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a header value"))])
}

fn grpc_request() -> HeaderMap {
    with("content-type", "application/grpc+proto")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("visible ASCII"))
}

#[test]
fn grpc_is_told_from_what_only_looks_like_it() {
    for kind in ["application/grpc", "application/grpc+json", "application/grpc;x=1", "Application/GRPC"] {
        assert!(headers::is_grpc(&with("content-type", kind)), "{kind}");
    }
    for kind in ["application/grpc-web", "application/grpcx", "application/json", "app", ""] {
        assert!(!headers::is_grpc(&with("content-type", kind)), "{kind}");
    }
    assert!(!headers::is_grpc(&HeaderMap::new()));
}

#[test]
fn criticality_travels_in_header_and_baggage_and_leaves_other_baggage_alone() {
    let mut headers = with("baggage", "user=42;ttl=1, evenkeel-criticality=CRITICAL ,,plan=free");
    headers.append("baggage", HeaderValue::from_static("more=1"));

    headers::write_criticality(&mut headers, Criticality::SheddablePlus);

    assert_eq!(text(&headers, "evenkeel-criticality"), Some("SHEDDABLE_PLUS"));
    let baggage: Vec<_> = headers.get_all("baggage").iter().collect();
    assert_eq!(baggage, ["user=42;ttl=1,plan=free,more=1,evenkeel-criticality=SHEDDABLE_PLUS"]);
}

#[test]
fn the_header_wins_over_the_baggage_and_the_unknown_is_told_from_the_absent() {
    let mut both = with("baggage", "evenkeel-criticality=SHEDDABLE");
    assert_eq!(headers::read_criticality(&both), Ok(Some(Criticality::Sheddable)));

    both.insert(names::CRITICALITY, HeaderValue::from_static("CRITICAL_PLUS"));
    assert_eq!(headers::read_criticality(&both), Ok(Some(Criticality::CriticalPlus)));

    both.insert(names::CRITICALITY, HeaderValue::from_static("URGENT"));
    assert_eq!(headers::read_criticality(&both), Err(UnknownCriticality));
    let odd = with("baggage", "x=1, evenkeel-criticality = CRITICAL ; p=2");
    assert_eq!(headers::read_criticality(&odd), Ok(Some(Criticality::Critical)));
    assert_eq!(headers::read_criticality(&with("baggage", "x=1")), Ok(None));
}

#[test]
fn baggage_that_is_full_is_not_made_longer() {
    let full = format!("a={}", "b".repeat(8190));
    let mut headers = with("baggage", &full);

    headers::write_criticality(&mut headers, Criticality::Critical);

    assert_eq!(text(&headers, "baggage"), Some(full.as_str()));
    assert_eq!(headers::read_criticality(&headers), Ok(Some(Criticality::Critical)));
}

#[test]
fn timeouts_of_every_unit_are_read_and_bad_ones_are_absent() {
    let table = [
        ("2H", Some(Duration::from_secs(7200))),
        ("3M", Some(Duration::from_secs(180))),
        ("4S", Some(Duration::from_secs(4))),
        ("5m", Some(Duration::from_millis(5))),
        ("6u", Some(Duration::from_micros(6))),
        ("99999999n", Some(Duration::from_nanos(99_999_999))),
        ("99999999H", Some(Duration::from_secs(359_999_996_400))),
        ("0n", Some(Duration::ZERO)),
        ("100000000n", None),
        ("1", None),
        ("S", None),
        ("-1S", None),
        ("+1S", None),
        ("1 S", None),
        ("1s", None),
        ("", None),
    ];
    for (value, expected) in table {
        assert_eq!(headers::read_timeout(&with("grpc-timeout", value)), expected, "{value:?}");
    }
    let envoy = |value| headers::read_timeout(&with("x-envoy-expected-rq-timeout-ms", value));
    assert_eq!(envoy("1500"), Some(Duration::from_millis(1500)));
    assert_eq!((envoy("0"), envoy("1.5"), envoy("99999999999999999999")), (None, None, None));
}

#[test]
fn timeouts_are_written_in_the_finest_unit_that_fits() {
    let table = [
        (Duration::ZERO, "1n"),
        (Duration::from_millis(99), "99000000n"),
        (Duration::from_millis(100), "100000u"),
        (Duration::from_secs(10), "10000000u"),
        (Duration::from_secs(100), "100000m"),
        (Duration::from_secs(100_000), "100000S"),
        (Duration::MAX, "99999999H"),
    ];
    for (remaining, expected) in table {
        let mut headers = grpc_request();
        headers::write_timeout(&mut headers, remaining);
        assert_eq!(text(&headers, "grpc-timeout"), Some(expected));
    }
    let mut plain = with("grpc-timeout", "5S");
    headers::write_timeout(&mut plain, Duration::from_micros(2500));
    assert_eq!(text(&plain, "x-envoy-expected-rq-timeout-ms"), Some("2"));
    assert_eq!(text(&plain, "grpc-timeout"), None, "a stale deadline would win");
}

#[test]
fn attempts_count_from_zero_in_both_protocols() {
    for base in [grpc_request(), HeaderMap::new()] {
        for attempt in [0, 1, 2, 255] {
            let mut headers = base.clone();
            headers::write_attempt(&mut headers, attempt);
            assert_eq!(headers::read_attempt(&headers).unwrap_or(0), attempt);
        }
    }
    assert_eq!(headers::read_attempt(&with("grpc-previous-rpc-attempts", "3")), Some(3));
    assert_eq!(headers::read_attempt(&with("x-envoy-attempt-count", "3")), Some(2));
    assert_eq!(headers::read_attempt(&with("x-envoy-attempt-count", "0")), None);
    assert_eq!(headers::read_attempt(&with("grpc-previous-rpc-attempts", "70000")), Some(255));
}

/// Bytes a header can hold, often close to something we know.
fn any_value() -> impl Strategy<Value = HeaderValue> {
    let start = proptest::sample::select(&["", "evenkeel-criticality=", "x=1,", "9999999", "application/grpc"][..]);
    let visible = prop_oneof![proptest::sample::select(&b"=,; 0189HMSmun"[..]), b' '..=b'~', 0x80..=0xff_u8];
    (start, proptest::collection::vec(visible, 0..64)).prop_map(|(start, bytes)| {
        HeaderValue::from_bytes(&[start.as_bytes(), &bytes].concat()).expect("no control characters")
    })
}

#[test]
fn lots_are_sixteen_bits_and_anything_else_is_none() {
    let mut headers = HeaderMap::new();
    for number in [0, 9, 10, 65_535] {
        headers::write_lot(&mut headers, Lot(number));
        assert_eq!(text(&headers, "evenkeel-lot"), Some(number.to_string().as_str()));
        assert_eq!(headers::read_lot(&headers), Some(Lot(number)));
    }
    for bad in ["", "65536", "-1", "+1", "1.0", " 1", "1 ", "0x1", "lot", "99999999999999999999999", "1,2"] {
        assert_eq!(headers::read_lot(&with("evenkeel-lot", bad)), None, "{bad}");
    }
    assert_eq!(headers::read_lot(&HeaderMap::new()), None);
}

#[test]
fn what_was_held_is_four_numbers_the_least_critical_first() {
    let mut headers = HeaderMap::new();
    for held in [[0; 4], [1, 20, 300, 65_535], [u16::MAX; 4]] {
        headers::write_held(&mut headers, held);
        assert_eq!(headers::read_held(&headers), Some(held));
    }
    headers::write_held(&mut headers, [7, 0, 10, 100]);
    assert_eq!(text(&headers, "evenkeel-held"), Some("7,0,10,100"));
    assert_eq!(headers::read_held(&with("evenkeel-held", "1, 2 ,3,4")), Some([1, 2, 3, 4]));
    for bad in ["", "1,2,3", "1,2,3,4,5", "1,2,3,", "1,2,3,65536", "1,-2,3,4", "a,b,c,d", ",,,", "1;2;3;4"] {
        assert_eq!(headers::read_held(&with("evenkeel-held", bad)), None, "{bad}");
    }
    // Whose they are; what was held of the own customer names nobody else.
    headers::write_held_for(&mut headers, Some("maps"));
    headers::write_held(&mut headers, [1, 0, 0, 0]);
    assert_eq!(text(&headers, "evenkeel-held-for"), None);
    // Empty where that is nobody in particular, or no name.
    for (name, expected) in
        [(Some("mail"), "mail"), (None, ""), (Some(""), ""), (Some("a\nb"), ""), (Some(" mail"), "")]
    {
        headers::write_held_for(&mut headers, name);
        assert_eq!(text(&headers, "evenkeel-held-for"), Some(expected));
    }
}

#[test]
fn hints_are_a_cutoff_and_milliseconds_and_nonsense_is_none() {
    let hint = |cutoff, millis| Hint { cutoff: Cutoff::new(cutoff), ttl: Duration::from_millis(millis) };
    let table = [
        (hint(0.0, 700), "0;700"),
        (hint(1.25, 700), "1.25;700"),
        (hint(2.0004, 1), "2.0004;1"),
        (hint(3.9, 60_000), "3.9;60000"),
        (hint(4.0, 10), "4;10"),
        (hint(0.999_99, 5), "1;5"),
    ];
    for (said, expected) in table {
        let mut headers = HeaderMap::new();
        headers::write_admit(&mut headers, said);
        assert_eq!(text(&headers, "evenkeel-admit"), Some(expected));
        let read = headers::read_admit(&headers).expect("what was written");
        assert!((read.cutoff.value() - said.cutoff.value()).abs() < 1e-4, "{expected}");
        assert_eq!(read.ttl, said.ttl);
    }
    assert_eq!(headers::read_admit(&with("evenkeel-admit", "1.5 ; 20")), Some(hint(1.5, 20)));
    let bad = [
        "",
        ";",
        "1",
        "1;",
        ";1",
        "4.0001;10",
        "5;10",
        "-1;10",
        "NaN;10",
        "inf;10",
        "1e0;10",
        ".5;10",
        "1.;10",
        "1.23456;10",
        "1;0",
        "1;-5",
        "1;60001",
        "1;18446744073709551616",
        "1;10;10",
        "99999999999;10",
        "1,5;10",
    ];
    for bad in bad {
        assert_eq!(headers::read_admit(&with("evenkeel-admit", bad)), None, "{bad}");
    }
    let mut far = HeaderMap::new();
    headers::write_admit(&mut far, Hint { cutoff: Cutoff::EVERYTHING, ttl: Duration::MAX });
    assert_eq!(text(&far, "evenkeel-admit"), Some("4;60000"));
}

#[test]
fn a_degraded_answer_says_how_much() {
    let mut headers = HeaderMap::new();
    headers::write_degraded(&mut headers, 2);
    assert_eq!((text(&headers, "evenkeel-degraded"), headers::read_degraded(&headers)), (Some("2"), Some(2)));
    for bad in ["", "256", "-1", "much"] {
        assert_eq!(headers::read_degraded(&with("evenkeel-degraded", bad)), None, "{bad}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_bytes_in_any_header_do_no_harm(value in any_value()) {
        let mut headers = HeaderMap::new();
        for name in [
            names::CRITICALITY, names::CUSTOMER, names::GRPC_TIMEOUT, names::ENVOY_TIMEOUT_MS,
            names::GRPC_PREVIOUS_ATTEMPTS, names::ENVOY_ATTEMPT_COUNT, names::BAGGAGE, http::header::CONTENT_TYPE,
        ] {
            headers.insert(name, value.clone());
        }
        let _ = (headers::read_criticality(&headers), headers::read_timeout(&headers), headers::read_customer(&headers));
        let _ = (headers::read_attempt(&headers), headers::is_grpc(&headers));

        headers.remove(names::CRITICALITY);
        headers::write_criticality(&mut headers, Criticality::Sheddable);
        prop_assert_eq!(headers::read_criticality(&headers), Ok(Some(Criticality::Sheddable)));
    }

    #[test]
    fn timeouts_lose_less_than_a_hundred_thousandth_and_gain_nothing(nanos in 1..u64::MAX, shift in 0..64_u32) {
        let (mut headers, remaining) = (grpc_request(), Duration::from_nanos((nanos >> shift).max(1)));

        headers::write_timeout(&mut headers, remaining);

        // Less than one unit is lost, and the next coarser unit, at most 1,000 times as long, is used from 8 digits
        // on: there are at least 100,000 of it.
        let read = headers::read_timeout(&headers).unwrap();
        prop_assert!(read <= remaining);
        prop_assert!(remaining.saturating_sub(read) <= remaining / 100_000);
    }
}
