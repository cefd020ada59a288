//! The fast half of a client: which backend gets this request, decided on shared atomics.
//!
//! A picker is immutable; when something changed the slow brain makes another. Active counts live in slots that all
//! pickers of a client share, so a request may begin on one picker and finish on a later one.

use std::sync::Arc;
use std::time::Duration;

use super::backend::BackendId;
use super::errors::Forgetting;
use super::flow::Limits;
use super::pick::{Candidates, Policy};
use super::refusal::Refusal;
use super::retry::{Settings as Retrying, Tries};
use super::slots::{Slot, Slots};
use super::throttle::{Half, HeldBack, Settings};
use super::watching::Watching;
use crate::{Criticality, CustomerId, Hint, Kind, LoadReport, Mode, Outcome, RequestMeta, Rng, Time};

/// A usable backend and where it is counted.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) backend: BackendId,
    pub(crate) slot: u32,
    /// Since when it can be used.
    pub(crate) since: Time,
    /// The slot itself: a policy that looks at many finds each without a detour.
    pub(crate) counts: Arc<Slot>,
}

/// Decides for each request; shared by all threads.
#[derive(Debug)]
pub struct Picker {
    pub(crate) slots: Arc<Slots>,
    /// Those with a connection first, then those that are inactive.
    pub(crate) candidates: Box<[Candidate]>,
    /// How many have a connection.
    pub(crate) awake: usize,
    /// When the last of those began that are being connected again and are no candidates.
    pub(crate) waking_since: Option<Time>,
    pub(crate) policy: Arc<dyn Policy>,
    /// Another one that decides nothing.
    pub(crate) watching: Option<Watching>,
    pub(crate) limits: Limits,
    pub(crate) forgetting: Forgetting,
    pub(crate) throttling: Settings,
    pub(crate) retrying: Retrying,
    /// Which picker of which client this is: no two have the same number.
    pub(crate) generation: u64,
    /// Which client this belongs to.
    pub(crate) owner: u32,
}

impl Picker {
    /// Picks a backend for a request and counts it in.
    pub fn begin(&self, local: &mut Local, now: Time, meta: &RequestMeta, rng: &mut Rng) -> Result<Ticket, Refusal> {
        self.begin_again(local, now, meta, &Tries::default(), rng)
    }

    /// The same for any attempt of a request: elsewhere than the one before, if there is anybody else. `first` is what
    /// it began as; which attempt it is, `tries` knows.
    pub fn begin_again(
        &self,
        local: &mut Local,
        now: Time,
        first: &RequestMeta,
        tries: &Tries,
        rng: &mut Rng,
    ) -> Result<Ticket, Refusal> {
        let begun = self.decide(local, now, &tries.meta(first), tries.not, rng);
        match begun {
            Ok(_) if tries.is_first() => self.slots.retries.on_begun(&self.retrying, now, first),
            // Whoever waits for a connection is not refused yet.
            Ok(_) | Err(Refusal::Waking) => {}
            Err(refusal) => self.refuse(refusal),
        }
        begun
    }

    /// Counts a refusal that the driver decided: it waited long enough for a backend to wake.
    pub fn refuse(&self, refusal: Refusal) {
        self.slots.count_refusal(refusal);
    }

    pub(super) fn decide(
        &self,
        local: &mut Local,
        now: Time,
        meta: &RequestMeta,
        not: Option<BackendId>,
        rng: &mut Rng,
    ) -> Result<Ticket, Refusal> {
        if meta.deadline <= now {
            return Err(Refusal::TooLate);
        }
        if self.candidates.is_empty() {
            return Err(if self.waking_since.is_some() { Refusal::Waking } else { Refusal::NoneUsable });
        }
        // Nobody has a connection, but some are about to: what waits for them wakes no more.
        if self.awake == 0 && self.waking_since.is_some_and(|since| now.since(since) < WAKE_MORE_AFTER) {
            return Err(Refusal::Waking);
        }
        // Read before the candidates are looked at: room that appears meanwhile moves it past what is remembered.
        let room = self.slots.room();
        if local.saw_all_full(now, self.generation, meta.kind, room) {
            return Err(Refusal::AllFull);
        }
        self.slots.throttle.admit(&self.throttling, now, meta, rng)?;
        let among = self.candidates_for(meta);
        let mut first = self.policy.pick(now, &among, local, rng);
        if let Some(watching) = &self.watching {
            watching.look(now, &among, local, first);
        }
        // Rare: it is connected to for the next ones, and this request goes to one that stands ready.
        let inactive = first.take_if(|picked| *picked >= self.awake);
        let wakes = inactive.is_some_and(|inactive| self.want(inactive));
        if let Some(not) = not.filter(|_| self.awake > 0) {
            let ready = among.first(self.awake);
            let first_ready = first.or_else(|| self.policy.pick(now, &ready, local, rng));
            first = self.elsewhere(now, &ready, first_ready, not, rng);
        }
        let heeds = self.throttling.hints != Mode::Off && self.slots.throttle.hints.any(now);
        let picked = if first.is_none() && (inactive.is_none() || self.awake == 0) {
            None
        } else if heeds {
            self.heed_and_start(local, now, &among.first(self.awake), first, rng)?
        } else {
            self.pick_and_start(local, now, &among.first(self.awake), first, rng)
        };
        let picked = picked.ok_or_else(|| self.without_room(local, now, meta, room))?;
        let Candidate { backend, slot, .. } = self.candidates[picked];
        let held = self.slots.throttle.take_held(&self.throttling, now, slot);
        Ok(Ticket {
            backend,
            slot,
            owner: self.owner,
            position: picked as u32,
            kind: meta.kind,
            criticality: meta.criticality,
            wakes,
            hinted: false,
            customer: meta.customer,
            held,
            began: now,
            awaits_first: not.is_none(),
        })
    }

