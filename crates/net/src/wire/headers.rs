//! Headers of a request: criticality, deadline, attempt, customer, lot, what was held back. And what admission says on
//! answers: hints and how much cheaper they are.
//!
//! Names belong to gRPC, Envoy or W3C where these have one. A bad value counts as absent and never fails a request.
//! Writers look at the request's own `content-type` to know which protocol's names to use.

use std::time::Duration;

use evenkeel_core::{Behind, Criticality, Cutoff, Hint, Lot, Readiness};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

use super::{names, visible};

/// Whether this is gRPC (not gRPC-Web, whose trailers travel in the body).
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else {
        return false;
    };
    value.split_at_checked(GRPC_TYPE.len()).is_some_and(|(kind, rest)| {
        kind.eq_ignore_ascii_case(GRPC_TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

/// A request names a criticality that is none of the four: treat it as absent, and count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCriticality;

/// Whether the task that answers wants requests, as far as it says.
pub fn read_state(headers: &HeaderMap) -> Option<Readiness> {
    match headers.get(names::STATE)?.as_bytes() {
        b"ready" => Some(Readiness::Ready),
        b"lame_duck" => Some(Readiness::LameDuck),
        _ => None,
    }
}

/// Whether the caller waits for a stream of events, which may stay open for hours.
pub fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get(http::header::ACCEPT).map(HeaderValue::as_bytes);
    accepts.is_some_and(|value| value.starts_with(b"text/event-stream"))
}

/// The criticality the request names, in the header or else in the baggage. A header that is there decides.
pub fn read_criticality(headers: &HeaderMap) -> Result<Option<Criticality>, UnknownCriticality> {
    let value = match headers.get(names::CRITICALITY) {
        Some(value) => Some(value.as_bytes()),
        None => headers.get_all(names::BAGGAGE).iter().find_map(|list| baggage_value(list.as_bytes())),
    };
    let Some(value) = value else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.trim_ascii()).map_err(|_| UnknownCriticality)?;
    text.parse().map(Some).map_err(|_| UnknownCriticality)
}

/// Names the criticality, in the header and in the baggage; other baggage stays.
pub fn write_criticality(headers: &mut HeaderMap, level: Criticality) {
    headers.insert(names::CRITICALITY, HeaderValue::from_static(level.as_str()));
    let own = baggage_member(level);
    let mut list = Vec::new();
    for value in headers.get_all(names::BAGGAGE) {
        for member in value.as_bytes().split(|byte| *byte == b',') {
            let member = member.trim_ascii();
            if !member.is_empty() && member_value(member).is_none() {
                list.extend_from_slice(member);
                list.push(b',');
            }
        }
    }
    if list.is_empty() {
        headers.insert(names::BAGGAGE, HeaderValue::from_static(own));
        return;
    }
    if list.len() + own.len() <= BAGGAGE_MAX {
        list.extend_from_slice(own.as_bytes());
    } else {
        list.pop();
    }
    if let Ok(value) = HeaderValue::from_bytes(&list) {
        headers.insert(names::BAGGAGE, value);
    }
}

/// How long the sender still waits.
pub fn read_timeout(headers: &HeaderMap) -> Option<Duration> {
    let grpc = headers.get(names::GRPC_TIMEOUT).and_then(|value| parse_grpc_timeout(value.as_bytes()));
    grpc.or_else(|| {
        let millis = parse_number(headers.get(names::ENVOY_TIMEOUT_MS)?.as_bytes())?;
        // Envoy's zero means no limit.
        (millis > 0).then(|| Duration::from_millis(millis))
    })
}

/// Says how long the answer is still waited for; rounded down, so no hop promises more than it was given.
pub fn write_timeout(headers: &mut HeaderMap, remaining: Duration) {
    if is_grpc(headers) {
        headers.remove(names::ENVOY_TIMEOUT_MS);
        headers.insert(names::GRPC_TIMEOUT, grpc_timeout(remaining));
    } else {
        headers.remove(names::GRPC_TIMEOUT);
        let millis = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
        headers.insert(names::ENVOY_TIMEOUT_MS, HeaderValue::from(millis.max(1)));
    }
}

/// Which try this is, 0 for the first; more than 255 reads as 255.
pub fn read_attempt(headers: &HeaderMap) -> Option<u8> {
    let number = |name| headers.get(name).and_then(|value| parse_number(value.as_bytes()));
    let attempt = match number(names::GRPC_PREVIOUS_ATTEMPTS) {
        Some(previous) => previous,
        None => number(names::ENVOY_ATTEMPT_COUNT)?.checked_sub(1)?,
    };
    Some(u8::try_from(attempt).unwrap_or(u8::MAX))
}

/// Says which try this is; the first says nothing.
pub fn write_attempt(headers: &mut HeaderMap, attempt: u8) {
    headers.remove(names::GRPC_PREVIOUS_ATTEMPTS);
    headers.remove(names::ENVOY_ATTEMPT_COUNT);
    if attempt == 0 {
        return;
    }
    if is_grpc(headers) {
        headers.insert(names::GRPC_PREVIOUS_ATTEMPTS, HeaderValue::from(u16::from(attempt)));
    } else {
        headers.insert(names::ENVOY_ATTEMPT_COUNT, HeaderValue::from(u16::from(attempt) + 1));
    }
}

/// How long the backend asks to wait before this is tried again; nothing where it does not say, or says not to. A millisecond
/// is how servers say at once: some clients never come back from 0.
pub fn read_pushback(headers: &HeaderMap) -> Option<Duration> {
    let millis = parse_number(headers.get(names::GRPC_RETRY_PUSHBACK_MS)?.as_bytes())?;
    Some(if millis <= 1 { Duration::ZERO } else { Duration::from_millis(millis) })
}

/// Removes what only somebody who did not run the request may say: a handler that passes on the answer of somebody behind it has run.
pub fn remove_never_ran(headers: &mut HeaderMap) {
    headers.remove(names::REFUSED);
    if read_pushback(headers).is_some() {
        headers.remove(names::GRPC_RETRY_PUSHBACK_MS);
    }
    if headers.get(http::header::RETRY_AFTER).is_some_and(|seconds| seconds == "0") {
        headers.remove(http::header::RETRY_AFTER);
    }
}

/// Whether an error that is not to be tried again is a failure of somebody behind who answers, and no refusal.
pub fn is_failed_behind(headers: &HeaderMap) -> bool {
    headers.get(names::DONT_RETRY).is_some_and(|why| why == FAILED)
}

/// Says that trying again makes it worse, in the words of both protocols' clients; and in a header of its own where that is no word
/// about load.
pub fn write_dont_retry(headers: &mut HeaderMap, behind: Behind, is_grpc: bool) {
    headers.insert(names::ENVOY_RATELIMITED, HeaderValue::from_static("true"));
    match behind {
        Behind::Failed => headers.insert(names::DONT_RETRY, HeaderValue::from_static(FAILED)),
        // A handler that passes on the answer of one of its calls may have been refused at another.
        Behind::TooMuch => headers.remove(names::DONT_RETRY),
    };
    if is_grpc {
        headers.insert(names::GRPC_RETRY_PUSHBACK_MS, HeaderValue::from_static("-1"));
    }
}

/// Who is billed, as the sender says; whether to believe it is the reader's to decide.
pub fn read_customer(headers: &HeaderMap) -> Option<&str> {
    customer_in(headers.get(names::CUSTOMER)?)
}

/// The customer that a header names, if it is a name.
pub(crate) fn customer_in(value: &HeaderValue) -> Option<&str> {
    let name = value.to_str().ok()?.trim();
    is_customer(name).then_some(name)
}

/// Whether this name can be read from a header as it is: printable ASCII without blanks around it, and not too long.
pub fn is_customer(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    is_plain && !name.is_empty() && name.len() <= CUSTOMER_MAX && name.trim() == name
}

/// Says who is billed; `false` if whoever reads the name would read another one, or none.
pub fn write_customer(headers: &mut HeaderMap, customer: &str) -> bool {
    headers.remove(names::CUSTOMER);
    match HeaderValue::from_str(customer) {
        Ok(value) if is_customer(customer) => headers.insert(names::CUSTOMER, value).is_none(),
        _ => false,
    }
}

/// What the root request drew.
pub fn read_lot(headers: &HeaderMap) -> Option<Lot> {
    parse_u16(headers.get(names::LOT)?.as_bytes()).map(Lot)
}

/// Says what the root request drew.
pub fn write_lot(headers: &mut HeaderMap, Lot(number): Lot) {
    headers.insert(names::LOT, HeaderValue::from(number));
}

/// What the client held back, by [`Criticality::index`].
pub fn read_held(headers: &HeaderMap) -> Option<[u16; 4]> {
    let mut numbers = headers.get(names::HELD)?.as_bytes().split(|byte| *byte == b',');
    let mut held = [0; 4];
    for count in &mut held {
        *count = parse_u16(numbers.next()?.trim_ascii())?;
    }
    numbers.next().is_none().then_some(held)
}

/// What was held back and whose that is said to be, taken off the request: a handler that copies headers must not tell the
/// next task.
pub(crate) fn take_held(headers: &mut HeaderMap) -> Option<([u16; 4], Option<HeaderValue>)> {
    // Also where nothing is said of how many: what is passed on must not name somebody else's customer.
    let of = headers.remove(names::HELD_FOR);
    let held = read_held(headers)?;
    headers.remove(names::HELD);
    Some((held, of))
}

/// Says whose they are that were held back; nobody in particular where that is no name.
pub fn write_held_for(headers: &mut HeaderMap, customer: Option<&str>) {
    let named = customer.filter(|name| is_customer(name)).and_then(|name| HeaderValue::from_str(name).ok());
    headers.insert(names::HELD_FOR, named.unwrap_or(HeaderValue::from_static("")));
}

/// Says what was held back, by [`Criticality::index`], of the customer of this request.
pub fn write_held(headers: &mut HeaderMap, held: [u16; 4]) {
    let mut text = Text::default();
    for (place, count) in held.into_iter().enumerate() {
        if place > 0 {
            text.push(b',');
        }
        text.push_number(u32::from(count));
    }
    headers.insert(names::HELD, text.value());
    headers.remove(names::HELD_FOR);
}

/// What the task that answered admits now. A cutoff above 4, more than four decimals, or a time that no task may be
/// believed for is nonsense.
pub fn read_admit(headers: &HeaderMap) -> Option<Hint> {
    let value = headers.get(names::ADMIT)?.as_bytes();
    let semicolon = value.iter().position(|byte| *byte == b';')?;
    let cutoff = parse_decimal(value[..semicolon].trim_ascii()).filter(|parts| *parts <= CUTOFF_MOST)?;
    let millis = parse_number(value[semicolon + 1..].trim_ascii()).filter(|millis| (1..=TTL_MOST).contains(millis))?;
    let cutoff = Cutoff::new(f64::from(cutoff) / f64::from(DECIMALS));
    Some(Hint { cutoff, ttl: Duration::from_millis(millis) })
}

/// Says what this task admits now; the time as whole milliseconds, from 1 to a minute.
pub fn write_admit(headers: &mut HeaderMap, hint: Hint) {
    let cutoff = (hint.cutoff.value() * f64::from(DECIMALS)).round() as u32;
    let millis = hint.ttl.as_millis().clamp(1, u128::from(TTL_MOST)) as u32;
    let mut text = Text::default();
    text.push_number(cutoff / DECIMALS);
    let mut fraction = cutoff % DECIMALS;
    if fraction > 0 {
        text.push(b'.');
    }
    while fraction > 0 {
        fraction *= 10;
        text.push(b'0' + (fraction / DECIMALS) as u8);
        fraction %= DECIMALS;
    }
    text.push(b';');
    text.push_number(millis);
    headers.insert(names::ADMIT, text.value());
}

/// Whether the caller wants to know what its request costs.
pub fn wants_cost(headers: &HeaderMap) -> bool {
    headers.get(names::COST).is_some_and(|value| value == "1")
}

/// How much cheaper than asked an answer is; 0 says not at all.
pub fn read_degraded(headers: &HeaderMap) -> Option<u8> {
    parse_u16(headers.get(names::DEGRADED)?.as_bytes())?.try_into().ok()
}

/// Says how much cheaper than asked the answer is.
pub fn write_degraded(headers: &mut HeaderMap, level: u8) {
    headers.insert(names::DEGRADED, HeaderValue::from(u16::from(level)));
}

/// A short value, put together without a detour: refusals must be cheap.
#[derive(Default)]
struct Text {
    bytes: [u8; TEXT_MOST],
    length: usize,
}

impl Text {
    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn push_number(&mut self, number: u32) {
        let mut unit = 1;
        while number / unit >= 10 {
            unit *= 10;
        }
        while unit > 0 {
            self.push(b'0' + (number / unit % 10) as u8);
            unit /= 10;
        }
    }

    fn value(&self) -> HeaderValue {
        HeaderValue::from_bytes(&self.bytes[..self.length]).expect("digits and marks fit any header")
    }
}

/// The value of our key in a list of baggage.
fn baggage_value(list: &[u8]) -> Option<&[u8]> {
    list.split(|byte| *byte == b',').find_map(|member| member_value(member.trim_ascii()))
}

/// The value of one `key=value;property` member if the key is ours.
fn member_value(member: &[u8]) -> Option<&[u8]> {
    let equals = member.iter().position(|byte| *byte == b'=')?;
    if member[..equals].trim_ascii() != names::BAGGAGE_KEY.as_bytes() {
        return None;
    }
    member[equals + 1..].split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
}

fn baggage_member(level: Criticality) -> &'static str {
    match level {
        Criticality::Sheddable => "evenkeel-criticality=SHEDDABLE",
        Criticality::SheddablePlus => "evenkeel-criticality=SHEDDABLE_PLUS",
        Criticality::Critical => "evenkeel-criticality=CRITICAL",
        Criticality::CriticalPlus => "evenkeel-criticality=CRITICAL_PLUS",
    }
}

