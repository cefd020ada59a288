//! Core from outside, in one binary: each further one costs seconds of building.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod admission;
mod client;
mod contract;
mod idle;
mod level;
mod peers;
mod pick;
mod server;
mod subset;
mod swarm;
mod throttle;
