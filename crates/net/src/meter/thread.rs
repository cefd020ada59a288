//! What a thread knows of the work it does right now.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ledger::Page;
use super::ticks::Ticks;

/// Whose work is being timed on this thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timing {
    /// Tells accounts apart: the address of the one that is charged, 0 for nobody's.
    pub(super) account: usize,
    pub(super) began: Ticks,
    /// Of that, what was timed further inside and is charged there.
    pub(super) inside: u64,
}

/// One for each thread. Plain cells without a destructor: reading them is an access to memory and no more.
pub(super) struct Here {
    pub(super) timing: Cell<Timing>,
    pub(super) page: Cell<Option<&'static Page>>,
    number: Cell<usize>,
}

thread_local! {
    static HERE: Here = const {
        Here {
            timing: Cell::new(Timing { account: 0, began: Ticks(0), inside: 0 }),
            page: Cell::new(None),
            number: Cell::new(0),
        }
    };
}

#[inline]
pub(super) fn here<T>(look: impl FnOnce(&Here) -> T) -> T {
    HERE.with(look)
}

/// A number of this thread's own, which spreads counts over shards.
#[inline]
pub(super) fn number() -> usize {
    here(|here| match here.number.get() {
        0 => next(&here.number),
        number => number,
    })
}

#[cold]
fn next(number: &Cell<usize>) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    number.set(NEXT.fetch_add(1, Ordering::Relaxed));
    number.get()
}
