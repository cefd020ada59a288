//! What can be set for a server. Every default has its reason in `docs/defaults.md`.

use std::time::Duration;

use super::admission::config::AdmissionConfig;
use super::peers::PeersConfig;
use crate::InvalidConfig;

/// All settings of a server task.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// How long a stopping task serves on at least, also when idle and every client has acknowledged. Default 50 ms.
    pub drain_least: Duration,
    /// The same while there are clients that cannot acknowledge, so that their late requests still find it. Default
    /// 1 s.
    pub drain_least_silent: Duration,
    /// How long it waits for requests in flight and for clients to notice, at most. Default 30 s.
    pub drain_most: Duration,
    /// How often a draining task looks whether it is idle. Default 10 ms.
    pub drain_poll: Duration,
    /// How long connections may take to close before it exits all the same. Default 5 s.
    pub close_most: Duration,
    /// Clients that ask without a connection.
    pub peers: PeersConfig,
    /// Who is let in when there is too much.
    pub admission: AdmissionConfig,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            drain_least: Duration::from_millis(50),
            drain_least_silent: Duration::from_secs(1),
            drain_most: Duration::from_secs(30),
            drain_poll: Duration::from_millis(10),
            close_most: Duration::from_secs(5),
            peers: PeersConfig::default(),
            admission: AdmissionConfig::default(),
        }
    }
}

impl ServerConfig {
    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let (millisecond, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        InvalidConfig::unless_in_range("drain_least", self.drain_least, Duration::ZERO, hour)?;
        InvalidConfig::unless_in_range("drain_least_silent", self.drain_least_silent, self.drain_least, hour)?;
        InvalidConfig::unless_in_range("drain_most", self.drain_most, self.drain_least_silent, hour)?;
        InvalidConfig::unless_in_range("drain_poll", self.drain_poll, millisecond, Duration::from_secs(1))?;
        InvalidConfig::unless_in_range("close_most", self.close_most, Duration::ZERO, hour)?;
        self.peers.check()?;
        self.admission.check()
    }
}
