//! What an idle backend costs: inactive and checked by datagrams, beside an idle HTTP/2 connection.
//!
//! A server and a client, each a process of its own. The server listens at every address of loopback, so that it is as
//! many backends as wanted to the client, and as many clients to itself. Backends come a few at a time, so that memory
//! which connections took while they were made is used again, and what is left is what stays.

mod client;
mod floor;
mod server;

use std::io;
use std::time::{Duration, Instant};

use crate::figure::{Aim, Figure};
use crate::process::Role;

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Backends whose memory is measured, connected and inactive.
    pub kept: u32,
    /// Inactive clients of one backend.
    pub asking: u32,
    /// How long checks are counted.
    pub counted: Duration,
}

pub const FULL: Scale = Scale { kept: 4_000, asking: 10_000, counted: Duration::from_secs(20) };
pub const QUICK: Scale = Scale { kept: 600, asking: 1_000, counted: Duration::from_secs(3) };

/// What a client does with its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Keeps them.
    Connected,
    /// Lets them go, and asks each backend so often, in milliseconds.
    Inactive { every_ms: u32 },
}

/// Runs what the arguments of a role say. `None` if they are for the bench itself.
pub fn run_role(arguments: &[String]) -> Option<Result<(), String>> {
    match arguments {
        [role] if role == SERVER => Some(server::run()),
        [role, port, every] if role == CLIENT => Some(client::run(port, every)),
        [role] if role == ECHO => Some(floor::echo()),
        [role, port, per_second] if role == ASK => Some(floor::ask(port, per_second)),
        _ => None,
    }
}

/// One number for each figure.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    connected: [f64; 2],
    inactive: [f64; 2],
    /// CPU of the server over time, with that many clients asking every 10 s.
    share: f64,
    /// CPU of one check at each end, at that rate and at as many as a server reads.
    rare: [f64; 2],
    often: [f64; 2],
    /// The same for bare sockets that echo.
    floor_rare: [f64; 2],
    floor_often: [f64; 2],
}

/// Runs everything once.
pub fn round(scale: Scale) -> io::Result<Round> {
    let connected = memory(Mode::Connected, scale.kept)?;
    let inactive = memory(Mode::Inactive { every_ms: 10_000 }, scale.kept)?;
    let (share, rare) = checks(10_000, scale.asking, scale)?;
    // As ten times as many clients would send.
    let (_, often) = checks(1_000, scale.asking, scale)?;
    let (floor_rare, floor_often) = (floor(1_000, scale.counted / 2)?, floor(10_000, scale.counted / 2)?);
    Ok(Round { connected, inactive, share, rare, often, floor_rare, floor_often })
}

/// What the rounds say.
pub fn figures(scale: Scale, rounds: &[Round]) -> Vec<Figure> {
    let over =
        |name: String, unit, value: &dyn Fn(&Round) -> f64| Figure::new(name, unit, rounds.iter().map(value).collect());
    let ends = ["client", "server"];
    let mut figures = Vec::new();
    for (end, name) in ends.into_iter().enumerate() {
        let most = [1024.0, 200.0][end];
        figures.push(over(format!("memory/idle_connection/{name}"), "bytes", &|round| round.connected[end]));
        let inactive = over(format!("memory/inactive/{name}"), "bytes", &|round| round.inactive[end]);
        figures.push(inactive.aimed(Aim::AtMost(most)));
    }
    // As if all ten thousand asked, whatever the scale.
    let scaled = 10_000.0 / f64::from(scale.asking);
    let share =
        over("check/server_share/10000_clients".to_owned(), "% of a core", &|round| round.share * 100.0 * scaled);
    figures.push(share.aimed(Aim::AtMost(0.5)));
    for (end, name) in ends.into_iter().enumerate() {
        let rare = over(format!("check/1000_a_second/{name}"), "µs of CPU", &|round| round.rare[end]);
        let often = over(format!("check/10000_a_second/{name}"), "µs of CPU", &|round| round.often[end]);
        figures.extend([rare, often].map(|figure| figure.aimed(Aim::AtMost(4.0))));
        figures.push(over(format!("echo/1000_a_second/{name}"), "µs of CPU", &|round| round.floor_rare[end]));
        figures.push(over(format!("echo/10000_a_second/{name}"), "µs of CPU", &|round| round.floor_often[end]));
    }
    figures
}

