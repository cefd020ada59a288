//! Policies on real sockets (A15, A16, C): what backends say on answers and in probes moves requests, probes keep to their
//! rate, and every policy says why.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::task::{Says, Task, channel_over};
use crate::support::{Running, call, in_state, listener, start, until};
use evenkeel::admin::Admin;
use evenkeel::body::empty;
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::{BackendState, ClientConfig, Outcome, PolicyName};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::Service;

/// With this policy, which hears and decides sooner than it would have to.
fn deciding_by(policy: PolicyName) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.client.policy = policy;
    let weighted = &mut config.client.pick.weighted;
    (weighted.every, weighted.blackout) = (Duration::from_millis(100), Duration::ZERO);
    weighted.slow_start = Duration::ZERO;
    config
}

async fn three() -> [Running; 3] {
    [start().await, start().await, start().await]
}

async fn channel_to(config: ChannelConfig, servers: &[Running]) -> Channel {
    let backends = Fixed::new(servers.iter().map(|server| server.address));
    let channel = Channel::with(config, Tcp, "service", backends).unwrap();
    until("all are used", async || in_state(&channel, BackendState::Healthy).await == servers.len()).await;
    channel
}

/// Another client of this server, which has so many requests in flight there until the set is dropped.
async fn keep_busy(server: &Running, requests: u32) -> JoinSet<()> {
    let channel = Channel::connect("service", [server.address.to_string()]).await.unwrap();
    let mut kept = JoinSet::new();
    for _ in 0..requests {
        let mut channel = channel.clone();
        let long = http::Request::post("http://service/60000").body(empty()).unwrap();
        kept.spawn(async move { drop(channel.call(long).await) });
    }
    until("all are in flight", async || server.handle.snapshot().await.unwrap().in_flight >= u64::from(requests)).await;
    kept
}

/// How many of so many requests, one after the other, each server got.
async fn shares(channel: &mut Channel, servers: &[Running], requests: u32) -> Vec<u64> {
    let served = || servers.iter().map(|server| server.served.load(std::sync::atomic::Ordering::Relaxed));
    let before: Vec<u64> = served().collect();
    for _ in 0..requests {
        call(channel).await.unwrap();
    }
    served().zip(before).map(|(after, before)| after - before).collect()
}

#[tokio::test]
async fn a_backend_that_others_keep_busy_is_left_to_them() {
    for policy in [PolicyName::Prequal, PolicyName::Level] {
        let servers = three().await;
        let _busy = keep_busy(&servers[0], 40).await;
        let mut channel = channel_to(deciding_by(policy), &servers).await;
        until("it is known to be busy", async || {
            call(&mut channel).await.unwrap();
            let backends = channel.snapshot().await.unwrap().client.backends;
            backends.iter().any(|one| one.report.is_some_and(|(_, report)| report.in_flight.unwrap_or(0) >= 40))
        })
        .await;

        // A third each, were it not known: its turn comes now and then, when its word is too old.
        let got = shares(&mut channel, &servers, 150).await;
        assert!(got[0] <= 25 && got.iter().sum::<u64>() == 150, "{policy}: {got:?}");
    }
}

#[tokio::test]
async fn a_slow_backend_gets_less_from_every_policy_that_looks() {
    for policy in [PolicyName::LeastLoaded, PolicyName::P2c, PolicyName::Prequal, PolicyName::Level] {
        let slow = Task::start(|_| Says::status(200).after(Duration::from_millis(400))).await;
        let (quick, other) = (Task::start(|_| Says::status(200)).await, Task::start(|_| Says::status(200)).await);
        let channel = channel_over(deciding_by(policy), &[&slow, &quick, &other]).await;

        let mut callers = JoinSet::new();
        for _ in 0..8 {
            let mut channel = channel.clone();
            callers.spawn(async move {
                for _ in 0..40 {
                    call(&mut channel).await.unwrap();
                }
            });
        }
        callers.join_all().await;

        // A third would be 106 of 320; those that wait there are seen.
        let got = (slow.got(), quick.got() + other.got());
        assert!(got.0 <= 64 && got.0 + got.1 == 320, "{policy}: {got:?}");
    }
}

#[tokio::test]
async fn what_answers_say_of_cpu_moves_requests_by_weighted_and_level() {
    for policy in [PolicyName::Weighted, PolicyName::Level] {
        let says = |cpu: f64| {
            let report = format!("TEXT cpu_utilization={cpu},rps_fractional=100");
            move |_: &http::Request<()>| Says::status(200).with("endpoint-load-metrics", report.clone())
        };
        let (busier, idler) = (Task::start(says(0.9)).await, Task::start(says(0.3)).await);
        let mut channel = channel_over(deciding_by(policy), &[&busier, &idler]).await;

        until("twice as much goes to the idler one", async || {
            busier.got();
            idler.got();
            for _ in 0..60 {
                call(&mut channel).await.unwrap();
            }
            idler.got() >= 2 * busier.got()
        })
        .await;

        let snapshot = channel.snapshot().await.unwrap();
        let weight = |address: &str| {
            let place = snapshot.names.iter().position(|name| name == address).unwrap();
            (snapshot.client.backends[place].weight.unwrap(), snapshot.client.backends[place].why)
        };
        let (less, more) = (weight(&busier.address.to_string()), weight(&idler.address.to_string()));
        assert!(less.0 < more.0, "{policy}: {less:?} {more:?}");
    }
}

