//! What the program says of the machine (`Server::with_usage`): where it speaks, what is read does not count.
//!
//! What it has spoken of once is its own for good: while it says nothing of it, that is left out and not read elsewhere, since
//! the two may be of different things. The rest is read from the machine.

use evenkeel_core::Time;
use evenkeel_core::server::Usage;

use super::asked::Asked;
use super::{Readings, UsageSource};
use crate::clock::Steady;

/// The source of a program, and what it speaks of.
#[derive(Debug)]
pub(crate) struct Program {
    asked: Asked<Usage>,
    said: Usage,
    why_silent: Option<String>,
    /// Something for each kind that it has spoken of so far; nothing before its first answer.
    spoken: Option<Usage>,
}

impl Program {
    pub(crate) fn new(clock: Steady, mut source: UsageSource) -> Self {
        let asked = Asked::new(clock, "usage", move || Ok(source()));
        Program { asked, said: Usage::default(), why_silent: None, spoken: None }
    }

    pub(crate) fn start(&mut self) {
        self.asked.start();
    }

    pub(crate) fn wait_for_first(&self, until: Time) {
        self.asked.wait_for_first(until);
    }

    /// Takes its last answer; gives the processors that the rest is measured against, where it says so.
    pub(crate) fn listen(&mut self) -> Option<f64> {
        (self.said, self.why_silent) = match self.asked.last() {
            Some(Ok(usage)) => (usage, None),
            Some(Err(why)) => (Usage::default(), Some(why)),
            None => (Usage::default(), None),
        };
        if let Some(Ok(said)) = self.asked.last() {
            let before = self.spoken.unwrap_or_default();
            self.spoken = Some(Usage {
                utilization: before.utilization.or(said.utilization),
                processors: before.processors.or(said.processors),
                runnable: before.runnable.or(said.runnable),
                memory: before.memory.or(said.memory),
                throttled: before.throttled.or(said.throttled),
                delay: before.delay.or(said.delay),
                ..Usage::default()
            });
        }
        sound_count(self.said.processors)
    }

    /// Puts what it says in the place of what was read.
    pub(crate) fn override_in(&self, readings: &mut Readings) {
        let (said, own) = (&self.said, self.spoken.unwrap_or_else(unknown));
        let left_out = &mut readings.left_out;
        let mut take = |name: &str, own: Option<f64>, said: Option<f64>, read: &mut Option<f64>| {
            if own.is_some() {
                left_out.retain(|(other, _)| other != name);
                *read = said.filter(|value| is_sound(*value));
            }
            if let Some(nonsense) = said.filter(|value| !is_sound(*value)) {
                left_out.push((name.to_owned(), format!("the program says {nonsense}")));
            }
        };
        take("cpu", own.utilization, said.utilization, &mut readings.cpu);
        take("memory", own.memory, said.memory, &mut readings.memory);
        take("throttled", own.throttled, said.throttled, &mut readings.throttled);
        if own.processors.is_some() {
            readings.cpu_reserved = sound_count(said.processors);
        }
        let processors = readings.cpu_reserved;
        let load = said.runnable.zip(processors).map(|(runnable, processors)| runnable / processors);
        take("load", own.runnable, load, &mut readings.load_average);
        if own.delay.is_some() {
            left_out.retain(|(other, _)| other != "delay");
            readings.delay = said.delay;
        }
        if let Some(why) = &self.why_silent {
            left_out.push(("usage".to_owned(), why.clone()));
        }
    }

    /// A signal of the service as a whole: nobody else knows of it.
    pub(crate) fn plugged(&self) -> Option<f64> {
        self.said.plugged
    }
}

/// Of processors it may be about to speak, and those of the machine are others: until it has answered they are not known.
fn unknown() -> Usage {
    Usage { utilization: Some(0.0), processors: Some(0.0), runnable: Some(0.0), ..Usage::default() }
}

fn is_sound(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// What can be divided by.
fn sound_count(processors: Option<f64>) -> Option<f64> {
    processors.filter(|count| is_sound(*count) && *count > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(said: Usage) -> Program {
        let mut program = Program::new(Steady::new(), Box::new(move || said));
        program.start();
        program.wait_for_first(Time::NEVER);
        program.listen();
        program
    }

    fn read() -> Readings {
        let left_out = vec![("memory".to_owned(), "no cgroup tells".to_owned())];
        Readings { cpu: Some(0.1), cpu_reserved: Some(2.0), load_average: Some(0.2), left_out, ..Readings::default() }
    }

    #[test]
    fn what_it_speaks_of_is_its_own_and_the_rest_stays_as_it_was_read() {
        let program = program(Usage { utilization: Some(0.5), memory: Some(0.25), ..Usage::default() });
        let mut readings = read();

        program.override_in(&mut readings);

        assert_eq!((readings.cpu, readings.memory), (Some(0.5), Some(0.25)));
        assert_eq!((readings.cpu_reserved, readings.load_average), (Some(2.0), Some(0.2)));
        assert_eq!(readings.left_out, [], "what the machine could not say, the program does");
    }

    #[test]
    fn what_it_has_spoken_of_is_not_read_elsewhere_while_it_says_nothing_of_it() {
        let mut program = program(Usage { utilization: Some(0.5), ..Usage::default() });
        let mut readings = read();

        program.said = Usage::default();
        program.override_in(&mut readings);

        assert_eq!((readings.cpu, readings.load_average), (None, Some(0.2)));
    }

    #[test]
    fn before_its_first_answer_processors_are_not_known() {
        let mut readings = read();

        Program::new(Steady::new(), Box::new(Usage::default)).override_in(&mut readings);

        assert_eq!((readings.cpu, readings.cpu_reserved, readings.load_average), (None, None, None));
        assert_eq!(readings.left_out.len(), 1, "{readings:?}");
    }

    #[test]
    fn nonsense_is_left_out_and_said_so() {
        let said = Usage { utilization: Some(f64::NAN), processors: Some(0.0), memory: Some(-1.0), ..Usage::default() };
        let mut readings = read();

        program(said).override_in(&mut readings);

        assert_eq!((readings.cpu, readings.cpu_reserved, readings.memory), (None, None, None));
        let said: Vec<_> = readings.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(said, ["cpu: the program says NaN", "memory: the program says -1"]);
    }
}
