//! The `evenkeel` command: plans subsets, and shows the decisions of the core at work.
//!
//! With `--json` or `--dump` stdout is exactly one JSON document; everything else goes to stderr.

#![forbid(unsafe_code)]

mod args;
mod cmd;
mod draw;
mod failure;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Where stderr is gone too there is nobody left to tell; the exit code still says it.
            drop(writeln!(io::stderr(), "error: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match cli.command {
        Command::Plan(args) => cmd::plan::run(&args, &mut out)?,
        Command::Demo(args) => cmd::demo::run(&args, &mut out)?,
    }
    Ok(out.flush()?)
}
