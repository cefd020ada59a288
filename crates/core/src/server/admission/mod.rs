//! Who is let in when there is too much: the slow half, which learns and sets the rules that each request meets.
//!
//! Every tick of 10.5 ms: what was asked for and what the task can do become a cutoff; every tenth of a second: signals of
//! the machine, the time in handlers, the share of retries.

pub(crate) mod attempts;
pub(crate) mod capacity;
pub(crate) mod config;
pub(crate) mod costs;
pub(crate) mod cutoff;
pub(crate) mod degrade;
pub(crate) mod demand;
pub(crate) mod limit;
pub(crate) mod line;
pub(crate) mod overpriced;
mod pressure;
pub(crate) mod queue;
pub(crate) mod quota;
pub(crate) mod rules;
pub(crate) mod shadow;
pub(crate) mod signals;
mod snapshot;
pub(crate) mod stuck;

use std::time::Duration;

use attempts::Attempts;
use capacity::Capacity;
use config::AdmissionConfig;
use costs::{Dearest, doubt, sureness};
use cutoff::{Controller, Reading};
use degrade::Degrade;
use demand::{Demand, Tick};
use limit::{Answers, Crowd, Limit};
use overpriced::Overpriced;
use pressure::Pressure;
use rules::{Mechanism, Spans, TICK};
use signals::Signals;
use stuck::Doing;

pub use snapshot::AdmissionSnapshot;

use super::Usage;
use super::counts::Totals;
use super::gate::Gate;
use super::refusal::ServerRefusal;
use crate::stats::decay;
use crate::time::saturating_nanos;
use crate::{Cutoff, MethodId, Mode, Time};

/// CPU used since some moment, as the driver counts it; what it cannot know it leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By handlers.
    pub handlers: Option<Duration>,
    /// By the whole process.
    pub process: Option<Duration>,
}

/// Learns from tick to tick.
#[derive(Debug)]
pub(crate) struct Governor {
    config: AdmissionConfig,
    /// As answers are, and were all of them whole: the level of cheaper ones is decided by that, else it would undo itself.
    demand: Demand,
    demand_in_full: Demand,
    capacity: Capacity,
    pressure: Pressure,
    controller: Controller,
    signals: Signals,
    /// What they ask for.
    signals_cutoff: f64,
    attempts: Attempts,
    limit: Limit,
    degrade: Degrade,
    dearest: Dearest,
    /// Answers that prices have been the mean of, at each level: a task that found its prices wrong is not fresh again.
    answers: [f64; 4],
    /// Nanoseconds that an answer is taken to cost on average, when last looked at.
    price: u64,
    overpriced: Overpriced,
    /// What a refusal costs, in CPU seconds.
    overhead: f64,
    /// Refusals a second, of late.
    refusals: f64,
    /// Whether the driver has said how many processors there are: before that nobody waits and nothing is cut.
    knows_processors: bool,
    at_tick: (Time, Totals, Spent),
    /// When it last looked whether a tick is over.
    looked_at: Time,
    at_measure: (Time, Totals),
    waited_before: bool,
    busy_at: Time,
    /// When the cutoff last turned somebody away.
    turned_away_at: Option<Time>,
}

impl Governor {
    pub(crate) fn new(now: Time, config: AdmissionConfig, gate: &Gate) -> Self {
        let governor = Governor {
            demand: Demand::default(),
            demand_in_full: Demand::default(),
            capacity: Capacity::new(1.0),
            pressure: Pressure::default(),
            controller: Controller::default(),
            signals: Signals::default(),
            signals_cutoff: 0.0,
            attempts: Attempts::default(),
            limit: Limit::default(),
            degrade: Degrade::default(),
            dearest: Dearest::default(),
            answers: [0.0; 4],
            price: gate.costs().price(MethodId::default(), 0).whole,
            overpriced: Overpriced::default(),
            overhead: 0.0,
            refusals: 0.0,
            knows_processors: false,
            at_tick: (now, Totals::default(), Spent::default()),
            looked_at: now,
            at_measure: (now, Totals::default()),
            waited_before: false,
            busy_at: now,
            turned_away_at: None,
            config,
        };
        governor.publish(gate);
        governor
    }

