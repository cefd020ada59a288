//! Python's grpcio against our server, as it is: calls, statuses, deadlines, load reports, health.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::echo::Echo;
use crate::python;
use crate::support::{listener, until};
use evenkeel::Server;
use evenkeel::server::Handle;
use evenkeel_core::server::Usage;
use evenkeel_core::{Mode, ServerConfig};
use tonic::service::Routes;

async fn start() -> (String, Handle) {
    let usage = || Usage { utilization: Some(0.5), processors: Some(2.0), ..Usage::default() };
    let server = Server::new().without_signals().with_usage(usage).with_health_service("evenkeel.test.v1.Echo");
    let (listener, handle) = (listener().await, server.handle());
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(server.serve(listener, Routes::new(Echo)));
    until("it has measured", async || handle.snapshot().await.unwrap().report.utilization.is_some()).await;
    (address, handle)
}

#[tokio::test]
async fn grpcio_calls_us_asks_for_our_health_and_keeps_its_deadlines() {
    let (address, handle) = start().await;
    let mut python = python::python("calls.py", &address);

    let ended = tokio::time::timeout(Duration::from_secs(60), python.wait()).await.expect("it ends").unwrap();

    assert!(ended.success(), "{ended}");
    until("what it gave up is given up", async || handle.snapshot().await.unwrap().in_flight == 0).await;
}

#[tokio::test]
async fn grpcs_own_balancer_goes_by_our_load_reports() {
    let (address, _handle) = start().await;

    let trace = python::traced("weigh.py", &address, "weighted_round_robin_lb").await;

    assert!(trace.contains("utilization=0.5 ") && trace.contains("setting weight="), "{trace}");
}

/// It waits until its deadline where it is told to come back at once, in 0 ms.
#[tokio::test]
async fn grpcs_own_retries_come_back_at_once_where_another_task_may_have_room() {
    let full = || Usage { plugged: Some(0.92), ..Usage::default() };
    let mut config = ServerConfig::default();
    // Else what it retries makes this a service that has too much.
    config.admission.modes.attempts = Mode::Off;
    let server = Server::new().without_signals().with_usage(full).with_config(config);
    let (listener, handle) = (listener().await, server.handle());
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(server.serve(listener, Routes::new(Echo)));
    until("it refuses", async || handle.snapshot().await.unwrap().admission.cutoff.value() >= 1.0).await;

    // By its own backoff there would be two attempts before its deadline.
    let printed = python::printed("retry.py", &address).await;

    assert_eq!(printed, "UNAVAILABLE\n");
    assert_eq!(handle.snapshot().await.unwrap().admission.asked, [4, 0, 0, 0]);
}
