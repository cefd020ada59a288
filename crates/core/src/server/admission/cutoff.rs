//! The cutoff (DESIGN §6.13): what must be refused so that the rest fits.
//!
//! It is computed, not searched for: demand by criticality and capacity are known, so the classes are filled from the top
//! until the capacity is used up. A slow trim then balances what is lost by idling against what is lost by refusing. It
//! engages only when demand has been above capacity for longer than a burst lasts, and work is waiting.

use super::demand::{Demand, Tick};

/// Moves the cutoff, tick by tick.
#[derive(Debug)]
pub(crate) struct Controller {
    engaged: bool,
    /// Seconds for which it is.
    engaged_for: f64,
    /// How much of the capacity is handed out, against what idling and refusing cost.
    trim: f64,
    value: f64,
    /// For how many ticks in a row demand has been far too high, and low enough.
    high: f64,
    low: f64,
    /// Rises with ticks in which demand is a little too high, and leaks.
    pressed: f64,
}

/// What a tick was like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) tick: Tick,
    /// Ticks that this one stands for, where it was long and nothing changed in it.
    pub(crate) ticks: f64,
    pub(crate) demand: &'a Demand,
    /// Whether that is more than fits, and not by chance.
    pub(crate) is_too_much: bool,
    /// CPU seconds of handlers in a second; and what is handed out of it, by prices that may be too high.
    pub(crate) capacity: f64,
    pub(crate) room: f64,
    /// Work in line over what a burst may bring.
    pub(crate) queue: f64,
    /// Share of the capacity that idled, and that refusals took.
    pub(crate) idle: f64,
    pub(crate) refusing: f64,
}

impl Default for Controller {
    fn default() -> Self {
        Controller { engaged: false, engaged_for: 0.0, trim: 1.0, value: 0.0, high: 0.0, low: 0.0, pressed: 0.0 }
    }
}

impl Controller {
    #[cfg(test)]
    pub(crate) fn at(value: f64) -> Self {
        Controller { engaged: true, value, ..Controller::default() }
    }

    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    pub(crate) fn is_engaged(&self) -> bool {
        self.engaged
    }

    /// How far from being as short as it becomes the line of what is cut still is, from 1 when it engages down to 0. Short at once, it
    /// would throw away what has waited all at the same time, and the processors would idle after it.
    pub(crate) fn shortening(&self) -> f64 {
        if self.engaged { (1.0 - self.engaged_for / SHORT_AFTER).max(0.0) } else { 0.0 }
    }

    pub(crate) fn trim(&self) -> f64 {
        self.trim
    }

    /// Nothing is known of this moment: a step towards letting all in.
    pub(crate) fn relax(&mut self) {
        self.value = step_towards(self.value, 0.0);
        self.engaged = self.engaged && self.value > 0.0;
    }

    pub(crate) fn read(&mut self, reading: &Reading<'_>) {
        let Reading { tick, ticks, demand, is_too_much, capacity, room, queue, idle, refusing } = *reading;
        let all = demand.from(0);
        let came = tick.sum() / tick.seconds;
        let chance = tick.sigma() / tick.seconds;
        let waits = queue > ENGAGE_QUEUE;
        self.high = if came > 1.3 * capacity + chance && waits { self.high + ticks } else { 0.0 };
        self.pressed = if is_too_much && waits { self.pressed + ticks } else { (self.pressed - ticks).max(0.0) };
        if !self.engaged && (self.high >= HIGH_TICKS || self.pressed >= PRESSED_TICKS) {
            *self = Controller { engaged: true, value: self.value, ..Controller::default() };
        }
        let fits = all < 0.95 * self.trim * capacity && queue < DISENGAGE_QUEUE;
        self.low = if fits { self.low + ticks } else { 0.0 };
        if self.engaged && self.low >= LOW_TICKS {
            self.engaged = false;
        }
        if !self.engaged {
            self.pressed = self.pressed.min(PRESSED_TICKS);
            self.value = step_towards(self.value, 0.0);
            return;
        }
        self.engaged_for += tick.seconds;
        let refusing = refusing.min(REFUSING_MOST);
        self.trim =
            (self.trim + TRIM_GAIN * ticks.min(TRIM_TICKS_MOST) * (idle - REFUSAL_WEIGHT * refusing)).clamp(0.5, 2.0);
        let wanted = fill(&demand.rates(), OVER_ADMISSION * self.trim * room);
        self.value = step_towards(self.value, wanted);
    }
}

