//! Restarts of real processes under load: by SIGTERM no request notices, by SIGKILL only those that were there.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::support::generated::WorkRequest;
use crate::support::generated::demo_client::DemoClient;
use crate::support::{Backend, begun, channel_to, channel_with, seen, until};
use evenkeel::{Channel, ChannelConfig, Context};
use evenkeel_core::{BackendState, LinkState, Outcome};
use rustix::process::Signal;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;

#[tokio::test]
async fn a_rolling_restart_by_sigterm_fails_no_request_and_begins_none_after_the_notice() {
    LocalSet::new().run_until(roll()).await;
}

async fn roll() {
    let rounds = if std::env::var_os("EVENKEEL_LONG").is_some() { 20 } else { 2 };
    let mut backends = [Backend::start(OPTIONS), Backend::start(OPTIONS), Backend::start(OPTIONS)];
    let channel = channel_to(&backends).await;
    let load = Load::start(&channel);

    for round in 0..rounds {
        for backend in &mut backends {
            let address = backend.address;
            until_used(&channel, backend).await;

            backend.process.signal(Signal::TERM);
            // A lame duck, or gone already where draining took no time.
            let mut at_notice = 0;
            until("the notice is handled", async || {
                let now = seen(&channel, address).await;
                at_notice = begun(&now);
                now.state != BackendState::Healthy
            })
            .await;
            until("it has exited", async || {
                let now = begun(&seen(&channel, address).await);
                assert_eq!(now, at_notice, "round {round}: {address} got a request after its notice was handled");
                backend.process.has_ended()
            })
            .await;

            assert_eq!(backend.process.end().await.0, Some(0));
            *backend = Backend::start_at(address, OPTIONS);
            until("it is back", async || seen(&channel, address).await.state == BackendState::Healthy).await;
        }
    }

    let (answered, failed) = load.end().await;
    assert_eq!(failed, [""; 0], "{answered} were answered");
    assert!(answered > 100, "{answered}");
}

#[tokio::test]
async fn a_rolling_restart_with_half_of_the_clients_inactive_fails_no_request() {
    LocalSet::new().run_until(roll_with_inactive()).await;
}

async fn roll_with_inactive() {
    let rounds = if std::env::var_os("EVENKEEL_LONG").is_some() { 20 } else { 2 };
    let mut backends = [Backend::start(OPTIONS), Backend::start(OPTIONS), Backend::start(OPTIONS)];
    let busy = [channel_to(&backends).await, channel_to(&backends).await];
    let mut config = ChannelConfig::default();
    config.client.idle.after = Some(Duration::from_millis(100));
    config.client.checks.every = Duration::from_secs(1);
    let idle = [channel_with(config.clone(), &backends).await, channel_with(config, &backends).await];
    let loads = busy.each_ref().map(Load::start);

    for round in 0..rounds {
        for backend in &mut backends {
            let address = backend.address;
            for channel in &idle {
                // Two calls come out of the blue: nobody is connected, and one is connected again.
                call_once(channel).await;
                call_once(channel).await;
                until("it is inactive", async || seen(channel, address).await.link == LinkState::Inactive).await;
            }
            let before: Vec<u64> = begun_by(&idle, address).await;
            let pushes_before = [pushes(&idle[0]).await, pushes(&idle[1]).await];

            backend.process.signal(Signal::TERM);
            for (channel, before) in idle.iter().zip(pushes_before) {
                until("it is told without a connection", async || pushes(channel).await > before).await;
                assert_ne!(seen(channel, address).await.state, BackendState::Healthy);
                call_once(channel).await;
            }
            assert_eq!(begun_by(&idle, address).await, before, "round {round}: {address} was used after its notice");

            assert_eq!(backend.process.end().await.0, Some(0));
            *backend = Backend::start_at(address, OPTIONS);
            for channel in busy.iter().chain(&idle) {
                until("it is back", async || seen(channel, address).await.state == BackendState::Healthy).await;
            }
        }
    }

    for load in loads {
        let (answered, failed) = load.end().await;
        assert_eq!(failed, [""; 0], "{answered} were answered");
        assert!(answered > 100, "{answered}");
    }
}

