//! The runtimes that are compared.

use std::fmt;
use std::str::FromStr;

use tokio::runtime::{Builder, Runtime};

use crate::clock;

/// How a process runs its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// On one thread.
    One,
    /// Tokio's default: as many threads as cores, each taking work from the others.
    Default,
    /// As many threads as asked for.
    Threads(usize),
    /// One runtime of one thread on each core.
    PerCore,
}

impl Flavour {
    /// One of a single thread stays on `core`: else client and server now and then share one, and batch otherwise.
    pub fn build(self, core: usize) -> Runtime {
        if self == Flavour::One {
            clock::pin(core);
        }
        let mut builder = match self {
            // Accepting and deciding happens on the caller's runtime.
            Flavour::One | Flavour::PerCore => Builder::new_current_thread(),
            Flavour::Default | Flavour::Threads(_) => Builder::new_multi_thread(),
        };
        if let Flavour::Threads(threads) = self {
            builder.worker_threads(threads);
        }
        builder.enable_all().build().expect("a runtime needs threads and an epoll")
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flavour::One => f.write_str("1_thread"),
            Flavour::Default => f.write_str("default"),
            Flavour::Threads(threads) => write!(f, "{threads}_threads"),
            Flavour::PerCore => f.write_str("per_core"),
        }
    }
}

impl FromStr for Flavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1_thread" => Ok(Flavour::One),
            "default" => Ok(Flavour::Default),
            "per_core" => Ok(Flavour::PerCore),
            _ => text
                .strip_suffix("_threads")
                .and_then(|number| number.parse().ok())
                .map(Flavour::Threads)
                .ok_or_else(|| format!("no runtime {text}")),
        }
    }
}
