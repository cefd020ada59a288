//! Python with gRPC's own packages, as `./test unit` installs them.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// Runs a script of `tests/interop` against the address.
pub(crate) fn python(script: &str, address: &str) -> Child {
    command(script, address).spawn().unwrap()
}

/// The same, once it is over: what it traced of a part of gRPC.
pub(crate) async fn traced(script: &str, address: &str, part: &str) -> String {
    let mut command = command(script, address);
    command.env("GRPC_TRACE", part).env("GRPC_VERBOSITY", "DEBUG").stderr(Stdio::piped());
    let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await.expect("it ends").unwrap();
    let trace = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{trace}");
    trace
}

/// The same, once it is over: what it printed.
pub(crate) async fn printed(script: &str, address: &str) -> String {
    let output = command(script, address).output();
    let output = tokio::time::timeout(Duration::from_secs(60), output).await.expect("it ends").unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn command(script: &str, address: &str) -> Command {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("interop-python").join("bin/python");
    assert!(python.exists(), "{} is missing: run ./test unit, which installs it", python.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(script);
    let mut command = Command::new(python);
    command.arg("-u").arg(script).arg(address).stdout(Stdio::piped()).kill_on_drop(true);
    command
}
