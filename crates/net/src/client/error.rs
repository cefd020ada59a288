//! Why a call through a channel failed.

use std::fmt;

use evenkeel_core::Refusal;

use crate::body::BoxError;

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
    /// It certainly never ran: every connection that was tried was gone before it was sent.
    Unsent(BoxError),
    /// The connection failed while the backend had it; it may have run.
    Broken(BoxError),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::BadRequest(fault) => f.write_str(fault),
            CallError::Refused(refusal) => refusal.fmt(f),
            CallError::Expired => f.write_str("deadline passed while the backend had the request"),
            CallError::Unsent(error) => write!(f, "the request was never sent: {error}"),
            CallError::Broken(error) => write!(f, "the connection failed while the backend had the request: {error}"),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CallError::Refused(refusal) => Some(refusal),
            CallError::BadRequest(_) | CallError::Expired => None,
            CallError::Unsent(error) | CallError::Broken(error) => Some(&**error),
        }
    }
}
