//! Adaptive concurrency (C): how many requests can usefully be in handlers at once.
//!
//! Handlers that wait for something else hold no processor, so the line does not bound them. By Little's law as many are in
//! handlers as come while one of them takes; several times that, by the time they take when nothing is wrong, is requests
//! piling up on something slow. What comes counts, not what is answered, which falls when answers are slow; and no more of
//! it than the processors can do, since the line holds the rest. Near the limit a cutoff rises, so that those who matter
//! least stop first and clients hear of it.

use std::collections::VecDeque;

use super::config::Thresholds;
use super::cutoff::step_towards;
use crate::server::counts::Totals;

/// Learns the limit, and what is refused for it.
#[derive(Debug, Default)]
pub(crate) struct Limit {
    /// Seconds in a handler when nothing is wrong: follows what is lower soon, what is higher slowly.
    calm: Option<f64>,
    /// Answers that have not told yet how long they took, and seconds in handlers of all that were there meanwhile.
    untold: Answers,
    present: f64,
    /// The last ticks: how long each was, and how many came in it.
    recent: VecDeque<(f64, u64)>,
    /// Requests in a second, the most of late.
    rate: f64,
    /// Requests in a second that the processors can do, as far as is known.
    rate_most: Option<f64>,
    cutoff: f64,
}

/// What left handlers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// Over how long.
    pub(crate) seconds: f64,
    /// Whole answers, and how long those were in handlers all together.
    pub(crate) whole: u64,
    pub(crate) whole_seconds: f64,
    /// All, however they ended.
    pub(crate) left: u64,
}

/// A short while, as it was at the door.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) seconds: f64,
    /// Requests that came, and those that clients held back.
    pub(crate) asked: u64,
    /// Requests in a second that the processors can do, as far as is known.
    pub(crate) rate_most: Option<f64>,
    /// Requests in handlers now.
    pub(crate) in_handlers: u32,
}

impl Answers {
    pub(crate) fn between(before: &Totals, now: &Totals, seconds: f64) -> Answers {
        let whole_seconds = now.whole_nanos.wrapping_sub(before.whole_nanos) as f64 * 1e-9;
        let left = now.left().saturating_sub(before.left());
        Answers { seconds, whole: now.whole.wrapping_sub(before.whole), whole_seconds, left }
    }
}

impl Limit {
    /// Some more have left.
    pub(crate) fn read_answers(&mut self, answers: Answers) {
        let Answers { seconds, whole, whole_seconds, left } = answers;
        self.untold.seconds += seconds;
        self.untold.whole += whole;
        self.untold.whole_seconds += whole_seconds;
        self.untold.left += left;
        // Means of a few go up and down by chance, and what is lower is followed soon: the calm would be too low.
        if self.untold.whole < ENOUGH {
            return;
        }
        let Answers { seconds, whole, whole_seconds, left } = std::mem::take(&mut self.untold);
        let present = std::mem::take(&mut self.present);
        // After a start or a pause those answer first who take least; who is present and for how long tells of the others
        // too. When all leave it is the other way round.
        let mean = (whole_seconds / whole as f64).max(present / left.max(1) as f64);
        let calm = self.calm.unwrap_or(mean);
        let lower = calm + (seconds / LOWER_OVER).min(1.0) * (mean - calm);
        let higher = calm + (seconds / HIGHER_OVER).min(1.0) * calm;
        self.calm = Some(if mean < calm { lower } else { mean.min(higher) });
    }

    /// A tick has passed.
    pub(crate) fn read(&mut self, crowd: Crowd, times: f64, least: u32) {
        let Crowd { seconds, asked, rate_most, in_handlers } = crowd;
        self.present += f64::from(in_handlers) * seconds;
        self.recent.push_back((seconds, asked));
        if self.recent.len() > TICKS {
            self.recent.pop_front();
        }
        let calm = self.calm.unwrap_or(0.0);
        // As many may be in handlers as came in so long: over a longer time a step would be seen too late.
        let (mut over, mut came) = (0.0, 0);
        for (seconds, asked) in self.recent.iter().rev() {
            if over > 0.0 && over + seconds > times * calm {
                break;
            }
            (over, came) = (over + seconds, came + asked);
        }
        // What takes long is still there long after it came.
        let kept = 1.0 - (seconds / RATE_OVER.max(times * calm)).min(1.0);
        self.rate = (self.rate * kept).max(came as f64 / over);
        self.rate_most = rate_most;
        let full = f64::from(in_handlers) / f64::from(self.get(times, least));
        self.cutoff = step_towards(self.cutoff, Thresholds(FULL).cutoff(full));
    }