    pub(crate) fn configure(&mut self, config: AdmissionConfig, gate: &Gate) {
        gate.rules().set_modes(&config.modes);
        if config.modes.learn() && !self.config.modes.learn() {
            // What was so when it was switched off is not so any more.
            self.controller = Controller::default();
            (self.demand, self.demand_in_full, self.pressure) = Default::default();
            self.limit = Limit::default();
            gate.shadow().clear();
        }
        self.config = config;
        self.publish(gate);
    }

    pub(crate) fn on_clock_jump(&mut self, now: Time) {
        (self.at_tick.0, self.looked_at, self.at_measure.0, self.busy_at) = (now, now, now, now);
        self.turned_away_at = None;
    }

    /// When to tick next: often while there is something to decide.
    pub(crate) fn tick_at(&self) -> Option<Time> {
        let at = self.looked_at;
        let is_busy = at.since(self.busy_at) < STAYS_AWAKE;
        self.config.modes.learn().then(|| at + if is_busy { TICK } else { IDLE_TICK })
    }

    pub(crate) fn tick(&mut self, now: Time, spent: Spent, gate: &Gate) {
        let (before_at, before, spent_before) = self.at_tick;
        let seconds = now.since(before_at).as_secs_f64();
        if seconds < TICK_LEAST {
            return;
        }
        self.looked_at = now;
        if reads_in_lumps(gate) && seconds < TICK_CROWDED {
            return;
        }
        let totals = gate.totals();
        self.at_tick = (now, totals, spent);
        let tick = Tick::between(&before, &totals, seconds);
        let waits = somebody_waits(gate);
        if tick.sum() > 0.0 || waits || totals.asked != before.asked || self.controller.value() > 0.0 {
            self.busy_at = now;
        }
        // A driver that was held up for long has seen one long tick, which says nothing of a step. Without a line it is held
        // up whenever there is too much, and what it sees late is all there is to see.
        if seconds > if gate.rules().is_on(Mechanism::Queue) { TICK_MOST } else { TICK_MOST_CROWDED } {
            return self.relax(gate);
        }
        self.count_answers(gate);
        self.reprice(gate);
        self.demand.read(tick);
        self.demand_in_full.read(tick.in_full(&before, &totals));
        let idle = self.idle(seconds, spent_before, spent, waits);
        let is_cutting = self.is_cutting_by_price(&before, &totals, gate) && !waits;
        self.lower_prices(idle.filter(|_| is_cutting), gate);
        let ticks = if is_crowded(gate) && self.waited_before { seconds / TICK.as_secs_f64() } else { 1.0 };
        self.waited_before = waits;
        if let (Some(handlers), Some(idle)) = (difference(spent_before.handlers, spent.handlers), idle) {
            self.learn_capacity(seconds, handlers, idle, gate);
        }
        let capacity = self.capacity.get();
        let mut refused = totals.overloaded().wrapping_sub(before.overloaded()) as f64;
        let queue = queued(gate) / self.burst();
        let mut idle = idle.unwrap_or(0.0);
        if gate.rules().mode(Mechanism::Queue) == Mode::Observe {
            idle = self.idle_in_shadow(now, seconds, gate).unwrap_or(idle);
            refused += totals.overloaded_observed().wrapping_sub(before.overloaded_observed()) as f64;
        } else {
            gate.shadow().clear();
        }
        if self.knows_processors {
            self.pressure.read(seconds, self.demand.from(0) / capacity, self.demand.is_stepping(), idle);
            let reading = Reading {
                tick,
                // Where handlers crowded all the time, what was too much was so all the time.
                ticks,
                demand: &self.demand,
                is_too_much: self.pressure.is_too_much(),
                capacity,
                room: self.room(gate),
                queue,
                idle,
                refusing: refused * self.overhead / (seconds * capacity),
            };
            self.controller.read(&reading);
        }
        self.limit.read(self.crowd(seconds, &before, &totals, gate), self.config.limit, self.config.limit_least);
        let pressure = self.demand_in_full.from(0) / capacity;
        self.degrade.read(seconds, pressure, &self.config.degrade, &gate.costs().parts());
        self.publish(gate);
        self.refusals += (seconds / REFUSALS_OVER).min(1.0) * (refused / seconds - self.refusals);
        gate.rules().set_hint_ttl(self.hint_ttl(gate));
        gate.rules().set_short(self.controller.is_engaged());
    }