async fn begun_by(channels: &[Channel], address: SocketAddr) -> Vec<u64> {
    let mut counts = Vec::new();
    for channel in channels {
        counts.push(begun(&seen(channel, address).await));
    }
    counts
}

async fn pushes(channel: &Channel) -> u64 {
    channel.snapshot().await.unwrap().client.checks.pushes
}

async fn call_once(channel: &Channel) {
    let mut request = tonic::Request::new(WorkRequest::default());
    request.extensions_mut().insert(Context::default().with_deadline(Instant::now() + DEADLINE));
    DemoClient::new(channel.clone()).work(request).await.unwrap();
}

#[tokio::test]
async fn by_sigkill_only_requests_that_were_there_fail() {
    LocalSet::new().run_until(kill()).await;
}

async fn kill() {
    let mut backends = [Backend::start(OPTIONS), Backend::start(OPTIONS), Backend::start(OPTIONS)];
    let channel = channel_to(&backends).await;
    let load = Load::start(&channel);
    let address = backends[0].address;
    until_used(&channel, &backends[0]).await;

    let before = seen(&channel, address).await;
    backends[0].process.signal(Signal::KILL);
    let mut after = before.clone();
    until("the client saw it", async || {
        after = seen(&channel, address).await;
        after.state != BackendState::Healthy
    })
    .await;
    backends[0].process.end().await;
    until_used(&channel, &backends[1]).await;

    // In flight when it was killed, or begun before the client saw the connection close.
    let there = u64::from(before.active) + begun(&after) - begun(&before);
    let lost = seen(&channel, address).await.ended(Outcome::Failed) - before.ended(Outcome::Failed);
    let (answered, failed) = load.end().await;
    assert!(failed.len() as u64 <= there, "{failed:?}, but only {there} were there");
    assert_eq!(failed.len() as u64, lost, "{failed:?}: all of them were there");
    assert!(answered > 100, "{answered}");
}

/// Callers that wait for their answers, until they are told to end.
struct Load {
    is_over: Rc<Cell<bool>>,
    answered: Rc<Cell<u64>>,
    failed: Rc<RefCell<Vec<String>>>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(channel: &Channel) -> Load {
        let mut load =
            Load { is_over: Rc::default(), answered: Rc::default(), failed: Rc::default(), callers: Vec::new() };
        for _ in 0..CALLERS {
            let mut client = DemoClient::new(channel.clone());
            let (is_over, answered) = (Rc::clone(&load.is_over), Rc::clone(&load.answered));
            let failed = Rc::clone(&load.failed);
            load.callers.push(tokio::task::spawn_local(async move {
                while !is_over.get() {
                    let mut request = tonic::Request::new(WorkRequest { cpu_us: 2_000, ..WorkRequest::default() });
                    let deadline = Context::default().with_deadline(Instant::now() + DEADLINE);
                    request.extensions_mut().insert(deadline);
                    match client.work(request).await {
                        Ok(_) => answered.set(answered.get() + 1),
                        Err(error) => failed.borrow_mut().push(error.to_string()),
                    }
                }
            }));
        }
        load
    }

    /// How many were answered, and why each of the others failed.
    async fn end(self) -> (u64, Vec<String>) {
        self.is_over.set(true);
        for caller in self.callers {
            caller.await.unwrap();
        }
        (self.answered.get(), self.failed.take())
    }
}

/// Until it has answered some more.
async fn until_used(channel: &Channel, backend: &Backend) {
    let before = seen(channel, backend.address).await.ended(Outcome::Served);
    until("it is used", async || seen(channel, backend.address).await.ended(Outcome::Served) > before + 20).await;
}

/// Timers instead of processors: the machine has other things to do.
const OPTIONS: &str = "--virtual-cores 4";
const CALLERS: usize = 12;
const DEADLINE: Duration = Duration::from_secs(30);
