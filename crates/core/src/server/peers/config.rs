//! What can be set for clients without a connection.

use std::time::Duration;

use crate::InvalidConfig;

/// How many clients that ask by datagrams a server remembers, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersConfig {
    /// Remembers no more than so many, each in about 160 bytes; beyond, one of the longest silent makes room. Default 50 000.
    pub most: u32,
    /// Forgets one that has been silent for so long, and sooner one that asks more often; a question that repeats an
    /// older time proves nothing. Default 5 min.
    pub forget_after: Duration,
}

impl Default for PeersConfig {
    fn default() -> Self {
        PeersConfig { most: 50_000, forget_after: Duration::from_secs(300) }
    }
}

impl PeersConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        InvalidConfig::unless_in_range("peers.most", self.most, 1, 1_000_000)?;
        InvalidConfig::unless_in_range("peers.forget_after", self.forget_after, second, hour)
    }
}
