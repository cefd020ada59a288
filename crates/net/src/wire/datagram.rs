//! The datagram: a health check that is a probe that is a load report (A5, A8, A15).
//!
//! ```text
//!  0 version   1 kind   2 flags (2)   4 secret (4)   8 key (8)     16 sequence (8)   24 process (8)
//! 32 time (4)  36 number (4)   40 report (8 × 4)   72 zero (8)     80 tag (16)       96 end
//! ```
//!
//! All four kinds have the same size, so no answer is larger than its question. Integers are big-endian. The tag is keyed
//! BLAKE3 of what stands before it, under a key that the backend handed over on a connection; what a tag does not
//! vouch for changes nothing. What a report leaves unknown is NaN, and in flight the highest number.
//!
//! A question repeats the `process` and `time` it last heard, so that a backend can tell a question of now from one that
//! was recorded earlier, without having kept anything. In a question the first field of the report is how often it is
//! asked, in milliseconds.

use std::fmt;
use std::time::Duration;

use evenkeel_core::{Announcement, LoadReport, Readiness};

/// Every datagram has this many bytes.
pub const LENGTH: usize = 96;
/// What this crate speaks.
pub const VERSION: u8 = 1;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// From a client: how are you? It also acknowledges the announcement it names.
    Question = 1,
    /// From a backend: so, in answer to the question with this sequence.
    Answer = 2,
    /// From a backend that was not asked: this has changed.
    Push = 3,
    /// From a backend that does not know the key: hand over a new one. Vouched for by nobody; it carries the tag of the
    /// question, which only those can know who saw it.
    Reset = 4,
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Datagram {
    /// What it is.
    pub kind: Kind,
    /// Which secret the key derives from.
    pub secret: u32,
    /// Which key: one for each pair of channel and backend.
    pub key: u64,
    /// Counts the questions under one key; an answer repeats that of its question.
    pub sequence: u64,
    /// The backend's process and what it last announced; in a question, what was last heard and acted on.
    pub announcement: Announcement,
    /// The backend's clock in milliseconds, wrapping around; in a question, what was last heard of it.
    pub time: u32,
    /// Whether the backend wants requests.
    pub readiness: Readiness,
    /// Whether the backend will push its announcements to whoever asked.
    pub remembered: bool,
    /// How often the client asks; zero says that it will not ask again.
    pub every: Duration,
    /// How the backend is.
    pub report: LoadReport,
}

/// Why bytes are no datagram of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// Not the length that all have.
    Length,
    /// Of a version that is not spoken here.
    Version,
    /// No such kind.
    Kind,
}

/// Why a text is no [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadSecret {
    /// Something that is no hexadecimal digit.
    Digit {
        /// After so many bytes.
        place: usize,
    },
    /// Too short to be a secret, or half a byte too long.
    Length {
        /// How many digits there are.
        digits: usize,
    },
    /// All bytes are the same.
    NoChance,
}

impl fmt::Display for BadSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadSecret::Digit { place } => write!(f, "character {} is no hexadecimal digit", place + 1)?,
            BadSecret::Length { digits } => write!(f, "{digits} digits: a secret has 64 or more, two for each byte")?,
            BadSecret::NoChance => f.write_str("all bytes are the same: a secret is drawn by chance")?,
        }
        f.write_str("; `openssl rand -hex 32` makes one")
    }
}

impl std::error::Error for BadSecret {}

/// A datagram whose tag has not been looked at: only what is needed to find its key.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'a> {
    bytes: &'a [u8; LENGTH],
    kind: Kind,
}

/// What vouches for datagrams between one channel and one backend.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_LENGTH]);

/// What a backend derives its keys from.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    bytes: [u8; KEY_LENGTH],
    id: u32,
}

/// What arrived at a backend.
#[derive(Clone, Debug)]
pub enum Heard<'a> {
    /// A question, and the key that vouches for it.
    Question(Datagram, Key),
    /// A question under a key of another secret: nobody can say whether it is genuine.
    Foreign(Sealed<'a>),
    /// It says that it is a question under a key of ours, and is not.
    Forged,
    /// No question at all.
    Malformed,
}

