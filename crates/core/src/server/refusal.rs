//! Why a server did not take a request (each is a different thing to do for whoever asked).

use std::fmt;

use crate::Hint;

/// A request that was not let in, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerRefusal {
    /// Nobody waits for the answer any more.
    TooLate,
    /// The task has stopped.
    Closed,
    /// Its customer has used up its quota (B6).
    OutOfQuota,
    /// The task has more than it can do, and others matter more (B11).
    Overloaded,
    /// As many requests are in flight as it can usefully have.
    LimitReached,
    /// The line of those that wait is as long as it may be.
    QueueFull,
    /// It waited longer than its answer would have been worth to others.
    WaitedTooLong,
}

impl ServerRefusal {
    /// In the order of [`ServerRefusal::index`].
    pub const ALL: [ServerRefusal; 7] = [
        ServerRefusal::TooLate,
        ServerRefusal::Closed,
        ServerRefusal::OutOfQuota,
        ServerRefusal::Overloaded,
        ServerRefusal::LimitReached,
        ServerRefusal::QueueFull,
        ServerRefusal::WaitedTooLong,
    ];

    /// A place in an array.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name on the wire, in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            ServerRefusal::TooLate => "too_late",
            ServerRefusal::Closed => "closed",
            ServerRefusal::OutOfQuota => "out_of_quota",
            ServerRefusal::Overloaded => "overloaded",
            ServerRefusal::LimitReached => "limit_reached",
            ServerRefusal::QueueFull => "queue_full",
            ServerRefusal::WaitedTooLong => "waited_too_long",
        }
    }

    /// Whether this task had too much to do, which says nothing of the request.
    pub const fn is_overload(self) -> bool {
        match self {
            ServerRefusal::TooLate | ServerRefusal::Closed | ServerRefusal::OutOfQuota => false,
            ServerRefusal::Overloaded
            | ServerRefusal::LimitReached
            | ServerRefusal::QueueFull
            | ServerRefusal::WaitedTooLong => true,
        }
    }
}

impl fmt::Display for ServerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerRefusal::TooLate => "deadline passed before the request was started",
            ServerRefusal::Closed => "this task has stopped; another one serves",
            ServerRefusal::OutOfQuota => "the customer is out of quota on this task",
            ServerRefusal::Overloaded => "this task is overloaded and serves what matters more",
            ServerRefusal::LimitReached => "this task has as many requests in its handlers as it can use",
            ServerRefusal::QueueFull => "this task is overloaded and its queue is full",
            ServerRefusal::WaitedTooLong => "this task is overloaded and the request waited too long",
        })
    }
}

impl std::error::Error for ServerRefusal {}

/// What is said to a client whose request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub reason: ServerRefusal,
    /// Not the task but the service is overloaded: trying again elsewhere makes it worse (B13, B16).
    pub dont_retry: bool,
    /// What the task is admitting now.
    pub hint: Option<Hint>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        f.write_str(if self.dont_retry { "; so is the service: do not retry" } else { "" })
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_all() {
        assert!(ServerRefusal::ALL.into_iter().enumerate().all(|(place, refusal)| refusal.index() == place));
    }
}
