//! In which order clients are pushed to, how often again, and how fast.
//!
//! One queue for each number of pushes so far: all in it wait for the same time, so the first is always the next. A
//! client that heard or left stays in its queue until it comes to the front.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

#[derive(Debug)]
pub(super) struct Pushing {
    queues: [VecDeque<u64>; WAITS.len() + 1],
    /// Pushes that may still be sent before `window_end`.
    budget: u32,
    window_end: Time,
}

impl Pushing {
    pub(super) fn new(now: Time) -> Self {
        Pushing { queues: Default::default(), budget: PUSHES_A_MILLISECOND, window_end: now + WINDOW }
    }

    /// How long to wait for an answer to this push.
    pub(super) fn wait_after(pushed: u8) -> Duration {
        WAITS.get(usize::from(pushed)).copied().unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.queues = Default::default();
    }

    pub(super) fn add(&mut self, pushed: u8, key: u64) {
        self.queues[usize::from(pushed.min(GIVEN_UP))].push_back(key);
    }

    /// The first of each queue, with how often it has been pushed to.
    pub(super) fn heads(&self) -> impl Iterator<Item = (u8, u64)> {
        (0..).zip(&self.queues).filter_map(|(pushed, queue)| Some((pushed, *queue.front()?)))
    }

    /// The first of this queue has had its turn.
    pub(super) fn take(&mut self, pushed: u8) {
        let queue = &mut self.queues[usize::from(pushed)];
        queue.pop_front();
        if queue.is_empty() {
            // Room for everybody is only needed for a second.
            *queue = VecDeque::new();
        }
    }

    /// Takes those off the front who wait for nothing here.
    pub(super) fn drop_stale(&mut self, waits: impl Fn(u8, u64) -> bool) {
        for pushed in 0..=GIVEN_UP {
            while self.queues[usize::from(pushed)].front().is_some_and(|key| !waits(pushed, *key)) {
                self.take(pushed);
            }
        }
    }

    pub(super) fn may_push(&self) -> bool {
        self.budget > 0
    }

    pub(super) fn on_push(&mut self) {
        self.budget -= 1;
    }

    /// When what is due then can be done.
    pub(super) fn not_before(&self, at: Time) -> Time {
        if self.may_push() { at } else { at.max(self.window_end) }
    }

    pub(super) fn on_time(&mut self, now: Time) {
        if self.window_end <= now {
            self.budget = PUSHES_A_MILLISECOND;
            self.window_end = now + WINDOW;
        }
    }

    pub(super) fn on_clock_jump(&mut self, now: Time) {
        self.window_end = now;
    }
}

/// How long each push is waited for: five repeats, and all is over after 0.7 s. The first repeat comes after many round
/// trips inside a datacenter, the last after any stall of a client that is still of use.
const WAITS: [Duration; 6] = [
    Duration::from_millis(20),
    Duration::from_millis(40),
    Duration::from_millis(80),
    Duration::from_millis(160),
    Duration::from_millis(320),
    Duration::from_millis(80),
];
/// Those in the last queue are given up when their turn comes.
pub(super) const GIVEN_UP: u8 = WAITS.len() as u8;
/// All of 50 000 within a tenth of a second, and no burst that fills the buffers on the way.
pub(super) const PUSHES_A_MILLISECOND: u32 = 512;
const WINDOW: Duration = Duration::from_millis(1);
