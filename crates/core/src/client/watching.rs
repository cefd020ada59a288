//! What another policy would pick, computed and counted beside the one that decides: to look before changing.
//!
//! It sees what the deciding policy sees at the same moment, has turns and chance of its own, and changes nothing: no
//! request, no probe, no draw. It answers to the state that the deciding policy makes, so it says how often the two
//! would differ and whom it would favour, not what would become of the service with it.

use std::sync::{Arc, OnceLock};

use super::backend::BackendId;
use super::pick::{Candidates, Policy};
use super::picker::{Candidate, Local};
use super::slots::{BLOCKS, FIRST_BLOCK, address};
use crate::snapshot::WatchCounts;
use crate::sync::{AtomicU64, Ordering};
use crate::{Rng, Time};

/// The policy that only watches.
#[derive(Clone, Debug)]
pub(crate) struct Watching {
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) tally: Arc<Tally>,
}

/// What it would have picked.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    picks: AtomicU64,
    differing: AtomicU64,
    /// By slot, as slots are kept.
    blocks: [OnceLock<Box<[OfSlot]>>; BLOCKS],
}

#[derive(Debug, Default)]
struct OfSlot {
    backend: AtomicU64,
    picks: AtomicU64,
}

impl Watching {
    pub(crate) fn new(policy: Arc<dyn Policy>) -> Self {
        Watching { policy, tally: Arc::default() }
    }

    /// The deciding policy has picked `picked` of these.
    #[cold]
    pub(crate) fn look(&self, now: Time, among: &Candidates<'_>, local: &mut Local, picked: Option<usize>) {
        let mut own = local.watcher();
        let number = self.tally.picks.fetch_add(1, Ordering::Relaxed);
        let pick = self.policy.pick(now, among, &mut own, &mut Rng::from_seed(number));
        local.keep_watcher(&own);
        if pick != picked {
            self.tally.differing.fetch_add(1, Ordering::Relaxed);
        }
        let slot = pick.and_then(|pick| among.list().get(pick)).map(|candidate| candidate.slot);
        if let Some(of_slot) = slot.and_then(|slot| self.tally.of_slot(slot)) {
            of_slot.picks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Tally {
    fn of_slot(&self, slot: u32) -> Option<&OfSlot> {
        let (block, place) = address(slot);
        self.blocks.get(block)?.get()?.get(place)
    }

    /// Places for these candidates; one that another backend had before begins anew.
    pub(crate) fn make(&self, candidates: &[Candidate]) {
        for candidate in candidates {
            let (block, place) = address(candidate.slot);
            let Some(block_of) = self.blocks.get(block) else { continue };
            let block_of = block_of.get_or_init(|| (0..FIRST_BLOCK << block).map(|_| OfSlot::default()).collect());
            if let Some(one) = block_of.get(place)
                && one.backend.swap(candidate.backend.0, Ordering::Relaxed) != candidate.backend.0
            {
                one.picks.store(0, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn picks_of(&self, slot: u32, backend: BackendId) -> u64 {
        let one = self.of_slot(slot).filter(|one| one.backend.load(Ordering::Relaxed) == backend.0);
        one.map_or(0, |one| one.picks.load(Ordering::Relaxed))
    }

    pub(crate) fn counts(&self, policy: &'static str) -> WatchCounts {
        WatchCounts {
            policy,
            picks: self.picks.load(Ordering::Relaxed),
            differing: self.differing.load(Ordering::Relaxed),
        }
    }
}