    /// What would be idle, did the line stand there; and how fast it would move from now on.
    fn idle_in_shadow(&self, now: Time, seconds: f64, gate: &Gate) -> Option<f64> {
        let capacity = self.capacity.get();
        let spare = gate.shadow().tick(now);
        gate.shadow().set_pace(capacity, f64::from(gate.rules().slots()) * gate.costs().mean().unwrap_or(0) as f64);
        spare.map(|spare| (spare / (capacity * seconds * 1e9)).min(1.0))
    }

    /// Nothing is known of this moment.
    fn relax(&mut self, gate: &Gate) {
        (self.demand, self.demand_in_full, self.pressure) = Default::default();
        self.controller.relax();
        self.limit.relax();
        gate.shadow().clear();
        self.publish(gate);
    }

    fn count_answers(&mut self, gate: &Gate) {
        for (level, answers) in (0..).zip(&mut self.answers) {
            *answers = answers.max(gate.costs().answers(level));
        }
    }

    /// `idle` is the share of the processors that nobody used while requests were refused for their price, if any were.
    fn lower_prices(&mut self, idle: Option<f64>, gate: &Gate) {
        if let Some(factor) = self.overpriced.read(idle) {
            gate.costs().scale(factor);
            self.price = gate.costs().price(MethodId::default(), 0).whole;
            self.demand.scale(factor);
            self.demand_in_full.scale(factor);
        }
    }

    /// What was asked for by prices of a few answers cost what is known now: a fresh task whose first answers were dear would else
    /// take what matters for more than fits, long after it knows better.
    fn reprice(&mut self, gate: &Gate) {
        let now = gate.costs().price(MethodId::default(), 0).whole;
        let before = std::mem::replace(&mut self.price, now);
        if sureness(self.answers_at(gate)) < 1.0 {
            let factor = now as f64 / before.max(1) as f64;
            self.demand.scale(factor);
            self.demand_in_full.scale(factor);
        }
    }

    fn learn_capacity(&mut self, seconds: f64, handlers: f64, idle: f64, gate: &Gate) {
        // As often as it would have been read, had nothing held the driver up.
        let readings = (seconds / TICK.as_secs_f64()).round().clamp(1.0, READINGS_MOST) as u32;
        let sureness = sureness(self.answers_at(gate));
        (0..readings).for_each(|_| self.capacity.read(handlers / seconds, idle, sureness));
    }

    /// Whether it is for their price that requests are refused, and neither for a signal nor for their number.
    fn is_cutting_by_price(&self, before: &Totals, now: &Totals, gate: &Gate) -> bool {
        gate.rules().is_on(Mechanism::Cutoff)
            && self.controller.value() > self.signals_cutoff
            && self.controller.value() > gate.rules().limit_cutoff().value()
            && now.of(ServerRefusal::LimitReached) == before.of(ServerRefusal::LimitReached)
    }

    /// The more refusals there are in spite of hints, the longer hints hold: clients that come back to see whether they may
    /// are most of them where there are many clients.
    fn hint_ttl(&self, gate: &Gate) -> Duration {
        let work = self.refusals * gate.costs().mean().unwrap_or(0) as f64 * 1e-9;
        let share = work / self.capacity.get();
        self.config.hint_ttl.mul_f64((share / REFUSALS_FEW).clamp(1.0, TTL_TIMES_MOST))
    }

    fn crowd(&self, seconds: f64, before: &Totals, now: &Totals, gate: &Gate) -> Crowd {
        let count = |totals: &Totals| totals.asked.iter().chain(&totals.held).sum::<u64>();
        let rate_most = gate.costs().mean().map(|_is_known| {
            let price = gate.costs().price(MethodId::default(), gate.rules().degrade());
            self.capacity.get() / (price.now.max(1) as f64 * 1e-9)
        });
        Crowd { seconds, asked: count(now).saturating_sub(count(before)), rate_most, in_handlers: gate.in_handlers() }
    }

    /// Share of the processors that nobody used, as far as is known.
    fn idle(&self, seconds: f64, before: Spent, now: Spent, waits: bool) -> Option<f64> {
        let used = difference(before.process, now.process)?;
        let idle = (1.0 - used / (seconds * self.capacity.processors())).clamp(0.0, 1.0);
        if !(waits && self.waited_before) {
            return Some(idle);
        }
        // Somebody waited all the time: what the process did not get, others on the machine had. Unless it got so little
        // that handlers seem to hold their slots without computing, which says nothing of what it can do.
        (idle < MOSTLY_IDLE).then_some(0.0)
    }

