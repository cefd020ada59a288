//! The laboratory of evenkeel: the production decisions of core on an event queue.
//!
//! A [`Scenario`](scenario::Scenario) says who calls whom, on which machines, and what goes wrong. The brains of both
//! ends are core's own, unchanged; time, network, machines and chance are modelled. The same seed gives the same trace,
//! byte for byte, on every platform.

#![forbid(unsafe_code)]

pub mod admission;
pub mod baseline;
mod by_variant;
pub mod catalog;
mod document;
pub mod lab;
pub mod model;
mod notes;
pub mod number;
pub mod plot;
pub mod report;
pub mod scenario;
pub mod swarm;
pub mod world;

pub use document::{CheckResult, Document, Input, Series};
