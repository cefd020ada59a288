//! What a unary gRPC call costs each process: a client over ten backends, tonic's and ours, and their servers.
//!
//! Every round runs every pair of client and server once, each in a process of its own that is started afresh, so
//! that neither a noisy minute nor a lucky layout of memory favours one. Ratios are taken within a round.

mod client;
mod echo;
mod floor;
mod judge;
mod runtime;
mod server;
mod stack;

use std::io;
use std::time::Duration;

pub use judge::{Judged, Row, Spread, judge, rows};
pub use runtime::Flavour;
pub use stack::Stack;

use crate::process::Role;

/// Who calls whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub client: (Stack, Flavour),
    pub server: (Stack, Flavour),
    /// Whether calls have a deadline, which both ends then watch.
    pub deadline: bool,
}

/// CPU of one call, in µs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub client: f64,
    pub server: f64,
}

impl Pair {
    pub fn name(self) -> String {
        let Pair { client, server, deadline } = self;
        let deadline = if deadline { "/deadline" } else { "" };
        format!("{}/{} to {}/{}{deadline}", client.0, client.1, server.0, server.1)
    }

    /// CPU of a call between these two.
    ///
    /// # Errors
    /// A process could not be started, or ended early.
    pub fn run(self, calls: u32) -> io::Result<Cost> {
        cost(self.server, self.client, if self.deadline { Manner::Deadline } else { Manner::Patient }, calls)
    }
}

/// How calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// They wait until they are answered.
    Patient,
    /// They have a deadline, which both ends then watch.
    Deadline,
    /// None is served: a refusal is the answer.
    Refused,
}

impl Manner {
    fn as_str(self) -> &'static str {
        match self {
            Manner::Patient => "patient",
            Manner::Deadline => "deadline",
            Manner::Refused => "refused",
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        let found = [Manner::Patient, Manner::Deadline, Manner::Refused].into_iter().find(|one| one.as_str() == name);
        found.ok_or_else(|| format!("nobody calls {name}"))
    }
}

/// Starts both, makes a quarter of `calls` calls to warm up and `calls` that count.
///
/// # Errors
/// A process could not be started, or ended early.
pub fn cost(server: (Stack, Flavour), client: (Stack, Flavour), manner: Manner, calls: u32) -> io::Result<Cost> {
    let (stack, flavour) = server;
    let mut server = Role::start(&["serve".to_owned(), stack.to_string(), flavour.to_string()])?;
    let backends = server.hear()?;
    let (stack, flavour) = client;
    let mut arguments = vec!["call".to_owned(), stack.to_string(), flavour.to_string(), manner.as_str().to_owned()];
    arguments.extend(backends.split(' ').map(str::to_owned));
    let mut client = Role::start(&arguments)?;
    client.hear()?;
    client.order(&(calls / WARM_UP).to_string())?;
    client.hear()?;

    let before = (client.cpu()?, server.cpu()?);
    client.order(&calls.to_string())?;
    client.hear()?;
    let after = (client.cpu()?, server.cpu()?);

    let calls = f64::from(calls / IN_FLIGHT * IN_FLIGHT);
    let each = |before: Duration, after: Duration| after.saturating_sub(before).as_secs_f64() * 1e6 / calls;
    Ok(Cost { client: each(before.0, after.0), server: each(before.1, after.1) })
}

/// Every pair that is measured, in the order of a round.
pub fn pairs() -> Vec<Pair> {
    let both = [Stack::Tonic, Stack::Evenkeel];
    let one = Flavour::One;
    let mut pairs = Vec::new();
    for threads in [one, Flavour::Threads(2)] {
        for server in both {
            pairs.extend(both.map(|client| Pair { client: (client, threads), server: (server, one), deadline: false }));
        }
        let below = [Stack::Hyper, Stack::H2];
        let server = (Stack::Tonic, one);
        pairs.extend(below.map(|client| Pair { client: (client, threads), server, deadline: false }));
    }
    pairs.extend(both.map(|stack| Pair { client: (stack, one), server: (stack, one), deadline: true }));
    let ours = Stack::Evenkeel;
    let servers = [(Stack::Tonic, Flavour::Default), (ours, Flavour::Default), (ours, Flavour::PerCore)];
    pairs.extend(servers.map(|server| Pair { client: (Stack::Tonic, one), server, deadline: false }));
    pairs
}

/// Runs a role if the arguments name one. `None` if they are for the bench itself.
pub fn run_role(arguments: &[String]) -> Option<Result<(), String>> {
    let role = arguments.first()?;
    match role.as_str() {
        "serve" | "call" => Some(run_named(role, &arguments[1..])),
        _ => None,
    }
}

fn run_named(role: &str, arguments: &[String]) -> Result<(), String> {
    let [stack, flavour, rest @ ..] = arguments else {
        return Err(format!("{role} wants a stack and a runtime"));
    };
    let (stack, flavour) = (stack.parse()?, flavour.parse()?);
    match (role, rest) {
        ("serve", _) => server::run(stack, flavour),
        (_, [manner, backends @ ..]) => client::run(stack, flavour, Manner::named(manner)?, backends),
        _ => return Err(format!("{role} wants more")),
    }
    Ok(())
}

const BACKENDS: usize = 10;
/// Calls under way at any time.
const IN_FLIGHT: u32 = 64;
/// Each way.
const BYTES: usize = 100;
/// One call to warm up for so many that count.
const WARM_UP: u32 = 4;
/// Never reached.
const DEADLINE: Duration = Duration::from_secs(10);