    /// Every tenth of a second: what changes more slowly.
    pub(crate) fn measure(&mut self, now: Time, usage: &Usage, plugged: &[(String, Option<f64>)], gate: &Gate) {
        let (before_at, before) = self.at_measure;
        let elapsed = now.since(before_at);
        let seconds = elapsed.as_secs_f64();
        if let Some(processors) = usage.processors {
            self.knows_processors |= self.capacity.set_processors(processors, self.config.cpu_factor);
        }
        if let Some(overhead) = usage.overhead {
            self.overhead = overhead.as_secs_f64() * self.config.cpu_factor;
            // What is known is what a request takes outside of handlers, which is more than a refusal where these do little.
            let most = gate.costs().mean().unwrap_or(0) as f64 * REFUSAL_OF_REQUEST_MOST;
            gate.rules().set_refusal_cost((self.overhead * 1e9).min(most) as u64);
        }
        let totals = gate.totals();
        if turned_away(&totals) != turned_away(&before) {
            self.turned_away_at = Some(now);
        }
        self.signals.read(now, usage, plugged, &self.config.signals, self.doing(now, &before, &totals));
        (self.signals_cutoff, _) = self.signals.cutoff(&self.config.signals);
        if seconds > TICK_LEAST {
            self.at_measure = (now, totals);
            self.limit.read_answers(Answers::between(&before, &totals, seconds));
            let asked = totals.asked.iter().sum::<u64>().wrapping_sub(before.asked.iter().sum());
            self.attempts.read(now, asked, totals.retries.wrapping_sub(before.retries));
            let is_storm = self.attempts.share(now).is_some_and(|share| share >= self.config.retries);
            gate.rules().set_dont_retry(is_storm);
            self.dearest.read(gate.costs(), decay(elapsed, DEAREST_HALF_LIFE));
        }
        self.publish(gate);
    }

    fn doing(&self, now: Time, before: &Totals, totals: &Totals) -> Doing {
        if self.turned_away_at.is_none_or(|at| now.since(at) >= TURNED_AWAY_FOR) {
            return Doing::Harmless;
        }
        match totals.in_flight() {
            0 => Doing::Refusing,
            _ if (totals.admitted, totals.finished) == (before.admitted, before.finished) => Doing::Standing,
            _ => Doing::Harmless,
        }
    }

    pub(crate) fn stuck_signals(&self) -> impl Iterator<Item = &str> {
        self.signals.stuck()
    }

    /// CPU seconds in a second that what is asked for may add up to, by prices that may be too high: whoever matters is not
    /// refused for what a few answers cost.
    fn room(&self, gate: &Gate) -> f64 {
        self.capacity.get() * doubt(self.answers_at(gate))
    }

    /// The most answers that prices at the level in force have been the mean of.
    fn answers_at(&self, gate: &Gate) -> f64 {
        self.answers.get(usize::from(gate.rules().degrade())).copied().unwrap_or_default()
    }

    /// Nanoseconds of CPU that may wait in good times.
    fn burst(&self) -> f64 {
        saturating_nanos(self.config.burst) as f64 * self.capacity.most()
    }

    /// Nanoseconds of a processor here that the dearest one in a hundred takes.
    fn dearest(&self) -> f64 {
        self.dearest.quantile(0.99).unwrap_or(DEAREST_UNKNOWN).max(1) as f64 / self.config.cpu_factor
    }

    /// Handlers that run at once. Where the dearest take less than a millisecond, as many share a processor as make one: a
    /// place in line would cost a good part of what they do.
    fn slots(&self, dearest: f64) -> u32 {
        let sharing = (SHARED_NANOS / dearest).clamp(1.0, SHARING_MOST);
        (self.capacity.processors() * self.config.slots * sharing).round() as u32
    }

    /// `doubt`: what prices may be too high by, and with them what seems to wait.
    fn spans(&self, dearest: f64, doubt: f64) -> Spans {
        // Those who share a processor for a millisecond wait for each other that long.
        let age = dearest.max(SHARED_NANOS) * self.config.age;
        let cut = age * self.capacity.most() * self.config.slots * CUT_OVER_AGE;
        let burst = saturating_nanos(self.config.burst) as f64;
        let patience = if self.pressure.is_lasting() { (burst * PATIENCE).max(age) as u64 } else { u64::MAX };
        let left = self.controller.shortening();
        let age = age + left * (burst - age).max(0.0);
        let cut = cut + left * (self.burst() - cut).max(0.0);
        let burst = self.burst() * doubt.min(DOUBT_IN_LINE_MOST);
        Spans { age: age as u64, cut: cut as u64, burst: burst as u64, patience }
    }

