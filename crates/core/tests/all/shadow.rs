//! What the line that is only reckoned with makes of requests that come one by one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;
use std::time::Duration;

use crate::support::NOW;
use evenkeel_core::server::{Admission, AdmissionSnapshot, GateLocal, Spent, Usage};
use evenkeel_core::{CustomerId, HeldBack, Lot, MethodId, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig, Time};

const MS: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_micros(10_500);

/// Requests of so much CPU at random moments, so many processors full of them. Ticks and readings come as a driver has them.
struct Load {
    server: Server,
    now: Time,
    rng: Rng,
    spent: Duration,
    processors: f64,
    /// CRITICAL requests that clients did not send, for each that they did.
    held: u16,
}

impl Load {
    fn new(processors: f64, mode: Mode) -> Self {
        let mut config = ServerConfig::default();
        config.admission.modes.all = mode;
        let mut server = Server::new(NOW, config).unwrap();
        server.handle_ready(NOW);
        Load { server, now: NOW, rng: Rng::from_seed(7), spent: Duration::ZERO, processors, held: 0 }
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
            let (gate, mut local) = (self.server.gate(), GateLocal::default());
            let held = HeldBack { customer: CustomerId(0), counts: [0, 0, self.held, 0] };
            gate.count_held(&mut local, next, held, &mut self.rng);
            let entry = gate.admit(&mut local, next, &meta, &mut self.rng);
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

#[test]
fn what_clients_do_not_send_because_nothing_is_answered_is_demand_that_would_be_refused() {
    let mut load = Load::new(8.0, Mode::Observe);
    load.run(2, 4.0, MS, None);
    load.held = 9;

    load.run(4, 4.0, MS, None);

    // 40 of 8 are asked for, though only 4 come: a fifth of CRITICAL fits.
    let seen = load.server.snapshot(load.now).admission;
    assert!((38.0..42.0).contains(&seen.demand.unwrap().iter().sum()), "{:?}", seen.demand);
    assert!((2.75..2.85).contains(&seen.cutoff_observed.value()), "{:?}", seen.cutoff_observed);
    assert_eq!(seen.refused.iter().flatten().sum::<u64>(), 0);
}

/// Two processors, one of which others have. Five times both are asked for, in requests of 4 ms whose callers go away after a
/// second. They are read so many milliseconds at a time, and the driver looks every so often. What it knows in the last two seconds.
fn crowded(every: Duration, lump: u32) -> Vec<AdmissionSnapshot> {
    let mut config = ServerConfig::default();
    config.admission.modes.all = Mode::Observe;
    let mut server = Server::new(NOW, config).unwrap();
    server.handle_ready(NOW);
    let (mut rng, mut tick, mut spent) = (Rng::from_seed(7), NOW, Duration::ZERO);
    let mut inside: VecDeque<(Time, Admission)> = VecDeque::new();
    let mut seen = Vec::new();
    let rest = |server: &Server, now, admission, outcome, cost| {
        server.gate().finish(now, admission, outcome, Some(cost));
        let _nobody_waits = server.gate().running().rests(0);
    };
    for millis in 1..=10_000 {
        let now = NOW + MS * millis;
        let read = if millis % lump == 0 { lump * 5 / 2 + (millis / lump) % 2 * (lump % 2) } else { 0 };
        for _ in 0..read {
            let meta = RequestMeta { method: MethodId(1), lot: Lot::draw(&mut rng), ..RequestMeta::default() };
            let entry = server.gate().admit(&mut GateLocal::default(), now, &meta, &mut rng).unwrap();
            inside.push_back((now, entry.started().unwrap()));
        }
        spent += MS;
        while inside.front().is_some_and(|(since, _)| now.since(*since) > 1_000 * MS) {
            let (_, gone) = inside.pop_front().unwrap();
            rest(&server, now, gone, Outcome::Expired, MS / 2);
        }
        if millis % 4 == 0
            && let Some((_, done)) = inside.pop_back()
        {
            rest(&server, now, done, Outcome::Served, 4 * MS);
        }
        if tick + every <= now {
            tick = now;
            server.handle_usage(tick, Usage { processors: Some(2.0), ..Usage::default() });
            server.handle_spent(Spent { handlers: Some(spent), process: Some(spent) });
            server.handle_timeout(tick);
            if millis > 8_000 {
                seen.push(server.snapshot(tick).admission);
            }
        }
    }
    seen
}

#[test]
fn what_others_on_the_machine_have_is_not_taken_for_room_and_what_expires_not_for_cheap() {
    for seen in crowded(TICK, 1) {
        assert_eq!(seen.refused.iter().flatten().sum::<u64>(), 0);
        assert!((0.95..1.05).contains(&seen.capacity), "{}", seen.capacity);
        assert!((9.5..10.5).contains(&seen.demand.unwrap().iter().sum()), "{:?}", seen.demand);
        // A tenth of what is asked for fits, and all of it is CRITICAL.
        assert!((2.7..3.0).contains(&seen.cutoff_observed.value()), "{:?}", seen.cutoff_observed);
    }
}

#[test]
fn a_driver_that_is_held_up_by_what_it_observes_still_foretells() {
    for seen in crowded(800 * MS, 1) {
        assert!((0.95..1.05).contains(&seen.capacity), "{}", seen.capacity);
        assert!((9.0..11.0).contains(&seen.demand.unwrap().iter().sum()), "{:?}", seen.demand);
        assert!((2.7..3.0).contains(&seen.cutoff_observed.value()), "{:?}", seen.cutoff_observed);
    }
}

#[test]
fn requests_that_a_crowded_executor_reads_in_lumps_are_neither_a_pause_nor_a_rush() {
    for seen in crowded(TICK, 250) {
        assert!((8.0..12.0).contains(&seen.demand.unwrap().iter().sum()), "{:?}", seen.demand);
        assert!((2.7..3.0).contains(&seen.cutoff_observed.value()), "{:?}", seen.cutoff_observed);
    }
}
