//! The line in front of the handlers: by criticality, then by deadline (C).
//!
//! While all fits, criticality decides who is refused and not who waits: the earliest deadline goes first. While there is
//! too much the highest criticality does, and inside one that is being cut the newest: its place in line is short, so that
//! whoever is served is served fast, and those who are not have waited in vain as few as can be.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::rules::{Mechanism, Rules, Spans};
use crate::server::gate::Waiting;
use crate::server::refusal::ServerRefusal;
use crate::{Criticality, Cutoff, Time};

/// Requests that wait, and what is theirs.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    classes: [Class<T>; 4],
    arrivals: u64,
}

/// Where a request stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    class: u8,
    key: Key,
}

/// By deadline, then by arrival.
type Key = (Time, u64);

#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) waiting: Waiting,
    pub(crate) payload: T,
}

#[derive(Debug)]
struct Class<T> {
    by_deadline: BTreeMap<Key, Entry<T>>,
    /// In order of arrival; some have left since.
    by_arrival: VecDeque<Key>,
    /// The same of those whose customer asks for more than its quota, or has none: their places are taken first.
    not_entitled: VecDeque<Key>,
    /// Nanoseconds of CPU.
    work: u64,
}

/// What becomes of the next one.
pub(crate) type Verdict<T> = (Entry<T>, Option<ServerRefusal>);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let class = || Class {
            by_deadline: BTreeMap::new(),
            by_arrival: VecDeque::new(),
            not_entitled: VecDeque::new(),
            work: 0,
        };
        Queue { classes: std::array::from_fn(|_| class()), arrivals: 0 }
    }
}

impl<T> Class<T> {
    fn take(&mut self, key: Key) -> Option<Entry<T>> {
        let entry = self.by_deadline.remove(&key)?;
        self.work = self.work.saturating_sub(entry.waiting.work());
        // At both ends, or those who left behind one that waits for long would stay on the list.
        for line in [&mut self.by_arrival, &mut self.not_entitled] {
            while let Some(first) = line.front()
                && !self.by_deadline.contains_key(first)
            {
                line.pop_front();
            }
            last_there(line, &self.by_deadline);
        }
        Some(entry)
    }

    fn newest(&mut self) -> Option<Key> {
        last_there(&mut self.by_arrival, &self.by_deadline)
    }

    fn newest_not_entitled(&mut self) -> Option<Key> {
        last_there(&mut self.not_entitled, &self.by_deadline)
    }

    fn oldest(&self) -> Option<Key> {
        self.by_arrival.front().copied()
    }

    fn most_urgent(&self) -> Option<Key> {
        self.by_deadline.first_key_value().map(|(key, _)| *key)
    }

    /// One whose deadline has passed. Some stand before it who have none, and have waited long.
    fn take_expired(&mut self, now: Time) -> Option<Entry<T>> {
        let mut early = self.by_deadline.range(..=(now, u64::MAX));
        let key = early.find(|(_, entry)| entry.waiting.deadline() <= now).map(|(key, _)| *key)?;
        self.take(key)
    }

    fn is_empty(&self) -> bool {
        self.by_deadline.is_empty()
    }
}

/// The last one that has not left.
fn last_there<T>(line: &mut VecDeque<Key>, there: &BTreeMap<Key, Entry<T>>) -> Option<Key> {
    while let Some(last) = line.back() {
        if there.contains_key(last) {
            return Some(*last);
        }
        line.pop_back();
    }
    None
}

impl<T> Queue<T> {
    pub(crate) fn push(&mut self, waiting: Waiting, payload: T) -> Place {
        self.arrivals += 1;
        // One without a deadline, or with a late one, is not passed by for ever.
        let key = (waiting.deadline().min(waiting.arrived() + PATIENCE), self.arrivals);
        let class = waiting.criticality().index();
        let line = &mut self.classes[class];
        line.work += waiting.work();
        line.by_arrival.push_back(key);
        if !waiting.is_entitled() {
            line.not_entitled.push_back(key);
        }
        line.by_deadline.insert(key, Entry { waiting, payload });
        Place { class: class as u8, key }
    }

    /// Takes out one whose client went away.
    pub(crate) fn remove(&mut self, place: Place) -> Option<Entry<T>> {
        self.classes[place.class as usize % 4].take(place.key)
    }

    pub(crate) fn len(&self) -> usize {
        self.classes.iter().map(|class| class.by_deadline.len()).sum()
    }

    pub(crate) fn work(&self) -> u64 {
        self.classes.iter().map(|class| class.work).sum()
    }