    fn publish(&self, gate: &Gate) {
        let rules = gate.rules();
        rules.set_cutoff(Cutoff::new(self.controller.value().max(self.signals_cutoff)));
        let room = self.room(gate);
        let over = if self.controller.is_engaged() { OVER_WHILE_CUTTING } else { OVER };
        // By prices of a few answers nobody is taken for more than fits: whoever is has a shorter line, which is cut at once.
        let is_sure = sureness(self.answers_at(gate)) >= 1.0;
        rules.set_over(std::array::from_fn(|class| is_sure && self.demand.from(class) > over * room));
        rules.set_too_much(self.pressure.is_too_much());
        let dearest = self.dearest();
        rules.set_slots(if self.knows_processors { self.slots(dearest) } else { u32::MAX });
        let limit = self.limit.get(self.config.limit, self.config.limit_least);
        rules.set_limit(limit, Cutoff::new(self.limit.cutoff()));
        rules.set_spans(self.spans(dearest, doubt(self.answers_at(gate))));
        gate.buckets().set_at_once(if self.knows_processors { (self.burst() * AT_ONCE) as u64 } else { u64::MAX });
        rules.set_degrade(self.degrade.level());
    }
}

/// By the cutoff, or would have been.
fn turned_away(totals: &Totals) -> u64 {
    let reason = ServerRefusal::Overloaded;
    totals.of(reason).wrapping_add(totals.observed[reason.index()].iter().sum())
}

/// Nanoseconds of CPU that wait; where nobody stands in line, those beyond the slots would.
fn queued(gate: &Gate) -> f64 {
    match gate.rules().mode(Mechanism::Queue) {
        Mode::On => return gate.rules().queued() as f64,
        Mode::Observe => return gate.shadow().queued() as f64,
        Mode::Off => {}
    }
    let beyond = gate.running().now().saturating_sub(gate.rules().slots());
    f64::from(beyond) * gate.costs().mean().unwrap_or(0) as f64
}

/// Where nobody stands in line, those beyond the slots wait for a processor all the same.
fn somebody_waits(gate: &Gate) -> bool {
    gate.running().waiting() > 0 || is_crowded(gate)
}

/// Whether more handlers compete for processors than there are, because no line holds them back.
fn is_crowded(gate: &Gate) -> bool {
    !gate.rules().is_on(Mechanism::Queue) && gate.running().now() > gate.rules().slots()
}

/// Whether what comes is seen now and then only, and nothing is decided by it that must be decided soon.
fn reads_in_lumps(gate: &Gate) -> bool {
    let decides = [Mechanism::Cutoff, Mechanism::Limit].into_iter().any(|one| gate.rules().is_on(one));
    is_crowded(gate) && !decides
}

fn difference(before: Option<Duration>, now: Option<Duration>) -> Option<f64> {
    Some(now?.saturating_sub(before?).as_secs_f64())
}

