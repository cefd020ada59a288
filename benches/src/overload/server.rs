//! The process of the server: each answer is two milliseconds of one core's work.

use std::convert::Infallible;
use std::time::Duration;

use evenkeel_core::{Mode, ServerConfig};
use tokio::net::TcpListener;
use tower::service_fn;

use crate::clock::{cores, pin, thread_cpu};
use crate::process;

/// Runs the role.
pub fn run(is_guarded: bool) -> Result<(), String> {
    process::end_with_parent();
    pin(*cores().last().ok_or("a process runs on some core")?);
    let mut config = ServerConfig::default();
    if !is_guarded {
        config.admission.modes.all = Mode::Off;
    }
    // As `evenkeel backend` sets it: sockets are looked at before a millisecond's work has been done many times.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(7).build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        process::say(&listener.local_addr().map_err(|error| error.to_string())?.to_string());
        let service = service_fn(async |_| {
            work();
            Ok::<_, Infallible>(http::Response::new(String::from("done")))
        });
        let server = evenkeel::Server::new().without_signals().with_reserved_cpu(1.0).with_config(config);
        server.serve(listener, service).await.map_err(|error| error.to_string())
    })
}

fn work() {
    let began = thread_cpu();
    while thread_cpu().saturating_sub(began) < COST {}
}

const COST: Duration = Duration::from_millis(2);
