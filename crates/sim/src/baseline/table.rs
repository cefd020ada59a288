//! What a baseline remembers of each backend, found by position without a search.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::BackendId;

/// One entry for each backend ever met; those that left keep theirs, so one that comes back is known.
#[derive(Debug, Default)]
pub(super) struct Table<T> {
    entries: Vec<(BackendId, T)>,
    places: BTreeMap<BackendId, usize>,
    /// Where the candidate of each position was last found.
    hints: Vec<usize>,
}

impl<T: Default> Table<T> {
    /// The entry of the candidate at `position`.
    #[inline]
    pub(super) fn at(&mut self, position: usize, backend: BackendId) -> &mut T {
        let hint = self.hints.get(position).copied().unwrap_or(usize::MAX);
        if self.entries.get(hint).is_none_or(|(id, _)| *id != backend) {
            let place = self.place(backend);
            if self.hints.len() <= position {
                self.hints.resize(position + 1, usize::MAX);
            }
            self.hints[position] = place;
        }
        &mut self.entries[self.hints[position]].1
    }

    /// The entry of this backend.
    pub(super) fn of(&mut self, backend: BackendId) -> &mut T {
        let place = self.place(backend);
        &mut self.entries[place].1
    }

    fn place(&mut self, backend: BackendId) -> usize {
        *self.places.entry(backend).or_insert_with(|| {
            self.entries.push((backend, T::default()));
            self.entries.len() - 1
        })
    }
}

/// A lock that nobody else holds: each simulated client is one thread's.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
