//! What can be typed after `evenkeel call`.

use std::net::SocketAddr;

use clap::Args;
use evenkeel_core::{Criticality, Mode, PolicyName};

use super::values::{address, criticality, customer, mode, number, peer, policy, ratio, seed, whole_number};
use crate::work::{BYTES_MOST, MICROS_MOST};

/// Send requests to backends through the channel: latencies and outcomes
///
/// Without --rate a number of callers wait for each answer before they ask again. With it, requests are sent at that
/// rate whatever becomes of them, and latency counts from when a request was due.
///
/// Ends with 0 when a request was answered, with 1 when none was, with 130 on Ctrl-C; what was seen until then is
/// printed in each case.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct CallArgs {
    /// Backends to spread the requests over: evenkeel backend, or what serves the same
    #[arg(value_name = "ADDR", value_parser = peer, required = true)]
    pub(crate) backends: Vec<String>,

    /// How many requests to send
    #[arg(long, value_name = "N", value_parser = requests, default_value_t = 1000, allow_negative_numbers = true)]
    pub(crate) requests: u64,

    /// How long to send requests for, instead of a number of them
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "requests", allow_negative_numbers = true)]
    pub(crate) seconds: Option<f64>,

    /// Requests to send in a second
    #[arg(long, value_name = "R", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,

    /// Requests that may wait for their answer with --rate; those due beyond are not sent, and counted
    #[arg(long, value_name = "N", value_parser = in_flight, default_value_t = 1000, requires = "rate")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) in_flight: u32,

    /// Callers without --rate
    #[arg(long, value_name = "N", value_parser = in_flight, default_value_t = 16, conflicts_with = "rate")]
    #[arg(allow_negative_numbers = true)]
    pub(crate) concurrency: u32,

    /// Processor time each request asks for, in microseconds
    #[arg(long, value_name = "N", value_parser = micros, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) cpu_us: u64,

    /// Time each request asks to wait, in microseconds
    #[arg(long, value_name = "N", value_parser = micros, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) sleep_us: u64,

    /// Size of the payload each request asks for
    #[arg(long, value_name = "N", value_parser = bytes, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) bytes: u64,

    /// Chance that a request asks to fail
    #[arg(long, value_name = "RATIO", value_parser = ratio, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) fail_ratio: f64,

    /// How long an answer may take, in seconds
    #[arg(long, value_name = "S", value_parser = seconds, default_value_t = 10.0, allow_negative_numbers = true)]
    pub(crate) deadline: f64,

    /// How much the requests matter: CRITICAL_PLUS, CRITICAL, SHEDDABLE_PLUS or SHEDDABLE
    #[arg(long, value_name = "NAME", value_parser = criticality, default_value_t = Criticality::Critical)]
    pub(crate) criticality: Criticality,

    /// Who is billed
    #[arg(long, value_name = "NAME", value_parser = customer)]
    pub(crate) customer: Option<String>,

    /// Who gets the next request: round_robin, least_loaded, p2c, weighted, prequal or level
    #[arg(long, value_name = "NAME", value_parser = policy, default_value_t = PolicyName::default())]
    pub(crate) policy: PolicyName,

    /// Attempts of one request, the first included; 1 for no retries
    #[arg(long, value_name = "N", value_parser = attempts, default_value_t = 3, allow_negative_numbers = true)]
    pub(crate) attempts: u32,

    /// Whether to hold back by what was accepted of late: off, observe or on; what a backend says is heeded in any case
    #[arg(long, value_name = "MODE", value_parser = mode, default_value_t = Mode::On)]
    pub(crate) throttle: Mode,

    /// Requests in flight to one backend; beyond that it counts as full
    #[arg(long, value_name = "N", value_parser = in_flight, default_value_t = 100, allow_negative_numbers = true)]
    pub(crate) active_max: u32,

    /// Backends in use at a time
    #[arg(long, value_name = "N", value_parser = subset, default_value_t = 20, allow_negative_numbers = true)]
    pub(crate) subset: u32,

    /// Let go of a connection that nobody has used for so long, in seconds
    #[arg(long, value_name = "S", value_parser = idle, default_value_t = 300.0, allow_negative_numbers = true)]
    pub(crate) idle_after: f64,

    /// How often a backend without a connection is asked how it is, in seconds
    #[arg(long, value_name = "S", value_parser = check, default_value_t = 10.0, allow_negative_numbers = true)]
    pub(crate) check_every: f64,

    /// Ask by connecting, never by datagrams
    #[arg(long)]
    pub(crate) no_datagrams: bool,

    /// Say on stderr what becomes of each backend: connected, inactive, lame duck, and how it is checked
    #[arg(long)]
    pub(crate) watch: bool,

    /// Plain HTTP/1.1 instead of gRPC
    #[arg(long)]
    pub(crate) http: bool,

    /// Serve metrics, state and a live page here meanwhile
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,

    /// What choices are drawn from [default: another one each time]
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// Print the figures as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

fn requests(text: &str) -> Result<u64, String> {
    whole_number(text, 1, 1_000_000_000)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.001, 86_400.0)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.01, 1_000_000.0)
}

fn idle(text: &str) -> Result<f64, String> {
    number(text, 0.01, 86_400.0)
}

fn check(text: &str) -> Result<f64, String> {
    number(text, 0.01, 3_600.0)
}

fn in_flight(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 100_000)
}

fn micros(text: &str) -> Result<u64, String> {
    whole_number(text, 0, MICROS_MOST)
}

fn bytes(text: &str) -> Result<u64, String> {
    whole_number(text, 0, BYTES_MOST)
}

fn attempts(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 5)
}

fn subset(text: &str) -> Result<u32, String> {
    whole_number(text, 1, evenkeel_core::plan::COUNT_MOST)
}

const EXAMPLES: &str = "\
Examples:
  evenkeel call 127.0.0.1:50051
  evenkeel call 127.0.0.1:50051 127.0.0.1:50052 --rate 200 --cpu-us 2000
  evenkeel call 127.0.0.1:50051 --http --requests 50 --bytes 1000 --json
  evenkeel call 127.0.0.1:50051 --criticality sheddable --deadline 0.5
  evenkeel call 127.0.0.1:50051 --rate 800 --cpu-us 4000 --throttle observe
  evenkeel call 127.0.0.1:50051 --rate 0.2 --seconds 60 --idle-after 2 --watch";
