//! The `evenkeel` command: a demo of real processes, a backend to try things on, load for it, plans of subsets, the
//! laboratory, and how fast a machine is.
//!
//! With `--json` or `--dump` stdout is exactly one JSON document; everything else goes to stderr.

#![forbid(unsafe_code)]

mod args;
mod cmd;
mod draw;
mod failure;
mod load;
mod progress;
mod signals;
mod work;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};
use failure::Failure;

/// Takes 7 to 16 % off the processor time of a call where many are in flight (DESIGN §6.16).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(Failure::Interrupted) => ExitCode::from(Failure::Interrupted.exit_code()),
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
        Command::Demo(args) => cmd::demo::run(&args, &mut out)?,
        Command::Backend(args) => cmd::backend::run(&args, &mut out)?,
        Command::Call(args) => cmd::call::run(&args, &mut out)?,
        Command::Plan(args) => cmd::plan::run(&args, &mut out)?,
        Command::Sim(args) => cmd::sim::run(&args, &mut out)?,
        Command::Calibrate(args) => cmd::calibrate::run(&args, &mut out)?,
    }
    Ok(out.flush()?)
}
