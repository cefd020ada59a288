//! Signals that the program plugs in (B10): whatever runs out first in its service, over how much there is of it.
//!
//! They run on the server's own task, so a bad one must not harm it: what it says is checked, and a panic is caught.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use evenkeel_core::{InvalidConfig, Time};

/// Something that can run out: a queue, a pool, a licence.
///
/// ```
/// use evenkeel::server::Signal;
///
/// struct Pool;
///
/// impl Signal for Pool {
///     fn name(&self) -> &str {
///         "database_connections"
///     }
///
///     fn read(&mut self) -> Option<f64> {
///         Some(12.0)
///     }
///
///     fn capacity(&self) -> f64 {
///         20.0
///     }
/// }
///
/// let server = evenkeel::Server::new().with_signal_source(Pool);
/// ```
pub trait Signal: Send {
    /// What it is called: lower case letters, digits and underscores, and no name of another signal.
    fn name(&self) -> &str;

    /// How much of it is in use, ten times a second; nothing if that is not known. Must not block: the server waits.
    fn read(&mut self) -> Option<f64>;

    /// How much of it there is: above zero. Default: what is read is a share already.
    fn capacity(&self) -> f64 {
        1.0
    }
}

/// A signal that is a closure.
pub(crate) struct Closure<F> {
    pub(crate) name: String,
    pub(crate) capacity: f64,
    pub(crate) read: F,
}

impl<F: FnMut() -> f64 + Send> Signal for Closure<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&mut self) -> Option<f64> {
        Some((self.read)())
    }

    fn capacity(&self) -> f64 {
        self.capacity
    }
}

/// A signal that passed the checks.
pub(crate) struct Plugged {
    pub(crate) name: String,
    signal: Box<dyn Signal>,
    /// After a panic it is left alone for a while, or every reading would print one.
    again_at: Time,
    panicked: bool,
}

impl Plugged {
    /// Checks names and capacities of all of them.
    pub(crate) fn check(signals: Vec<Box<dyn Signal>>) -> Result<Vec<Plugged>, InvalidConfig> {
        let mut taken = BTreeSet::new();
        let mut plugged = Vec::with_capacity(signals.len());
        for signal in signals {
            let name = signal.name().to_owned();
            let refused = |value, allowed: &str| {
                Err(InvalidConfig { field: "signal.name", value: format!("{value:?}"), allowed: allowed.to_owned() })
            };
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if name.is_empty() || !name.chars().all(is_plain) {
                return refused(name, "must be lower case letters, digits and underscores");
            }
            if BUILT_IN.contains(&name.as_str()) {
                return refused(name, "is a signal of the machine: choose another name");
            }
            if !taken.insert(name.clone()) {
                return refused(name, "is taken by another signal: choose another name");
            }
            let capacity = signal.capacity();
            if !is_capacity(capacity) {
                let value = format!("{capacity:?} of {name}");
                let allowed = "must be finite and above 0: say how much of it there is".to_owned();
                return Err(InvalidConfig { field: "signal.capacity", value, allowed });
            }
            plugged.push(Plugged { name, signal, again_at: Time::ZERO, panicked: false });
        }
        Ok(plugged)
    }

    /// In use over capacity, or why not.
    pub(crate) fn read(&mut self, now: Time) -> Result<f64, String> {
        if self.panicked && now < self.again_at {
            return Err("it panicked".to_owned());
        }
        let signal = &mut self.signal;
        let read = catch_unwind(AssertUnwindSafe(|| (signal.read(), signal.capacity())));
        self.panicked = read.is_err();
        match read {
            Ok((Some(value), capacity)) => in_use(value, capacity),
            Ok((None, _)) => Err("it says nothing".to_owned()),
            Err(_) => {
                self.again_at = now + AFTER_PANIC;
                Err("it panicked".to_owned())
            }
        }
    }
}

impl fmt::Debug for Plugged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugged").field("name", &self.name).finish_non_exhaustive()
    }
}

fn in_use(value: f64, capacity: f64) -> Result<f64, String> {
    if !is_capacity(capacity) {
        return Err(format!("its capacity is {capacity}"));
    }
    let share = value / capacity;
    if share.is_finite() && value >= 0.0 { Ok(share) } else { Err(format!("it says {value} of {capacity}")) }
}

fn is_capacity(capacity: f64) -> bool {
    capacity.is_finite() && capacity > 0.0
}

/// What the machine's signals are called.
pub(crate) const BUILT_IN: [&str; 10] = [
    "cpu",
    "cpu_reserved",
    "throttled",
    "memory",
    "load_average",
    "delay",
    "connections",
    "connections_per_second",
    "checks",
    "checks_per_second",
];
/// So that one that always panics prints it six times a minute.
const AFTER_PANIC: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(100);

    fn plug(name: &str, capacity: f64, read: impl FnMut() -> f64 + Send + 'static) -> Box<dyn Signal> {
        Box::new(Closure { name: name.to_owned(), capacity, read })
    }

    fn one(capacity: f64, read: impl FnMut() -> f64 + Send + 'static) -> Plugged {
        Plugged::check(vec![plug("queue_depth", capacity, read)]).unwrap().remove(0)
    }

    #[test]
    fn names_are_plain_and_each_is_taken_once() {
        for name in ["", "Queue", "queue depth", "queue-depth", "größe", "cpu", "memory", "delay", "load_average"] {
            let refused = Plugged::check(vec![plug(name, 1.0, || 0.0)]).unwrap_err();
            assert_eq!((refused.field, refused.value), ("signal.name", format!("{name:?}")));
        }

        let twice = Plugged::check(vec![plug("a", 1.0, || 0.0), plug("b", 1.0, || 0.0), plug("a", 1.0, || 0.0)]);

        let told = twice.unwrap_err().to_string();
        assert_eq!(told, r#"signal.name = "a" is not possible: is taken by another signal: choose another name"#);
    }

    #[test]
    fn capacities_that_cannot_be_divided_by_are_refused() {
        for capacity in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = Plugged::check(vec![plug("queue_depth", capacity, || 0.0)]).unwrap_err();

            assert_eq!(refused.field, "signal.capacity");
            assert!(refused.value.ends_with("of queue_depth"), "{refused}");
        }
    }

    #[test]
    fn a_reading_is_a_share_and_nonsense_is_left_out() {
        assert_eq!(one(20.0, || 5.0).read(NOW), Ok(0.25));
        assert_eq!(one(20.0, || 50.0).read(NOW), Ok(2.5), "more than there is may be so");
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(one(20.0, move || value).read(NOW).is_err(), "{value}");
        }
        assert!(one(1e-300, || 1e300).read(NOW).is_err(), "infinite");
    }

    #[test]
    fn one_that_panics_is_left_alone_for_a_while() {
        let mut asked = 0;
        let mut signal = one(1.0, move || {
            asked += 1;
            assert!(asked > 1, "not the first time");
            0.5
        });

        assert!(signal.read(NOW).is_err());
        assert!(signal.read(NOW + AFTER_PANIC / 2).is_err(), "not asked");
        assert_eq!(signal.read(NOW + AFTER_PANIC), Ok(0.5));
        assert_eq!(signal.read(NOW), Ok(0.5), "a clock that jumps back is nothing to it");
    }
}
