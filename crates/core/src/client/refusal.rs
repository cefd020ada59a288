//! Why a client did not send a request (each is a different thing to do for whoever asked).

use std::fmt;

/// A request that was not sent, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Its deadline had passed before it could be sent.
    TooLate,
    /// Every usable backend of the subset is at its limit of requests in flight: slow, not sick.
    AllFull,
    /// No backend of the subset is connected and willing. Lame ducks are not asked, although they would serve.
    NoneUsable,
    /// Every usable backend with room is inactive (A8), and the connection to one is being made: not a last word. The driver waits
    /// for the next picker and begins again; it says so to the caller only when that takes too long.
    Waking,
    /// This client sends less because the service keeps refusing it (B7), or every backend picked said that it would.
    Throttled,
}

impl Refusal {
    /// In the order of [`Refusal::index`].
    pub const ALL: [Refusal; 5] =
        [Refusal::TooLate, Refusal::AllFull, Refusal::NoneUsable, Refusal::Waking, Refusal::Throttled];

    /// A place in an array.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in labels and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Refusal::TooLate => "too_late",
            Refusal::AllFull => "all_full",
            Refusal::NoneUsable => "none_usable",
            Refusal::Waking => "waking",
            Refusal::Throttled => "throttled",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLate => "deadline passed before the request was sent",
            Refusal::AllFull => "every usable backend is at its limit of requests in flight; try again later",
            Refusal::NoneUsable => "no backend is connected and willing",
            Refusal::Waking => "every usable backend with room is inactive, and none could be connected to in time",
            Refusal::Throttled => "refused by this client: the service is refusing such requests; send fewer of them",
        })
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_place_in_all() {
        assert!(Refusal::ALL.into_iter().enumerate().all(|(place, refusal)| refusal.index() == place));
    }
}
