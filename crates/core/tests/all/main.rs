//! Core from outside, in one binary: each further one costs seconds of building.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod admission;
mod client;
mod clusters;
mod clusters_fluid;
mod contract;
mod eject;
mod garbage;
mod idle;
mod level;
mod limit;
mod line;
mod peers;
mod pick;
mod prequal;
mod retry;
mod server;
mod shadow;
mod subset;
mod swarm;
mod throttle;
mod weighted;
