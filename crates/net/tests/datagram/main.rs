//! The datagram: whatever is said reads back, and nothing else is taken for it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod arriving;

use std::path::Path;
use std::time::Duration;

use evenkeel::server::BadSecret;
use evenkeel::wire::datagram::{Datagram, Heard, Key, Kind, LENGTH, Malformed, Sealed, Secret};
use evenkeel_core::{Announcement, LoadReport, Readiness, Rng};
use proptest::prelude::*;

fn key() -> Key {
    arriving::secret().key(7)
}

fn answer() -> Datagram {
    Datagram {
        kind: Kind::Answer,
        secret: arriving::secret().id(),
        key: 7,
        sequence: 3,
        announcement: Announcement { process: 1_700_000_000_000_000_000, number: 2 },
        time: 86_400_123,
        readiness: Readiness::Ready,
        remembered: true,
        every: Duration::ZERO,
        report: LoadReport {
            utilization: Some(0.5),
            qps: Some(120.0),
            in_flight: Some(3),
            processors: Some(2.0),
            latency: Some(Duration::from_millis(2)),
            ..LoadReport::default()
        },
    }
}

fn question() -> Datagram {
    Datagram {
        kind: Kind::Question,
        every: Duration::from_secs(10),
        report: LoadReport::default(),
        readiness: Readiness::LameDuck,
        remembered: false,
        ..answer()
    }
}

fn opened(bytes: &[u8], key: &Key) -> Option<Datagram> {
    Sealed::read(bytes).ok()?.open(key)
}

/// As every datagram has it: what a single precision can say.
fn figure() -> impl Strategy<Value = Option<f64>> {
    proptest::option::of(any::<f32>().prop_filter("unknown is said as NaN", |x| !x.is_nan()).prop_map(f64::from))
}

prop_compose! {
    fn report()(
        numbers in proptest::array::uniform6(figure()),
        in_flight in proptest::option::of(0..u32::MAX),
        latency_ms in proptest::option::of(0..10_000_000_u32),
    ) -> LoadReport {
        let [utilization, utilization_slow, qps, eps, runnable, processors] = numbers;
        // Quarters of a second are exact.
        let latency = latency_ms.map(|quarters| Duration::from_millis(250) * (quarters & 0xf_ffff));
        LoadReport { utilization, utilization_slow, qps, eps, in_flight, runnable, processors, latency }
    }
}

prop_compose! {
    fn datagram()(
        kind in prop_oneof![Just(Kind::Question), Just(Kind::Answer), Just(Kind::Push)],
        (secret, key, sequence) in any::<(u32, u64, u64)>(),
        (process, number, time) in any::<(u64, u32, u32)>(),
        (is_ready, remembered) in any::<(bool, bool)>(),
        every_ms in any::<u32>(),
        report in report(),
    ) -> Datagram {
        let is_question = kind == Kind::Question;
        Datagram {
            kind, secret, key, sequence, time, remembered,
            announcement: Announcement { process, number },
            readiness: if is_ready { Readiness::Ready } else { Readiness::LameDuck },
            every: Duration::from_millis(if is_question { every_ms.into() } else { 0 }),
            report: if is_question { LoadReport::default() } else { report },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn whatever_is_said_reads_back(said in datagram()) {
        let bytes = said.seal(&key());
        prop_assert_eq!(opened(&bytes, &key()), Some(said));
        prop_assert_eq!(opened(&bytes, &arriving::secret().key(8)), None);
    }

    #[test]
    fn any_bytes_are_taken_in_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2 * LENGTH)) {
        arriving::check(&bytes);
    }
}

#[test]
fn every_bit_is_vouched_for() {
    for said in [question(), answer()] {
        let bytes = said.seal(&key());
        for bit in 0..LENGTH * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(&flipped, &key()), None, "bit {bit}");
        }
    }
}

#[test]
fn what_is_cut_or_too_long_is_none() {
    let bytes = answer().seal(&key());

    for length in 0..LENGTH {
        assert_eq!(Sealed::read(&bytes[..length]).unwrap_err(), Malformed::Length);
    }
    assert_eq!(Sealed::read(&[&bytes[..], &[0]].concat()).unwrap_err(), Malformed::Length);
    let with = |place: usize, value: u8| {
        let mut bytes = bytes;
        bytes[place] = value;
        Sealed::read(&bytes).err()
    };
    assert_eq!(
        (with(0, 2), with(1, 0), with(1, 5)),
        (Some(Malformed::Version), Some(Malformed::Kind), Some(Malformed::Kind))
    );
}

