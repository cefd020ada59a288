//! A run in a process of its own: the bench starts itself again, and hears on one line what the run took.

use std::io;
use std::process::{Command, Stdio};
use std::time::Instant;

use evenkeel_sim::{Input, lab};

use super::Order;
use crate::clock;

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Simulated events of all seeds and variants.
    pub events: f64,
    pub wall_s: f64,
    /// Of all threads.
    pub cpu_s: f64,
    /// The most memory that was resident at any time.
    pub peak_bytes: f64,
}

impl Run {
    pub fn events_per_cpu_s(self) -> f64 {
        self.events / self.cpu_s
    }

    /// What came after another run, which did the beginning of this one.
    #[must_use]
    pub fn since(self, beginning: Run) -> Run {
        let (events, cpu_s) = (self.events - beginning.events, self.cpu_s - beginning.cpu_s);
        Run { events, wall_s: self.wall_s - beginning.wall_s, cpu_s, ..self }
    }
}

impl Order {
    /// Runs it in a new process.
    pub fn run(&self) -> io::Result<Run> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([CHILD, &self.threads.to_string(), &self.seeds.to_string(), &self.toml]);
        let said = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        let line = String::from_utf8_lossy(&said.stdout);
        let numbers: Vec<f64> = line.split_whitespace().filter_map(|text| text.parse().ok()).collect();
        match numbers[..] {
            [events, wall_s, cpu_s, peak_bytes] if said.status.success() => {
                Ok(Run { events, wall_s, cpu_s, peak_bytes })
            }
            _ => Err(io::Error::other(format!("a run ended early ({}); it says above why, if it could", said.status))),
        }
    }
}

/// Runs what the arguments of a child say. `None` if they are for the bench itself.
pub fn run_as_child(arguments: &[String]) -> Option<Result<(), String>> {
    match arguments {
        [child, rest @ ..] if child == CHILD => Some(run(rest)),
        _ => None,
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [threads, seeds, toml] = arguments else {
        return Err(format!("{CHILD} wants threads, seeds and a scenario"));
    };
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text:?}: {error}"));
    let (threads, seeds) = (number(threads)? as usize, number(seeds)?);
    let input = Input { toml: toml.clone(), ..Input::default() };
    let order = lab::Order { name: "bench".to_owned(), input, seed: 1, seeds: Some(seeds) };

    let (from, cpu_from) = (Instant::now(), clock::process_cpu());
    let document = lab::run(&order, threads, &|_| {}).map_err(|bad| bad.to_string())?;
    let (wall, cpu) = (from.elapsed(), clock::process_cpu().saturating_sub(cpu_from));

    // Figures are means over the seeds, one for each variant; a dealing has no events.
    let of_a_variant = |(name, _): &(&String, &f64)| name.rsplit('/').next() == Some("events");
    let of_a_seed = document.metrics.iter().filter(of_a_variant).fold(0.0, |sum, (_, mean)| sum + mean);
    let events = of_a_seed * f64::from(document.seeds);
    println!("{events} {} {} {}", wall.as_secs_f64(), cpu.as_secs_f64(), peak_bytes()?);
    Ok(())
}

/// The most memory of this process that was resident at any time.
fn peak_bytes() -> Result<f64, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map(|kib: f64| kib * 1024.0).ok_or_else(|| "the kernel does not tell VmHWM".to_owned())
}

/// The first argument of a run's own process.
const CHILD: &str = "run-as-child";
