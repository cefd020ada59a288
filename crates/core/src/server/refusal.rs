//! Why a server did not take a request.

use std::fmt;

/// A request that was not let in, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerRefusal {
    /// Nobody waits for the answer any more.
    TooLate,
    /// The task has stopped.
    Closed,
}

impl fmt::Display for ServerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerRefusal::TooLate => "deadline passed before the request was started",
            ServerRefusal::Closed => "this task has stopped; another one serves",
        })
    }
}

impl std::error::Error for ServerRefusal {}