    /// The same where some backend said what it admits: the first picked that would refuse this request is passed over
    /// for the better of two others. If these would refuse it too it is not sent at all.
    ///
    /// The two are drawn and not picked: a backend that refuses much has little in flight, so a policy that looks for the
    /// least would name all such before any other, and three slow ones would close the service.
    #[cold]
    fn heed_and_start(
        &self,
        local: &mut Local,
        now: Time,
        among: &Candidates<'_>,
        first: Option<usize>,
        rng: &mut Rng,
    ) -> Result<Option<usize>, Refusal> {
        let Some(first) = first.or_else(|| self.policy.pick(now, among, local, rng)) else { return Ok(None) };
        if !self.holds(now, among, first) {
            return Ok(self.pick_and_start(local, now, among, Some(first), rng));
        }
        let others = two_others(among, first, rng);
        let admits = |&other: &usize| !self.holds(now, among, other);
        let other = others.into_iter().flatten().filter(admits).min_by_key(|&other| among.load(now, other));
        let (mode, level) = (self.throttling.hints, among.request().criticality);
        if other.is_none() {
            self.slots.throttle.count(Half::Hints, mode, level);
        }
        match other {
            _ if mode != Mode::On => Ok(self.pick_and_start(local, now, among, Some(first), rng)),
            None => {
                self.slots.throttle.hints.hold(self.candidates[first].slot, among.request().customer, level);
                Err(Refusal::Throttled)
            }
            other => Ok(self.pick_and_start(local, now, among, other, rng)),
        }
    }

    /// Another one for a request that `not` has just refused or failed, if there is another with room: the better of two
    /// that are drawn. One that refuses has little in flight, and few errors count for much only after a while.
    #[cold]
    fn elsewhere(
        &self,
        now: Time,
        among: &Candidates<'_>,
        first: Option<usize>,
        not: BackendId,
        rng: &mut Rng,
    ) -> Option<usize> {
        let Some(picked) = first.filter(|&picked| self.candidates[picked].backend == not) else { return first };
        if among.is_empty() {
            return first;
        }
        let others = two_others(among, picked, rng).into_iter().flatten();
        others.min_by_key(|&other| among.load(now, other)).or(first)
    }

    fn holds(&self, now: Time, among: &Candidates<'_>, position: usize) -> bool {
        let slot = self.candidates[position].slot;
        self.slots.throttle.hints.holds(now, self.owner, slot, among.request().priority())
    }

    /// `first` is what the policy said already, if it did.
    fn pick_and_start(
        &self,
        local: &mut Local,
        now: Time,
        among: &Candidates<'_>,
        mut first: Option<usize>,
        rng: &mut Rng,
    ) -> Option<usize> {
        for _ in 0..LOST_RACES_MAX {
            let picked = match first.take() {
                Some(picked) => picked,
                None => self.policy.pick(now, among, local, rng)?,
            };
            debug_assert!(picked < among.len(), "a policy picked a candidate that is not there");
            if among.try_start(picked) {
                return Some(picked);
            }
        }
        // Other threads keep taking the last place just before this one; any place will do now.
        (0..among.len()).find(|&position| among.try_start(position))
    }

    /// Nobody with a connection has room: an inactive one is wanted, if there is any.
    fn without_room(&self, local: &mut Local, now: Time, meta: &RequestMeta, room: u32) -> Refusal {
        if self.awake < self.candidates.len() {
            self.want(self.awake);
            return Refusal::Waking;
        }
        if self.waking_since.is_some() {
            return Refusal::Waking;
        }
        local.remember_all_full(now, self.generation, meta.kind, room);
        Refusal::AllFull
    }

