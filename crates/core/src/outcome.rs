//! How an attempt ended, as far as decisions care.

/// One variant for each different reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered. An answer that says "no such thing" is an answer.
    Served,
    /// The backend answered with a failure of its own making.
    Failed,
    /// The backend refused it as too much: this task is overloaded, another may not be (B12).
    Overloaded,
    /// The backend says the whole service is overloaded: trying again anywhere makes it worse (B13).
    DontRetry,
    /// The backend says that the customer has used up its quota: nobody else has more of it, and nothing is overloaded.
    OutOfQuota,
    /// The deadline passed while it was there.
    Expired,
    /// The caller went away, or another attempt won. Says nothing about the backend.
    Cancelled,
    /// It certainly never ran: the connection was gone before it was sent. Says nothing about the backend's health;
    /// the loss of the connection does.
    Unsent,
}

impl Outcome {
    /// In the order of [`Outcome::index`].
    pub const ALL: [Outcome; 8] = [
        Outcome::Served,
        Outcome::Failed,
        Outcome::Overloaded,
        Outcome::DontRetry,
        Outcome::OutOfQuota,
        Outcome::Expired,
        Outcome::Cancelled,
        Outcome::Unsent,
    ];

    /// A place in an array of eight.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Served => "served",
            Outcome::Failed => "failed",
            Outcome::Overloaded => "overloaded",
            Outcome::DontRetry => "dont_retry",
            Outcome::OutOfQuota => "out_of_quota",
            Outcome::Expired => "expired",
            Outcome::Cancelled => "cancelled",
            Outcome::Unsent => "unsent",
        }
    }

    /// Whether trying again anywhere is no use, here or above.
    pub const fn forbids_retries(self) -> bool {
        matches!(self, Outcome::DontRetry | Outcome::OutOfQuota)
    }

    /// Counts against the backend (A14): it took the request and gave nothing of use, so it must not look idle.
    pub const fn is_error(self) -> bool {
        match self {
            Outcome::Failed | Outcome::Overloaded | Outcome::DontRetry | Outcome::OutOfQuota | Outcome::Expired => true,
            Outcome::Served | Outcome::Cancelled | Outcome::Unsent => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_all() {
        assert!(Outcome::ALL.into_iter().enumerate().all(|(place, outcome)| outcome.index() == place));
    }
}
