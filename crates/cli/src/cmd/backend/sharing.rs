//! Processor sharing in arithmetic: n jobs on c processors each get min(1, c/n) of a processor.
//!
//! All jobs that are there progress alike, so one number, the work that a job which was there all along has got, says
//! how far each of them is: a job ends when that number has grown by its work. Whoever asks late learns the same as
//! whoever asks often: between two questions, jobs end in their order and each leaves its share to the others.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_core::Time;

/// Jobs on processors, each with something (`T`) to find it by when it ends.
#[derive(Debug)]
pub(crate) struct Sharing<T> {
    cores: f64,
    /// Work done in a second of a processor, in seconds.
    speed: f64,
    /// Until when this is worked out.
    at: Time,
    /// What a job that was there all along has got.
    progress_ns: f64,
    busy_core_ns: f64,
    jobs: BTreeMap<JobId, T>,
    begun: u64,
}

/// Where a job stands: the progress at which it ends, then the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobId {
    end_ns: u64,
    number: u64,
}

impl<T> Sharing<T> {
    pub(crate) fn new(now: Time, cores: u32, speed: f64) -> Self {
        let (cores, jobs) = (f64::from(cores), BTreeMap::new());
        Sharing { cores, speed, at: now, progress_ns: 0.0, busy_core_ns: 0.0, jobs, begun: 0 }
    }

    /// A job arrives. Call [`Sharing::advance`] first.
    pub(crate) fn begin(&mut self, work: Duration, token: T) -> JobId {
        if self.jobs.is_empty() {
            // Nobody is there to compare with, and small numbers keep their precision.
            self.progress_ns = 0.0;
        }
        let end_ns = (self.progress_ns + work.as_nanos() as f64).round() as u64;
        let job = JobId { end_ns, number: self.begun };
        self.begun += 1;
        self.jobs.insert(job, token);
        job
    }

    /// A job leaves before its end, if it has not ended.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// What ended until now, in order.
    pub(crate) fn advance(&mut self, now: Time) -> Vec<T> {
        let mut ended = Vec::new();
        while let Some((first, left_ns)) = self.first_end() {
            let passed_ns = now.since(self.at).as_nanos() as f64;
            if left_ns > passed_ns + HALF_NANOSECOND {
                self.busy_core_ns += passed_ns * self.busy_cores();
                self.progress_ns += passed_ns * self.rate();
                break;
            }
            self.busy_core_ns += left_ns * self.busy_cores();
            self.progress_ns = first.end_ns as f64;
            self.at = self.at + Duration::from_nanos(left_ns.round() as u64);
            ended.extend(self.jobs.remove(&first));
        }
        self.at = self.at.max(now);
        ended
    }

    /// When the next job ends unless others come or go.
    pub(crate) fn next_end(&self) -> Option<Time> {
        self.first_end().map(|(_, left_ns)| self.at + Duration::from_nanos(left_ns.ceil() as u64))
    }

    /// Jobs that are there.
    pub(crate) fn running(&self) -> usize {
        self.jobs.len()
    }

    /// Processor time used so far.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_core_ns.round() as u64)
    }

    fn first_end(&self) -> Option<(JobId, f64)> {
        let (&first, _) = self.jobs.first_key_value()?;
        Some((first, (first.end_ns as f64 - self.progress_ns).max(0.0) / self.rate()))
    }

    fn busy_cores(&self) -> f64 {
        self.cores.min(self.jobs.len() as f64)
    }

    /// Progress of each job in a nanosecond.
    fn rate(&self) -> f64 {
        self.speed * (self.cores / self.jobs.len().max(1) as f64).min(1.0)
    }
}

/// Times are whole nanoseconds; what is nearer than half of one is now.
const HALF_NANOSECOND: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_secs(1);

    fn after(ms: u64) -> Time {
        START + Duration::from_millis(ms)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn two_jobs_on_one_processor_take_twice_as_long() {
        let mut sharing = Sharing::new(START, 1, 1.0);
        sharing.begin(ms(10), 'a');
        sharing.begin(ms(10), 'b');

        assert_eq!(sharing.next_end(), Some(after(20)));
        assert_eq!(sharing.advance(after(19)), []);
        assert_eq!(sharing.advance(after(20)), ['a', 'b']);
        assert_eq!((sharing.busy(), sharing.running()), (ms(20), 0));
    }

    #[test]
    fn two_jobs_on_two_processors_do_not_feel_each_other() {
        let mut sharing = Sharing::new(START, 2, 0.5);
        sharing.begin(ms(10), 'a');
        sharing.begin(ms(15), 'b');

        assert_eq!(sharing.advance(after(20)), ['a']);
        assert_eq!(sharing.next_end(), Some(after(30)));
        assert_eq!(sharing.advance(after(1_000)), ['b']);
        assert_eq!(sharing.busy(), ms(50));
    }

    #[test]
    fn a_short_job_leaves_its_share_to_the_long_one() {
        let mut sharing = Sharing::new(START, 1, 1.0);
        sharing.begin(ms(30), "long");
        assert_eq!(sharing.advance(after(10)), [""; 0]);
        sharing.begin(ms(5), "short");

        // Both get half from 10 ms on: the short one ends at 20, and the long one has 15 to go.
        assert_eq!(sharing.next_end(), Some(after(20)));
        assert_eq!(sharing.advance(after(20)), ["short"]);
        assert_eq!(sharing.next_end(), Some(after(35)));
    }

    #[test]
    fn asking_late_or_often_comes_to_the_same() {
        let ends = |step: u64| {
            let mut sharing = Sharing::new(START, 2, 0.7);
            let mut ends = Vec::new();
            for (number, work) in [40, 10, 25, 5, 60].into_iter().enumerate() {
                sharing.begin(ms(work), number);
            }
            for passed in (0..=400).step_by(step as usize) {
                ends.extend(sharing.advance(after(passed)));
            }
            (ends, sharing.busy().as_micros())
        };

        assert_eq!(ends(1), ends(400));
        // 140 ms of work at 0.7 of the speed.
        assert_eq!(ends(400), (vec![3, 1, 2, 0, 4], 200_000));
    }

    #[test]
    fn a_job_that_leaves_uses_nothing_more() {
        let mut sharing = Sharing::new(START, 1, 1.0);
        let gone = sharing.begin(ms(100), 'a');
        sharing.begin(ms(10), 'b');
        sharing.advance(after(10));

        sharing.remove(gone);

        assert_eq!(sharing.next_end(), Some(after(15)));
        assert_eq!(sharing.advance(after(50)), ['b']);
        assert_eq!(sharing.busy(), ms(15));
    }

    #[test]
    fn a_clock_that_jumps_back_makes_no_time_pass() {
        let mut sharing = Sharing::new(START, 1, 1.0);
        sharing.begin(ms(10), 'a');

        assert_eq!(sharing.advance(Time::ZERO), []);
        assert_eq!(sharing.next_end(), Some(after(10)));
    }
}