    /// Whether this is the first request to want the inactive candidate at `position`.
    #[cold]
    fn want(&self, position: usize) -> bool {
        let is_first = self.candidates.get(position).is_some_and(|inactive| inactive.counts.in_flight.want());
        if is_first {
            self.slots.count_woken();
        }
        is_first
    }

    /// Gives the ticket back: the attempt ended so, and the backend said this of its load.
    ///
    /// `self` may be the picker it began on or any later one of the same client; another client's changes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket given back is gone: finishing twice does not compile")]
    pub fn finish(&self, now: Time, ticket: Ticket, outcome: Outcome, report: Option<&LoadReport>) {
        let Ticket { slot: number, kind, owner, criticality, customer, hinted, held, began, .. } = ticket;
        let unanswered = ticket.awaits_first.then(|| now.since(began));
        let Some(slot) = self.slots.get(number).filter(|_| owner == self.owner) else {
            debug_assert!(false, "a ticket of another client");
            return;
        };
        // Before its report: whoever is seen in between has not been asked in vain.
        slot.count_end(outcome);
        if let Some(report) = report {
            self.slots.count_nonsense(slot.hear(now, report, 1));
        }
        if outcome.is_error() {
            slot.errors.add(now, self.forgetting);
        } else if outcome == Outcome::Served {
            slot.errors.forgive(now, self.forgetting);
        }
        self.slots.throttle.settle(&self.throttling, now, (customer, criticality), outcome, hinted);
        self.slots.retries.on_ended(&self.retrying, now, customer, outcome, unanswered);
        if outcome == Outcome::Unsent && !held.is_none() {
            self.slots.throttle.return_held(now, held);
        }
        if slot.in_flight.finish(kind) >= self.limits.of(kind) {
            self.slots.count_room();
        }
    }

    /// Gives back the ticket of an attempt that another one was faster than, as cancelled; an error where it `is_late`.
    pub(super) fn finish_outrun(&self, now: Time, ticket: Ticket, is_late: bool) {
        if let Some(slot) = self.slots.get(ticket.slot).filter(|_| is_late && ticket.owner == self.owner) {
            slot.errors.add(now, self.forgetting);
        }
        self.finish(now, ticket, Outcome::Cancelled, None);
    }

    /// The answer to this attempt said what its backend admits: to be told before [`Picker::finish`].
    pub fn heed(&self, now: Time, ticket: &mut Ticket, hint: Hint) {
        if self.throttling.hints == Mode::Off || ticket.owner != self.owner {
            return;
        }
        // Also where the line refused what the hint admits: a server that sees all that is asked for says soon what it
        // refuses, and one whose clients hold back on their own account cannot.
        ticket.hinted = self.throttling.hints == Mode::On;
        self.slots.throttle.hints.heed(now, ticket.slot, hint);
    }

    /// What a policy sees of the backends for this request.
    pub(crate) fn candidates_for<'a>(&'a self, request: &'a RequestMeta) -> Candidates<'a> {
        Candidates::new(&self.candidates, request, self.limits.of(request.kind), self.forgetting)
    }

    /// The backends that can be picked, in the order of [`Ticket::position`].
    pub fn backends(&self) -> impl ExactSizeIterator<Item = BackendId> {
        self.candidates.iter().map(|candidate| candidate.backend)
    }

    /// Whether there is anybody to send to, perhaps after connecting again.
    pub fn is_usable(&self) -> bool {
        !self.candidates.is_empty() || self.waking_since.is_some()
    }

    /// How many backends can be picked.
    pub fn len(&self) -> usize {
        self.candidates.len()
    }

    /// Whether none can.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }
}

/// Proof that one attempt was counted in; give it back exactly once.
#[must_use = "an attempt that is never finished counts against its backend for ever"]
#[derive(Debug)]
pub struct Ticket {
    backend: BackendId,
    slot: u32,
    owner: u32,
    position: u32,
    kind: Kind,
    criticality: Criticality,
    wakes: bool,
    /// Whether the answer came with a hint that says what to send.
    hinted: bool,
    customer: CustomerId,
    held: HeldBack,
    began: Time,
    /// Whether it is the first attempt of its request, and nobody said that its answer has begun.
    awaits_first: bool,
}

impl Ticket {
    /// Whom to send it to.
    pub fn backend(&self) -> BackendId {
        self.backend
    }

    /// Where that backend stands in [`Picker::backends`] of the picker it began on: a driver that keeps a table in the
    /// same order finds the connection without a search.
    pub fn position(&self) -> usize {
        self.position as usize
    }

