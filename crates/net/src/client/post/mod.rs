//! The correspondence by datagrams: how a channel asks backends how they are without a connection to them.
//!
//! Anybody can send us datagrams, so what comes in is looked at here first: only what is vouched for, was asked for or
//! is news reaches a channel, and all else is counted. All channels of a runtime share one socket.

mod correspondence;
mod endpoint;

pub(crate) use correspondence::{Heard, Introduction};
pub(crate) use endpoint::Correspondent;
pub use endpoint::{Dropped, Endpoint, EndpointSnapshot};