#[tokio::test]
async fn probes_are_sent_to_connected_backends_within_both_of_their_rates() {
    let servers = three().await;
    let _busy = keep_busy(&servers[0], 40).await;
    let mut config = deciding_by(PolicyName::Prequal);
    (config.client.probes.per_request, config.client.probes.per_second) = (0.5, 40.0);
    let mut channel = channel_to(config.clone(), &servers).await;
    let of_busy = async |channel: &Channel| {
        let snapshot = channel.snapshot().await.unwrap();
        let place = snapshot.names.iter().position(|name| *name == servers[0].address.to_string()).unwrap();
        let backend = &snapshot.client.backends[place];
        (backend.report.map(|(told, _)| told), backend.ended(Outcome::Served), snapshot.client.checks)
    };

    // Heard of anew while it gets nothing: that can only be a probe.
    let mut before = of_busy(&channel).await;
    until("a backend that gets nothing is heard of", async || {
        call(&mut channel).await.unwrap();
        let now = of_busy(&channel).await;
        let is_heard = now.0 > before.0 && now.1 == before.1 && now.2.answered > before.2.answered;
        before = now;
        is_heard
    })
    .await;

    // One that gets nothing is wanted about twenty times a second: either rate allows less.
    for (per_request, per_second) in [(10.0, 4.0), (0.02, 1000.0)] {
        let (began, mut requests) = (Instant::now(), 0.0);
        (config.client.probes.per_request, config.client.probes.per_second) = (per_request, per_second);
        let mut channel = channel_to(config.clone(), &servers).await;
        while began.elapsed() < Duration::from_millis(1500) {
            call(&mut channel).await.unwrap();
            requests += 1.0;
        }
        let checks = of_busy(&channel).await.2;
        let most = f64::min(per_request * requests, per_second * began.elapsed().as_secs_f64());
        assert!(checks.sent >= 1 && checks.answered <= checks.sent, "{checks:?}");
        assert!(checks.sent as f64 <= most, "{checks:?} for {requests} requests: at most {most}");
    }

    // A rate of none is none; and the settings change while it runs.
    config.client.probes.per_request = 0.0;
    channel.configure(config.client).await.unwrap();
    let sent = of_busy(&channel).await.2.sent;
    shares(&mut channel, &servers, 100).await;
    assert_eq!(of_busy(&channel).await.2.sent, sent);
}

async fn state(channel: &Channel) -> Value {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(Admin::new().with_channel(channel.clone()).serve(listener));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET /state HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    serving.abort();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn each_policy_says_why_and_they_change_while_it_runs_without_losing_anything() {
    let servers = three().await;
    let mut channel = channel_to(ChannelConfig::default(), &servers).await;
    let mut held = JoinSet::new();
    for _ in 0..3 {
        let mut channel = channel.clone();
        let long = http::Request::post("http://service/60000").body(empty()).unwrap();
        held.spawn(async move { drop(channel.call(long).await) });
    }
    until("three are in flight", async || {
        channel.snapshot().await.unwrap().client.backends.iter().map(|one| one.active).sum::<u32>() == 3
    })
    .await;

    for policy in PolicyName::ALL {
        channel.configure(ClientConfig { policy, ..ClientConfig::default() }).await.unwrap();
        let got = shares(&mut channel, &servers, 30).await;
        assert_eq!(got.iter().sum::<u64>(), 30, "{policy}");

        let shown = &state(&channel).await["channels"][0];
        assert_eq!(shown["policy"], policy.as_str());
        let backends = shown["backends"].as_array().unwrap();
        assert_eq!(backends.iter().map(|one| one["active"].as_u64().unwrap()).sum::<u64>(), 3, "{policy}: {shown}");
        for backend in backends {
            let (weight, why) = (backend["weight"].as_f64().unwrap(), backend["why"].as_str().unwrap());
            assert!(weight > 0.0 && why.contains(' '), "{policy}: {backend}");
            assert_eq!(backend["state"], "healthy");
        }
    }
    let wrong = ClientConfig { observe_policy: Some(PolicyName::Level), ..ClientConfig::default() };
    channel.configure(wrong.clone()).await.unwrap();
    let mut wrong = wrong;
    wrong.pick.prequal.pool = 2;
    let error = channel.configure(wrong).await.unwrap_err();
    assert_eq!(error.field, "pick.prequal.pool");
    let in_force = channel.config().await.unwrap();
    assert_eq!((in_force.observe_policy, in_force.pick), (Some(PolicyName::Level), ClientConfig::default().pick));
    assert_eq!(state(&channel).await["channels"][0]["observed_policy"]["policy"], "level", "nothing has changed");
}
