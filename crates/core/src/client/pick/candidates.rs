//! What a policy sees: the usable backends, their room, their load and what they said last.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::backend::BackendId;
use crate::client::errors::Forgetting;
use crate::client::glance::Glimpse;
use crate::client::picker::Candidate;
use crate::client::slots::Slot;
use crate::report_cell::Probe;
use crate::{LoadReport, RequestMeta, Time};

/// The connected, willing backends of a subset, numbered from 0, as one request meets them.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    list: &'a [Candidate],
    request: &'a RequestMeta,
    limit: u32,
    forgetting: Forgetting,
}

impl<'a> Candidates<'a> {
    pub(crate) fn new(
        list: &'a [Candidate],
        request: &'a RequestMeta,
        limit: u32,
        forgetting: Forgetting,
    ) -> Candidates<'a> {
        Candidates { list, request, limit, forgetting }
    }

    /// Only the first so many.
    pub(crate) fn first(&self, count: usize) -> Candidates<'a> {
        Candidates { list: &self.list[..count.min(self.list.len())], ..*self }
    }

    /// The request that is to be placed; a plain one where there is none, as in [`Policy::refit`](super::Policy::refit).
    pub fn request(&self) -> &RequestMeta {
        self.request
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Which backend stands at `position`.
    pub fn backend(&self, position: usize) -> Option<BackendId> {
        self.list.get(position).map(|candidate| candidate.backend)
    }

    /// Whether the candidate is below its limit for this kind of request.
    #[inline]
    pub fn has_room(&self, position: usize) -> bool {
        self.slot(position).is_some_and(|slot| slot.in_flight.has_room(self.request.kind, self.limit))
    }

    /// Requests and streams this client has open there, recent errors counted as requests; `None` where it is full.
    #[inline]
    pub fn load(&self, now: Time, position: usize) -> Option<u32> {
        let slot = self.slot(position)?;
        let (active, streams) = slot.in_flight.counts_with_room(self.request.kind, self.limit)?;
        Some(active.saturating_add(streams).saturating_add(slot.errors.count(now, self.forgetting)))
    }

    /// Requests and streams this client has open there, without errors; `None` where it is full.
    #[inline]
    pub fn in_flight(&self, position: usize) -> Option<u32> {
        let (active, streams) = self.slot(position)?.in_flight.counts_with_room(self.request.kind, self.limit)?;
        Some(active.saturating_add(streams))
    }

    /// When the candidate last became usable: it was connected to, or wanted requests again.
    pub fn usable_since(&self, position: usize) -> Option<Time> {
        self.list.get(position).map(|candidate| candidate.since)
    }

    /// Recent errors of the candidate as requests in flight.
    #[inline]
    pub fn errors(&self, now: Time, position: usize) -> u32 {
        self.slot(position).map_or(0, |slot| slot.errors.count(now, self.forgetting))
    }

    /// The candidate's last load report, and when it came.
    pub fn report(&self, position: usize) -> Option<(Time, LoadReport)> {
        self.slot(position)?.report.last()
    }

    /// Those of which nothing was heard for so long, the one of longest ago first.
    pub(crate) fn unheard(&self, now: Time, since: Duration) -> Vec<BackendId> {
        unheard(self.list.iter(), now, since)
    }

    /// What a policy that probes wants of the candidate's last report; `None` where it named no requests in flight.
    #[inline]
    pub(crate) fn probe(&self, position: usize) -> Option<Probe> {
        self.slot(position)?.report.probe()
    }

    /// The same with what this client has in flight there and its recent errors, at one look; `None` also where it is full.
    #[inline]
    pub(crate) fn probe_with_own(&self, now: Time, position: usize) -> Option<(Probe, u32, u32)> {
        let slot = self.slot(position)?;
        let probe = slot.report.probe()?;
        let (active, streams) = slot.in_flight.counts_with_room(self.request.kind, self.limit)?;
        Some((probe, active.saturating_add(streams), slot.errors.count(now, self.forgetting)))
    }

    /// All of them, for a policy that looks at many.
    #[inline]
    pub(crate) fn list(&self) -> &'a [Candidate] {
        self.list
    }

    /// Own requests and streams in flight, and whether there is room for this request.
    #[inline]
    pub(crate) fn open(&self, candidate: &Candidate) -> (u32, bool) {
        candidate.counts.in_flight.look(self.request.kind, self.limit)
    }

    /// Attempts of this client that have ended there.
    pub(crate) fn ended(&self, position: usize) -> u64 {
        self.slot(position).map_or(0, Slot::uses)
    }

    /// Recent errors of a candidate as requests in flight.
    #[inline]
    pub(crate) fn errors_of(&self, now: Time, candidate: &Candidate) -> u32 {
        candidate.counts.errors.count(now, self.forgetting)
    }

    /// What others have in flight there, seen from `now` in ticks; long ago where nobody ever said.
    #[inline]
    pub(crate) fn glimpse(&self, now: u32, position: usize) -> Glimpse {
        self.slot(position).map_or(Glimpse::NEVER, |slot| slot.glance.at(now))
    }

    /// Counts a request in, unless the candidate is full.
    #[inline]
    pub(crate) fn try_start(&self, position: usize) -> bool {
        self.slot(position).is_some_and(|slot| slot.in_flight.try_start(self.request.kind, self.limit))
    }

    #[inline]
    fn slot(&self, position: usize) -> Option<&'a Slot> {
        Some(&*self.list.get(position)?.counts)
    }
}

