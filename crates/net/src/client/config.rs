//! What can be set for a channel. Every default has its reason in `docs/defaults.md`.

use std::time::Duration;

use evenkeel_core::{ClientConfig, InvalidConfig};

use crate::context::Defaults;

/// How a channel is set up.
///
/// ```
/// use evenkeel::ChannelConfig;
///
/// let mut config = ChannelConfig::default();
/// config.streams_at_first = 0;
/// let error = config.check().unwrap_err();
/// assert_eq!(error.to_string(), "streams_at_first = 0 is not possible: must be from 1 to 1000000");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// What the decision core is set to.
    pub client: ClientConfig,
    /// What applies to calls that say nothing themselves and run in no scope. Default: `Critical`, no limit of time.
    pub defaults: Defaults,
    /// What is spoken to backends. Default HTTP/2.
    pub protocol: Protocol,
    /// What a connection may take to be made. Default 1 s.
    pub connect_timeout: Duration,
    /// How often a connection is asked whether it still works. Default 10 s.
    pub ping_every: Duration,
    /// How long an answer to that may take before the connection counts as lost. Default 5 s.
    pub ping_timeout: Duration,
    /// Streams opened on a fresh connection before the server has said how many it allows. Default 10.
    pub streams_at_first: usize,
    /// How much of a request's body is kept, in bytes, so that it can be sent again if it certainly never ran.
    /// Default 64 KiB.
    pub replay_most: usize,
    /// Whether backends are checked by datagrams where they take them. Without, an idle connection is not replaced by
    /// them but by rare connections. Default true.
    pub datagrams: bool,
    /// What chance is drawn from. Default: a number of the process's own.
    pub seed: Option<u64>,
}

/// What is spoken to backends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// One connection carries many requests; what gRPC needs.
    #[default]
    Http2,
    /// A connection carries one request at a time, so there are as many as requests in flight.
    Http1,
}

impl ChannelConfig {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        self.client.check()?;
        let (least, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        for (field, value) in [
            ("connect_timeout", self.connect_timeout),
            ("ping_every", self.ping_every),
            ("ping_timeout", self.ping_timeout),
        ] {
            InvalidConfig::unless_in_range(field, value, least, hour)?;
        }
        InvalidConfig::unless_in_range("streams_at_first", self.streams_at_first, 1, 1_000_000)?;
        InvalidConfig::unless_in_range("replay_most", self.replay_most, 0, REPLAY_MOST)
    }
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            client: ClientConfig::default(),
            defaults: Defaults::default(),
            protocol: Protocol::default(),
            connect_timeout: Duration::from_secs(1),
            ping_every: Duration::from_secs(10),
            ping_timeout: Duration::from_secs(5),
            streams_at_first: 10,
            replay_most: 64 * 1024,
            datagrams: true,
            seed: None,
        }
    }
}

/// More is held in memory for every request in flight than a sensible client has.
const REPLAY_MOST: usize = 1 << 30;
