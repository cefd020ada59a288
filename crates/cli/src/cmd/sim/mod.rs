//! `evenkeel sim`: scenarios of the laboratory, run, drawn and run again.

mod list;
mod named;
mod replay;
mod report;
mod run;
mod swarm;
mod text;
mod work;

use std::io::Write;

use crate::args::{SimArgs, SimCommand};
use crate::failure::Failure;

pub(crate) fn run(args: &SimArgs, out: &mut impl Write) -> Result<(), Failure> {
    match &args.command {
        SimCommand::List(args) => list::run(args, out),
        SimCommand::Show(args) => list::show(args, out),
        SimCommand::Run(args) => run::run(args, out),
        SimCommand::Report(args) => report::run(args, out),
        SimCommand::Replay(args) => replay::run(args, out),
        SimCommand::Swarm(args) => swarm::run(args, out),
    }
}