    /// Whether it wanted an inactive backend, as the first to do so: the driver calls
    /// [`Client::handle_wishes`](super::Client::handle_wishes) soon.
    pub fn wakes(&self) -> bool {
        self.wakes
    }

    /// What to say with this request: how many this client did not send since its last one, for what the backend said or
    /// for what the service took of late; `None` where there is nothing to say.
    pub fn held(&self) -> Option<HeldBack> {
        (!self.held.is_none()).then_some(self.held)
    }

    /// How long the answer took to begin, of a first attempt that had none yet.
    #[inline]
    pub(super) fn answer(&mut self, now: Time) -> Option<Duration> {
        std::mem::take(&mut self.awaits_first).then(|| now.since(self.began))
    }

    /// When it began.
    pub fn began(&self) -> Time {
        self.began
    }
}

/// Two candidates with room besides `first`, drawn at random; fewer where there are fewer.
fn two_others(among: &Candidates<'_>, first: usize, rng: &mut Rng) -> [Option<usize>; 2] {
    let count = among.len();
    let mut next = |besides: &[usize]| {
        let start = rng.below(count as u32) as usize;
        let mut turn = (start..count).chain(0..start);
        turn.find(|position| !besides.contains(position) && among.has_room(*position))
    };
    let Some(other) = next(&[first]) else { return [None; 2] };
    [Some(other), next(&[first, other])]
}

/// What one thread remembers between its requests; the driver keeps one for each thread and client. (One shared by
/// several clients works, with rounds that skip.)
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Where the round goes on; a first one is drawn, so that threads and clients do not march in step.
    cursor: Option<u32>,
    /// Which round it is, for policies in which not everybody has a turn in every one.
    round: u32,
    /// The same two of a policy that only watches.
    watcher: (Option<u32>, u32),
    /// What was seen when every candidate was full, for each kind.
    all_full: [Option<AllFull>; 2],
}

/// A look at all candidates that found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AllFull {
    generation: u64,
    room: u32,
    seen: Time,
}

impl Local {
    /// The position after the one last picked, among `count`.
    ///
    /// For policies that go round; the first call draws a place to start from.
    #[inline]
    pub fn cursor(&mut self, count: usize, rng: &mut Rng) -> usize {
        let cursor = *self.cursor.get_or_insert_with(|| rng.below(count as u32)) as usize;
        // A picker with fewer candidates than the last one starts its round anew.
        if cursor < count { cursor } else { 0 }
    }

    /// The round goes on after `position`.
    #[inline]
    pub fn advance_past(&mut self, position: usize) {
        self.cursor = Some(position as u32 + 1);
    }

    /// The position after the one that last took its turn, among `count`, and which round that is; both are drawn at first.
    #[inline]
    pub fn turn(&mut self, count: usize, rng: &mut Rng) -> (usize, u32) {
        if self.cursor.is_none() {
            self.round = rng.next_u64() as u32;
        }
        let cursor = *self.cursor.get_or_insert_with(|| rng.below(count as u32)) as usize;
        if cursor < count { (cursor, self.round) } else { (0, self.round.wrapping_add(1)) }
    }

    /// The one at `position` took its turn in this round.
    #[inline]
    pub fn took_turn(&mut self, position: usize, round: u32) {
        (self.cursor, self.round) = (Some(position as u32 + 1), round);
    }

    /// What a policy that only watches remembers.
    pub(super) fn watcher(&self) -> Local {
        Local { cursor: self.watcher.0, round: self.watcher.1, ..Local::default() }
    }

    pub(super) fn keep_watcher(&mut self, watcher: &Local) {
        self.watcher = (watcher.cursor, watcher.round);
    }

    /// Whether this thread saw all full a moment ago and no full one has got room since.
    fn saw_all_full(&self, now: Time, generation: u64, kind: Kind, room: u32) -> bool {
        self.all_full[kind as usize].is_some_and(|last| {
            (last.generation, last.room) == (generation, room) && now >= last.seen && now.since(last.seen) < TRUSTED_FOR
        })
    }

    fn remember_all_full(&mut self, now: Time, generation: u64, kind: Kind, room: u32) {
        self.all_full[kind as usize] = Some(AllFull { generation, room, seen: now });
    }
}

/// A request may be finished on a picker with another limit, which cannot tell that a full backend got room by this
/// one's: so what was seen is looked at again soon.
const TRUSTED_FOR: Duration = Duration::from_millis(10);
/// Many times what a connection inside a datacenter takes: those that are being made lead nowhere. A driver with requests
/// that wait for one begins them again after it.
pub const WAKE_MORE_AFTER: Duration = Duration::from_millis(50);
/// A thread that loses this often to others stops choosing and takes what there is.
const LOST_RACES_MAX: usize = 4;
