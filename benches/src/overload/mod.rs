//! A server that is asked for more than it can do: ours, and one behind Envoy with each of its answers to that.
//!
//! The server has one core, whoever asks and Envoy have the other. Clients are no clients of ours: they know nothing of
//! hints, keep their connections, and wait half a second. Half of what the server can do is asked for as critical, all
//! the rest as sheddable.

mod envoy;
mod judge;
mod load;
mod server;

use std::io;

pub use envoy::Envoy;
pub use judge::{Round, figures};
pub use load::Served;

use crate::process::Role;

/// Who decides what is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nobody.
    Nothing,
    /// Envoy's filter of this kind, in front of a server without admission.
    Envoy(envoy::Filter),
    /// Our server itself.
    Evenkeel,
}

/// How long it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub settling_s: u32,
    pub counted_s: u32,
}

pub const FULL: Scale = Scale { settling_s: 5, counted_s: 10 };
pub const QUICK: Scale = Scale { settling_s: 1, counted_s: 2 };
/// As multiples of what the server can do.
pub const LOADS: [f64; 4] = [1.0, 2.0, 4.0, 10.0];

impl Guard {
    pub fn name(self) -> &'static str {
        match self {
            Guard::Nothing => "nothing",
            Guard::Envoy(envoy::Filter::AdmissionControl) => "envoy_admission_control",
            Guard::Envoy(envoy::Filter::AdaptiveConcurrency) => "envoy_adaptive_concurrency",
            Guard::Evenkeel => "evenkeel",
        }
    }

    /// All of them; Envoy's only where it is there.
    pub fn all(envoy: Option<&Envoy>) -> Vec<Guard> {
        let mut guards = vec![Guard::Nothing];
        if envoy.is_some() {
            guards.extend([envoy::Filter::AdmissionControl, envoy::Filter::AdaptiveConcurrency].map(Guard::Envoy));
        }
        guards.push(Guard::Evenkeel);
        guards
    }
}

/// Requests a second that the server can do: as many as it answers two callers who wait for each answer.
///
/// # Errors
/// A process could not be started, or ended early.
pub fn capacity(scale: Scale) -> io::Result<f64> {
    let mut server = Role::start(&[SERVE.to_owned(), Guard::Nothing.name().to_owned()])?;
    let address = server.hear()?;
    let mut callers = Role::start(&[PACE.to_owned(), address, scale.counted_s.to_string()])?;
    callers.hear()?.parse().map_err(io::Error::other)
}

/// What was served at `times` of the capacity.
///
/// # Errors
/// A process could not be started, or ended early.
pub fn run(guard: Guard, capacity: f64, times: f64, scale: Scale, envoy: Option<&Envoy>) -> io::Result<Served> {
    let own = if guard == Guard::Evenkeel { Guard::Evenkeel } else { Guard::Nothing };
    let mut server = Role::start(&[SERVE.to_owned(), own.name().to_owned()])?;
    let mut address = server.hear()?;
    let proxy = match (guard, envoy) {
        (Guard::Envoy(filter), Some(envoy)) => Some(envoy.start(filter, &address)?),
        _ => None,
    };
    if let Some(proxy) = &proxy {
        address = proxy.address.to_string();
    }
    let (critical, other) = (capacity * CRITICAL, capacity * (times - CRITICAL));
    let arguments =
        [critical, other, f64::from(scale.settling_s), f64::from(scale.counted_s)].map(|number| number.to_string());
    let mut load = Role::start(&[vec![LOAD.to_owned(), address], arguments.into()].concat())?;
    Served::read(&load.hear()?)
}

/// Runs what the arguments of a role say. `None` if they are for the bench itself.
pub fn run_role(arguments: &[String]) -> Option<Result<(), String>> {
    match arguments {
        [role, guard] if role == SERVE => Some(server::run(guard == Guard::Evenkeel.name())),
        [role, address, seconds] if role == PACE => Some(load::pace(address, seconds)),
        [role, address, rest @ ..] if role == LOAD => Some(load::run(address, rest)),
        _ => None,
    }
}

const SERVE: &str = "serve";
const PACE: &str = "pace";
const LOAD: &str = "load";
/// Of the capacity.
const CRITICAL: f64 = 0.5;
