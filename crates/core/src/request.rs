//! What is known of a request before it is sent.

use crate::{Criticality, Lot, Priority, Time};

/// Whoever is billed for a request, as a small number the driver keeps the names for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomerId(pub u32);

/// What is asked for, as a small number the driver keeps the names for; 0 for those that have no number of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodId(pub u16);

/// Whether an exchange ends soon or may stay open: each has a limit of its own (A2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One question, one answer.
    #[default]
    Unary,
    /// May stay open for hours; must not use up the room of the others.
    Stream,
}

/// Everything decisions look at; plain and cheap to copy.
///
/// ```
/// use evenkeel_core::{Criticality, RequestMeta, Time};
///
/// let meta = RequestMeta { criticality: Criticality::Sheddable, ..RequestMeta::default() };
/// assert_eq!(meta.deadline, Time::NEVER);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestMeta {
    /// How much it matters. Default `Critical`.
    pub criticality: Criticality,
    /// Nobody waits for the answer after this. Default [`Time::NEVER`].
    pub deadline: Time,
    /// 0 for the first try, 1 for its first retry. Default 0.
    pub attempt: u8,
    /// Default [`Kind::Unary`].
    pub kind: Kind,
    /// Who is billed. Default: nobody in particular.
    pub customer: CustomerId,
    /// What its root request drew, the same at every hop and attempt. Default 0: the first of its criticality to go.
    pub lot: Lot,
    /// What is asked for. Default: nothing in particular.
    pub method: MethodId,
}

impl RequestMeta {
    /// A request of which nothing special is known: what `default` gives.
    pub const PLAIN: RequestMeta = RequestMeta {
        criticality: Criticality::Critical,
        deadline: Time::NEVER,
        attempt: 0,
        kind: Kind::Unary,
        customer: CustomerId(0),
        lot: Lot(0),
        method: MethodId(0),
    };
}

impl RequestMeta {
    /// Where it stands among others.
    #[inline]
    pub const fn priority(&self) -> Priority {
        Priority::new(self.criticality, self.lot)
    }
}

impl Default for RequestMeta {
    fn default() -> Self {
        RequestMeta::PLAIN
    }
}
