//! What can be typed after `evenkeel calibrate`.

use clap::Args;

use super::values::whole_number;

/// Measure how fast this machine is, so that costs of requests compare between machines
///
/// Does a fixed piece of integer work several times and takes the median of its CPU time. The factor is 1 on the
/// reference machine and 2 on one twice as fast; a server multiplies the CPU time of requests by it. Run it on an idle
/// machine, once for each kind of machine.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct CalibrateArgs {
    /// How often the work is done, 18 ms each on the reference machine
    #[arg(long, value_name = "N", value_parser = rounds, default_value_t = 51, allow_negative_numbers = true)]
    pub(crate) rounds: u32,

    /// Print the figures as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

fn rounds(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 10_000)
}

const EXAMPLES: &str = "\
Examples:
  evenkeel calibrate
  evenkeel calibrate --rounds 500               on a noisy machine
  evenkeel calibrate --json | jq .factor        for a start script";
