//! How much a task can do: CPU seconds of handlers in a second, when it is full.
//!
//! Not the number of its processors: framing, connections and refusals take their part, and so may others on the machine.
//! What handlers got while the task was full says what is left for them.

/// Learns the capacity of a task.
#[derive(Debug)]
pub(crate) struct Capacity {
    processors: f64,
    /// CPU seconds that a processor has in a second, as the reference machine counts them.
    factor: f64,
    learned: f64,
}

impl Capacity {
    pub(crate) fn new(processors: f64) -> Self {
        Capacity { processors, factor: 1.0, learned: processors }
    }

    /// Whether that is possible; what is not changes nothing.
    pub(crate) fn set_processors(&mut self, processors: f64, factor: f64) -> bool {
        let is_possible = (PROCESSORS_LEAST..=PROCESSORS_MOST).contains(&processors);
        if is_possible {
            self.learned *= processors * factor / self.most();
            (self.processors, self.factor) = (processors, factor);
        }
        is_possible
    }

    pub(crate) fn processors(&self) -> f64 {
        self.processors
    }

    /// All that its processors have, were it all for handlers.
    pub(crate) fn most(&self) -> f64 {
        self.processors * self.factor
    }

    /// CPU seconds of handlers in a second.
    pub(crate) fn get(&self) -> f64 {
        self.learned
    }

    /// In a tick handlers got so many CPU seconds a second, while this share of the processors idled. `sureness` is from 0 to 1: how far
    /// that is believed.
    pub(crate) fn read(&mut self, handlers: f64, idle: f64, sureness: f64) {
        if idle < 0.5 {
            // A poll longer than a tick is charged in one of many: such readings are right only on average.
            let full = handlers / (1.0 - idle);
            let learned = self.learned + sureness * LEARNING * (full - self.learned);
            self.learned = learned.clamp(LEAST * self.most(), self.most());
        } else {
            self.learned += FORGETTING * (self.most() - self.learned);
        }
    }
}

/// No machine has fewer or more: a source that says so is wrong.
const PROCESSORS_LEAST: f64 = 0.001;
const PROCESSORS_MOST: f64 = 65_536.0;
const LEARNING: f64 = 0.05;
const FORGETTING: f64 = 0.02;
/// A reading below this share of the processors is a mistake: believing it, a task would refuse everything.
const LEAST: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fresh_task_gets_for_its_handlers_hardly_counts() {
        let after = |sureness| {
            let mut capacity = Capacity::new(2.0);
            (0..10).for_each(|_| capacity.read(0.1, 0.0, sureness));
            capacity.get()
        };
        assert!(after(1.0) < 1.3 && after(0.05) > 1.9, "{} {}", after(1.0), after(0.05));
    }
}
