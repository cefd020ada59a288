//! The commands as processes, in one binary: each further one costs seconds of building.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod backend;
mod backend_admission;
mod calibrate;
mod call;
mod commands;
mod demo;
mod documents;
mod generated;
mod layers;
mod policies;
mod restarts;
mod sim;
