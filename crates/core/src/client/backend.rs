//! The backends of a service, as a list that all clients of a process share.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::rng::hash_name;

/// One backend task, for as long as it keeps its name. The number is the same on every machine.
///
/// A driver keeps the address that belongs to each id: an id cannot be dialled.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(pub u64);

impl BackendId {
    /// The id of the backend with this name or address.
    pub fn from_name(name: &str) -> Self {
        BackendId(hash_name(name))
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl fmt::Debug for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendId({self})")
    }
}

/// What a client is told of a backend it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendSpec {
    /// Who it is.
    pub id: BackendId,
    /// Its place among the tasks of its service: dense, from 0, kept across restarts. `rounds` deals in this order
    /// and `even` needs it.
    pub ordinal: Option<u32>,
}

impl BackendSpec {
    /// A backend known by its name alone.
    pub fn named(name: &str) -> Self {
        BackendSpec { id: BackendId::from_name(name), ordinal: None }
    }

    /// The same with its ordinal.
    #[must_use]
    pub fn with_ordinal(self, ordinal: u32) -> Self {
        BackendSpec { ordinal: Some(ordinal), ..self }
    }
}

/// A checked list of backends in a fixed order: by ordinal, or by id where there are none. Cheap to clone, so a
/// process with a thousand clients of one service holds it once.
///
/// ```
/// use evenkeel_core::{BackendList, BackendSpec, BadBackends};
///
/// let twice = [BackendSpec::named("a:80"), BackendSpec::named("a:80")];
/// assert!(matches!(BackendList::new(twice), Err(BadBackends::DuplicateId(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendList {
    specs: Arc<[BackendSpec]>,
    has_ordinals: bool,
}

impl BackendList {
    /// Refuses duplicates, ordinals on some but not all, and ordinals with more holes than backends.
    pub fn new(specs: impl IntoIterator<Item = BackendSpec>) -> Result<Self, BadBackends> {
        let mut specs: Vec<BackendSpec> = specs.into_iter().collect();
        let mut ids = BTreeSet::new();
        if let Some(twice) = specs.iter().find(|spec| !ids.insert(spec.id)) {
            return Err(BadBackends::DuplicateId(twice.id));
        }
        let with_ordinal = specs.iter().filter(|spec| spec.ordinal.is_some()).count();
        if with_ordinal != 0 && with_ordinal != specs.len() {
            return Err(BadBackends::SomeOrdinals { with_ordinal, backends: specs.len() });
        }
        specs.sort_by_key(|spec| (spec.ordinal, spec.id));
        if let Some(pair) =
            specs.windows(2).find(|pair| pair[0].ordinal.is_some() && pair[0].ordinal == pair[1].ordinal)
        {
            return Err(BadBackends::DuplicateOrdinal(pair[0].ordinal.unwrap_or_default()));
        }
        if let Some(last) = specs.last().and_then(|spec| spec.ordinal) {
            let most = specs.len() as u64 * SPARSE_MOST + SPARSE_FREE;
            if u64::from(last) >= most {
                return Err(BadBackends::SparseOrdinals { ordinal: last, backends: specs.len(), most });
            }
        }
        Ok(BackendList { has_ordinals: with_ordinal > 0, specs: specs.into() })
    }

    /// No backend at all.
    pub fn empty() -> Self {
        BackendList { specs: Arc::new([]), has_ordinals: false }
    }

    /// In their fixed order.
    pub fn specs(&self) -> &[BackendSpec] {
        &self.specs
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Whether they have ordinals: all or none do.
    pub fn has_ordinals(&self) -> bool {
        self.has_ordinals
    }

    /// One more than the last ordinal: how many there would be without holes. The length where there are no ordinals.
    pub fn universe(&self) -> u32 {
        self.specs.last().and_then(|spec| spec.ordinal).map_or(self.len() as u32, |last| last + 1)
    }

    /// Whether an ordinal below the last one is missing.
    pub fn has_holes(&self) -> bool {
        self.universe() as usize != self.len()
    }

    /// Where the backend with this ordinal stands in the list, if it is there.
    pub(crate) fn position_of_ordinal(&self, ordinal: u32) -> Option<u32> {
        if !self.has_holes() {
            return (ordinal < self.universe()).then_some(ordinal);
        }
        self.specs.binary_search_by_key(&Some(ordinal), |spec| spec.ordinal).ok().map(|place| place as u32)
    }
}

/// A list of backends that cannot be used; the one before it stays in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBackends {
    /// Two entries are the same backend.
    DuplicateId(BackendId),
    /// Two backends claim the same ordinal.
    DuplicateOrdinal(u32),
    /// Some have an ordinal and some do not, so neither way of dealing fits.
    SomeOrdinals {
        /// How many have one.
        with_ordinal: usize,
        /// Of how many.
        backends: usize,
    },
    /// Ordinals are to be dense: this one is far above the number of backends.
    SparseOrdinals {
        /// The last ordinal.
        ordinal: u32,
        /// How many backends there are.
        backends: usize,
        /// Ordinals must be below this.
        most: u64,
    },
}

impl fmt::Display for BadBackends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBackends::DuplicateId(id) => write!(f, "backend {id} is listed twice: list each one once"),
            BadBackends::DuplicateOrdinal(ordinal) => {
                write!(f, "two backends have ordinal {ordinal}: give each its own")
            }
            BadBackends::SomeOrdinals { with_ordinal, backends } => {
                write!(f, "{with_ordinal} of {backends} backends have an ordinal: give one to all or to none")
            }
            BadBackends::SparseOrdinals { ordinal, backends, most } => write!(
                f,
                "ordinal {ordinal} among {backends} backends: ordinals are dense, number them from 0 (below {most} here)"
            ),
        }
    }
}

impl std::error::Error for BadBackends {}

/// Holes come from tasks that left and were not yet replaced; beyond three for each living task the numbers are not
/// ordinals but something else.
const SPARSE_MOST: u64 = 4;
const SPARSE_FREE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: u64, ordinal: Option<u32>) -> BackendSpec {
        BackendSpec { id: BackendId(id), ordinal }
    }

    #[test]
    fn absurd_lists_are_refused_by_name() {
        let list = |specs: &[BackendSpec]| BackendList::new(specs.iter().copied());
        assert_eq!(list(&[spec(1, None), spec(1, None)]), Err(BadBackends::DuplicateId(BackendId(1))));
        assert_eq!(list(&[spec(1, Some(4)), spec(2, Some(4))]), Err(BadBackends::DuplicateOrdinal(4)));
        assert_eq!(
            list(&[spec(1, Some(0)), spec(2, None)]),
            Err(BadBackends::SomeOrdinals { with_ordinal: 1, backends: 2 })
        );
        assert!(matches!(list(&[spec(1, Some(u32::MAX))]), Err(BadBackends::SparseOrdinals { .. })));
        assert_eq!(list(&[]).unwrap(), BackendList::empty());
    }

    #[test]
    fn order_is_by_ordinal_and_holes_are_seen() {
        let list = BackendList::new([spec(9, Some(3)), spec(7, Some(0)), spec(8, Some(1))]).unwrap();
        assert_eq!(list.specs().iter().map(|spec| spec.id.0).collect::<Vec<_>>(), [7, 8, 9]);
        assert!(list.has_holes());
        assert_eq!((list.position_of_ordinal(2), list.position_of_ordinal(3)), (None, Some(2)));
    }
}
