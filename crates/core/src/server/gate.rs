//! What a request meets at a server: in, in line, or not, and what is counted.
//!
//! In this order: has it still time, has its customer, does it matter enough, are too many in handlers, must it wait. On
//! atomics only; the lock of the line is taken only by those who wait.

use std::sync::Arc;
use std::time::Duration;

use super::admission::config::AdmissionConfig;
use super::admission::costs::{Costs, Manner, Price};
use super::admission::quota::{Buckets, Standing};
use super::admission::rules::{Mechanism, Rules};
use super::admission::shadow::{Fate, Shadow};
use super::counts::{Shard, Totals};
use super::refusal::{Refused, ServerRefusal};
use super::running::Running;
use crate::report_cell::ReportCell;
use crate::sync::{AtomicU32, Ordering};
use crate::{
    Criticality, CustomerId, Cutoff, HeldBack, Hint, LastHint, LoadReport, Lot, MethodId, Mode, Outcome, RequestMeta,
    Rng, Time,
};

/// Decides for each request of a server; shared by all threads.
#[derive(Debug)]
pub struct Gate {
    shards: Box<[Shard]>,
    report: ReportCell,
    closed: AtomicU32,
    running: Arc<Running>,
    rules: Rules,
    shadow: Shadow,
    costs: Costs,
    buckets: Buckets,
}

/// A request that was not refused.
#[derive(Debug)]
pub enum Entry {
    /// Start it now; it counts as running.
    Start(Admission),
    /// It waits in the [`Line`](super::Line) until it is called.
    Wait(Waiting),
}

impl Entry {
    /// If it need not wait.
    pub fn started(self) -> Option<Admission> {
        match self {
            Entry::Start(admission) => Some(admission),
            Entry::Wait(_) => None,
        }
    }
}

/// Proof that a request was let in; give it back exactly once.
#[must_use = "a request that is never finished keeps the server from draining"]
#[derive(Debug)]
pub struct Admission {
    shard: u32,
    customer: CustomerId,
    method: MethodId,
    criticality: Criticality,
    /// Nanoseconds of CPU its customer was charged.
    reserved: u64,
    arrived: Time,
    started: Time,
    manner: Manner,
}

impl Admission {
    /// How much cheaper its answer should be: 0 for not at all, up to 3 (B1). Where others are to be cheaper, one in 128 is
    /// asked for in full, so that it stays known what that costs.
    #[inline]
    pub fn degrade(&self) -> u8 {
        self.manner.level
    }

    /// How long it stood in line.
    pub fn waited(&self) -> Duration {
        self.started.since(self.arrived)
    }
}

/// A request that was let in as far as the line.
#[must_use = "a request that is never called keeps the server from draining"]
#[derive(Debug)]
pub struct Waiting {
    admission: Admission,
    deadline: Time,
    work: u64,
    is_entitled: bool,
}

impl Waiting {
    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    pub(crate) fn arrived(&self) -> Time {
        self.admission.arrived
    }

    pub(crate) fn criticality(&self) -> Criticality {
        self.admission.criticality
    }

    /// Whether its customer has a quota and asks for no more than that.
    pub(crate) fn is_entitled(&self) -> bool {
        self.is_entitled
    }

    /// Nanoseconds of CPU it is expected to cost.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }
}

/// What one thread remembers between its requests.
#[derive(Clone, Debug, Default)]
pub struct GateLocal {
    shard: Option<u32>,
}

impl GateLocal {
    /// A number for [`Running::runs`] on this thread.
    pub fn thread(&self) -> usize {
        self.shard.unwrap_or_default() as usize
    }
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new(&AdmissionConfig::default())
    }
}

impl Gate {
    pub(crate) fn new(config: &AdmissionConfig) -> Self {
        Gate {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            report: ReportCell::default(),
            closed: AtomicU32::new(0),
            running: Arc::default(),
            rules: Rules::new(&config.modes),
            shadow: Shadow::default(),
            costs: Costs::default(),
            buckets: Buckets::default(),
        }
    }