impl Secret {
    /// What these bytes are to the backend whose secret this is.
    pub fn hear<'a>(&self, bytes: &'a [u8]) -> Heard<'a> {
        match Sealed::read(bytes) {
            Ok(sealed) if sealed.kind() != Kind::Question => Heard::Malformed,
            Ok(sealed) if sealed.secret() != self.id => Heard::Foreign(sealed),
            Ok(sealed) => {
                let key = self.key(sealed.key());
                sealed.open(&key).map_or(Heard::Forged, |question| Heard::Question(question, key))
            }
            Err(_) => Heard::Malformed,
        }
    }

    /// Drawn by the system: keys end with the process.
    pub fn random() -> Result<Secret, getrandom::Error> {
        let mut bytes = [0; KEY_LENGTH];
        getrandom::fill(&mut bytes)?;
        Ok(Secret::from_bytes(bytes))
    }

    /// Handed in: keys live as long as these bytes stay the same. They are to be kept as any other secret.
    pub fn from_bytes(bytes: [u8; KEY_LENGTH]) -> Secret {
        let hash = blake3::keyed_hash(&bytes, b"evenkeel datagram secret id");
        Secret { bytes, id: u32::from_be_bytes(array_at(hash.as_bytes(), 0)) }
    }

    /// As text, for settings and files: at least 32 bytes of chance as hexadecimal digits; more are taken in full.
    ///
    /// ```
    /// use evenkeel::server::Secret;
    ///
    /// let secret = Secret::from_hex("6d1f0c5e8b7a49323f1e0d9c8b7a695847362514039281706f5e4d3c2b1a0998")?;
    /// assert!(Secret::from_hex("c0ffee").is_err());
    /// # Ok::<(), evenkeel::server::BadSecret>(())
    /// ```
    pub fn from_hex(text: &str) -> Result<Secret, BadSecret> {
        let text = text.trim();
        if let Some(place) = text.bytes().position(|byte| !byte.is_ascii_hexdigit()) {
            return Err(BadSecret::Digit { place });
        }
        if text.len() < 2 * KEY_LENGTH || !text.len().is_multiple_of(2) {
            return Err(BadSecret::Length { digits: text.len() });
        }
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
        let bytes: Vec<u8> = text.as_bytes().chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect();
        // Not to be mistaken for a secret that somebody forgot to fill in.
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(BadSecret::NoChance);
        }
        let secret = <[u8; KEY_LENGTH]>::try_from(bytes.as_slice());
        Ok(Secret::from_bytes(secret.unwrap_or_else(|_| *blake3::hash(&bytes).as_bytes())))
    }

    /// Tells secrets apart and gives nothing away.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The number of the next key: no process of the backend gives out the same one twice.
    pub fn key_number(&self, process: u64, count: u64) -> u64 {
        let mut text = *b"evenkeel datagram key id\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        text[24..32].copy_from_slice(&process.to_be_bytes());
        text[32..].copy_from_slice(&count.to_be_bytes());
        let hash = blake3::keyed_hash(&self.bytes, &text);
        u64::from_be_bytes(array_at(hash.as_bytes(), 0))
    }

    /// The key of this number.
    pub fn key(&self, number: u64) -> Key {
        let mut text = *b"evenkeel datagram key\0\0\0\0\0\0\0\0";
        text[21..].copy_from_slice(&number.to_be_bytes());
        Key(*blake3::keyed_hash(&self.bytes, &text).as_bytes())
    }
}

impl Key {
    /// As it was handed over; `None` if it has not the length of a key.
    pub fn from_slice(bytes: &[u8]) -> Option<Key> {
        bytes.try_into().ok().map(Key)
    }