/// What a customer pays for a refusal at most, of what a request costs on average: as much as refusals are reckoned with in overload-8
/// and order-customers. Were it more, one that asks for a little too much of what costs little would have nothing.
const REFUSAL_OF_REQUEST_MOST: f64 = 0.1;
/// How much more may wait while prices are those of a few answers. They may as well be too low.
const DOUBT_IN_LINE_MOST: f64 = 2.0;
/// Share of what may wait that one customer's burst may be.
const AT_ONCE: f64 = 0.75;
/// Work that may wait of those that are being cut, over what is done while one may wait: some are gone before their turn.
const CUT_OVER_AGE: f64 = 1.25;
/// How long one that does not fit may wait before anything is cut, over what a burst may bring. Its 99th percentile is about that long.
const PATIENCE: f64 = 0.5;
/// Work of a processor that may be under way at once: nobody notices a millisecond. And by how many handlers at most, should costs be
/// read as next to nothing.
const SHARED_NANOS: f64 = 1e6;
const SHARING_MOST: f64 = 64.0;
/// How often it looks while nothing is asked for.
const IDLE_TICK: Duration = Duration::from_millis(100);
/// How long it looks often after the last request.
const STAYS_AWAKE: Duration = Duration::from_secs(1);
/// For how long one that was turned away counts: clients that heard a hint come back once in a while to see.
const TURNED_AWAY_FOR: Duration = Duration::from_secs(2);
/// Seconds below which a tick says nothing, and above which it says nothing of a step.
const TICK_LEAST: f64 = 0.001;
const TICK_MOST: f64 = 0.25;
const TICK_MOST_CROWDED: f64 = 5.0;
/// Where handlers crowd, an executor looks at its sockets after so many of them only, so requests come in lumps: tokio does
/// after 61 polls, a quarter of a second with polls of 4 ms. A shorter tick sees nothing, or four times too much.
const TICK_CROWDED: f64 = 0.5;
/// What one tick can count for, at most: little is left then of what was known before.
const READINGS_MOST: f64 = 50.0;
/// Share of the processors that can have gone to others on the machine, at most.
const MOSTLY_IDLE: f64 = 0.75;
/// Share of the capacity from which on a class, with all above it, does not surely fit.
const OVER: f64 = 0.9;
/// The same while something is cut. Prices of very unequal requests are off by a tenth by chance: a class that is full and passes for one
/// that fits waited 380 ms at the 99th percentile in one of 24 runs at 0.9 (`scenarios/overload-2.toml`, bimodal at twice the capacity).
const OVER_WHILE_CUTTING: f64 = 0.85;
/// Seconds that the rate of refusals is over, the share of capacity that they may be, and how much longer hints may hold.
const REFUSALS_OVER: f64 = 0.5;
const REFUSALS_FEW: f64 = 0.15;
const TTL_TIMES_MOST: f64 = 2.0;
const DEAREST_HALF_LIFE: Duration = Duration::from_secs(10);
/// Nanoseconds that the dearest requests are taken to cost before any were seen.
const DEAREST_UNKNOWN: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::costs::Manner;
    use super::*;

    #[test]
    fn what_was_asked_for_when_answers_seemed_dear_costs_what_is_known_now() {
        let (config, gate) = (AdmissionConfig::default(), Gate::default());
        let mut governor = Governor::new(Time::from_secs(1), config, &gate);
        let learn = |count: u32, millis| {
            let cost = Duration::from_millis(millis);
            (0..count).for_each(|_| gate.costs().learn(MethodId(0), cost, Manner::default()));
            gate.costs().mean().unwrap() as f64
        };
        let asked = Tick { seconds: 0.0105, work: [0.0, 0.0, 0.08, 0.0], squares: [0.0, 0.0, 0.0032, 0.0] };
        let look = |governor: &mut Governor| {
            governor.count_answers(&gate);
            governor.reprice(&gate);
            governor.demand.rates()[2]
        };

        let dear = learn(2, 40);
        look(&mut governor);
        governor.demand.read(asked);
        let before = governor.demand.rates()[2];
        let mean = learn(18, 2);
        let after = look(&mut governor);
        assert!((after / before - mean / dear).abs() < 1e-6 && after < before / 5.0, "{before} {after}");

        // Of hundreds of answers the mean is what it is: what was asked for before was asked for at its price.
        learn(300, 2);
        let before = look(&mut governor);
        learn(300, 4);
        assert!((look(&mut governor) - before).abs() < 1e-9);
    }

    #[test]
    fn prices_are_doubted_only_where_they_are_what_refuses() {
        let (config, gate) = (AdmissionConfig::default(), Gate::default());
        let mut governor = Governor::new(Time::from_secs(1), config, &gate);
        let (before, mut full) = (Totals::default(), Totals::default());
        full.refused[ServerRefusal::LimitReached.index()][2] = 1;
        assert!(!governor.is_cutting_by_price(&before, &before, &gate), "nothing is cut");

        governor.controller = Controller::at(1.5);
        governor.signals_cutoff = 1.0;
        assert!(governor.is_cutting_by_price(&before, &before, &gate));
        assert!(!governor.is_cutting_by_price(&before, &full, &gate), "too many are in handlers");

        governor.signals_cutoff = 2.0;
        assert!(!governor.is_cutting_by_price(&before, &before, &gate), "a signal refuses");
    }
}