    /// Lets a request in, at once or after a while in line, or says why not.
    pub fn admit(&self, local: &mut GateLocal, now: Time, meta: &RequestMeta, rng: &mut Rng) -> Result<Entry, Refused> {
        let number = *local.shard.get_or_insert_with(|| rng.below(SHARDS as u32));
        let shard = &self.shards[number as usize % SHARDS];
        let class = meta.criticality;
        if self.closed.load(Ordering::Acquire) != 0 {
            return Err(self.refuse(now, shard, class, ServerRefusal::Closed));
        }
        let price = self.costs.price(meta.method, self.rules.degrade());
        let work = price.now;
        shard.count_asked(meta);
        let mut spared = self.check_time(now, shard, meta)?;
        self.count_demand(now, shard, (meta.customer, class), price, 1);
        let judged = self.check_quota(now, shard, meta);
        self.buckets.ask(now, meta.customer, class, work);
        spared |= judged?;
        spared |= self.check_cutoff(now, shard, meta)?;
        self.check_limit(now, shard, meta)?;
        shard.admitted.fetch_add(1, Ordering::AcqRel);
        let reserved = self.buckets.charge(now, meta.customer, class, work);
        let admission = Admission {
            shard: number,
            customer: meta.customer,
            method: meta.method,
            criticality: class,
            reserved,
            arrived: now,
            started: now,
            manner: Manner { is_sample: is_sample(price, meta.lot), ..Manner::default() },
        };
        match self.rules.mode(Mechanism::Queue) {
            Mode::On if self.must_wait() => {
                let is_entitled =
                    self.rules.is_on(Mechanism::Quota) && self.buckets.is_entitled(now, meta.customer, class, reserved);
                Ok(Entry::Wait(Waiting { admission, deadline: meta.deadline, work, is_entitled }))
            }
            Mode::Observe if !spared => {
                self.foresee(now, shard, meta, work);
                Ok(self.start(now, admission))
            }
            _ => Ok(self.start(now, admission)),
        }
    }

