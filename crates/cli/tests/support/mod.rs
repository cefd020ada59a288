//! Real processes of the binary, which end with the test however that ends.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use evenkeel::client::{ChannelSnapshot, Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::{BackendSnapshot, BackendState};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, unused, reason = "generated")]
pub(crate) mod generated {
    include!("../../src/generated/evenkeel.demo.v1.rs");
}

pub(crate) mod cores;

/// A process that is killed when it goes out of scope.
pub(crate) struct Process {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(line: &str) -> Process {
        let mut child = command(line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Process { child, stdout }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says, without its end; empty if it says no more.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end: exit code, and what it still had to say.
    pub(crate) async fn end(&mut self) -> (Option<i32>, String) {
        until("the process ends", async || self.has_ended()).await;
        let mut rest = String::new();
        self.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended cannot be killed, and need not be.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A running `evenkeel backend`.
pub(crate) struct Backend {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Backend {
    /// On a port that is still free after a restart.
    pub(crate) fn start(options: &str) -> Backend {
        Backend::start_at(free_address(), options)
    }

    pub(crate) fn start_at(address: SocketAddr, options: &str) -> Backend {
        let mut process = Process::start(&format!("backend --json --listen {address} {options}"));
        let said: Value = serde_json::from_str(&process.line()).unwrap();
        assert_eq!(said["listen"], address.to_string(), "{said}");
        Backend { process, address }
    }
}

/// A port that no outgoing connection is given by the system: one that is bound again must not have been taken.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let port = 10_000 + (std::process::id() as u16 % 500) * 40 + NEXT.fetch_add(1, Ordering::Relaxed) % 40;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

pub(crate) fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(line.split_whitespace());
    command
}

pub(crate) fn run(line: &str) -> Output {
    command(line).stdin(Stdio::null()).output().unwrap()
}

/// The only document on stdout of a command that succeeds.
pub(crate) fn document(line: &str) -> Value {
    let output = run(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE * 2, waiting).await.is_ok(), "never: {what}");
}

/// A channel that has a connection to each of them.
pub(crate) async fn channel_to(backends: &[Backend]) -> Channel {
    channel_with(ChannelConfig::default(), backends).await
}

/// The same with other settings. A machine that stands still for a second is nobody's failure.
pub(crate) async fn channel_with(mut config: ChannelConfig, backends: &[Backend]) -> Channel {
    (config.connect_timeout, config.ping_timeout) = (PATIENCE, PATIENCE);
    let addresses = Fixed::new(backends.iter().map(|backend| backend.address));
    let channel = Channel::with(config, Tcp, "demo", addresses).unwrap();
    for backend in backends {
        until("it is used", async || seen(&channel, backend.address).await.state == BackendState::Healthy).await;
    }
    channel
}

/// What the channel knows of this backend; waits until it knows of it at all.
pub(crate) async fn seen(channel: &Channel, address: SocketAddr) -> BackendSnapshot {
    loop {
        let ChannelSnapshot { names, client, .. } = channel.snapshot().await.unwrap();
        if let Some(place) = names.iter().position(|name| *name == address.to_string()) {
            return client.backends[place].clone();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Requests the channel began there so far. Exact where everything runs on one thread, as in these tests.
pub(crate) fn begun(backend: &BackendSnapshot) -> u64 {
    u64::from(backend.active) + backend.ended.iter().sum::<u64>()
}

/// Fails unless `docs/commands.md` explains every field of the document.
pub(crate) fn assert_explained(document: &Value) {
    let page = include_str!("../../../../docs/commands.md");
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert!(page.contains(&format!("`{name}`")), "docs/commands.md says nothing of {name}");
                assert_explained(value);
            }
        }
        Value::Array(items) => items.iter().for_each(assert_explained),
        _ => {}
    }
}

/// Head and body of an answer, without any library of ours.
pub(crate) fn http(address: SocketAddr, method: &str, path: &str) -> (String, Value) {
    answer(ask(address, method, path))
}

pub(crate) fn ask(address: SocketAddr, method: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    stream
}

pub(crate) fn answer(mut stream: TcpStream) -> (String, Value) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

/// Longer than a busy machine stands still.
const PATIENCE: Duration = Duration::from_secs(30);