/// Those of which nothing was heard for so long, the one of longest ago first; of equals the lower number.
pub(crate) fn unheard<'a>(
    candidates: impl Iterator<Item = &'a Candidate>,
    now: Time,
    since: Duration,
) -> Vec<BackendId> {
    let told = |one: &Candidate| one.counts.report.last().map_or(Time::ZERO, |(told, _)| told);
    let mut silent: Vec<(Time, BackendId)> =
        candidates.map(|one| (told(one), one.backend)).filter(|(told, _)| now.since(*told) >= since).collect();
    silent.sort_unstable();
    silent.into_iter().map(|(_, backend)| backend).collect()
}

/// What was known before, by backend: mostly at the same place, since candidates change rarely.
pub(crate) struct Before<'a, T> {
    known: &'a [T],
    backend_of: fn(&T) -> BackendId,
    places: Option<BTreeMap<BackendId, usize>>,
}

impl<'a, T> Before<'a, T> {
    pub(crate) fn new(known: &'a [T], backend_of: fn(&T) -> BackendId) -> Self {
        Before { known, backend_of, places: None }
    }

    /// Of the backend that is at `position` now.
    pub(crate) fn of(&mut self, position: usize, backend: BackendId) -> Option<&'a T> {
        let (known, backend_of) = (self.known, self.backend_of);
        if let Some(one) = known.get(position).filter(|one| backend_of(one) == backend) {
            return Some(one);
        }
        let index = || known.iter().map(backend_of).zip(0..).collect();
        known.get(*self.places.get_or_insert_with(index).get(&backend)?)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Kind;

    #[test]
    fn errors_are_load_but_not_in_flight() {
        let (now, forgetting) = (Time::from_secs(9), Forgetting::new(Duration::from_secs(1), 100));
        let slot = Slot::default();
        assert!(slot.in_flight.try_start(Kind::Unary, 2) && slot.in_flight.try_start(Kind::Stream, 2));
        // Two in a row count as one request.
        slot.errors.add(now, forgetting);
        slot.errors.add(now, forgetting);
        let list = [Candidate { backend: BackendId(1), slot: 0, since: Time::ZERO, counts: Arc::new(slot) }];

        let among = Candidates::new(&list, &RequestMeta::PLAIN, 2, forgetting);
        assert_eq!((among.load(now, 0), among.in_flight(0)), (Some(3), Some(2)));
        let full = Candidates::new(&list, &RequestMeta::PLAIN, 1, forgetting);
        assert_eq!((full.load(now, 0), full.in_flight(0), among.in_flight(1)), (None, None, None));
    }
}