    /// One that has no place here any more: nobody waits for its answer, its criticality is refused as a whole, or there is
    /// more than may wait.
    pub(crate) fn take_victim(&mut self, now: Time, rules: &Rules) -> Option<Verdict<T>> {
        if rules.is_on(Mechanism::Deadline)
            && let Some(entry) = self.classes.iter_mut().find_map(|class| class.take_expired(now))
        {
            return Some((entry, Some(ServerRefusal::TooLate)));
        }
        let cutoff = rules.cutoff();
        let lowest = (0..4).find(|&class| !self.classes[class].is_empty())?;
        let criticality = Criticality::ALL[lowest];
        if (lowest as f64) + 1.0 <= cutoff.value() {
            let key = self.classes[lowest].oldest()?;
            return Some((self.classes[lowest].take(key)?, Some(ServerRefusal::Overloaded)));
        }
        if self.is_late_above(now, rules, lowest) && !rules.started_below(now, criticality) {
            let key = self.classes[lowest].oldest()?;
            return Some((self.classes[lowest].take(key)?, Some(ServerRefusal::Overloaded)));
        }
        if !self.is_too_long(rules) {
            return None;
        }
        let is_far_too_long = self.work() >= rules.spans().far_too_long();
        if rules.started_below(now, criticality) && !is_far_too_long {
            return None;
        }
        let line = &mut self.classes[lowest];
        let key = match line.newest_not_entitled() {
            _ if cutoff.cuts(criticality) => line.oldest(),
            _ if cutoff != Cutoff::NOTHING => line.newest(),
            Some(key) => Some(key),
            // What customers were promised is waited for, though on few processors a few dear ones make the line long.
            None if !is_far_too_long => return None,
            None => line.newest(),
        }?;
        Some((line.take(key)?, Some(ServerRefusal::QueueFull)))
    }

    /// Whether one that matters more than `lowest` has waited too long: it is to be refused only after all below it.
    fn is_late_above(&self, now: Time, rules: &Rules, lowest: usize) -> bool {
        self.classes[lowest + 1..].iter().any(|class| {
            let first = class.oldest().and_then(|key| class.by_deadline.get(&key));
            first.is_some_and(|entry| is_too_old(now, &entry.waiting, rules))
        })
    }

    /// Whether the work of some criticality and all above it is more than may wait of it.
    fn is_too_long(&self, rules: &Rules) -> bool {
        let mut work = 0;
        // A criticality that fits is not refused for what is below it.
        let present = Criticality::ALL.into_iter().rev().filter(|class| !self.classes[class.index()].is_empty());
        present.into_iter().any(|class| {
            work += self.classes[class.index()].work;
            work > most_of(class, rules.cutoff(), rules)
        })
    }

    /// The next one in line, to be started or, where it waited too long, refused.
    pub(crate) fn pop(&mut self, now: Time, rules: &Rules) -> Option<Verdict<T>> {
        let cutoff = rules.cutoff();
        let (class, key) = if rules.goes_by_criticality(cutoff) {
            let class = (0..4).rev().find(|&class| !self.classes[class].is_empty())?;
            let line = &mut self.classes[class];
            let key = match (cutoff.cuts(Criticality::ALL[class]), rules.is_over(Criticality::ALL[class])) {
                (true, _) => line.newest(),
                (false, true) => line.oldest(),
                (false, false) => line.most_urgent(),
            };
            (class, key?)
        } else {
            let urgent = |class: usize| Some((self.classes[class].most_urgent()?, class));
            let ((deadline, arrival), class) = (0..4).filter_map(urgent).min()?;
            (class, (deadline, arrival))
        };
        let entry = self.classes[class].take(key)?;
        if entry.waiting.deadline() <= now && rules.is_on(Mechanism::Deadline) {
            return Some((entry, Some(ServerRefusal::TooLate)));
        }
        let criticality = Criticality::ALL[class];
        let spares_lower = self.classes[..class].iter().all(Class::is_empty) && !rules.started_below(now, criticality);
        let is_late = is_too_old(now, &entry.waiting, rules) && spares_lower;
        Some((entry, is_late.then_some(ServerRefusal::WaitedTooLong)))
    }
}

/// How much work of a criticality and all above it may wait at this cutoff, in nanoseconds of CPU.
pub(crate) fn most_of(class: Criticality, cutoff: Cutoff, rules: &Rules) -> u64 {
    let Spans { cut, burst, .. } = rules.spans();
    match (cutoff.bits(), cutoff.cuts(class), rules.is_over(class)) {
        (_, false, false) => burst.saturating_mul(2),
        (0, ..) => burst,
        (_, true, _) => cut,
        (_, false, true) => cut / 5 * 3,
    }
}

