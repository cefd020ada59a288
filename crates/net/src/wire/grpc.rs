//! As much of gRPC as services served by hand need: framing, binary headers, `grpc-message`, and two protocols.
//!
//! `grpc.health.v1` is everybody's; `evenkeel.v1` is our watch, which adds acknowledgements so that a leaving task
//! knows when every client has heard (DESIGN §6.17).

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use prost::Message;

use super::{names, visible};

/// One message with its 5-byte prefix, uncompressed.
///
/// # Panics
/// The message has 4 GiB or more, which gRPC cannot frame.
pub fn frame<M: Message>(message: &M) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_LEN + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("messages served by hand are far below 4 GiB"));
    message.encode_raw(&mut bytes);
    bytes.freeze()
}

/// Why a stream of frames cannot go on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FrameError {
    /// The peer announced more than is taken: gRPC `RESOURCE_EXHAUSTED`.
    TooLarge {
        /// What was announced, in bytes.
        length: usize,
        /// What is taken.
        length_max: usize,
    },
    /// The peer compressed although nothing was negotiated: gRPC `UNIMPLEMENTED`.
    Compressed,
    /// The payload is not the message that was expected: gRPC `INTERNAL`.
    Malformed(prost::DecodeError),
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::TooLarge { length, length_max } => {
                write!(f, "message of {length} bytes is larger than the {length_max} taken here")
            }
            FrameError::Compressed => f.write_str("compressed message: send identity"),
            FrameError::Malformed(_) => f.write_str("malformed message"),
        }
    }
}

impl std::error::Error for FrameError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FrameError::Malformed(error) => Some(error),
            FrameError::TooLarge { .. } | FrameError::Compressed => None,
        }
    }
}

/// Takes the next whole message off the front of what has arrived, if there is one. Messages of more than
/// `length_max` bytes are refused by their announcement; after an error the stream is over.
///
/// ```
/// use bytes::BytesMut;
/// use evenkeel::wire::grpc::{WatchAck, frame, unframe};
///
/// let mut arrived = BytesMut::from(&frame(&WatchAck { sequence: 7, ping: 0 })[..]);
/// assert_eq!(unframe(&mut arrived, 1024), Ok(Some(WatchAck { sequence: 7, ping: 0 })));
/// assert_eq!(unframe::<WatchAck>(&mut arrived, 1024), Ok(None));
/// ```
pub fn unframe<M: Message + Default>(arrived: &mut BytesMut, length_max: usize) -> Result<Option<M>, FrameError> {
    let Some(&[compressed, a, b, c, d]) = arrived.first_chunk::<PREFIX_LEN>() else {
        return Ok(None);
    };
    if compressed != 0 {
        return Err(FrameError::Compressed);
    }
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > length_max {
        return Err(FrameError::TooLarge { length, length_max });
    }
    if arrived.len() < PREFIX_LEN + length {
        return Ok(None);
    }
    arrived.advance(PREFIX_LEN);
    M::decode(arrived.split_to(length)).map(Some).map_err(FrameError::Malformed)
}

/// The value of a `-bin` header: base64 without padding.
pub fn encode_bin(bytes: &[u8]) -> HeaderValue {
    visible(BIN.encode(bytes))
}

/// The same, after text that is already there.
pub(super) fn encode_bin_onto(bytes: &[u8], text: &mut String) {
    BIN.encode_string(bytes, text);
}

/// The bytes of a `-bin` header, padded or not; of several joined by commas the first.
pub fn decode_bin(value: &[u8]) -> Option<Vec<u8>> {
    let first = value.split(|byte| *byte == b',').next()?;
    BIN.decode(first.trim_ascii()).ok()
}

/// The same into a buffer of the caller's.
pub(super) fn decode_bin_into<'a>(value: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let first = value.split(|byte| *byte == b',').next()?;
    let length = BIN.decode_slice(first.trim_ascii(), buffer).ok()?;
    buffer.get(..length)
}

/// The value of `grpc-message`: what is not visible ASCII, and `%` itself, as `%XX`.
pub fn encode_status_message(message: &str) -> HeaderValue {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push(char::from(HEX[usize::from(byte >> 4)]));
            text.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    visible(text)
}