    /// Counts what would become of it in line. Whoever would not have come as far is none of those.
    fn foresee(&self, now: Time, shard: &Shard, meta: &RequestMeta, work: u64) {
        match self.shadow.enter(now, meta, work, &self.rules) {
            Fate::Starts => {}
            Fate::Waits => {
                shard.would_wait[meta.criticality.index()].fetch_add(1, Ordering::Relaxed);
            }
            Fate::Refused(reason, class) => {
                shard.observed[reason.index()][class.index()].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Requests of this customer that clients held back since the last ones came, by criticality: demand all the same.
    pub fn count_held(&self, local: &mut GateLocal, now: Time, held: HeldBack, rng: &mut Rng) {
        let number = *local.shard.get_or_insert_with(|| rng.below(SHARDS as u32));
        let shard = &self.shards[number as usize % SHARDS];
        if self.costs.mean().is_none() {
            return;
        }
        let price = self.costs.price(MethodId::default(), self.rules.degrade());
        for (class, &count) in Criticality::ALL.into_iter().zip(&held.counts).filter(|(_, count)| **count > 0) {
            let count = u64::from(count.min(HELD_MOST));
            shard.held[class.index()].fetch_add(count, Ordering::Relaxed);
            let counted = self.count_demand(now, shard, (held.customer, class), price, count);
            // Where the cutoff is on, clients hear what is let in, and these would not come.
            if self.rules.mode(Mechanism::Queue) == Mode::Observe && !self.rules.is_on(Mechanism::Cutoff) {
                self.shadow.hold(now, class, price.now * counted, &self.rules);
            }
        }
    }

    /// So many requests at this price are asked for: says how many of them others have to make room for. Beyond its quota nothing
    /// of a customer is, whether it is sent or held back. Quotas that only observe change nothing, also not who counts.
    #[inline]
    fn count_demand(
        &self,
        now: Time,
        shard: &Shard,
        (customer, class): (CustomerId, Criticality),
        price: Price,
        count: u64,
    ) -> u64 {
        let counted = if self.rules.is_on(Mechanism::Quota) {
            self.buckets.demand_of(now, customer, class, price.now, count)
        } else {
            count
        };
        if counted > 0 {
            shard.add_work(class, Price { now: price.now * counted, whole: price.whole * counted });
        }
        if counted < count {
            shard.beyond_quota[class.index()].fetch_add(price.now * (count - counted), Ordering::Relaxed);
        }
        counted
    }

    fn check_time(&self, now: Time, shard: &Shard, meta: &RequestMeta) -> Result<bool, Refused> {
        if meta.deadline > now {
            return Ok(false);
        }
        self.judge(now, shard, meta.criticality, Mechanism::Deadline, ServerRefusal::TooLate)
    }

    fn check_quota(&self, now: Time, shard: &Shard, meta: &RequestMeta) -> Result<bool, Refused> {
        let (customer, class) = (meta.customer, meta.criticality);
        if !self.bites(now, self.buckets.standing(now, customer, class), customer, class) {
            return Ok(false);
        }
        let judged = self.judge(now, shard, class, Mechanism::Quota, ServerRefusal::OutOfQuota);
        judged.inspect_err(|_| self.note_out_of_quota(now, customer, class))
    }

    /// On a task with room to spare refusing is at nobody's expense.
    fn note_out_of_quota(&self, now: Time, customer: CustomerId, class: Criticality) {
        let cost = if self.rules.is_short() { self.rules.refusal_cost() } else { 0 };
        self.buckets.note_refused(now, customer, class, cost);
    }

    fn bites(&self, now: Time, standing: Standing, customer: CustomerId, class: Criticality) -> bool {
        match standing {
            Standing::Within => false,
            Standing::OverSoft => {
                self.buckets.refused_above(now, customer, class)
                    || self.rules.is_short() && !self.follows_lower(now, customer, class)
            }
            Standing::OverCeiling => self.rules.is_short() || self.buckets.refused_above(now, customer, class),
            Standing::OverHard => true,
        }
    }

    /// Whether one of the same customer that matters less was let in a moment ago, when capacity was not short yet: the lowest
    /// is to be refused first. A line that is far too long by now is everybody's.
    fn follows_lower(&self, now: Time, customer: CustomerId, class: Criticality) -> bool {
        self.buckets.started_below(now, customer, class) && self.rules.queued() < self.rules.spans().far_too_long()
    }

    /// Whether one in line would be refused for its customer's quota, were it to come now.
    pub(crate) fn is_out_of_quota(&self, now: Time, waiting: &Waiting) -> bool {
        let Admission { customer, criticality, reserved, .. } = waiting.admission;
        let standing = self.buckets.standing_without(now, customer, criticality, reserved);
        self.rules.is_on(Mechanism::Quota) && self.bites(now, standing, customer, criticality)
    }

    fn check_cutoff(&self, now: Time, shard: &Shard, meta: &RequestMeta) -> Result<bool, Refused> {
        let class = meta.criticality;
        let (cutoff, priority) = (self.rules.cutoff_observed(), meta.priority());
        if cutoff.admits(priority) && !(self.rules.is_over(class) && self.rules.refused_above(now, class)) {
            return Ok(false);
        }
        self.judge(now, shard, class, Mechanism::Cutoff, ServerRefusal::Overloaded)
    }

    fn check_limit(&self, now: Time, shard: &Shard, meta: &RequestMeta) -> Result<(), Refused> {
        let (cutoff, class) = (self.rules.limit_cutoff_observed(), meta.criticality);
        if cutoff == Cutoff::NOTHING || cutoff.admits(meta.priority()) && !self.rules.refused_above(now, class) {
            return Ok(());
        }
        self.judge(now, shard, class, Mechanism::Limit, ServerRefusal::LimitReached).map(|_is_counted| ())
    }

    fn must_wait(&self) -> bool {
        self.running.waiting() > 0 || self.running.now() >= self.rules.slots()
    }

    /// Refuses if the mechanism is on, and otherwise at most counts that it would have: says whether it did.
    fn judge(
        &self,
        now: Time,
        shard: &Shard,
        class: Criticality,
        mechanism: Mechanism,
        reason: ServerRefusal,
    ) -> Result<bool, Refused> {
        match self.rules.mode(mechanism) {
            Mode::Off => Ok(false),
            Mode::Observe => {
                shard.observed[reason.index()][class.index()].fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            Mode::On => Err(self.refuse(now, shard, class, reason)),
        }
    }

    fn refuse(&self, now: Time, shard: &Shard, class: Criticality, reason: ServerRefusal) -> Refused {
        shard.refused[reason.index()][class.index()].fetch_add(1, Ordering::Relaxed);
        if reason.is_overload() {
            self.rules.note_refused(now, class);
        }
        let dont_retry = reason.is_overload() && self.rules.dont_retry();
        // Also with those for a quota or a deadline: where most requests are of one that is out of it, clients would hear nothing else for long.
        Refused { reason, dont_retry, hint: self.rules.hint().filter(|_| reason != ServerRefusal::Closed) }
    }

    fn start(&self, now: Time, mut admission: Admission) -> Entry {
        self.begin(now, &mut admission);
        Entry::Start(admission)
    }

    /// Called from the line.
    pub(crate) fn start_waiting(&self, now: Time, waiting: Waiting) -> Admission {
        let Waiting { mut admission, deadline, .. } = waiting;
        admission.started = now;
        // One that came too late has been counted when it came.
        let is_late_now = deadline <= now && deadline > admission.arrived;
        if is_late_now && self.rules.mode(Mechanism::Deadline) == Mode::Observe {
            let observed = &self.shards[admission.shard as usize % SHARDS].observed[ServerRefusal::TooLate.index()];
            observed[admission.criticality.index()].fetch_add(1, Ordering::Relaxed);
        }
        self.begin(now, &mut admission);
        admission
    }

    fn begin(&self, now: Time, admission: &mut Admission) {
        self.running.runs(admission.shard as usize);
        self.rules.note_started(now, admission.criticality);
        self.buckets.note_started(now, admission.customer, admission.criticality);
        admission.manner.level = if admission.manner.is_sample { 0 } else { self.rules.degrade() };
    }

    /// Refused in line.
    pub(crate) fn refuse_waiting(&self, now: Time, waiting: Waiting, reason: ServerRefusal) -> Refused {
        let Waiting { admission, .. } = waiting;
        let shard = &self.shards[admission.shard as usize % SHARDS];
        let refused = self.refuse(now, shard, admission.criticality, reason);
        if reason == ServerRefusal::OutOfQuota {
            self.note_out_of_quota(now, admission.customer, admission.criticality);
        }
        self.leave_line(&admission);
        refused
    }

    /// Its client went away while it stood in line.
    pub(crate) fn forget(&self, waiting: &Waiting) {
        self.leave_line(&waiting.admission);
    }

    fn leave_line(&self, admission: &Admission) {
        self.shards[admission.shard as usize % SHARDS].left_line.fetch_add(1, Ordering::Relaxed);
        self.give_back(admission, 0);
    }

    fn give_back(&self, admission: &Admission, used: u64) {
        if used < admission.reserved {
            self.buckets.refund(admission.customer, admission.criticality, admission.reserved, used);
        }
        self.shards[admission.shard as usize % SHARDS].finished.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether its customer has a quota and has used so much more of it than was charged that it is worth charging now.
    #[inline]
    pub fn owes(&self, admission: &Admission, used: Duration) -> bool {
        self.buckets.is_limited(admission.customer)
            && (used.as_nanos() as u64).saturating_sub(admission.reserved) >= CHARGED_FROM_NANOS
    }

    /// It has used so much normalised CPU and goes on: long requests are charged while they run.
    pub fn charge_so_far(&self, now: Time, admission: &mut Admission, used: Duration) {
        let more = (used.as_nanos() as u64).saturating_sub(admission.reserved);
        self.buckets.charge_more(now, admission.customer, admission.criticality, more);
        admission.reserved += more;
    }

    /// The request ended so, and used so much normalised CPU as far as is known. That its handler rests is said apart:
    /// [`Running::rests`].
    #[expect(clippy::needless_pass_by_value, reason = "finishing twice does not compile")]
    pub fn finish(&self, now: Time, admission: Admission, outcome: Outcome, cost: Option<Duration>) {
        let shard = &self.shards[admission.shard as usize % SHARDS];
        let latency = now.since(admission.arrived).as_nanos() as u64;
        shard.latency_nanos.fetch_add(latency, Ordering::Relaxed);
        if outcome.is_error() {
            shard.errors.fetch_add(1, Ordering::Relaxed);
        }
        if outcome == Outcome::Served {
            shard.served[admission.criticality.index()].fetch_add(1, Ordering::Relaxed);
            if !admission.manner.is_degraded {
                shard.whole.fetch_add(1, Ordering::Relaxed);
                shard.whole_nanos.fetch_add(now.since(admission.started).as_nanos() as u64, Ordering::Relaxed);
            }
        }
        let mut used = admission.reserved;
        if let Some(cost) = cost {
            used = cost.as_nanos() as u64;
            shard.cpu_nanos[admission.criticality.index()].fetch_add(used, Ordering::Relaxed);
            if self.tells(&admission, outcome, used) {
                self.costs.learn(admission.method, cost, admission.manner);
            }
            if used > admission.reserved {
                self.buckets.charge_more(now, admission.customer, admission.criticality, used - admission.reserved);
            }
        }
        self.give_back(&admission, used);
    }

    /// Whether this one says what others cost. One whose time was up would have cost at least so much, which is news only
    /// where it is more than expected: a server that is too slow for all its callers would else know the cheap ones only. One
    /// whose client went away for reasons of its own tells nothing, unless nothing is known.
    fn tells(&self, admission: &Admission, outcome: Outcome, used: u64) -> bool {
        let is_more = || used > self.costs.price(admission.method, admission.manner.level).now;
        match outcome {
            Outcome::Cancelled | Outcome::Expired if !self.costs.knows(admission.method) => used > 0,
            Outcome::Cancelled => false,
            Outcome::Expired => is_more(),
            _ => true,
        }
    }

    /// Its handler made its answer cheaper, and says so.
    pub fn mark_degraded(&self, admission: &mut Admission) {
        admission.manner.is_degraded = true;
        self.shards[admission.shard as usize % SHARDS].degraded.fetch_add(1, Ordering::Relaxed);
    }

    /// How much cheaper answers should be now: 0 for not at all, up to 3 (B1). Each request has its own word for it,
    /// [`Admission::degrade`].
    #[inline]
    pub fn degrade(&self) -> u8 {
        self.rules.degrade()
    }

    /// What a whole answer of this method costs, on average; `None` before one has ended.
    pub fn cost_of(&self, method: MethodId) -> Option<Duration> {
        self.costs.of(method)
    }

    /// What answers of this method cost at the level that is asked for now, on average; `None` where that is none, or no answer
    /// of it was made cheaper. 0 is for all methods.
    pub fn degraded_cost_of(&self, method: MethodId) -> Option<Duration> {
        self.costs.at_level(method, self.rules.degrade())
    }

    /// What to tell this client with an answer, where it has not heard it already.
    pub fn hint(&self, now: Time, last: &LastHint) -> Option<Hint> {
        // Whoever was told of a cutoff hears that there is none also after hints were switched off.
        let over = Hint { cutoff: Cutoff::NOTHING, ttl: Duration::from_secs(1) };
        let hint = Some(self.rules.hint().unwrap_or(over)).filter(|hint| last.is_due(now, *hint))?;
        last.tell(now, hint);
        Some(hint)
    }

    /// Handlers that run or are ready to; the driver counts those out that rest.
    pub fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// What to tell a client with an answer: the brain's last figures, and the requests in flight now.
    pub fn report(&self) -> LoadReport {
        let (_, report) = self.report.last().unwrap_or_default();
        LoadReport { in_flight: Some(self.in_flight()), ..report }
    }

    /// Requests being worked on now, and those in line.
    pub fn in_flight(&self) -> u32 {
        let running = self.shards.iter().map(|shard| {
            // Finished first: see `totals`. A request is counted out where it was counted in.
            let finished = shard.finished.load(Ordering::Acquire);
            shard.admitted.load(Ordering::Acquire).saturating_sub(finished)
        });
        u32::try_from(running.sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// Requests in handlers now. Where the line only observes, those who would stand in it are not among them.
    pub(crate) fn in_handlers(&self) -> u32 {
        let waiting = match self.rules.mode(Mechanism::Queue) {
            Mode::Observe => self.running.now().saturating_sub(self.rules.slots()),
            Mode::On | Mode::Off => self.running.waiting(),
        };
        self.in_flight().saturating_sub(waiting)
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(crate) fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    pub(crate) fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(crate) fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    pub(crate) fn set_report(&self, now: Time, report: &LoadReport) {
        self.report.tell(now, report);
    }

    pub(crate) fn set_closed(&self, closed: bool) {
        self.closed.store(u32::from(closed), Ordering::Release);
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for shard in &self.shards {
            totals.add(shard);
        }
        totals
    }
}

/// Whether this one is asked for in full although others are not. By its lot: all that its root request causes is.
#[inline]
fn is_sample(price: Price, lot: Lot) -> bool {
    price.now < price.whole && lot.0.is_multiple_of(SAMPLED_OF)
}

/// Threads beyond this share; the model checker explores every one, so it gets few.
const SHARDS: usize = if cfg!(loom) { 2 } else { 8 };
/// Of so many one is asked for in full: enough to know the price by, and little even where that is many times what others cost.
const SAMPLED_OF: u16 = 128;
/// Less is charged when it ends: a reading of the clock for every poll would cost more than it tells.
const CHARGED_FROM_NANOS: u64 = 10_000_000;
/// What one client can say that it held back between two requests: more is a mistake, or worse.
const HELD_MOST: u16 = 1_000;
