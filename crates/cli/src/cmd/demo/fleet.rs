//! The backends of the demo: a process each, which ends with the demo however that ends.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use evenkeel::clock::Clock;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::cmd::backend::Event;
use crate::failure::Failure;
use crate::signals::terminate;

/// One backend, across its restarts.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) address: SocketAddr,
    pub(super) speed: f64,
    /// Processor time its processes have used, of those that have stopped.
    pub(super) busy_core_s: f64,
    /// How long nobody was there to send to.
    pub(super) away: Duration,
    pub(super) restarts: u32,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// Closed when this process ends, by whatever means: then the backend ends too.
    _stdin: ChildStdin,
}

impl Member {
    /// Starts `evenkeel backend` on a port of its own; it listens once [`Member::listening`] returns.
    pub(super) fn start(number: u16, speed: f64) -> Result<Self, Failure> {
        let address = free_address(number).map_err(cannot_start)?;
        let process = Some(Process::start(address, speed)?);
        Ok(Member { address, speed, busy_core_s: 0.0, away: Duration::ZERO, restarts: 0, process })
    }

    /// Waits until it can be connected to.
    pub(super) async fn listening(&mut self) -> Result<(), Failure> {
        let process = self.process.as_mut().ok_or_else(|| cannot_start("it was stopped"))?;
        match tokio::time::timeout(START_MOST, process.event()).await {
            Ok(Ok(Event::Listening { .. })) => Ok(()),
            Ok(Ok(Event::Stopped { .. })) => Err(cannot_start("it stopped at once")),
            Ok(Err(error)) => Err(cannot_start(error)),
            Err(_) => Err(cannot_start(format!("{} says nothing", self.address))),
        }
    }

    /// SIGTERM, and another process on the same address once it has answered everything.
    pub(super) async fn restart(&mut self, clock: Clock) -> Result<(), Failure> {
        let began = clock.now();
        self.stop(STOP_MOST).await?;
        self.process = Some(Process::start(self.address, self.speed)?);
        self.listening().await?;
        self.away += clock.now().since(began);
        self.restarts += 1;
        Ok(())
    }

    /// SIGTERM, and what it says when it has ended. One that takes longer than `most` is killed.
    pub(super) async fn stop(&mut self, most: Duration) -> Result<(), Failure> {
        let Some(process) = &mut self.process else { return Ok(()) };
        process.terminate()?;
        let Ok(stopped) = tokio::time::timeout(most, process.stopped()).await else {
            process.child.kill().await?;
            let (address, seconds) = (self.address, most.as_secs());
            return Err(Failure::Run(format!("the backend {address} did not stop within {seconds} s")));
        };
        let busy_core_s = stopped?;
        self.process = None;
        self.busy_core_s += busy_core_s;
        Ok(())
    }
}

impl Process {
    fn start(address: SocketAddr, speed: f64) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(cannot_start)?;
        let (listen, speed, cores) = (address.to_string(), speed.to_string(), CORES_EACH.to_string());
        let mut command = Command::new(program);
        // Not in the terminal's group: Ctrl-C is for the demo, which then stops its backends in order.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command
            .args(["backend", "--json", "--exit-with-stdin", "--listen", &listen])
            .args(["--speed", &speed, "--virtual-cores", &cores])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot_start)?;
        let stdin = child.stdin.take().expect("stdin was asked to be a pipe");
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        Ok(Process { child, lines: BufReader::new(stdout).lines(), _stdin: stdin })
    }

    /// The next thing it says.
    async fn event(&mut self) -> io::Result<Event> {
        let line = self.lines.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// The processor time it used, once it has ended.
    async fn stopped(&mut self) -> Result<f64, Failure> {
        loop {
            let event = self.event().await;
            match event.map_err(|error| Failure::Run(format!("a backend ended without a word: {error}")))? {
                Event::Listening { .. } => {}
                Event::Stopped { busy_core_s, .. } => {
                    self.child.wait().await?;
                    return Ok(busy_core_s);
                }
            }
        }
    }

    fn terminate(&self) -> Result<(), Failure> {
        // Without an id it has ended and was waited for.
        self.child.id().map_or(Ok(()), terminate)
    }
}

/// A port that outgoing connections are not given by the system, so that it is still free after a restart.
fn free_address(number: u16) -> io::Result<SocketAddr> {
    let mut tried = ports(std::process::id(), number).map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    tried.find(|address| TcpListener::bind(address).is_ok()).ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

/// Where to try, apart from the other backends and other demos.
fn ports(process: u32, number: u16) -> impl Iterator<Item = u16> {
    let first = process % 100 * 200 + u32::from(number) * 2;
    (0..PORT_TRIES).map(move |step| PORT_FIRST + ((first + step * 211) % PORTS) as u16)
}

fn cannot_start(why: impl std::fmt::Display) -> Failure {
    Failure::Run(format!("a backend cannot be started: {why}"))
}

/// Virtual processors of a backend.
pub(super) const CORES_EACH: u32 = 1;
const PORT_FIRST: u16 = 10_000;
/// Linux gives out those from 32768 on.
const PORTS: u32 = 20_000;
const PORT_TRIES: u32 = 90;
/// A machine that is busy with other things takes its time.
const START_MOST: Duration = Duration::from_secs(20);
/// Longer than a drain may take.
const STOP_MOST: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_one_that_the_system_gives_out() {
        for process in [0, 99, 12_345, u32::MAX] {
            for number in [0, 1, 999] {
                assert!(ports(process, number).all(|port| (1024..32_768).contains(&port)), "{process} {number}");
            }
        }
    }
}
