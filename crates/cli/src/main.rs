//! The `evenkeel` command: plans subsets, and shows the decisions of the core at work.
//!
//! With `--json` or `--dump` stdout is exactly one JSON document; everything else goes to stderr.

#![forbid(unsafe_code)]

mod args;
mod cmd;
mod draw;
mod failure;
mod progress;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Where stderr is gone too there is nobody left to tell; the exit code still says it.
            drop(write!(io::stderr(), "{}", draw::error_text(&format!("error: {failure}"))));
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help, or what is wrong with the arguments. The parser does not fold what is said of a value, so that is done here.
fn refuse(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::ValueValidation {
        drop(write!(io::stderr(), "{}", draw::error_text(&error.to_string())));
    } else {
        drop(error.print());
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(cli: Cli) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match cli.command {
        Command::Plan(args) => cmd::plan::run(&args, &mut out)?,
        Command::Demo(args) => cmd::demo::run(&args, &mut out)?,
    }
    Ok(out.flush()?)
}