#[test]
fn a_backend_hears_questions_under_its_own_secret_only() {
    let (secret, bytes) = (arriving::secret(), question().seal(&key()));
    assert!(matches!(secret.hear(&bytes), Heard::Question(heard, _) if heard == question()));
    assert!(matches!(secret.hear(&answer().seal(&key())), Heard::Malformed));
    assert!(matches!(secret.hear(&question().seal(&secret.key(8))), Heard::Forged));

    let other = Secret::from_bytes([1; 32]);
    let Heard::Foreign(sealed) = other.hear(&bytes) else { panic!("it is under another secret") };

    let reset = sealed.reset();
    assert_eq!(reset[LENGTH - 16..], bytes[LENGTH - 16..], "it carries the tag of the question");
    assert!(matches!(secret.hear(&reset), Heard::Malformed));
    assert_eq!(opened(&reset, &key()), None);
}

#[test]
fn secrets_keys_and_numbers_differ() {
    let [one, other] = [1, 2].map(|byte| Secret::from_bytes([byte; 32]));
    assert_ne!(one.id(), other.id());
    assert_ne!(one.key(1), other.key(1));
    assert_ne!(one.key(1), one.key(2));
    assert_ne!(one.key_number(1, 1), one.key_number(2, 1));
    assert_ne!(one.key_number(1, 1), one.key_number(1, 2));
    assert_ne!(Secret::random().unwrap(), Secret::random().unwrap());
    assert!(!format!("{one:?} {:?}", one.key(1)).contains("1, 1"), "nothing prints them");
}

#[test]
fn a_secret_in_digits_is_read_or_refused_with_a_reason() {
    let text = "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
    let bytes: [u8; 32] = std::array::from_fn(|place| (place % 16) as u8 * 0x11);
    assert_eq!(Secret::from_hex(text), Ok(Secret::from_bytes(bytes)));
    assert_eq!(Secret::from_hex(&format!(" {text}\n")), Secret::from_hex(text), "as files end");
    assert_ne!(Secret::from_hex(&format!("{text}00")), Secret::from_hex(text));

    assert_eq!(Secret::from_hex(&text[2..]), Err(BadSecret::Length { digits: 62 }));
    assert_eq!(Secret::from_hex(&format!("{text}0")), Err(BadSecret::Length { digits: 65 }));
    assert_eq!(Secret::from_hex(&text.replace("99", "9ü")), Err(BadSecret::Digit { place: 19 }));
    assert_eq!(Secret::from_hex(&"00".repeat(32)), Err(BadSecret::NoChance));
    assert_eq!(
        Secret::from_hex("").unwrap_err().to_string(),
        "0 digits: a secret has 64 or more, two for each byte; `openssl rand -hex 32` makes one"
    );
}

/// Where the fuzzer begins: one of each kind, and what is nearly one.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let foreign = Datagram { secret: 1, ..question() }.seal(&key());
    let reset = Sealed::read(&foreign).unwrap().reset();
    let push = Datagram { kind: Kind::Push, sequence: 0, readiness: Readiness::LameDuck, ..answer() };
    let mut forged = question().seal(&key());
    forged[95] ^= 1;
    let nonsense = LoadReport { utilization: Some(-1.0), qps: Some(f64::INFINITY), ..LoadReport::default() };
    vec![
        ("question", question().seal(&key()).to_vec()),
        ("answer", answer().seal(&key()).to_vec()),
        ("push", push.seal(&key()).to_vec()),
        ("foreign", foreign.to_vec()),
        ("reset", reset.to_vec()),
        ("forged", forged.to_vec()),
        ("nonsense", Datagram { report: nonsense, ..answer() }.seal(&key()).to_vec()),
        ("short", question().seal(&key())[..95].to_vec()),
        ("long", [&question().seal(&key())[..], &[0]].concat()),
    ]
}

/// To write them again: `EVENKEEL_WRITE_CORPUS=1 cargo test -p evenkeel --test datagram corpus`.
#[test]
fn the_corpus_and_what_is_near_it_are_taken_in_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/datagram");
    let mut rng = Rng::from_seed(5);
    for (name, bytes) in seeds() {
        let file = folder.join(name);
        if std::env::var_os("EVENKEEL_WRITE_CORPUS").is_some() {
            std::fs::write(&file, &bytes).unwrap();
        }
        let kept = std::fs::read(&file).unwrap();
        assert_eq!(kept, bytes, "{name} is said as it always was");
        arriving::check(&kept);
        for _ in 0..12_000 {
            arriving::check(&mutated(&kept, &mut rng));
        }
    }
}

/// A few bytes changed, sometimes the length too.
fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        let place = rng.below(bytes.len() as u32) as usize;
        bytes[place] = match rng.below(3) {
            0 => bytes[place] ^ (1 << rng.below(8)),
            1 => rng.below(256) as u8,
            _ => [0, 0x7f, 0x80, 0xff][rng.below(4) as usize],
        };
    }
    if rng.below(20) == 0 {
        bytes.resize(1 + rng.below(2 * LENGTH as u32) as usize, 0);
    }
    bytes
}
