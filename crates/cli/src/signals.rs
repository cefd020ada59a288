//! What the system says to this process, and what it says to those it started.

use std::io;

use crate::failure::Failure;

/// Ctrl-C, as often as it comes; the process does not end by it any more.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlC,
}

/// SIGTERM, or on Windows that the console is closed.
#[derive(Debug)]
pub(crate) struct Terminations {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlClose,
}

#[cfg(unix)]
impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        Ok(Interrupts { signal })
    }
}

#[cfg(windows)]
impl Interrupts {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Interrupts { signal: tokio::signal::windows::ctrl_c()? })
    }
}

#[cfg(unix)]
impl Terminations {
    pub(crate) fn listen() -> io::Result<Self> {
        let signal = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        Ok(Terminations { signal })
    }
}

#[cfg(windows)]
impl Terminations {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Terminations { signal: tokio::signal::windows::ctrl_close()? })
    }
}

impl Interrupts {
    pub(crate) async fn next(&mut self) {
        self.signal.recv().await;
    }
}

impl Terminations {
    pub(crate) async fn next(&mut self) {
        self.signal.recv().await;
    }
}

/// Tells a process of ours to answer what it has and to end. One that has ended needs to be told nothing.
#[cfg(unix)]
pub(crate) fn terminate(id: u32) -> Result<(), Failure> {
    use rustix::process::{Pid, Signal, kill_process};

    let Some(pid) = Pid::from_raw(id.cast_signed()) else { return Ok(()) };
    kill_process(pid, Signal::TERM).map_err(|error| Failure::Run(format!("a backend cannot be told to stop: {error}")))
}

#[cfg(not(unix))]
pub(crate) fn terminate(_id: u32) -> Result<(), Failure> {
    let what = "this system cannot tell a process to end in good order, as the demo does with its backends";
    Err(Failure::Run(what.to_owned()))
}
