//! A machine that shares its cores among the requests it works on.
//!
//! With no more requests than cores each has a core to itself; beyond that all get an equal share. All run at one rate,
//! so one number, the work each has got so far, says who is finished next: adding or ending a request is a push or a pop
//! of a heap, whatever the number of the others.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Who a piece of work belongs to, as the world counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    pub(crate) request: u32,
    pub(crate) generation: u32,
}

/// Cores, their speed, and what runs on them.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    cores: f64,
    /// Work a core does in a second; 0 while it hangs.
    speed: f64,
    running: u32,
    /// Those of `running` that are no handlers: answers to refused requests.
    aside: u32,
    /// Seconds of work that every request running since it was 0 has got.
    level: f64,
    /// When `level` and `busy` were brought up to date.
    at: u64,
    jobs: BinaryHeap<Reverse<Piece>>,
    /// Core-seconds in use since the machine was switched on, and those of handlers.
    busy: f64,
    handled: f64,
}

/// Ends when the level reaches `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    end: f64,
    job: Job,
}

impl Machine {
    pub(crate) fn new(cores: u32, speed: f64) -> Self {
        Machine {
            cores: f64::from(cores),
            speed,
            running: 0,
            aside: 0,
            level: 0.0,
            at: 0,
            jobs: BinaryHeap::new(),
            busy: 0.0,
            handled: 0.0,
        }
    }

    pub(crate) fn cores(&self) -> f64 {
        self.cores
    }

    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// Core-seconds in use up to `now`.
    pub(crate) fn busy(&mut self, now: u64) -> f64 {
        self.advance(now);
        self.busy
    }

    /// Core-seconds that handlers had up to `now`.
    pub(crate) fn handled(&mut self, now: u64) -> f64 {
        self.advance(now);
        self.handled
    }

    pub(crate) fn set_speed(&mut self, now: u64, speed: f64) {
        self.advance(now);
        self.speed = speed;
    }

    /// `work` seconds of a core of speed 1.
    pub(crate) fn start(&mut self, now: u64, job: Job, work: f64) {
        self.advance(now);
        if self.running == 0 {
            // Nobody compares with what was: begin at 0 again, where numbers are finest.
            self.jobs.clear();
            self.level = 0.0;
        }
        self.running += 1;
        self.jobs.push(Reverse(Piece { end: self.level + work, job }));
    }

    /// The same for work that is no handler's.
    pub(crate) fn start_aside(&mut self, now: u64, job: Job, work: f64) {
        self.start(now, job, work);
        self.aside += 1;
    }

    /// One request less, without being finished. Its piece stays behind and is passed over by whoever takes it.
    pub(crate) fn abandon(&mut self, now: u64) {
        self.advance(now);
        debug_assert!(self.running > 0, "nothing runs that could be abandoned");
        self.running = self.running.saturating_sub(1);
    }

    /// The same for work that is no handler's.
    pub(crate) fn abandon_aside(&mut self, now: u64) {
        self.abandon(now);
        self.aside = self.aside.saturating_sub(1);
    }

    /// Everything at once: the process is gone.
    pub(crate) fn clear(&mut self, now: u64) {
        self.advance(now);
        (self.running, self.aside) = (0, 0);
        self.jobs.clear();
    }

    /// The next piece that is finished by now; the caller says with [`Machine::finished`] if somebody still wanted it.
    pub(crate) fn take_finished(&mut self, now: u64) -> Option<Job> {
        self.advance(now);
        let Reverse(first) = self.jobs.peek()?;
        if first.end > self.level + NANOSECOND {
            return None;
        }
        self.jobs.pop().map(|Reverse(piece)| piece.job)
    }

    /// What was taken was running until now.
    pub(crate) fn finished(&mut self) {
        debug_assert!(self.running > 0, "nothing runs that could be finished");
        self.running = self.running.saturating_sub(1);
    }

    /// The same for work that was no handler's.
    pub(crate) fn finished_aside(&mut self) {
        debug_assert!(self.aside > 0, "nothing runs aside that could be finished");
        self.finished();
        self.aside = self.aside.saturating_sub(1);
    }