/// Where the cutoff must be so that what is above it is `room`.
pub(crate) fn fill(rates: &[f64; 4], mut room: f64) -> f64 {
    for (class, &rate) in rates.iter().enumerate().rev() {
        if rate > room {
            // A class that hardly fits, or hardly does not, is not split: its order would depend on chance.
            let cutoff = class as f64 + (1.0 - room / rate);
            let whole = cutoff.round();
            return if (cutoff - whole).abs() < WHOLE { whole } else { cutoff };
        }
        room -= rate;
    }
    0.0
}

/// May touch a whole number in one step, not cross it: while it crosses, a class that was served is refused and one below
/// still runs.
pub(crate) fn step_towards(value: f64, wanted: f64) -> f64 {
    let wanted = wanted.clamp(0.0, MOST);
    if wanted > value { wanted.min(value.floor() + 1.0) } else { wanted.max(value.ceil() - 1.0) }
}

/// Queue, over the burst, above which it may engage and below which it may disengage.
const ENGAGE_QUEUE: f64 = 0.4;
const DISENGAGE_QUEUE: f64 = 0.5;
/// Ticks in a row far above capacity, and a little above it, until it engages; and below it until it disengages.
const HIGH_TICKS: f64 = 4.0;
const PRESSED_TICKS: f64 = 15.0;
const LOW_TICKS: f64 = 10.0;
/// Seconds after which the line is as short as it becomes.
const SHORT_AFTER: f64 = 0.2;
const TRIM_GAIN: f64 = 0.03;
/// What one tick can count for there, at most: more would take the trim past what it is looking for.
const TRIM_TICKS_MOST: f64 = 10.0;
/// Refusing is half as bad as idling: it may have been for the best.
const REFUSAL_WEIGHT: f64 = 0.5;
/// Refusals count for at most this share of the capacity: clients that heed no hint are refused whatever is let in, and idling
/// against them only loses work. Twice what refusals take where clients do heed (`scenarios/overload-8.toml`).
const REFUSING_MOST: f64 = 0.04;
/// A little more than fits is let in, so that chance does not leave processors idle; the queue refuses the rest.
const OVER_ADMISSION: f64 = 1.05;
const WHOLE: f64 = 0.03;
/// A hundredth of what matters most is let in whatever is measured: a task whose readings are wrong still answers.
const MOST: f64 = 3.99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_filled_from_the_top() {
        let rates = [2.0, 3.0, 4.0, 1.0];
        for (room, expected) in [(20.0, 0.0), (10.0, 0.0), (9.0, 0.5), (6.5, 1.5), (5.0, 2.0), (3.0, 2.5), (0.5, 3.5)] {
            assert!((fill(&rates, room) - expected).abs() < 1e-9, "{room}: {}", fill(&rates, room));
        }
        assert!((fill(&[0.0; 4], 0.0)).abs() < 1e-9);
    }

    #[test]
    fn the_line_becomes_short_over_a_fifth_of_a_second() {
        let (mut controller, mut demand) = (Controller::default(), Demand::default());
        let tick = Tick { seconds: 0.0105, work: [0.021, 0.0, 0.0, 0.0], squares: [1e-6, 0.0, 0.0, 0.0] };
        let mut path = Vec::new();
        for _ in 0..40 {
            demand.read(tick);
            let (capacity, room) = (1.0, 1.0);
            let is_too_much = true;
            controller.read(&Reading {
                tick,
                ticks: 1.0,
                demand: &demand,
                is_too_much,
                capacity,
                room,
                queue: 1.0,
                idle: 0.0,
                refusing: 0.0,
            });
            path.push(controller.shortening());
        }
        assert!(path[..3].iter().all(|left| *left == 0.0), "it has not engaged: {path:?}");
        assert!(path[3] > 0.9 && path[3..].is_sorted_by(|one, next| one >= next), "{path:?}");
        assert!(path[13] > 0.4 && path[13] < 0.5 && path[23] == 0.0, "{path:?}");
    }

    #[test]
    fn it_touches_whole_numbers_and_never_crosses_one() {
        let mut value = 0.0;
        let path: Vec<f64> = (0..4)
            .map(|_| {
                value = step_towards(value, 2.5);
                value
            })
            .collect();
        assert_eq!(path, [1.0, 2.0, 2.5, 2.5]);
        let path: Vec<f64> = (0..4)
            .map(|_| {
                value = step_towards(value, 0.25);
                value
            })
            .collect();
        assert_eq!(path, [2.0, 1.0, 0.25, 0.25]);
        assert!(step_towards(3.5, 9.0) < 4.0);
    }
}
