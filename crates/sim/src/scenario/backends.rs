//! Who answers: tasks, the machines under them, their neighbours.

use serde::{Deserialize, Serialize};

use super::span::Span;

/// The tasks of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backends {
    /// How many. Default 100.
    pub count: u32,
    /// Cores of each; a machine type may say otherwise. Default 8.
    pub cores: u32,
    /// Requests worked on at once, others queue in order of arrival. Default: no limit, they share the cores.
    pub workers: Option<u32>,
    /// Requests that may queue for a worker; more are refused. Default: any number.
    pub queue: Option<u32>,
    /// Machine types; tasks are dealt over them in turn. Default: one of speed 1.
    #[serde(rename = "machine")]
    pub machines: Vec<Machine>,
    /// Others on the same machines.
    pub neighbours: Option<Neighbours>,
    /// What a task lacks after it was started.
    pub warmup: Option<Warmup>,
    /// Work that tasks do besides requests.
    pub background: Option<Background>,
    /// How wrong tasks read their own CPU.
    pub readings: Option<Readings>,
    /// Whether they can be asked how they are without a connection. Default true.
    pub datagrams: bool,
    /// Whether a process that is started again knows the keys of the one before. Default true.
    pub keeps_secret: bool,
}

/// A machine type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Share of tasks; shares need not add up to 1. Default 1.
    pub share: f64,
    /// Work done per core and second. Default 1.
    pub speed: f64,
    /// Cores, where they differ from `backends.cores`.
    pub cores: Option<u32>,
}

/// Neighbours that come and go, each machine's on its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neighbours {
    /// Share of machines that have them at a time, on average. Default 0.5.
    pub share: f64,
    /// How much slower a core is while they are there. Default 0.2.
    pub slowdown: f64,
    /// How long they stay, on average. Default 10 s.
    pub stay: Span,
}

/// A task that was just started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Warmup {
    /// How long it lasts. Default 30 s.
    pub lasts: Span,
    /// How fast it is at first, rising to 1 in ten steps. Default 0.5.
    pub speed: f64,
}

/// Work besides requests, on every core of some tasks: it is in what they report, and takes its part of the cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Background {
    /// Share of tasks that have it, spread evenly. Default 0.5.
    pub share: f64,
    /// Share of their cores that it takes. Default 0.2.
    pub cpu: f64,
}

/// Readings of CPU that are off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Readings {
    /// By up to this share more or less, each reading for itself. Default 0.
    pub noise: f64,
    /// By up to this share more or less, always the same for a task. Default 0.
    pub bias: f64,
}

impl Default for Backends {
    fn default() -> Self {
        Backends {
            count: 100,
            cores: 8,
            workers: None,
            queue: None,
            machines: Vec::new(),
            neighbours: None,
            warmup: None,
            background: None,
            readings: None,
            datagrams: true,
            keeps_secret: true,
        }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Machine { share: 1.0, speed: 1.0, cores: None }
    }
}

impl Default for Neighbours {
    fn default() -> Self {
        Neighbours { share: 0.5, slowdown: 0.2, stay: Span::from_secs(10) }
    }
}

impl Default for Background {
    fn default() -> Self {
        Background { share: 0.5, cpu: 0.2 }
    }
}

impl Default for Warmup {
    fn default() -> Self {
        Warmup { lasts: Span::from_secs(30), speed: 0.5 }
    }
}
