//! Budgets of retries and hedges on real sockets (B15): kept apart for each customer, one for both, and only counted in
//! observe.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use crate::support::task::{Says, Task, channel_over};
use evenkeel::body::empty;
use evenkeel::{Channel, ChannelConfig, Context};
use evenkeel_core::{Cause, Mode, PolicyName, RetryCounts, Stop};
use tokio::task::JoinSet;
use tower::Service;

fn config() -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.client.policy = PolicyName::RoundRobin;
    // Only the budget is to be seen.
    config.client.retry.refused_most = 1.0;
    (config.client.throttle.local, config.client.throttle.hints) = (Mode::Off, Mode::Off);
    config
}

async fn counts(channel: &Channel) -> RetryCounts {
    let client = channel.snapshot().await.unwrap().client;
    assert!(client.backends.iter().all(|backend| backend.active == 0), "all places are given back");
    client.retries
}

/// The status of a request of this customer that may run twice.
async fn ask(channel: &mut Channel, customer: &str, path: &str) -> u16 {
    let mut request = http::Request::get(path).body(empty()).unwrap();
    request.extensions_mut().insert(Context::default().with_customer(customer));
    channel.call(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_customer_that_is_refused_spends_its_own_retries_and_nobody_elses() {
    // Refuses one customer always, and of the others what is asked for the first time at one path.
    let says = |request: &http::Request<()>| {
        let is_poor = request.headers()["evenkeel-customer"] == "poor";
        let is_again = request.headers().contains_key("x-envoy-attempt-count");
        let refuses = is_poor || request.uri().path() == "/second" && !is_again;
        if refuses { Says::refusal() } else { Says::status(200) }
    };
    let (one, other) = (Task::start(says).await, Task::start(says).await);
    let mut channel = channel_over(config(), &[&one, &other]).await;
    for _ in 0..100 {
        assert_eq!(ask(&mut channel, "rich", "/").await, 200);
    }
    assert_eq!(one.got() + other.got(), 100);

    for _ in 0..40 {
        assert_eq!(ask(&mut channel, "poor", "/").await, 503);
    }

    // A tenth of 40, where all that the channel carries would be worth 14.
    assert_eq!(one.got() + other.got(), 44);
    let budget = Stop::COUNTED.into_iter().position(|stop| stop == Stop::Budget).unwrap();
    let now = counts(&channel).await;
    assert_eq!((now.made[Cause::Overloaded.index()], now.stopped[budget] >= 36), (4, true), "{now:?}");
    for _ in 0..10 {
        assert_eq!(ask(&mut channel, "rich", "/second").await, 200, "the other's are all there");
    }
}

/// So many at once that may run twice, all of which take 300 ms.
async fn at_once(channel: &Channel, requests: usize) {
    let mut all = JoinSet::new();
    for _ in 0..requests {
        let mut channel = channel.clone();
        let request = http::Request::get("/").body(empty()).unwrap();
        all.spawn(async move { assert_eq!(channel.call(request).await.unwrap().status(), 200) });
    }
    all.join_all().await;
}

#[tokio::test]
async fn hedges_are_counted_in_observe_and_made_when_on_within_the_budget_of_retries() {
    let says = |_: &http::Request<()>| Says::status(200).after(Duration::from_millis(300));
    let (one, other) = (Task::start(says).await, Task::start(says).await);
    let mut settings = config();
    settings.client.retry.hedge.mode = Mode::Observe;
    settings.client.retry.hedge.after = Some(Duration::from_millis(10));
    let channel = channel_over(settings.clone(), &[&one, &other]).await;

    at_once(&channel, 40).await;

    let now = counts(&channel).await;
    assert_eq!((one.got() + other.got(), now.made), (40, [0; 3]), "nothing is sent twice");
    assert_eq!(now.observed[Cause::Slow.index()], 40, "each would have been tried, had it been the only one");

    settings.client.retry.hedge.mode = Mode::On;
    channel.configure(settings.client.clone()).await.unwrap();
    at_once(&channel, 40).await;
    // A tenth of the 80 of the last ten seconds.
    let made = counts(&channel).await.made;
    assert_eq!((made, one.got() + other.got()), ([0, 0, 8], 48));

    settings.client.retry.mode = Mode::Observe;
    channel.configure(settings.client).await.unwrap();
    at_once(&channel, 10).await;
    assert_eq!(
        (counts(&channel).await.made, one.got() + other.got()),
        ([0, 0, 8], 10),
        "as retries are, so are hedges"
    );
}
