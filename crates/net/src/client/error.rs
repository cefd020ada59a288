//! Why a channel could not be set up, and why a call through it failed.

use std::fmt;

use evenkeel_core::{InvalidConfig, Refusal};

use super::resolve::BadList;
use crate::body::BoxError;

/// Why there is no channel.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting cannot be.
    Config(InvalidConfig),
    /// The list of backends cannot be.
    Backends(BadList),
    /// The service has no name that can stand in a URI.
    Service(String),
    /// No backend could be used in time; what is known of each.
    NoneUsable(String),
    /// Two clusters of a service have this name.
    ClusterTwice(String),
    /// The first of these clusters has the channel of the second.
    ChannelTwice(String, String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Config(invalid) => invalid.fmt(f),
            ConnectError::Backends(bad) => bad.fmt(f),
            ConnectError::Service(name) => {
                write!(f, "the service name {name:?} cannot stand in a URI: write a host name, as in \"search\"")
            }
            ConnectError::NoneUsable(known) => write!(f, "no backend could be used: {known}"),
            ConnectError::ClusterTwice(name) => write!(f, "two clusters are called {name:?}: give each its own name"),
            ConnectError::ChannelTwice(name, other) => {
                write!(f, "the cluster {name:?} has the channel of {other:?}: give each its own")
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConnectError::Config(invalid) => Some(invalid),
            ConnectError::Backends(bad) => Some(bad),
            ConnectError::Service(_)
            | ConnectError::NoneUsable(_)
            | ConnectError::ClusterTwice(_)
            | ConnectError::ChannelTwice(..) => None,
        }
    }
}

impl From<InvalidConfig> for ConnectError {
    fn from(invalid: InvalidConfig) -> Self {
        ConnectError::Config(invalid)
    }
}

impl From<BadList> for ConnectError {
    fn from(bad: BadList) -> Self {
        ConnectError::Backends(bad)
    }
}

/// Whose fault it is, and so what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// Not sent: the caller made a request that cannot be.
    BadRequest(&'static str),
    /// Not sent: the client decided so.
    Refused(Refusal),
    /// The deadline passed while the backend had it.
    Expired,
    /// It certainly never ran: no connection that was tried took it.
    Unsent(BoxError),
    /// The request's own body failed: the caller's fault.
    Body(BoxError),
    /// The connection failed while the backend had it; it may have run.
    Broken(BoxError),
}

impl CallError {
    /// The name in labels, JSON and headers.
    pub const fn as_str(&self) -> &'static str {
        match self {
            CallError::BadRequest(_) => "bad_request",
            CallError::Refused(_) => "refused",
            CallError::Expired => "expired",
            CallError::Unsent(_) => "unsent",
            CallError::Body(_) => "body",
            CallError::Broken(_) => "broken",
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::BadRequest(fault) => f.write_str(fault),
            CallError::Refused(refusal) => refusal.fmt(f),
            CallError::Expired => f.write_str("deadline passed while the backend had the request"),
            CallError::Unsent(error) => write!(f, "the request was never sent: {error}"),
            CallError::Body(error) => write!(f, "the body of the request failed: {error}"),
            CallError::Broken(error) => write!(f, "the connection failed while the backend had the request: {error}"),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CallError::Refused(refusal) => Some(refusal),
            CallError::BadRequest(_) | CallError::Expired => None,
            CallError::Unsent(error) | CallError::Body(error) | CallError::Broken(error) => Some(&**error),
        }
    }
}