    /// Nothing is known of this moment: a step towards letting all in.
    pub(crate) fn relax(&mut self) {
        self.recent.clear();
        (self.untold, self.present) = Default::default();
        self.cutoff = step_towards(self.cutoff, 0.0);
    }

    /// What is refused for it.
    pub(crate) fn cutoff(&self) -> f64 {
        self.cutoff
    }

    /// Requests in handlers, at most; none before anything is known.
    pub(crate) fn get(&self, times: f64, least: u32) -> u32 {
        let Some(calm) = self.calm else { return u32::MAX };
        let rate = self.rate_most.map_or(self.rate, |most| self.rate.min(most));
        // A cast saturates.
        ((times * calm * rate).ceil() as u32).max(least)
    }
}

/// Share of the limit from which on each criticality is refused, the least first.
const FULL: [f64; 4] = [0.625, 0.75, 0.875, 1.0];
/// Answers whose mean says something.
const ENOUGH: u64 = 64;
/// Ticks over which what comes is counted, at most: about a tenth of a second.
const TICKS: usize = 10;
/// Seconds in which the time in handlers falls to what is lower.
const LOWER_OVER: f64 = 0.5;
/// Seconds in which it doubles, at the soonest: for a good while something slow is not taken for what is usual. What takes
/// four times as long for good is usual after a minute.
const HIGHER_OVER: f64 = 30.0;
/// Seconds in which a rate of long ago is forgotten.
const RATE_OVER: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: f64 = 0.1;

    fn answers(whole: u64, each: f64) -> Answers {
        Answers { seconds: SECONDS, whole, whole_seconds: whole as f64 * each, left: whole }
    }

    fn crowd(asked: u64, in_handlers: u32) -> Crowd {
        Crowd { seconds: SECONDS, asked, rate_most: Some(2_000.0), in_handlers }
    }

    #[test]
    fn it_is_a_multiple_of_what_comes_in_the_time_that_one_takes_as_far_as_it_can_be_done() {
        let mut limit = Limit::default();
        assert_eq!(limit.get(3.0, 64), u32::MAX);
        for _ in 0..50 {
            limit.read(crowd(100, 200), 3.0, 64);
            limit.read_answers(answers(100, 0.2));
        }
        assert!((600..=601).contains(&limit.get(3.0, 64)), "{}", limit.get(3.0, 64));
        // A step is there at once, and no more than twice is done.
        limit.read(crowd(1_000, 300), 3.0, 64);
        assert!((1_200..=1_201).contains(&limit.get(3.0, 64)), "{}", limit.get(3.0, 64));
        for _ in 0..10_000 {
            limit.read(crowd(0, 0), 3.0, 64);
        }
        assert_eq!(limit.get(3.0, 64), 64, "never so low that a first burst is refused");
    }

    #[test]
    fn what_becomes_slow_is_not_taken_for_usual_soon() {
        let mut limit = Limit::default();
        for _ in 0..50 {
            limit.read(crowd(100, 200), 3.0, 64);
            limit.read_answers(answers(100, 0.2));
        }
        for _ in 0..100 {
            limit.read(crowd(100, 4_000), 3.0, 64);
            limit.read_answers(answers(100, 4.0));
        }
        // Ten seconds at a thirtieth in a second.
        assert!((800..=850).contains(&limit.get(3.0, 64)), "{}", limit.get(3.0, 64));
        assert!(limit.cutoff() > 3.0);
    }

    #[test]
    fn those_who_answer_first_after_a_start_do_not_make_it_too_low() {
        let mut limit = Limit::default();
        // Five hundred were there all the time, and a fifth of them left.
        limit.read(crowd(100, 500), 3.0, 64);

        limit.read_answers(answers(100, 0.01));

        assert!((1_500..=1_501).contains(&limit.get(3.0, 64)), "{}", limit.get(3.0, 64));
    }
}
