//! What can be typed after `evenkeel sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use evenkeel_sim::scenario::SEEDS_MOST;

use super::values::{seed, whole_number};

/// Run the laboratory: scenarios on simulated machines, their figures and goals
///
/// Decisions are those that services run, on an event queue with modelled machines, network and chance. The same seed
/// gives the same numbers, byte for byte, everywhere.
#[derive(Debug, Args)]
#[command(max_term_width = 80, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) command: SimCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    List(ListArgs),
    Show(ShowArgs),
    Run(RunArgs),
    Report(ReportArgs),
    Replay(ReplayArgs),
    Swarm(SwarmArgs),
}

/// Name every scenario there is
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = LIST_EXAMPLES)]
pub(crate) struct ListArgs {
    /// Print a JSON document: [{"name", "about"}]
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the text of a scenario, to be copied and edited
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// One of those that list names
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Run one scenario: figures by variant, and which goals are met
///
/// Ends with 0 when it ran, with 2 when the scenario or an argument cannot be, and with --strict with 3 when a goal is
/// missed.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// One of those that list names, or a file that ends in .toml
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,

    /// Run it with this policy only, instead of its variants; an unknown name is answered with those there are
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,

    /// What everything is drawn from
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// Run it with so many seeds at least, from --seed on, and take means; a scenario that wants more has more
    #[arg(long, value_name = "N", value_parser = seeds, allow_negative_numbers = true)]
    pub(crate) seeds: Option<u32>,

    /// Set a field otherwise, by its path, as in clients.load=0.9 or fault.0.at=5s; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Write SCENARIO.json and its figures, as SVG, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print everything as one JSON document, which replay takes
    #[arg(long)]
    pub(crate) json: bool,

    /// End with 3 when a goal is missed
    #[arg(long)]
    pub(crate) strict: bool,

    /// Threads to run on [default: one for each processor]; the figures are the same
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
}

/// Run every scenario and write one page about them, with all figures
///
/// Ends with 0 when all ran, with 2 when an argument cannot be, and with --strict with 3 when a goal is missed.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    /// Write index.html, and a JSON document and figures for each scenario, into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Only this scenario, one of those that list names; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// What everything is drawn from
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// End with 3 when a goal is missed
    #[arg(long)]
    pub(crate) strict: bool,

    /// Threads to run on [default: one for each processor]; the figures are the same
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
}

/// Run a document again and compare: the same bytes, or what differs first
///
/// Ends with 0 when it came out the same, with 1 when it did not, and with 2 when the file is no document of a run.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// A document that run wrote, by --out or --json
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Threads to run on [default: one for each processor]; the figures are the same
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
}

/// Try random worlds in which random things go wrong, and look at every event
///
/// Nothing may be lost or counted twice, no lame duck picked after its notice, no limit exceeded. A seed is a world: one
/// that fails is named, and fails again. Ends with 0 when all held, and with 1 when one did not.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = SWARM_EXAMPLES)]
pub(crate) struct SwarmArgs {
    /// The first world
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// How many worlds
    #[arg(long, value_name = "N", value_parser = worlds, default_value_t = 1, allow_negative_numbers = true)]
    pub(crate) seeds: u64,

    /// Print one JSON document: {"seed", "seeds", "events", "requests", "broken": [{"seed", "event", "at_s", "what"}]}
    #[arg(long)]
    pub(crate) json: bool,
}

fn worlds(text: &str) -> Result<u64, String> {
    whole_number(text, 1, WORLDS_MOST)
}

fn seeds(text: &str) -> Result<u32, String> {
    whole_number(text, 1, SEEDS_MOST)
}

fn threads(text: &str) -> Result<usize, String> {
    whole_number(text, 1, THREADS_MOST)
}

const THREADS_MOST: usize = 1024;
/// Some hours' worth.
const WORLDS_MOST: u64 = 10_000_000;

const EXAMPLES: &str = "\
Examples:
  evenkeel sim list                        what there is
  evenkeel sim run figure-20-5             one of them
  evenkeel sim report --out report         all of them, as a page
  evenkeel sim show spread > mine.toml     a text to begin with";
const LIST_EXAMPLES: &str = "\
Examples:
  evenkeel sim list
  evenkeel sim list --json";
const SHOW_EXAMPLES: &str = "\
Examples:
  evenkeel sim show figure-20-5
  evenkeel sim show spread > mine.toml";
const RUN_EXAMPLES: &str = "\
Examples:
  evenkeel sim run figure-20-5
  evenkeel sim run spread --policy p2c --set clients.load=0.9 --seeds 5
  evenkeel sim run sinkhole --set fault.0.lasts=5s --out figures
  evenkeel sim run mine.toml --seed 7 --strict --json";
const REPORT_EXAMPLES: &str = "\
Examples:
  evenkeel sim report --out report
  evenkeel sim report --out report --only figure-20-5 --only spread --strict";
const REPLAY_EXAMPLES: &str = "\
Examples:
  evenkeel sim run figure-20-5 --out figures
  evenkeel sim replay figures/figure-20-5.json";
const SWARM_EXAMPLES: &str = "\
Examples:
  evenkeel sim swarm --seeds 1000
  evenkeel sim swarm --seed 1277";
