//! A machine of the demo: some cores of some speed, shared equally by the jobs on it.

use std::time::Duration;

use evenkeel_core::Time;

/// With `n` jobs each progresses at `speed * min(1, cores / n)`.
#[derive(Debug)]
pub(crate) struct Machine<T> {
    cores: f64,
    speed: f64,
    jobs: Vec<Job<T>>,
    looked: Time,
    busy_core_s: f64,
    /// How often the set of jobs changed; what was foretold before that does not hold any more.
    changes: u64,
}

#[derive(Debug)]
struct Job<T> {
    left_core_s: f64,
    tag: T,
}

impl<T> Machine<T> {
    pub(crate) fn new(cores: u32, speed: f64) -> Self {
        Machine { cores: f64::from(cores), speed, jobs: Vec::new(), looked: Time::ZERO, busy_core_s: 0.0, changes: 0 }
    }

    /// Takes on a job; `work` is how long it takes alone on a core of speed 1.
    pub(crate) fn start(&mut self, now: Time, work: Duration, tag: T) {
        self.pass_time(now);
        self.jobs.push(Job { left_core_s: work.as_secs_f64(), tag });
        self.changes += 1;
    }

    /// When the next job is done if nothing else starts, and the number to ask for it with.
    pub(crate) fn next_done(&self) -> Option<(Time, u64)> {
        let least = self.jobs.iter().map(|job| job.left_core_s).reduce(f64::min)?;
        let left = Duration::from_secs_f64((least / self.rate()).max(0.0));
        Some((self.looked + left, self.changes))
    }

    /// The job foretold under this number; none if others came or went since.
    pub(crate) fn finish(&mut self, now: Time, foretold: u64) -> Option<T> {
        if foretold != self.changes {
            return None;
        }
        self.pass_time(now);
        let left = |index: &usize| self.jobs[*index].left_core_s;
        let first = (0..self.jobs.len()).min_by(|a, b| left(a).total_cmp(&left(b)))?;
        self.changes += 1;
        Some(self.jobs.remove(first).tag)
    }

    /// Core-seconds in use until now, whatever the speed of the cores.
    pub(crate) fn busy_core_s(&mut self, now: Time) -> f64 {
        self.pass_time(now);
        self.busy_core_s
    }

    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    fn pass_time(&mut self, now: Time) {
        let passed_s = now.since(self.looked).as_secs_f64();
        let done_core_s = passed_s * self.rate();
        for job in &mut self.jobs {
            job.left_core_s -= done_core_s;
        }
        self.busy_core_s += passed_s * self.cores.min(self.jobs.len() as f64);
        self.looked = self.looked.max(now);
    }

    /// Progress of each job, in core-seconds of speed 1 a second.
    fn rate(&self) -> f64 {
        let jobs = self.jobs.len().max(1) as f64;
        self.speed * (self.cores / jobs).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_share_the_cores_and_end_when_foretold() {
        let mut machine = Machine::new(2, 0.5);
        for (work_ms, tag) in [(10, 'a'), (10, 'b'), (20, 'c')] {
            machine.start(Time::ZERO, Duration::from_millis(work_ms), tag);
        }

        // Three jobs on two cores of half speed: a third of a core each.
        let (at, foretold) = machine.next_done().unwrap();
        assert_eq!(at.nanos() / 1_000, 30_000);
        assert_eq!(machine.finish(at, foretold), Some('a'));
        assert_eq!(machine.finish(at, foretold), None, "foretold before another one ended");

        let (at, foretold) = machine.next_done().unwrap();
        assert_eq!(machine.finish(at, foretold), Some('b'));
        // Alone, the last 10 ms take 20 ms at half speed.
        let (at, _) = machine.next_done().unwrap();
        assert_eq!(at.nanos() / 1_000, 50_000);
        let busy_core_s = machine.busy_core_s(at);
        assert!((busy_core_s - 0.08).abs() < 1e-6, "{busy_core_s}");
    }
}
