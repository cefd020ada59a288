//! One process a role, so that each one's CPU and memory can be told: the bench starts itself again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

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

impl Role {
    /// Memory of it that is resident now, in bytes.
    pub fn resident(&self) -> std::io::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok());
        kib.map(|kib: f64| kib * 1024.0).ok_or_else(|| std::io::Error::other("the kernel does not tell VmRSS"))
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
