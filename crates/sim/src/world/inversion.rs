//! Whether one that matters less is let in while one that matters more is refused, at one door and of one customer.
//!
//! Both within 10 ms, and not within 100 ms of the cutoff passing a whole number: then another class is the one that is cut,
//! and those who wait or are on their way were judged by the old one.

use std::collections::{BTreeMap, VecDeque};

/// Looks at what the doors decide, one after another in order of time.
#[derive(Debug, Default)]
pub(crate) struct Inversion {
    doors: BTreeMap<(u32, u32), Door>,
    /// By task: between which whole numbers the cutoff was last, and when it came there.
    cutoffs: BTreeMap<u32, (u32, u64)>,
    pub(crate) refused: u64,
    pub(crate) accepted: u64,
    /// Those of them that have another one against them.
    pub(crate) refused_inverted: u64,
    pub(crate) accepted_inverted: u64,
}

/// Lately decided: when, which class, and whether it has another one against it already.
#[derive(Debug, Default)]
struct Door {
    refused: VecDeque<(u64, usize, bool)>,
    accepted: VecDeque<(u64, usize, bool)>,
}

impl Inversion {
    /// The cutoff of a task is so now.
    pub(crate) fn on_cutoff(&mut self, now: u64, task: u32, cutoff: f64) {
        // On a whole number it touches, and has not passed.
        if cutoff.fract() == 0.0 && cutoff != 0.0 {
            return;
        }
        let between = cutoff.floor() as u32;
        let (last, since) = self.cutoffs.entry(task).or_insert((between, 0));
        if *last != between {
            (*last, *since) = (between, now);
        }
    }

    pub(crate) fn on_refused(&mut self, now: u64, task: u32, customer: u32, class: usize) {
        self.refused += 1;
        if self.has_just_passed(now, task) {
            return;
        }
        let door = self.doors.entry((task, customer)).or_default();
        door.forget(now);
        let mut has = false;
        for (_, _, seen) in door.accepted.iter_mut().filter(|(_, lower, _)| *lower < class) {
            self.accepted_inverted += u64::from(!*seen);
            (*seen, has) = (true, true);
        }
        self.refused_inverted += u64::from(has);
        door.refused.push_back((now, class, has));
    }

    pub(crate) fn on_accepted(&mut self, now: u64, task: u32, customer: u32, class: usize) {
        self.accepted += 1;
        if self.has_just_passed(now, task) {
            return;
        }
        let door = self.doors.entry((task, customer)).or_default();
        door.forget(now);
        let mut has = false;
        for (_, _, seen) in door.refused.iter_mut().filter(|(_, higher, _)| *higher > class) {
            self.refused_inverted += u64::from(!*seen);
            (*seen, has) = (true, true);
        }
        self.accepted_inverted += u64::from(has);
        door.accepted.push_back((now, class, has));
    }

    fn has_just_passed(&self, now: u64, task: u32) -> bool {
        self.cutoffs.get(&task).is_some_and(|&(_, since)| since > 0 && now < since + AFTER_PASSING)
    }
}

impl Door {
    fn forget(&mut self, now: u64) {
        for list in [&mut self.refused, &mut self.accepted] {
            while list.front().is_some_and(|&(at, ..)| at + TOGETHER < now) {
                list.pop_front();
            }
        }
    }
}

/// Decisions this near are looked at together.
const TOGETHER: u64 = 10_000_000;
const AFTER_PASSING: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counts(of: &Inversion) -> [u64; 2] {
        [of.refused_inverted, of.accepted_inverted]
    }

    #[test]
    fn a_lower_one_let_in_within_ten_milliseconds_of_a_higher_one_refused_is_counted_once_on_each_side() {
        let mut seen = Inversion::default();
        seen.on_accepted(0, 0, 0, 1);
        seen.on_refused(9 * MS, 0, 0, 2);
        assert_eq!(counts(&seen), [1, 1]);
        seen.on_accepted(15 * MS, 0, 0, 1);
        assert_eq!(counts(&seen), [1, 2]);
        // Another class above, another customer, another door, another time.
        seen.on_accepted(16 * MS, 0, 0, 3);
        seen.on_accepted(16 * MS, 0, 1, 0);
        seen.on_accepted(16 * MS, 1, 0, 0);
        seen.on_accepted(30 * MS, 0, 0, 1);
        assert_eq!((counts(&seen), seen.refused, seen.accepted), ([1, 2], 1, 6));
    }

    #[test]
    fn nothing_is_counted_just_after_the_cutoff_passed_a_whole_number_and_touching_is_not_passing() {
        let mut seen = Inversion::default();
        for (at, cutoff) in [(1, 1.9), (11, 2.0), (21, 1.95)] {
            seen.on_cutoff(at * MS, 0, cutoff);
        }
        seen.on_accepted(22 * MS, 0, 0, 0);
        seen.on_refused(22 * MS, 0, 0, 1);
        assert_eq!(counts(&seen), [1, 1]);
        seen.on_cutoff(32 * MS, 0, 2.1);
        seen.on_accepted(131 * MS, 0, 0, 0);
        seen.on_refused(131 * MS, 0, 0, 1);
        assert_eq!(counts(&seen), [1, 1]);
        seen.on_refused(133 * MS, 0, 0, 1);
        seen.on_accepted(133 * MS, 0, 0, 0);
        assert_eq!(counts(&seen), [2, 2]);
    }
}
