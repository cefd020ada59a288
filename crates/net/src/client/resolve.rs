//! Where a channel learns who its backends are.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;

use evenkeel_core::{BackendId, BackendList, BackendSpec, BadBackends};

/// A backend task: where it is reached, which is also its name.
///
/// ```
/// use evenkeel::client::Backend;
///
/// let third = Backend::from("10.0.0.3:80").with_ordinal(2);
/// assert_eq!((third.address.as_str(), third.ordinal), ("10.0.0.3:80", Some(2)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// What the connector dials; `host:port` for TCP.
    pub address: String,
    /// Its place among the tasks of the service: dense, from 0, kept across restarts. `even` subsets need it.
    pub ordinal: Option<u32>,
}

impl Backend {
    /// The same with its ordinal.
    #[must_use]
    pub fn with_ordinal(self, ordinal: u32) -> Self {
        Backend { ordinal: Some(ordinal), ..self }
    }
}

impl From<String> for Backend {
    fn from(address: String) -> Self {
        Backend { address, ordinal: None }
    }
}

impl From<&str> for Backend {
    fn from(address: &str) -> Self {
        Backend::from(address.to_owned())
    }
}

impl From<SocketAddr> for Backend {
    fn from(address: SocketAddr) -> Self {
        Backend::from(address.to_string())
    }
}

/// A source of backends: a file, a registry, a name service. [`Fixed`] is the simplest.
///
/// ```
/// use evenkeel::client::{Backend, Resolve};
/// use tokio::sync::watch;
///
/// /// Follows a list that another part of the program keeps.
/// struct Followed(watch::Receiver<Vec<Backend>>);
///
/// impl Resolve for Followed {
///     async fn next(&mut self) -> Option<Vec<Backend>> {
///         self.0.changed().await.ok()?;
///         Some(self.0.borrow_and_update().clone())
///     }
/// }
/// ```
pub trait Resolve: Send + 'static {
    /// All backends of the service: what is known at the first call, then at each change. After `None` the last list
    /// stays as it is. Dropped and called again at any time, so a change must not be lost when it is dropped.
    fn next(&mut self) -> impl Future<Output = Option<Vec<Backend>>> + Send;
}

/// A list that never changes.
#[derive(Clone, Debug)]
pub struct Fixed(Option<Vec<Backend>>);

impl Fixed {
    /// These, for ever.
    pub fn new<B: Into<Backend>>(backends: impl IntoIterator<Item = B>) -> Self {
        Fixed(Some(backends.into_iter().map(Into::into).collect()))
    }
}

impl Resolve for Fixed {
    async fn next(&mut self) -> Option<Vec<Backend>> {
        self.0.take()
    }
}

/// A list that was looked at and can be used.
pub(crate) struct Checked {
    pub(crate) list: BackendList,
    pub(crate) names: BTreeMap<BackendId, String>,
}

/// Why a list of backends cannot be used; the one before it stays in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadList {
    /// This address is there more than once.
    Twice(String),
    /// This address names no host or no port that TCP could connect to.
    NoAddress(String),
    /// The ordinals cannot be used.
    Ordinals(BadBackends),
}

impl fmt::Display for BadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadList::Twice(address) => write!(f, "the backend {address} is listed twice: name each once"),
            BadList::NoAddress(address) => {
                write!(f, "the backend {address:?} cannot be connected to: write host:port, as in \"10.0.0.1:8080\"")
            }
            BadList::Ordinals(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for BadList {}

/// That each can be an address of TCP. A name that nobody knows is found out when it is connected to.
pub(super) fn check_addresses(backends: &[Backend]) -> Result<(), BadList> {
    let is_address = |address: &str| {
        let (host, port) = address.rsplit_once(':').unwrap_or_default();
        !host.is_empty() && port.parse().is_ok_and(|port: u16| port > 0)
    };
    match backends.iter().find(|backend| !is_address(&backend.address)) {
        Some(wrong) => Err(BadList::NoAddress(wrong.address.clone())),
        None => Ok(()),
    }
}

/// What core is told, and the addresses it is not.
pub(crate) fn check(backends: Vec<Backend>) -> Result<Checked, BadList> {
    let mut names = BTreeMap::new();
    let mut specs = Vec::with_capacity(backends.len());
    for Backend { address, ordinal } in backends {
        let id = BackendId::from_name(&address);
        specs.push(BackendSpec { id, ordinal });
        if let Some(before) = names.insert(id, address) {
            return Err(BadList::Twice(before));
        }
    }
    let list = BackendList::new(specs).map_err(BadList::Ordinals)?;
    Ok(Checked { list, names })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for address in ["10.0.0.1:8080", "search:80", "[::1]:8080", "a.b.c:65535"] {
            assert_eq!(check_addresses(&[Backend::from(address)]), Ok(()), "{address}");
        }
        for address in ["", "nonsense", "127.0.0.1", ":80", "host:", "host:0", "host:http", "host:65536", "[::1]"] {
            let found = check_addresses(&[Backend::from("good:80"), Backend::from(address)]);
            assert_eq!(found, Err(BadList::NoAddress(address.to_owned())));
        }
    }
}
