//! What a backend says it admits, and what it is told was not sent to it (B7, WIRE.md).

use std::time::Duration;

use evenkeel_core::{Cutoff, Hint};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::wire::names;

/// `<cutoff>;<ttl-ms>`; what cannot be read says nothing.
pub(super) fn read_admit(headers: &HeaderMap) -> Option<Hint> {
    let (cutoff, millis) = headers.get(names::ADMIT)?.to_str().ok()?.split_once(';')?;
    let cutoff: f64 = cutoff.trim().parse().ok()?;
    let ttl = Duration::from_millis(millis.trim().parse().ok()?);
    (0.0..=4.0).contains(&cutoff).then(|| Hint { cutoff: Cutoff::new(cutoff), ttl })
}

/// How many requests were not sent there, the least critical first.
pub(super) fn write_held(headers: &mut HeaderMap, [a, b, c, d]: [u16; 4]) {
    if let Ok(value) = HeaderValue::try_from(format!("{a},{b},{c},{d}")) {
        headers.insert(HELD, value);
    }
}

/// What this client did not send to this backend since its last request there, by criticality.
pub(super) const HELD: HeaderName = HeaderName::from_static("evenkeel-held");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_and_nonsense_is_not() {
        let read = |text| read_admit(&HeaderMap::from_iter([(names::ADMIT, HeaderValue::from_static(text))]));
        let expected = Hint { cutoff: Cutoff::new(1.25), ttl: Duration::from_millis(700) };
        assert_eq!([read("1.25;700"), read(" 1.25 ; 700 ")], [Some(expected); 2]);
        for nonsense in ["", "1.25", ";", "nan;700", "4.01;700", "-1;700", "1;-3", "1;700ms", "inf;1"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(read_admit(&HeaderMap::new()), None);
    }

    #[test]
    fn held_counts_stand_in_order() {
        let mut headers = HeaderMap::new();
        write_held(&mut headers, [7, 0, 65_535, 1]);
        assert_eq!(headers[HELD], "7,0,65535,1");
    }
}
