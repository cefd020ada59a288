//! A simulated network is replayed from its seed. In a process of its own: what other tests do on other threads of the
//! same process has been seen to change the trace.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "network/world/mod.rs"]
mod world;

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(world::rolling_restart(42), world::rolling_restart(42));
}
