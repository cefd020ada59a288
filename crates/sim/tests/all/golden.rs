//! One small world whose every event is pinned: what has not been meant to change has not changed.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use evenkeel_sim::scenario::Scenario;
use evenkeel_sim::world;

/// Something of most: two kinds of machine, a mix, jitter and loss, layers, faults of both sides.
const WORLD: &str = r#"
duration = "3s"
policy = "least_loaded"
settle = "500ms"
[clients]
count = 6
rate = 400.0
zipf = 0.8
deadline = "500ms"
foreign = 0.2
[subset]
size = 4
[backends]
count = 8
cores = 2
machine = [{}, { speed = 0.5 }]
neighbours = { stay = "300ms" }
warmup = { lasts = "400ms", speed = 0.3 }
[[method]]
cpu = { kind = "lognormal", mean = "8ms", sigma = 1.0 }
wait = { kind = "exponential", mean = "3ms" }
[network]
jitter = "100us"
loss = 0.01
silence = "400ms"
[[layer]]
backends = { count = 4, cores = 2 }
[[fault]]
kind = "kill"
at = "600ms"
lasts = "300ms"
backends = "0"
[[fault]]
kind = "fail"
at = "1s"
lasts = "500ms"
backends = "1"
[[fault]]
kind = "partition"
at = "1200ms"
lasts = "600ms"
backends = "2"
clients = 0.5
[[fault]]
kind = "restart"
at = "1500ms"
backends = "4-7"
down = "100ms"
[[fault]]
kind = "policy"
at = "2s"
policy = "p2c"
"#;

/// The hash of every event of that world.
///
/// It may change with a change of what core decides, of the model or of the order in which chance is drawn, which the
/// commit then says, and documents of before cannot be replayed. It must not change with anything else: a refactoring, a
/// faster queue, another platform, compiler or level of optimisation. The test prints the new one.
const TRACE: u64 = 0x8496_6b0a_6877_3024;

#[test]
fn the_world_of_the_golden_trace_is_as_it_was() {
    let result = world::run_checked(&Scenario::parse(WORLD).unwrap(), 7).unwrap_or_else(|broken| panic!("{broken}"));

    assert!(result.metrics["requests"] > 500.0 && result.metrics["restarts"] > 0.0, "{:?}", result.metrics);
    assert_eq!(result.trace, TRACE, "if it was meant to change: const TRACE: u64 = {:#x};", result.trace);
}