/// Up to 8 digits and a unit. Zero is what some senders write for a deadline that has passed.
fn parse_grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > TIMEOUT_DIGITS_MAX {
        return None;
    }
    let number = parse_number(digits)?;
    let (_, nanos) = TIMEOUT_UNITS.iter().find(|(name, _)| name == unit)?;
    // 8 digits of hours are 3.6e20 ns: more than 64 bits hold.
    let nanos = u128::from(number) * u128::from(*nanos);
    Some(Duration::new((nanos / NANOS_PER_SECOND) as u64, (nanos % NANOS_PER_SECOND) as u32))
}

/// In the finest unit whose number has at most 8 digits, at least 1: the number must be positive.
fn grpc_timeout(remaining: Duration) -> HeaderValue {
    let nanos = remaining.as_nanos();
    let fits = |(_, unit): &&(u8, u64)| nanos / u128::from(*unit) <= TIMEOUT_NUMBER_MAX;
    let (name, unit) = TIMEOUT_UNITS.iter().find(fits).copied().unwrap_or(TIMEOUT_COARSEST);
    let number = (nanos / u128::from(unit)).clamp(1, TIMEOUT_NUMBER_MAX);
    visible(format!("{number}{}", char::from(name)))
}

/// Digits only: no sign, no space, no more than 64 bits.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

