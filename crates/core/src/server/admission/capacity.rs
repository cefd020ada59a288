//! How much a task can do: CPU seconds of handlers in a second, when it is full.
//!
//! Not the number of its processors: framing, connections and refusals take their part, and so may others on the machine.
//! What handlers got while the task was full says what is left for them.

/// Learns the capacity of a task.
#[derive(Debug)]
pub(crate) struct Capacity {
    processors: f64,
    learned: f64,
}

impl Capacity {
    pub(crate) fn new(processors: f64) -> Self {
        Capacity { processors, learned: processors }
    }

    /// Whether that is possible; what is not changes nothing.
    pub(crate) fn set_processors(&mut self, processors: f64) -> bool {
        let is_possible = processors.is_finite() && processors > 0.0;
        if is_possible {
            self.learned *= processors / self.processors;
            self.processors = processors;
        }
        is_possible
    }

    pub(crate) fn processors(&self) -> f64 {
        self.processors
    }

    /// CPU seconds of handlers in a second.
    pub(crate) fn get(&self) -> f64 {
        self.learned
    }

    /// In a tick handlers got so many CPU seconds a second, while this share of the processors idled.
    pub(crate) fn read(&mut self, handlers: f64, idle: f64) {
        if idle < 0.5 {
            let full = (handlers / (1.0 - idle)).clamp(LEAST * self.processors, self.processors);
            self.learned += LEARNING * (full - self.learned);
        } else {
            self.learned += FORGETTING * (self.processors - self.learned);
        }
    }
}

const LEARNING: f64 = 0.05;
const FORGETTING: f64 = 0.02;
/// A reading below this share of the processors is a mistake: believing it, a task would refuse everything.
const LEAST: f64 = 0.05;