    /// When the next piece is finished if nothing changes.
    pub(crate) fn next_finish(&self) -> Option<u64> {
        let Reverse(first) = self.jobs.peek()?;
        let rate = self.rate();
        if rate <= 0.0 {
            return None;
        }
        let nanos = ((first.end - self.level).max(0.0) / rate * 1e9).ceil();
        // Further away than any run lasts: a cast saturates.
        Some(self.at.saturating_add(nanos as u64))
    }

    fn advance(&mut self, now: u64) {
        let seconds = now.saturating_sub(self.at) as f64 * 1e-9;
        self.level += seconds * self.rate();
        let busy = seconds * f64::from(self.running).min(self.cores);
        self.busy += busy;
        self.handled += busy * f64::from(self.running - self.aside) / f64::from(self.running.max(1));
        self.at = now;
    }

    /// Work that each running request gets in a second.
    fn rate(&self) -> f64 {
        self.speed * (self.cores / f64::from(self.running.max(1))).min(1.0)
    }
}

impl Eq for Piece {}

impl PartialOrd for Piece {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Piece {
    fn cmp(&self, other: &Self) -> Ordering {
        self.end.total_cmp(&other.end).then(self.job.cmp(&other.job))
    }
}

/// Times are whole nanoseconds, so work is finished up to one of them early.
const NANOSECOND: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn job(request: u32) -> Job {
        Job { request, generation: 0 }
    }

    fn finish(machine: &mut Machine) -> (u64, u32) {
        let at = machine.next_finish().unwrap();
        let job = machine.take_finished(at).unwrap();
        machine.finished();
        (at, job.request)
    }

    #[test]
    fn up_to_its_cores_requests_do_not_feel_each_other() {
        let mut machine = Machine::new(2, 1.0);
        machine.start(0, job(1), 0.010);
        machine.start(0, job(2), 0.020);

        assert_eq!(finish(&mut machine), (10 * MS, 1));
        assert_eq!(finish(&mut machine), (20 * MS, 2));
        assert!((machine.busy(30 * MS) - 0.030).abs() < 1e-12);
    }

    #[test]
    fn beyond_its_cores_all_get_an_equal_share() {
        let mut machine = Machine::new(1, 1.0);
        machine.start(0, job(1), 0.010);
        machine.start(0, job(2), 0.020);

        assert_eq!(finish(&mut machine), (20 * MS, 1));
        assert_eq!(finish(&mut machine), (30 * MS, 2));
        assert!((machine.busy(40 * MS) - 0.030).abs() < 1e-12);
    }

    #[test]
    fn what_is_done_aside_takes_its_share_and_is_not_the_handlers() {
        let mut machine = Machine::new(1, 1.0);
        machine.start(0, job(1), 0.010);
        machine.start_aside(0, job(2), 0.002);

        let at = machine.next_finish().unwrap();
        assert_eq!((at, machine.take_finished(at)), (4 * MS, Some(job(2))));
        machine.finished_aside();
        assert!((machine.handled(4 * MS) - 0.002).abs() < 1e-12);
        assert_eq!(finish(&mut machine), (12 * MS, 1));
        assert!((machine.handled(20 * MS) - 0.010).abs() < 1e-12);
        assert!((machine.busy(20 * MS) - 0.012).abs() < 1e-12);
    }

    #[test]
    fn a_slower_machine_is_busy_for_longer_with_the_same_work() {
        let mut machine = Machine::new(1, 0.5);
        machine.start(0, job(1), 0.010);

        assert_eq!(finish(&mut machine), (20 * MS, 1));
        assert!((machine.busy(20 * MS) - 0.020).abs() < 1e-12);
    }

    #[test]
    fn speed_may_change_while_it_works_and_stop() {
        let mut machine = Machine::new(1, 1.0);
        machine.start(0, job(1), 0.010);
        machine.set_speed(5 * MS, 0.0);
        assert_eq!(machine.next_finish(), None);
        machine.set_speed(50 * MS, 1.0);

        assert_eq!(finish(&mut machine), (55 * MS, 1));
    }

    #[test]
    fn who_is_abandoned_gives_its_share_to_the_others() {
        let mut machine = Machine::new(1, 1.0);
        machine.start(0, job(1), 0.010);
        machine.start(0, job(2), 0.010);
        machine.abandon(10 * MS);

        // Both had got 5 ms; the one that stays has the core for the other 5.
        assert_eq!(machine.next_finish(), Some(15 * MS));
    }
}
