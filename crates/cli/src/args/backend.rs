//! What can be typed after `evenkeel backend`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use evenkeel::server::Trusted;
use evenkeel_core::Mode;
use evenkeel_core::server::Quota;
use tracing::level_filters::LevelFilter;

use super::signals::{SignalArg, bytes, signal};
use super::values::{address, default_quota, mechanism, mode, number, peer, quota, ratio, seed, trusted, whole_number};

/// Run a service to try things on: it works, waits, answers or fails as asked
///
/// Serves gRPC (evenkeel.demo.v1.Demo/Work, with reflection) and plain HTTP (path /work) on one port. Both take cpu_us,
/// sleep_us, bytes and fail_ratio: as fields of the message, or as parameters of the query.
///
/// SIGTERM or Ctrl-C make it a lame duck; it ends once everything that arrived is answered.
#[derive(Debug, Args)]
#[command(max_term_width = 80, after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct BackendArgs {
    /// Where to listen; port 0 takes a free one, and the first line on stdout says which
    #[arg(long, value_name = "ADDR", value_parser = address, default_value = "127.0.0.1:50051")]
    pub(crate) listen: SocketAddr,

    /// Serve metrics, state and a live page here; not served without it
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) admin: Option<SocketAddr>,

    /// Share N virtual processors by timers instead of using real ones, so that many backends fit on a small machine
    #[arg(long, value_name = "N", value_parser = virtual_cores, allow_negative_numbers = true)]
    pub(crate) virtual_cores: Option<u32>,

    /// Processors reserved for it: what its CPU is measured against, and how much of it is handed out [default: the quota of
    /// its cgroup, else all it may run on]
    #[arg(long, value_name = "CORES", value_parser = cores, allow_negative_numbers = true)]
    pub(crate) reserved_cpu: Option<f64>,

    /// What its memory is measured against, as in 512MiB [default: the limit of its cgroup, else what the machine has]
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_negative_numbers = true)]
    pub(crate) memory_limit: Option<u64>,

    /// How fast it works: at 0.5 everything takes twice the processor time
    #[arg(long, value_name = "FACTOR", value_parser = speed, default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) speed: f64,

    /// How long it stays a lame duck after it has started
    #[arg(long, value_name = "SECONDS", value_parser = start_up, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) start_up: f64,

    /// Share of all requests that fail at once, as on a broken machine
    #[arg(long, value_name = "RATIO", value_parser = ratio, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) error_rate: f64,

    /// What may be done against too much load: off is nothing, observe counts what on would refuse
    #[arg(long, value_name = "MODE", value_parser = mode, default_value_t = Mode::On)]
    pub(crate) admission: Mode,

    /// The same for one mechanism, as in limit=on: deadline, quota, cutoff, limit, queue, attempts, degrade and hints; none goes
    /// further than --admission; may be repeated [default: limit=observe, the others on]
    #[arg(long = "mode", value_name = "NAME=MODE", value_parser = mechanism)]
    pub(crate) modes: Vec<(&'static str, Mode)>,

    /// How fast this machine is beside the reference machine, as evenkeel calibrate prints it: CPU that requests cost is
    /// multiplied by it
    #[arg(long, value_name = "FACTOR", value_parser = cpu_factor, default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) cpu_factor: f64,

    /// From where a signal of the machine refuses each criticality, the least first, as in memory=0.5,0.6,0.7,0.8, or off: cpu,
    /// memory and throttled are shares, load is handlers for each processor, delay seconds; may be repeated
    #[arg(long = "signal", value_name = "NAME=FROM", value_parser = signal)]
    pub(crate) signals: Vec<SignalArg>,

    /// CPU seconds in a second that a customer may use while there is not enough for all, or always if hard, and how much of
    /// it a criticality, as in mail=0.5,sheddable=0.1,hard; may be repeated
    #[arg(long = "quota", value_name = "NAME=CPU", value_parser = quota)]
    pub(crate) quotas: Vec<(String, Quota)>,

    /// The same for each customer that has no --quota [default: no limit]
    #[arg(long, value_name = "CPU", value_parser = default_quota, allow_negative_numbers = true)]
    pub(crate) default_quota: Option<Quota>,

    /// Who may say which customer a request is for: nobody, everyone, or a list as in loopback,10.0.0.0/8,fd00::/8
    #[arg(long, value_name = "WHO", value_parser = trusted, default_value = "loopback")]
    pub(crate) trust_customers: Trusted,

    /// Ask the same of a backend of the next layer before answering, for the same customer, as critical, and in what is left of
    /// the time; may be repeated to spread it over several
    #[arg(long, value_name = "ADDR", value_parser = peer)]
    pub(crate) next: Vec<String>,

    /// Do a quarter less for each level of degradation that admission asks for, and mark the answer as degraded
    #[arg(long)]
    pub(crate) can_degrade: bool,

    /// Take no datagrams: clients without a connection learn of changes when they connect
    #[arg(long)]
    pub(crate) no_datagrams: bool,

    /// What keys of datagrams derive from, in hexadecimal, so that they outlive a restart [default: drawn at each start]
    #[arg(long, value_name = "FILE", conflicts_with = "no_datagrams")]
    pub(crate) datagram_secret_file: Option<PathBuf>,

    /// What failures are drawn from
    #[arg(long, value_name = "N", value_parser = seed, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) seed: u64,

    /// What it logs on stderr: off, error, warn, info (also who switched what) or debug
    #[arg(long, value_name = "LEVEL", value_parser = log_level, default_value = "warn")]
    pub(crate) log: LevelFilter,

    /// Print a JSON document in a line when it listens, and another when it has stopped
    #[arg(long)]
    pub(crate) json: bool,

    /// End at once when stdin is closed: whoever started it is gone
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
}

fn log_level(text: &str) -> Result<LevelFilter, String> {
    let named = LOG_LEVELS.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    named.map(|(_, level)| level).ok_or_else(|| format!("use one of {}", LOG_LEVELS.map(|(name, _)| name).join(", ")))
}

fn virtual_cores(text: &str) -> Result<u32, String> {
    whole_number(text, 1, 1024)
}

fn cores(text: &str) -> Result<f64, String> {
    number(text, 0.001, 1024.0)
}

fn speed(text: &str) -> Result<f64, String> {
    number(text, 0.01, 100.0)
}

fn cpu_factor(text: &str) -> Result<f64, String> {
    number(text, 0.01, 100.0)
}

fn start_up(text: &str) -> Result<f64, String> {
    number(text, 0.0, 3600.0)
}

const LOG_LEVELS: [(&str, LevelFilter); 5] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];

const EXAMPLES: &str = "\
Examples:
  evenkeel backend
  evenkeel backend --listen 127.0.0.1:50052 --speed 0.5 --admin 127.0.0.1:9901
  evenkeel backend --listen 127.0.0.1:0 --virtual-cores 4 --json
  evenkeel backend --admission observe
  evenkeel backend --mode limit=on --mode quota=observe --cpu-factor 1.3
  evenkeel backend --memory-limit 64MiB --signal memory=0.5,0.6,0.7,0.8
  evenkeel backend --quota mail=0.5,sheddable=0.1 --default-quota 0.1,hard
  evenkeel backend --listen 0.0.0.0:50051 --trust-customers loopback,10.1.0.0/16
  evenkeel backend --listen 127.0.0.1:50050 --next 127.0.0.1:50051
  evenkeel backend --can-degrade
  curl '127.0.0.1:50051/work?cpu_us=2000&bytes=10'";
