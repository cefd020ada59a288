//! What a thread keeps for itself between the requests it lets in.

use std::cell::RefCell;

use evenkeel_core::Rng;
use evenkeel_core::server::GateLocal;

thread_local! {
    static SEAT: RefCell<(GateLocal, Rng)> = RefCell::new((GateLocal::default(), Rng::from_seed(thread_number())));
}

/// Does `work` with this thread's seat.
pub(crate) fn with<T>(work: impl FnOnce(&mut GateLocal, &mut Rng) -> T) -> T {
    SEAT.with_borrow_mut(|(local, rng)| work(local, rng))
}

/// Only spreads threads over shards: any numbers that differ will do.
fn thread_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static THREADS: AtomicU64 = AtomicU64::new(0);
    THREADS.fetch_add(1, Ordering::Relaxed)
}