/// The text of `grpc-message`. What is badly encoded stays as it is, what is not UTF-8 is replaced: words for people.
pub fn decode_status_message(value: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, after @ ..] = rest {
        let escaped = match after {
            [high, low, ..] if *first == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(*first, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a call: its status and what people should know of it.
pub fn trailers_of(code: &'static str, message: &str) -> HeaderMap {
    let status = (names::GRPC_STATUS, HeaderValue::from_static(code));
    HeaderMap::from_iter([status, (names::GRPC_MESSAGE, encode_status_message(message))])
}

/// Nobody waits for the answer any more.
pub const DEADLINE_EXCEEDED: &str = "4";
/// No such thing here.
pub const NOT_FOUND: &str = "5";
/// Refused as too much; what a service says that is overloaded, or whose customer is out of quota.
pub const RESOURCE_EXHAUSTED: &str = "8";
/// Something is broken.
pub const INTERNAL: &str = "13";
/// Not now, or not here.
pub const UNAVAILABLE: &str = "14";

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// One answer about a service's health.
pub const HEALTH_CHECK_PATH: &str = "/grpc.health.v1.Health/Check";
/// A stream of answers, one at once and one at every change.
pub const HEALTH_WATCH_PATH: &str = "/grpc.health.v1.Health/Watch";
/// Our own stream both ways: [`WatchEvent`]s from the backend, a [`WatchAck`] for each from the client.
pub const WATCH_PATH: &str = "/evenkeel.v1.Watch/Watch";

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct HealthCheckRequest {
    /// Empty for the whole server.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct HealthCheckResponse {
    /// As [`ServingStatus`].
    #[prost(enumeration = "ServingStatus", tag = "1")]
    pub status: i32,
}

/// `grpc.health.v1.HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ServingStatus {
    /// Not said.
    Unknown = 0,
    /// Send.
    Serving = 1,
    /// Send nothing new: starting, leaving, or sick.
    NotServing = 2,
    /// No such service here; only `Watch` says so.
    ServiceUnknown = 3,
}

/// `evenkeel.v1.WatchEvent`: what a backend tells each client about itself, at once and at every change.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct WatchEvent {
    /// Counts the announcements of the backend; a stream starts with the last one.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// Version of this protocol the backend speaks.
    #[prost(uint32, tag = "2")]
    pub version: u32,
    /// Whether it wants new requests.
    #[prost(bool, tag = "3")]
    pub serving: bool,
    /// Why, for people.
    #[prost(string, tag = "4")]
    pub reason: String,
    /// The client's last ping; 0 where there was none.
    #[prost(uint64, tag = "5")]
    pub pong: u64,
    /// Which process of the backend this is: each has a higher number than those before it. 0 where it is not said.
    #[prost(fixed64, tag = "6")]
    pub process: u64,
    /// With the first event of a stream: how to go on without a connection.
    #[prost(message, optional, tag = "7")]
    pub datagrams: Option<Handover>,
}

/// `evenkeel.v1.Handover`: what a client needs to check a backend by [datagrams](super::datagram).
#[derive(Clone, PartialEq, Eq, Hash, Message)]
#[prost(skip_debug)]
pub struct Handover {
    /// Highest version of datagrams the backend speaks.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// Where it listens for them, at the address of this connection.
    #[prost(uint32, tag = "2")]
    pub port: u32,
    /// Which secret the key derives from.
    #[prost(fixed32, tag = "3")]
    pub secret: u32,
    /// Which key this is.
    #[prost(fixed64, tag = "4")]
    pub key: u64,
    /// The key itself, 32 bytes.
    #[prost(bytes = "vec", tag = "5")]
    pub key_bytes: Vec<u8>,
    /// The backend's clock in milliseconds, wrapping around.
    #[prost(fixed32, tag = "6")]
    pub time: u32,
}

/// Without the key: what is printed is read by many.
impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Handover { version, port, secret, key, time, key_bytes: _ } = self;
        write!(f, "Handover {{ version: {version}, port: {port}, secret: {secret}, key: {key}, time: {time} }}")
    }
}

/// `evenkeel.v1.WatchAck`: the client has acted on every event up to this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct WatchAck {
    /// Of the last event handled.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// To be answered at once with the same number, if it is not 0: does this connection still work?
    #[prost(uint64, tag = "2")]
    pub ping: u64,
}

const PREFIX_LEN: usize = 5;
const HEX: &[u8; 16] = b"0123456789ABCDEF";
/// gRPC: writers leave the padding out, readers take both.
const BIN: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn padding_is_never_written_and_always_read() {
        assert_eq!(encode_bin(b"a"), "YQ");
        assert_eq!(decode_bin(b"YQ"), Some(b"a".to_vec()));
        assert_eq!(decode_bin(b"YQ=="), Some(b"a".to_vec()));
    }

    #[test]
    fn frames_that_are_too_large_compressed_or_garbage_end_the_stream() {
        let next = |bytes: &[u8]| unframe::<WatchEvent>(&mut BytesMut::from(bytes), 4);

        assert_eq!(next(&[0, 0, 0, 0, 5]), Err(FrameError::TooLarge { length: 5, length_max: 4 }));
        assert_eq!(next(&[1, 0, 0, 0, 0]), Err(FrameError::Compressed));
        assert!(matches!(next(&[0, 0, 0, 0, 1, 0xff]), Err(FrameError::Malformed(_))));
        assert_eq!(next(&[0, 0, 0, 0]), Ok(None));
    }

    #[test]
    fn badly_encoded_status_messages_stay_readable() {
        assert_eq!(encode_status_message("100% ü\n"), "100%25 %C3%BC%0A");
        assert_eq!(decode_status_message(b"50%, %zz %4"), "50%, %zz %4");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn messages_survive_any_cutting(sequences in proptest::collection::vec(any::<u64>(), 1..8), cut in 1..7_usize) {
            let bytes: Vec<u8> =
                sequences.iter().flat_map(|sequence| frame(&WatchAck { sequence: *sequence, ping: 0 })).collect();
            let (mut arrived, mut read) = (BytesMut::new(), Vec::new());

            for piece in bytes.chunks(cut) {
                arrived.extend_from_slice(piece);
                while let Some(ack) = unframe::<WatchAck>(&mut arrived, 16).unwrap() {
                    read.push(ack.sequence);
                }
            }

            prop_assert_eq!(read, sequences);
            prop_assert!(arrived.is_empty());
        }

        #[test]
        fn status_messages_read_back(message in any::<String>()) {
            let value = encode_status_message(&message);
            prop_assert_eq!(decode_status_message(value.as_bytes()), message);
        }
    }
}
