//! The backends: `evenkeel backend`, a process each, with virtual processors.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Backends that run; killed when this is dropped.
pub(super) struct Fleet(Vec<Backend>);

struct Backend {
    child: Child,
    said: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Fleet {
    pub(super) fn start(program: &Path) -> io::Result<Fleet> {
        let speeds = ["1", "0.5"].into_iter().cycle().take(BACKENDS);
        Ok(Fleet(speeds.map(|speed| Backend::start(program, speed)).collect::<io::Result<Vec<Backend>>>()?))
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|backend| backend.address).collect()
    }

    /// Ends them; the virtual processor time that each has used.
    pub(super) fn stop(mut self) -> io::Result<Vec<f64>> {
        for backend in &self.0 {
            let pid = i32::try_from(backend.child.id()).map_err(io::Error::other)?;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM)?;
        }
        self.0.iter_mut().map(|backend| number(&backend.hear()?, "busy_core_s")).collect()
    }
}

impl Backend {
    fn start(program: &Path, speed: &str) -> io::Result<Backend> {
        // Without admission: policies alone, as with peers' servers.
        let options = ["backend", "--json", "--listen", "127.0.0.1:0", "--virtual-cores", "2", "--admission", "off"];
        let mut command = Command::new(program);
        let mut child = command.args(options).args(["--speed", speed]).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut backend = Backend { child, said, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let listens = backend.hear()?;
        let address = listens["listen"].as_str().and_then(|text| text.parse().ok());
        backend.address = address.ok_or_else(|| io::Error::other(format!("a backend said {listens}")))?;
        Ok(backend)
    }

    fn hear(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(super) fn number(said: &Value, name: &str) -> io::Result<f64> {
    said[name].as_f64().ok_or_else(|| io::Error::other(format!("no {name} in {said}")))
}

const BACKENDS: usize = 10;
