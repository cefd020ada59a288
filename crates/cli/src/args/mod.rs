//! What can be typed. Help texts are here, next to the fields they explain; bad values are refused here where one
//! value alone shows it.

#![allow(clippy::doc_markdown, reason = "people read these lines on a terminal, where names need no backticks")]

mod backend;
mod calibrate;
mod call;
mod demo;
mod plan;
mod signals;
mod sim;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use backend::BackendArgs;
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use call::CallArgs;
pub(crate) use demo::DemoArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use sim::{ListArgs, ReplayArgs, ReportArgs, RunArgs, ShowArgs, SimArgs, SimCommand, SwarmArgs};

/// Spread load evenly over backend tasks, and see it hold
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, max_term_width = 80, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(DemoArgs),
    Backend(BackendArgs),
    Call(CallArgs),
    Plan(PlanArgs),
    Sim(SimArgs),
    Calibrate(CalibrateArgs),
}

const EXAMPLES: &str = "\
Examples:
  evenkeel demo                                 see it at work
  evenkeel backend                              a service to try things on
  evenkeel call 127.0.0.1:50051 --seconds 5     load for it
  evenkeel plan --clients 300 --backends 300    which subset size, and why
  evenkeel sim run figure-20-5                  a scenario of the laboratory
  evenkeel calibrate                            how fast this machine is";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
