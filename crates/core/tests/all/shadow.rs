//! What the line that is only reckoned with makes of requests that come one by one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::NOW;
use evenkeel_core::server::{GateLocal, Spent, Usage};
use evenkeel_core::{Lot, MethodId, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig, Time};

const MS: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_micros(10_500);

/// Requests of so much CPU at random moments, so many processors full of them. Ticks and readings come as a driver has them.
struct Load {
    server: Server,
    now: Time,
    rng: Rng,
    spent: Duration,
    processors: f64,
}

impl Load {
    fn new(processors: f64, mode: Mode) -> Self {
        let mut config = ServerConfig::default();
        config.admission.modes.all = mode;
        let mut server = Server::new(NOW, config).unwrap();
        server.handle_ready(NOW);
        Load { server, now: NOW, rng: Rng::from_seed(7), spent: Duration::ZERO, processors }
    }

    fn run(&mut self, seconds: u64, asked: f64, cost: Duration, memory: Option<f64>) {
        let (end, mut tick) = (self.now + Duration::from_secs(seconds), self.now);
        while self.now < end {
            // As lumpy as chance: four in five come within half of the mean gap, and one after three times as much.
            let drawn = if self.rng.below(5) < 4 { 0.5 } else { 3.0 };
            let gap = drawn * cost.as_secs_f64() / asked;
            let next = self.now + Duration::from_secs_f64(gap);
            while tick + TICK <= next {
                tick = tick + TICK;
                let usage = Usage { processors: Some(self.processors), memory, ..Usage::default() };
                self.server.handle_usage(tick, usage);
                self.server.handle_spent(Spent { handlers: Some(self.spent), process: Some(self.spent) });
                self.server.handle_timeout(tick);
            }
            self.now = next;
            let meta = RequestMeta { method: MethodId(1), lot: Lot::draw(&mut self.rng), ..RequestMeta::default() };
            let entry = self.server.gate().admit(&mut GateLocal::default(), next, &meta, &mut self.rng);
            if let Some(admission) = entry.ok().map(|entry| entry.started().unwrap()) {
                self.server.gate().finish(next, admission, Outcome::Served, Some(cost));
                let _nobody_waits = self.server.gate().running().rests(0);
                self.spent += cost;
            }
        }
    }
}

#[test]
fn at_half_load_hardly_anybody_would_wait_and_nobody_would_be_refused() {
    let mut load = Load::new(8.0, Mode::Observe);

    load.run(4, 4.0, MS, None);

    let seen = load.server.snapshot(load.now).admission;
    let waits = seen.would_wait.iter().sum::<u64>() as f64 / 16_000.0;
    assert!(waits < 0.2, "{waits}");
    assert_eq!(seen.observed.iter().flatten().sum::<u64>(), 0, "{seen:?}");
}