    /// As it is handed over.
    pub fn as_bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.0
    }

    fn tag(&self, bytes: &[u8; LENGTH]) -> [u8; TAG_LENGTH] {
        let hash = blake3::keyed_hash(&self.0, &bytes[..TAG_AT]);
        array_at(hash.as_bytes(), 0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({:#010x})", self.id())
    }
}

impl Datagram {
    /// The bytes to send, vouched for by `key`.
    pub fn seal(&self, key: &Key) -> [u8; LENGTH] {
        let mut bytes = self.body();
        let tag = key.tag(&bytes);
        bytes[TAG_AT..].copy_from_slice(&tag);
        bytes
    }

    fn body(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let ready = if self.readiness == Readiness::Ready { READY } else { 0 };
        let flags = ready | if self.remembered { REMEMBERED } else { 0 };
        bytes[0] = VERSION;
        bytes[1] = self.kind as u8;
        bytes[2..4].copy_from_slice(&flags.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.secret.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.announcement.process.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.time.to_be_bytes());
        bytes[36..40].copy_from_slice(&self.announcement.number.to_be_bytes());
        if self.kind == Kind::Question {
            let millis = u32::try_from(self.every.as_millis()).unwrap_or(u32::MAX);
            bytes[40..44].copy_from_slice(&millis.to_be_bytes());
        } else {
            write_report(&self.report, &mut bytes[REPORT_AT..REPORT_END]);
        }
        bytes
    }
}

impl<'a> Sealed<'a> {
    /// Looks whether the bytes can be a datagram.
    pub fn read(bytes: &'a [u8]) -> Result<Sealed<'a>, Malformed> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Malformed::Length)?;
        if bytes[0] != VERSION {
            return Err(Malformed::Version);
        }
        let kinds = [Kind::Question, Kind::Answer, Kind::Push, Kind::Reset];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == bytes[1]).ok_or(Malformed::Kind)?;
        Ok(Sealed { bytes, kind })
    }

    /// What it is, if it is what it says.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Which secret the key derives from.
    pub fn secret(&self) -> u32 {
        u32::from_be_bytes(self.field(4))
    }

    /// Which key.
    pub fn key(&self) -> u64 {
        u64::from_be_bytes(self.field(8))
    }

    /// Which question.
    pub fn sequence(&self) -> u64 {
        u64::from_be_bytes(self.field(16))
    }

    /// What stands where the tag is.
    pub fn tag(&self) -> [u8; TAG_LENGTH] {
        self.field(TAG_AT)
    }

    /// What it says, if the key vouches for it. A reset is vouched for by nobody.
    pub fn open(&self, key: &Key) -> Option<Datagram> {
        // Hashes compare in constant time.
        let genuine = blake3::Hash::from_bytes(widened(key.tag(self.bytes)));
        let said = blake3::Hash::from_bytes(widened(self.tag()));
        (self.kind != Kind::Reset && genuine == said).then(|| self.contents())
    }

    /// The reset that answers this question: as long as it, with its tag.
    pub fn reset(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = VERSION;
        bytes[1] = Kind::Reset as u8;
        bytes[4..24].copy_from_slice(&self.bytes[4..24]);
        bytes[TAG_AT..].copy_from_slice(&self.bytes[TAG_AT..]);
        bytes
    }

    fn contents(&self) -> Datagram {
        let flags = u16::from_be_bytes(self.field(2));
        let is_question = self.kind == Kind::Question;
        Datagram {
            kind: self.kind,
            secret: self.secret(),
            key: self.key(),
            sequence: self.sequence(),
            announcement: Announcement {
                process: u64::from_be_bytes(self.field(24)),
                number: u32::from_be_bytes(self.field(36)),
            },
            time: u32::from_be_bytes(self.field(32)),
            readiness: if flags & READY == 0 { Readiness::LameDuck } else { Readiness::Ready },
            remembered: flags & REMEMBERED != 0,
            every: Duration::from_millis(if is_question {
                u32::from_be_bytes(self.field(REPORT_AT)).into()
            } else {
                0
            }),
            report: if is_question { LoadReport::default() } else { read_report(&self.bytes[REPORT_AT..REPORT_END]) },
        }
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        array_at(self.bytes, at)
    }
}

/// As many bytes as are asked for, from there on; the layout is within the length.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

fn widened(tag: [u8; TAG_LENGTH]) -> [u8; 32] {
    let mut wide = [0; 32];
    wide[..TAG_LENGTH].copy_from_slice(&tag);
    wide
}

fn write_report(report: &LoadReport, into: &mut [u8]) {
    let latency = report.latency.map(|latency| latency.as_secs_f64());
    let numbers = [
        report.utilization,
        report.utilization_slow,
        report.qps,
        report.eps,
        report.runnable,
        report.processors,
        latency,
    ];
    for (place, number) in into.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.map_or(f32::NAN, |number| number as f32).to_be_bytes());
    }
    let in_flight = report.in_flight.map_or(UNKNOWN, |count| count.min(UNKNOWN - 1));
    into[28..32].copy_from_slice(&in_flight.to_be_bytes());
}

/// Whoever keeps it makes nonsense unknown and counts it; only a latency must be a possible one to be a `Duration`.
fn read_report(from: &[u8]) -> LoadReport {
    let field = |place: usize| array_at(from, place * 4);
    let number = |place| Some(f64::from(f32::from_be_bytes(field(place)))).filter(|number| !number.is_nan());
    LoadReport {
        utilization: number(0),
        utilization_slow: number(1),
        qps: number(2),
        eps: number(3),
        runnable: number(4),
        processors: number(5),
        latency: number(6).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        in_flight: Some(u32::from_be_bytes(field(7))).filter(|&count| count != UNKNOWN),
    }
}

const KEY_LENGTH: usize = 32;
const TAG_LENGTH: usize = 16;
const TAG_AT: usize = LENGTH - TAG_LENGTH;
const REPORT_AT: usize = 40;
const REPORT_END: usize = 72;
const READY: u16 = 1;
const REMEMBERED: u16 = 2;
const UNKNOWN: u32 = u32::MAX;
