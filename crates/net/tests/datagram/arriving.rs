//! What must hold for any bytes that arrive; run by the fuzzer and by the tests beside it.

use evenkeel::wire::datagram::{Datagram, Heard, Key, Kind, LENGTH, Sealed, Secret};

/// The secret under which the corpus was written.
pub(crate) fn secret() -> Secret {
    Secret::from_bytes(*b"the secret of the fuzzer, 32 byt")
}

/// Reads the bytes as either end does, as they are and with a tag that vouches for them.
pub(crate) fn check(bytes: &[u8]) {
    let secret = secret();
    as_backend(&secret, bytes);
    as_client(&secret, bytes);
    // Nobody guesses a tag, so that what stands behind it would never be looked at.
    if let Ok(sealed) = Sealed::read(bytes) {
        let key = secret.key(sealed.key());
        let vouched = vouched(bytes, &key);
        as_backend(&secret, &vouched);
        as_client(&secret, &vouched);
    }
}

fn as_backend(secret: &Secret, bytes: &[u8]) {
    match secret.hear(bytes) {
        Heard::Question(question, _) => {
            assert_eq!((bytes.len(), question.kind, question.secret), (LENGTH, Kind::Question, secret.id()));
            reads_back(&question, &secret.key(question.key));
        }
        Heard::Foreign(sealed) => {
            let reset = sealed.reset();
            let read = Sealed::read(&reset).expect("a reset is a datagram");
            assert_ne!(sealed.secret(), secret.id());
            assert_eq!((read.kind(), read.tag(), read.sequence()), (Kind::Reset, sealed.tag(), sealed.sequence()));
            assert!(read.open(&secret.key(read.key())).is_none(), "nobody vouches for a reset");
        }
        Heard::Forged => assert_eq!(bytes.len(), LENGTH),
        Heard::Malformed => {}
    }
}

fn as_client(secret: &Secret, bytes: &[u8]) {
    let Ok(sealed) = Sealed::read(bytes) else { return };
    let key = secret.key(sealed.key());
    if let Some(datagram) = sealed.open(&key) {
        assert_ne!(datagram.kind, Kind::Reset);
        assert_eq!((datagram.sequence, datagram.key), (sealed.sequence(), sealed.key()));
        reads_back(&datagram, &key);
    }
}

/// What was understood is understood in the same way when it is said again.
fn reads_back(datagram: &Datagram, key: &Key) {
    let again = datagram.seal(key);
    let read = Sealed::read(&again).ok().and_then(|sealed| sealed.open(key)).expect("what is sealed can be opened");
    let (report, _) = datagram.report.sanitized();
    assert_eq!(read.report.sanitized().0, report);
    assert_eq!(Datagram { report: read.report, ..*datagram }, Datagram { report: read.report, ..read });
}

/// The same with the tag that it ought to have.
fn vouched(bytes: &[u8], key: &Key) -> Vec<u8> {
    let (said, tag) = bytes.split_at(LENGTH - 16);
    let hash = blake3::keyed_hash(key.as_bytes(), said);
    [said, &hash.as_bytes()[..tag.len()]].concat()
}
