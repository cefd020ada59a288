//! One process a role, so that each one's CPU can be told: the bench starts itself again and reads their CPU clocks.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// Whose client or server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Tonic,
    Evenkeel,
    /// Hyper's connections in turn: what is below both.
    Hyper,
    /// The connections of the h2 crate in turn: what is below hyper.
    H2,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stack::Tonic => "tonic",
            Stack::Evenkeel => "evenkeel",
            Stack::Hyper => "hyper",
            Stack::H2 => "h2",
        })
    }
}

impl FromStr for Stack {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tonic" => Ok(Stack::Tonic),
            "evenkeel" => Ok(Stack::Evenkeel),
            "hyper" => Ok(Stack::Hyper),
            "h2" => Ok(Stack::H2),
            _ => Err(format!("no stack {text}")),
        }
    }
}

/// A role that runs. Its stdin closes when this is dropped, and with it the process ends.
pub struct Role {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Role {
    pub fn start(arguments: &[String]) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        Ok(Role { child, orders, answers })
    }

    /// The next line it says; an error if it ends instead.
    pub fn hear(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("a role of the bench ended; it says why above"));
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    pub fn order(&mut self, order: &str) -> std::io::Result<()> {
        let orders = self.orders.as_mut().expect("open until it is dropped");
        writeln!(orders, "{order}")?;
        orders.flush()
    }

    /// CPU it has used, all threads together.
    pub fn cpu(&self) -> std::io::Result<Duration> {
        let pid = i32::try_from(self.child.id()).map_err(std::io::Error::other)?;
        Ok(clock_gettime(clock_getcpuclockid(Pid::from_raw(pid))?)?.into())
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        drop(self.orders.take());
        // One that has ended by itself needs no waiting for.
        drop(self.child.wait());
    }
}

/// Says a line to whoever started this process.
pub fn say(line: &str) {
    println!("{line}");
}

/// Ends this process when whoever started it closes its stdin, or is gone.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // Nothing is ever said to a server: the end is all there is to read, and an error is one.
        drop(std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
        std::process::exit(0);
    });
}