/// How long others with an earlier deadline go first.
const PATIENCE: Duration = Duration::from_secs(1);

fn is_too_old(now: Time, waiting: &Waiting, rules: &Rules) -> bool {
    now.since(waiting.arrived()).as_nanos() as u64 > age_most(waiting, rules)
}

/// How long it may have waited, in nanoseconds.
fn age_most(waiting: &Waiting, rules: &Rules) -> u64 {
    let Spans { age, patience, .. } = rules.spans();
    let (cutoff, class) = (rules.cutoff(), waiting.criticality());
    let half = waiting.deadline().since(waiting.arrived()).as_nanos() as u64 / 2;
    let half = if rules.is_on(Mechanism::Deadline) { half } else { u64::MAX };
    match (cutoff.bits(), cutoff.cuts(class), rules.is_over(class)) {
        (0, ..) if waiting.is_entitled() => u64::MAX,
        (0, _, true) if rules.is_too_much() => patience.min(half),
        (0, _, true) => half,
        (0, ..) | (_, false, false) => u64::MAX,
        (_, true, _) => age,
        (_, false, true) => age / 5 * 3,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::server::admission::config::{Modes, Quota};
    use crate::server::admission::line::Line;
    use crate::server::admission::shadow::{Fate, Shadow};
    use crate::server::gate::{self, Gate, GateLocal};
    use crate::{CustomerId, RequestMeta, Rng};

    #[test]
    fn a_line_that_is_too_long_is_left_first_by_those_who_ask_for_more_than_their_quota() {
        let (now, gate) = (Time::from_secs(1), Arc::new(Gate::default()));
        let (loud, quiet) = (CustomerId(1), CustomerId(2));
        // Nothing is known of costs: each is taken for 1 ms.
        gate.buckets().set(loud, Some(Quota::of_cpu(0.001)));
        gate.buckets().set(quiet, Some(Quota::of_cpu(0.5)));
        gate.rules().set_slots(1);
        gate.rules().set_over([true; 4]);
        gate.rules().set_spans(Spans { age: u64::MAX, cut: u64::MAX, burst: 8_000_000, patience: u64::MAX });
        let (mut line, mut local, mut rng) = (Line::new(gate.clone()), GateLocal::default(), Rng::from_seed(7));
        let mut refused = |customer| {
            let meta = RequestMeta { customer, deadline: now + Duration::from_secs(1), ..RequestMeta::default() };
            if let Ok(gate::Entry::Wait(waiting)) = gate.admit(&mut local, now, &meta, &mut rng) {
                line.enter(waiting, customer);
            }
            line.next(now).map(|called| (called.payload, called.verdict.map(drop).map_err(|refused| refused.reason)))
        };
        // One runs, three wait, and from then on capacity is short.
        assert_eq!((0..20).find_map(|_| refused(loud)), None);

        let victims: Vec<_> = (0..23).filter_map(|_| refused(quiet)).collect();
        let more: Vec<_> = (0..2).filter_map(|_| refused(quiet)).collect();

        assert_eq!(victims, [(loud, Err(ServerRefusal::QueueFull)); 3]);
        assert_eq!(more, [(quiet, Err(ServerRefusal::QueueFull)); 2], "three times as much as a burst, and no more");
    }

    #[test]
    fn the_line_that_is_only_reckoned_with_has_the_same_order() {
        let (now, work) = (Time::from_secs(1), 50_000_000);
        let of =
            |criticality| RequestMeta { criticality, deadline: now + Duration::from_secs(1), ..RequestMeta::default() };
        for (is_too_much, critical) in [(false, Fate::Waits), (true, Fate::Starts)] {
            let (rules, shadow) = (Rules::new(&Modes::default()), Shadow::default());
            rules.set_too_much(is_too_much);
            shadow.set_pace(1.0, 0.0);
            assert!(shadow.tick(now).is_some());
            assert_eq!(shadow.enter(now, &of(Criticality::Sheddable), work, &rules), Fate::Starts);
            assert_eq!(shadow.enter(now, &of(Criticality::Critical), work, &rules), critical, "{is_too_much}");
            assert_eq!(shadow.enter(now, &of(Criticality::Sheddable), work, &rules), Fate::Waits);
        }
    }
}
