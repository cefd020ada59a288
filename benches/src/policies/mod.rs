//! How even the load is, and how long answers take: our policies on real processes, beside those of peers.
//!
//! Ten backends with two virtual processors each, half of them at half speed; 95 % of requests take 2 ms of a processor
//! and 5 % take 40 ms, at random and whatever becomes of them, 75 % of what all can do.

mod fleet;
mod judge;
mod load;
mod peers;

use std::io;

pub use judge::{Run, figures};
pub use peers::Programs;

use crate::process::Role;
use fleet::Fleet;
use peers::Proxy;

/// Who chooses the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancer {
    /// A channel of ours with this policy.
    Evenkeel(&'static str),
    /// tower's power of two choices, by its peak-sensitive latency.
    TowerPeakEwma,
    /// A proxy.
    Proxy(Proxy),
}

/// How long it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub seconds: u32,
}

pub const FULL: Scale = Scale { seconds: 60 };
pub const QUICK: Scale = Scale { seconds: 6 };

impl Balancer {
    pub fn name(self) -> String {
        match self {
            Balancer::Evenkeel(policy) => format!("evenkeel_{policy}"),
            Balancer::TowerPeakEwma => "tower_peak_ewma".to_owned(),
            Balancer::Proxy(proxy) => proxy.name().to_owned(),
        }
    }

    /// Whether it goes by how much is under way, and not by weights or turns.
    pub fn is_least_loaded_peer(self) -> bool {
        match self {
            Balancer::TowerPeakEwma => true,
            Balancer::Proxy(proxy) => proxy != Proxy::EnvoyRoundRobin,
            Balancer::Evenkeel(_) => false,
        }
    }

    /// All of them; proxies only where their program is there.
    pub fn all(programs: &Programs) -> Vec<Balancer> {
        let own = evenkeel_core::PolicyName::ALL.map(evenkeel_core::PolicyName::as_str).map(Balancer::Evenkeel);
        let proxies = Proxy::ALL.into_iter().filter(|proxy| programs.has(*proxy)).map(Balancer::Proxy);
        own.into_iter().chain([Balancer::TowerPeakEwma]).chain(proxies).collect()
    }
}

/// Starts everything afresh, asks, and says what came of it.
///
/// # Errors
/// A process could not be started, or ended early.
pub fn run(balancer: Balancer, scale: Scale, seed: u32, programs: &Programs) -> io::Result<Run> {
    let fleet = Fleet::start(&programs.evenkeel)?;
    let proxy = match balancer {
        Balancer::Proxy(proxy) => Some(programs.start(proxy, &fleet.addresses())?),
        Balancer::Evenkeel(_) | Balancer::TowerPeakEwma => None,
    };
    let kind = match balancer {
        Balancer::Evenkeel(policy) => policy,
        Balancer::TowerPeakEwma => load::TOWER,
        Balancer::Proxy(_) => load::PROXY,
    };
    let targets = proxy.as_ref().map_or_else(|| fleet.addresses(), |proxy| vec![proxy.address]);
    let mut arguments = vec![LOAD.to_owned(), kind.to_owned(), scale.seconds.to_string(), seed.to_string()];
    arguments.extend(targets.iter().map(ToString::to_string));
    let answered = load::Answered::read(&Role::start(&arguments)?.hear()?)?;
    drop(proxy);
    Ok(Run { balancer, answered, used: fleet.stop()? })
}

/// Runs what the arguments of a role say. `None` if they are for the bench itself.
pub fn run_role(arguments: &[String]) -> Option<Result<(), String>> {
    match arguments {
        [role, kind, seconds, seed, targets @ ..] if role == LOAD => Some(load::run(kind, seconds, seed, targets)),
        _ => None,
    }
}

const LOAD: &str = "load";
