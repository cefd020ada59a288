//! What can be typed after `evenkeel plan`.

use clap::Args;
use evenkeel_core::client::subset::Algorithm;
use evenkeel_core::plan::{BadChange, COUNT_MOST, Change};

use super::values::{number, seed, whole_number};

/// Choose a subset size: how even it is, what it costs, what changes move
///
/// Deals a subset of the backends to every client with the code that clients run, and counts connections.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Client tasks
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(crate) clients: u32,

    /// Backend tasks
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(crate) backends: u32,

    /// Backends one client uses; without it a size is recommended, with its reasons
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub(crate) size: Option<u32>,

    /// How backends are dealt: random, rounds or even
    ///
    ///   random  each client draws its own: needs no numbering, and is uneven
    ///   rounds  each round of clients is dealt all backends: even, but most
    ///           connections move when the number of subsets changes
    ///   even    nearly even, and a change moves little more than it must
    #[arg(long, value_name = "NAME", value_parser = algorithm, default_value_t = Algorithm::Even)]
    #[arg(verbatim_doc_comment)]
    pub(crate) algorithm: Algorithm,

    /// What the dealing is shuffled with; all clients of a service use the same
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// How far the busiest client bursts above its mean rate; more asks for larger subsets
    #[arg(long, value_name = "TIMES", value_parser = burst, default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) burst: f64,

    /// A change to count lost connections for: sign, whole number, % for a share, then b for backends or c for clients;
    /// may be repeated [default: +1b -1b +10%b -10%b +10%c]
    #[arg(long = "change", value_name = "CHANGE", value_parser = change, allow_hyphen_values = true)]
    pub(crate) changes: Vec<Change>,

    /// Print the figures as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Print who uses whom as one JSON document: {"clients": [[backends of client 0], ...]}; changes are ignored
    ///
    /// For rounds and even this is exactly what clients with ordinals 0 to N-1 deal to themselves. For random it shows
    /// the kind of dealing only: real clients rank backends by hashed names.
    #[arg(long, conflicts_with = "json")]
    pub(crate) dump: bool,
}

fn count(text: &str) -> Result<u32, String> {
    whole_number(text, 1, COUNT_MOST)
}

fn burst(text: &str) -> Result<f64, String> {
    number(text, 1.0, BURST_MOST)
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    text.parse().map_err(|error: evenkeel_core::InvalidConfig| error.allowed)
}

fn change(text: &str) -> Result<Change, BadChange> {
    text.parse()
}

/// A client at a thousand times its mean is idle otherwise: no subset size evens that out.
const BURST_MOST: f64 = 1_000.0;

const EXAMPLES: &str = "\
Examples:
  evenkeel plan --clients 300 --backends 300
  evenkeel plan --clients 40 --backends 300 --burst 3
  evenkeel plan --clients 300 --backends 300 --size 90 --algorithm random
  evenkeel plan --clients 300 --backends 300 --change -25%b --change +1c --json
  evenkeel plan --clients 3 --backends 40 --dump";

#[cfg(test)]
mod tests {
    use evenkeel_core::plan::Shape;

    use super::*;

    #[test]
    fn counts_are_those_core_deals_to() {
        let of = |clients| Shape { clients, backends: 1, size: 1 }.check().is_ok();

        assert!(of(COUNT_MOST) && !of(COUNT_MOST + 1));
        assert_eq!(count(&COUNT_MOST.to_string()), Ok(COUNT_MOST));
    }

    #[test]
    fn absurd_numbers_are_refused_with_what_would_do() {
        for text in ["0", "-1", "", "131073", "4294967296", "1.5", "NaN", "ten"] {
            assert_eq!(count(text).unwrap_err(), "write a whole number from 1 to 131072", "{text:?}");
        }
        for text in ["0.9", "-1", "", "NaN", "inf", "1e9"] {
            assert_eq!(burst(text).unwrap_err(), "write a number from 1 to 1000", "{text:?}");
        }
    }
}
