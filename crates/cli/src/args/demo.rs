//! What can be typed after `evenkeel demo`.

use clap::Args;
use evenkeel_core::PolicyName;

use super::values::{policy, seed, whole_number};

/// Start backends of unequal speed, drive them, and see how even it is
///
/// Every backend is a process of its own, `evenkeel backend` with one virtual processor, and the requests go through
/// sockets and the channel that services use. A third of the way one of them is restarted, and no request should notice.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Backends to start, 1 to 50
    #[arg(long, value_name = "N", value_parser = backends, default_value_t = 10, allow_negative_numbers = true)]
    pub(crate) backends: u32,

    /// How long to drive them, 1 to 3600
    #[arg(long, value_name = "S", value_parser = seconds, default_value_t = 20, allow_negative_numbers = true)]
    pub(crate) seconds: u32,

    /// Who gets the next request: round_robin, least_loaded, p2c, weighted, prequal or level
    #[arg(long, value_name = "NAME", value_parser = policy, default_value_t = PolicyName::default())]
    pub(crate) policy: PolicyName,

    /// What arrivals, costs and choices are drawn from
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// Serve no live page
    #[arg(long)]
    pub(crate) headless: bool,

    /// Print the summary as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

fn backends(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 50)
}

fn seconds(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 3600)
}

const EXAMPLES: &str = "\
Examples:
  evenkeel demo
  evenkeel demo --policy round_robin --seconds 60
  evenkeel demo --backends 4 --seconds 5 --headless --json";