fn parse_u16(digits: &[u8]) -> Option<u16> {
    parse_number(digits).and_then(|number| u16::try_from(number).ok())
}

/// Digits with at most four decimals, in parts of [`DECIMALS`].
fn parse_decimal(text: &[u8]) -> Option<u32> {
    let mut halves = text.splitn(2, |byte| *byte == b'.');
    let whole = u32::try_from(parse_number(halves.next()?)?).ok()?.checked_mul(DECIMALS)?;
    let Some(decimals) = halves.next() else { return Some(whole) };
    if decimals.len() > DECIMAL_PLACES {
        return None;
    }
    let places = (DECIMAL_PLACES - decimals.len()) as u32;
    whole.checked_add(parse_number(decimals)? as u32 * 10_u32.pow(places))
}

/// Why an error is not to be tried again.
const FAILED: &str = "failed";
const GRPC_TYPE: &[u8] = b"application/grpc";
/// What W3C obliges everybody to carry; longer lists may be cut, so nothing is added to them.
const BAGGAGE_MAX: usize = 8192;
/// Long enough for a SPIFFE identity (2,048 bytes), short enough to keep per customer.
const CUSTOMER_MAX: usize = 2048;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// As gRPC's protocol over HTTP/2 says.
const TIMEOUT_DIGITS_MAX: usize = 8;
const TIMEOUT_NUMBER_MAX: u128 = 99_999_999;
/// Letter and nanoseconds, from the finest.
const TIMEOUT_UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];
const TIMEOUT_COARSEST: (u8, u64) = TIMEOUT_UNITS[5];
/// Of a cutoff: finer than what two tasks could tell apart.
const DECIMAL_PLACES: usize = 4;
const DECIMALS: u32 = 10_000;
const CUTOFF_MOST: u32 = 4 * DECIMALS;
/// What a hint may be believed for, in milliseconds: as long as the setting of a server allows.
const TTL_MOST: u64 = 60_000;
/// Four numbers of five digits with commas; a hint is shorter.
const TEXT_MOST: usize = 23;
