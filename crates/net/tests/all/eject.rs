//! Backends that fail where others do not, on real sockets (C): left out, up to a share; only counted in observe; and all
//! of them used again where too few others are left.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::task::{Says, Task, channel_over};
use crate::support::{Running, in_state, request, start, until};
use evenkeel::body::empty;
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig};
use evenkeel_core::client::EjectCounts;
use evenkeel_core::{BackendState, Mode, PolicyName};
use http_body_util::BodyExt;
use tower::Service;

/// Round robin, which would send a failing backend its share for ever; whoever is out stays out.
fn config() -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.client.policy = PolicyName::RoundRobin;
    (config.client.eject.first, config.client.eject.longest) = (Duration::from_secs(600), Duration::from_secs(600));
    config
}

async fn tasks(fail: usize, serve: usize) -> (Vec<Task>, Vec<Task>) {
    let (mut failing, mut serving) = (Vec::new(), Vec::new());
    for _ in 0..fail {
        failing.push(Task::start(|_| Says::status(500)).await);
    }
    for _ in 0..serve {
        serving.push(Task::start(|_| Says::status(200)).await);
    }
    (failing, serving)
}

/// So many requests that are not tried again; how many were answered well.
async fn served(channel: &mut Channel, requests: usize) -> usize {
    let mut served = 0;
    for _ in 0..requests {
        let answer = channel.call(request(empty())).await.unwrap();
        served += usize::from(answer.status().is_success());
        // One that nobody reads to its end is cancelled, and says nothing of its backend.
        answer.into_body().collect().await.unwrap();
    }
    served
}

async fn counts(channel: &Channel) -> EjectCounts {
    channel.snapshot().await.unwrap().client.ejected
}

fn got(tasks: &[Task]) -> Vec<u64> {
    tasks.iter().map(Task::got).collect()
}

#[tokio::test]
async fn observing_counts_who_would_be_out_and_changes_nothing_until_it_is_switched_on() {
    let (failing, serving) = tasks(1, 3).await;
    let all: Vec<&Task> = failing.iter().chain(&serving).collect();
    let mut settings = config();
    settings.client.eject.mode = Mode::Observe;
    let mut channel = channel_over(settings.clone(), &all).await;

    until("one would be out", async || {
        served(&mut channel, 40).await;
        counts(&channel).await.observed == 1
    })
    .await;
    got(&failing);
    got(&serving);
    assert_eq!(served(&mut channel, 40).await, 30, "it has its turns as before");
    assert_eq!((got(&failing), got(&serving)), (vec![10], vec![10; 3]));
    let client = channel.snapshot().await.unwrap().client;
    assert_eq!((client.ejected.ejected, client.backends.iter().filter(|one| one.out_until.is_some()).count()), (0, 1));

    settings.client.eject.mode = Mode::On;
    channel.configure(settings.client.clone()).await.unwrap();
    until("it is out", async || {
        served(&mut channel, 40).await;
        got(&failing);
        served(&mut channel, 40).await == 40
    })
    .await;
    assert_eq!(got(&failing), [0]);
    let client = channel.snapshot().await.unwrap().client;
    let out = client.backends.iter().find(|one| one.out_until.is_some()).unwrap();
    assert!(out.weight.is_none() && out.why.contains("fails"), "{out:?}");

    settings.client.eject.mode = Mode::Off;
    channel.configure(settings.client).await.unwrap();
    assert_eq!((served(&mut channel, 40).await, got(&failing)), (30, vec![10]), "switched off, it is used again");
}

#[tokio::test]
async fn no_more_than_their_share_are_left_out_however_many_fail() {
    let (failing, serving) = tasks(3, 4).await;
    let all: Vec<&Task> = failing.iter().chain(&serving).collect();
    // 0.3 of seven are two.
    let mut channel = channel_over(config(), &all).await;
    until("two are out", async || {
        served(&mut channel, 70).await;
        counts(&channel).await.ejected == 2
    })
    .await;

    // Long enough for another look at them.
    for _ in 0..10 {
        got(&failing);
        served(&mut channel, 70).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut used = got(&failing);
    used.sort_unstable();
    assert_eq!(used, [0, 0, 14], "the third has its turn of five");
    let now = counts(&channel).await;
    assert_eq!((now.ejected, now.panics, now.panics_now), (2, 0, false));
}

#[tokio::test]
async fn where_too_few_others_are_left_all_are_used() {
    let (failing, serving) = tasks(2, 1).await;
    let leaving: [Running; 2] = [start().await, start().await];
    let addresses = failing.iter().chain(&serving).map(|task| task.address);
    let addresses = addresses.chain(leaving.iter().map(|server| server.address));
    let mut settings = config();
    settings.client.eject.most = 0.5;
    let mut channel = Channel::with(settings, Tcp, "service", Fixed::new(addresses)).unwrap();
    until("all are used", async || in_state(&channel, BackendState::Healthy).await == 5).await;
    until("two are out", async || {
        served(&mut channel, 50).await;
        counts(&channel).await.ejected == 2
    })
    .await;
    got(&failing);
    assert_eq!((served(&mut channel, 60).await, got(&failing)), (60, vec![0; 2]));

    for server in leaving {
        server.handle.stop();
    }
    until("it panics", async || {
        served(&mut channel, 3).await;
        counts(&channel).await.panics_now
    })
    .await;

    // One of three would be left.
    got(&failing);
    got(&serving);
    assert_eq!(served(&mut channel, 60).await, 20);
    assert_eq!((got(&failing), got(&serving)), (vec![20; 2], vec![20]));
    assert_eq!(counts(&channel).await.panics, 1);
}
