//! One line for all cores: what no client that chooses can beat.
//!
//! Requests are taken in order of arrival by whichever core is free. Where several tasks have a free core, the one that
//! has been busy least gets it, so the load is as even as the machines allow: the fair floor for policies that are to
//! be even. (Always taking the fastest core would have shorter tails and leave slow machines idle.)

use std::collections::{BTreeSet, VecDeque};

/// The line and the free cores.
#[derive(Clone, Debug)]
pub(crate) struct Central<T> {
    line: VecDeque<T>,
    tasks: Vec<Task>,
    /// Usable tasks with a free core, the least busy first.
    free: BTreeSet<(u64, u32)>,
}

#[derive(Clone, Debug)]
struct Task {
    cores: u32,
    taken: u32,
    is_usable: bool,
    /// Nanoseconds of each core that what it was given takes.
    given: u64,
}

impl<T> Central<T> {
    /// Tasks with so many cores.
    pub(crate) fn new(cores: impl IntoIterator<Item = u32>) -> Self {
        let tasks: Vec<Task> =
            cores.into_iter().map(|cores| Task { cores, taken: 0, is_usable: true, given: 0 }).collect();
        let free = (0..tasks.len() as u32).map(|task| (0, task)).collect();
        Central { line: VecDeque::new(), tasks, free }
    }

    /// A request: starts at once on the task that is named, or waits in line.
    pub(crate) fn offer(&mut self, request: T) -> Option<u32> {
        let Some(&(_, task)) = self.free.first() else {
            self.line.push_back(request);
            return None;
        };
        self.take(task);
        Some(task)
    }

    /// What was started on this task will keep one of its cores for so long.
    pub(crate) fn charge(&mut self, task: u32, seconds: f64) {
        self.unlist(task);
        let one = &mut self.tasks[task as usize];
        one.given = one.given.saturating_add((seconds / f64::from(one.cores) * 1e9) as u64);
        self.list(task);
    }

    /// A core of this task is free again: who is next in line, and where.
    pub(crate) fn finished(&mut self, task: u32) -> Option<(T, u32)> {
        self.unlist(task);
        let one = &mut self.tasks[task as usize];
        one.taken = one.taken.saturating_sub(1);
        self.list(task);
        self.next()
    }

    /// Cores of this task that are taken.
    pub(crate) fn taken(&self, task: u32) -> u32 {
        self.tasks[task as usize].taken
    }

    /// The process is gone, and all it had.
    pub(crate) fn clear(&mut self, task: u32) {
        self.unlist(task);
        self.tasks[task as usize].taken = 0;
        self.list(task);
    }

    /// Who is next in line, if a core is free.
    pub(crate) fn next(&mut self) -> Option<(T, u32)> {
        let &(_, task) = self.free.first()?;
        let request = self.line.pop_front()?;
        self.take(task);
        Some((request, task))
    }

    /// Whether the task may be given anything more.
    pub(crate) fn set_usable(&mut self, task: u32, is_usable: bool) {
        self.unlist(task);
        self.tasks[task as usize].is_usable = is_usable;
        self.list(task);
    }

    fn take(&mut self, task: u32) {
        self.unlist(task);
        self.tasks[task as usize].taken += 1;
        self.list(task);
    }

    fn unlist(&mut self, task: u32) {
        self.free.remove(&(self.tasks[task as usize].given, task));
    }

    fn list(&mut self, task: u32) {
        let one = &self.tasks[task as usize];
        if one.is_usable && one.taken < one.cores {
            self.free.insert((one.given, task));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_busy_task_with_a_free_core_is_taken_and_the_rest_wait_in_line() {
        let mut central = Central::new([1, 1]);
        assert_eq!(central.offer("a"), Some(0));
        central.charge(0, 2.0);
        assert_eq!(central.offer("b"), Some(1));
        central.charge(1, 1.0);
        assert_eq!([central.offer("c"), central.offer("d")], [None, None]);

        assert_eq!(central.finished(1), Some(("c", 1)));
        assert_eq!(central.finished(0), Some(("d", 0)));
        assert_eq!((central.finished(0), central.finished(1)), (None, None));
        // Task 0 was charged two seconds, task 1 one.
        assert_eq!(central.offer("e"), Some(1));
    }

    #[test]
    fn a_task_that_is_down_gets_nothing() {
        let mut central = Central::new([1]);
        central.set_usable(0, false);
        assert_eq!(central.offer("a"), None);

        central.set_usable(0, true);
        assert_eq!(central.next(), Some(("a", 0)));
    }
}
