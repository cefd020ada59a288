//! Signals that the program plugs in (B10): whatever runs out first in its service, over how much there is of it.
//!
//! A bad one must not harm the server: each is asked on a thread of its own, what it says is checked, and a panic is caught.

use std::collections::BTreeSet;

use evenkeel_core::InvalidConfig;

use super::asked::Asked;
use crate::clock::Steady;

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

    /// How much of it is in use, ten times a second on a thread of its own; nothing if that is not known. One that has not
    /// answered for three seconds is left out until it does.
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
#[derive(Debug)]
pub(crate) struct Plugged {
    pub(crate) name: String,
    pub(crate) asked: Asked<f64>,
}

impl Plugged {
    /// Checks names and capacities of all of them.
    pub(crate) fn check(clock: Steady, signals: Vec<Box<dyn Signal>>) -> Result<Vec<Plugged>, InvalidConfig> {
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
            let asked = Asked::new(clock, &name, reading(signal));
            plugged.push(Plugged { name, asked });
        }
        Ok(plugged)
    }
}

/// In use over capacity, or why not.
fn reading(mut signal: Box<dyn Signal>) -> impl FnMut() -> Result<f64, String> + Send {
    move || match (signal.read(), signal.capacity()) {
        (Some(value), capacity) => in_use(value, capacity),
        (None, _) => Err("it says nothing".to_owned()),
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
pub(crate) const BUILT_IN: [&str; 13] = [
    "usage",
    "plugged",
    "load",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plug(name: &str, capacity: f64, read: impl FnMut() -> f64 + Send + 'static) -> Box<dyn Signal> {
        Box::new(Closure { name: name.to_owned(), capacity, read })
    }

    fn one(capacity: f64, read: impl FnMut() -> f64 + Send + 'static) -> Result<f64, String> {
        reading(plug("queue_depth", capacity, read))()
    }

    fn check(signals: Vec<Box<dyn Signal>>) -> Result<Vec<Plugged>, InvalidConfig> {
        Plugged::check(Steady::new(), signals)
    }

    #[test]
    fn names_are_plain_and_each_is_taken_once() {
        for name in ["", "Queue", "queue depth", "queue-depth", "größe", "cpu", "memory", "delay", "load", "plugged"]
        {
            let refused = check(vec![plug(name, 1.0, || 0.0)]).unwrap_err();
            assert_eq!((refused.field, refused.value), ("signal.name", format!("{name:?}")));
        }

        let twice = check(vec![plug("a", 1.0, || 0.0), plug("b", 1.0, || 0.0), plug("a", 1.0, || 0.0)]);

        let told = twice.unwrap_err().to_string();
        assert_eq!(told, r#"signal.name = "a" is not possible: is taken by another signal: choose another name"#);
    }

    #[test]
    fn capacities_that_cannot_be_divided_by_are_refused() {
        for capacity in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let refused = check(vec![plug("queue_depth", capacity, || 0.0)]).unwrap_err();

            assert_eq!(refused.field, "signal.capacity");
            assert!(refused.value.ends_with("of queue_depth"), "{refused}");
        }
    }

    #[test]
    fn a_reading_is_a_share_and_nonsense_is_left_out() {
        assert_eq!(one(20.0, || 5.0), Ok(0.25));
        assert_eq!(one(20.0, || 50.0), Ok(2.5), "more than there is may be so");
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(one(20.0, move || value).is_err(), "{value}");
        }
        assert!(one(1e-300, || 1e300).is_err(), "infinite");
    }
}
