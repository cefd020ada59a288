//! The laboratory from outside, in one binary: each further one costs seconds of building.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod arrivals;
mod baseline;
mod catalog;
mod documented;
mod golden;
mod must_hold;
mod overload;
mod plot;
mod report;
mod retry;
mod scenario;
mod swarm;
mod theory;
mod world;