/// Resident bytes that one backend more takes, at the client and at the server.
fn memory(mode: Mode, backends: u32) -> io::Result<[f64; 2]> {
    let mut pair = Pair::start(mode)?;
    // What comes with the first ones is not theirs alone.
    let first = backends / 4;
    pair.grow(first)?;
    let before = pair.resident()?;
    pair.grow(backends)?;
    let after = pair.resident()?;
    Ok([0, 1].map(|end| (after[end] - before[end]) / f64::from(backends - first)))
}

/// CPU of the server over time, and microseconds of CPU for a check at each end.
fn checks(every_ms: u32, asking: u32, scale: Scale) -> io::Result<(f64, [f64; 2])> {
    let mut pair = Pair::start(Mode::Inactive { every_ms })?;
    let idle = pair.spent(scale.counted / 4)?;
    pair.grow(asking)?;
    let asked = pair.spent(scale.counted)?;
    let each = [0, 1].map(|end| (asked.rate[end] - idle.rate[end]).max(0.0) * 1e6 / asked.checks);
    Ok((asked.rate[1], each))
}

/// Microseconds of CPU for an echo at each end.
fn floor(per_second: u32, time: Duration) -> io::Result<[f64; 2]> {
    let mut server = Role::start(&[ECHO.to_owned()])?;
    let port = server.hear()?;
    let mut client = Role::start(&[ASK.to_owned(), port, per_second.to_string()])?;
    client.hear()?;
    let mut pair = Pair { client, server, mode: Mode::Connected, backends: 0 };
    let spent = pair.spent(time)?;
    Ok(spent.rate.map(|rate| rate * 1e6 / spent.checks))
}

/// A client and its server.
struct Pair {
    client: Role,
    server: Role,
    mode: Mode,
    backends: u32,
}

/// What was spent in a time.
struct Spent {
    /// CPU over time, at each end.
    rate: [f64; 2],
    /// Checks answered in a second.
    checks: f64,
}

impl Pair {
    fn start(mode: Mode) -> io::Result<Pair> {
        let mut server = Role::start(&[SERVER.to_owned()])?;
        let port = server.hear()?;
        let every = match mode {
            Mode::Connected => "0".to_owned(),
            Mode::Inactive { every_ms } => every_ms.to_string(),
        };
        let mut client = Role::start(&[CLIENT.to_owned(), port, every])?;
        client.hear()?;
        Ok(Pair { client, server, mode, backends: 0 })
    }

    /// Until there are so many backends, all as the mode has it: a few at a time, so that few are connected at once where
    /// they are not to stay.
    fn grow(&mut self, backends: u32) -> io::Result<()> {
        while self.backends < backends {
            self.backends = (self.backends + TOGETHER).min(backends);
            self.client.order(&format!("grow {}", self.backends))?;
            self.client.hear()?;
            // Asked of the server where it can be: a list of all backends is memory, too, at the client.
            match self.mode {
                Mode::Connected => {
                    self.client.order("wait")?;
                    self.client.hear()?;
                }
                Mode::Inactive { .. } => {
                    while self.known()? < self.backends {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            }
        }
        // The last connections close.
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    }

    fn known(&mut self) -> io::Result<u32> {
        self.server.order("known")?;
        self.server.hear()?.parse().map_err(io::Error::other)
    }

    fn resident(&self) -> io::Result<[f64; 2]> {
        Ok([self.client.resident()?, self.server.resident()?])
    }

    fn answered(&mut self) -> io::Result<f64> {
        self.client.order("answered")?;
        self.client.hear()?.parse().map_err(io::Error::other)
    }

    fn spent(&mut self, time: Duration) -> io::Result<Spent> {
        let cpu =
            |pair: &Pair| Ok::<_, io::Error>([pair.client.cpu()?, pair.server.cpu()?].map(|cpu| cpu.as_secs_f64()));
        let (began, answered, before) = (Instant::now(), self.answered()?, cpu(self)?);
        std::thread::sleep(time);
        let (after, seconds) = (cpu(self)?, began.elapsed().as_secs_f64());
        let checks = (self.answered()? - answered) / seconds;
        Ok(Spent { rate: [0, 1].map(|end| (after[end] - before[end]) / seconds), checks })
    }
}

const TOGETHER: u32 = 200;
const SERVER: &str = "idle-server";
const CLIENT: &str = "idle-client";
const ECHO: &str = "idle-echo";
const ASK: &str = "idle-ask";
