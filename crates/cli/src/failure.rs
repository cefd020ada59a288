//! Why a command ended without doing what was asked, and the exit code for it.

use std::{fmt, io};

use evenkeel_core::InvalidConfig;
use evenkeel_core::plan::BadChange;

/// One variant for each exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments cannot be carried out; the text names the field and the fix.
    Usage(String),
    /// It was begun and could not be carried out; the text says why and what to do.
    Run(String),
    /// It was carried out, and what came out is not what had to: only where that was asked for.
    Missed(String),
    /// Somebody pressed Ctrl-C; what there was to say has been said.
    Interrupted,
    /// The result could not be written.
    Output(io::Error),
}

impl Failure {
    /// 2 for usage, as the argument parser has it; 3 for missed goals; 130 for Ctrl-C, as shells have it; 1 for the rest.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Missed(_) => 3,
            Failure::Run(_) | Failure::Output(_) => 1,
            Failure::Interrupted => 130,
        }
    }

    /// The reader had enough, as `head` has: nothing went wrong.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) | Failure::Run(what) | Failure::Missed(what) => write!(f, "{what}"),
            Failure::Interrupted => write!(f, "interrupted"),
            Failure::Output(error) => write!(f, "cannot write the result to stdout: {error}"),
        }
    }
}

impl From<InvalidConfig> for Failure {
    fn from(error: InvalidConfig) -> Self {
        Failure::Usage(error.to_string())
    }
}

impl From<BadChange> for Failure {
    fn from(error: BadChange) -> Self {
        Failure::Usage(format!("--change: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        // Keeps the kind, so that a closed pipe is still one.
        Failure::Output(error.into())
    }
}
