//! Two clusters on loopback (B19): what the nearest cannot take goes to the other, and nothing is lost.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::admin::Admin;
use evenkeel::body::empty;
use evenkeel::client::{CallError, Clusters, ClustersConfig, ConnectError, Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig, Server};
use evenkeel_core::{Mode, Refusal, Repeat};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{Service, service_fn};

use crate::support::task::{Says, Task};
use crate::support::{listener, request, start, until};

/// A cluster of two servers that fail fast while they are told to, and how many requests they got.
struct Cluster {
    addresses: Vec<SocketAddr>,
    fails: Arc<AtomicBool>,
    got: Arc<AtomicU64>,
}

impl Cluster {
    async fn start() -> Cluster {
        let (fails, got) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut addresses = Vec::new();
        for _ in 0..2 {
            let listener = listener().await;
            addresses.push(listener.local_addr().unwrap());
            let (fails, got) = (Arc::clone(&fails), Arc::clone(&got));
            let service = service_fn(move |_: http::Request<Incoming>| {
                got.fetch_add(1, Ordering::Relaxed);
                let mut response = http::Response::new(Full::new(Bytes::from_static(b"done")));
                if fails.load(Ordering::Relaxed) {
                    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
                }
                async move { Ok::<_, Infallible>(response) }
            });
            let server = Server::new().without_signals();
            tokio::spawn(async move { server.serve(listener, service).await.unwrap() });
        }
        Cluster { addresses, fails, got }
    }

    async fn channel(&self) -> Channel {
        Channel::connect("service", self.addresses.iter().map(ToString::to_string)).await.unwrap()
    }

    fn got(&self) -> u64 {
        self.got.swap(0, Ordering::Relaxed)
    }
}

/// Fifty requests that may run once; how many were answered well.
async fn fifty(clusters: &mut Clusters) -> usize {
    fifty_that(clusters, Repeat::Unsafe).await
}

async fn fifty_that(clusters: &mut Clusters, repeat: Repeat) -> usize {
    let mut served = 0;
    for _ in 0..50 {
        let mut request = request(empty());
        request.extensions_mut().insert(repeat);
        let answer = clusters.call(request).await.unwrap();
        served += usize::from(answer.status().is_success());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    served
}

#[tokio::test]
async fn a_nearest_cluster_that_fails_loses_its_requests_to_the_next_and_gets_them_back() {
    let (near, far) = (Cluster::start().await, Cluster::start().await);
    let config = ClustersConfig { period: Duration::from_millis(50), home_rate: 2.0, ..ClustersConfig::default() };
    let channels = [("near", near.channel().await), ("far", far.channel().await)];
    let mut clusters = Clusters::new(config, channels).unwrap();
    assert_eq!((fifty(&mut clusters).await, near.got(), far.got()), (50, 50, 0), "all are at home");

    near.fails.store(true, Ordering::Relaxed);
    until("nearly all go to the other", async || {
        near.got();
        fifty(&mut clusters).await >= 45 && near.got() <= 5
    })
    .await;
    let shown = clusters.snapshot().await.unwrap();
    assert!(shown[0].1.share < 0.2 && shown[1].1.share > 0.8, "{shown:?}");
    assert_eq!((shown[0].0.as_str(), shown[1].0.as_str()), ("near", "far"));

    near.fails.store(false, Ordering::Relaxed);
    until("all are home again", async || {
        far.got();
        fifty(&mut clusters).await == 50 && far.got() == 0
    })
    .await;
}

#[tokio::test]
async fn a_retry_is_dealt_like_a_new_request_and_not_kept_where_the_first_one_failed() {
    let (near, far) = (Cluster::start().await, Cluster::start().await);
    let mut settings = ChannelConfig::default();
    // What fails in a test is much of what is sent.
    (settings.client.retry.share, settings.client.retry.wait) = (4.0, Duration::from_millis(1));
    let channel = |cluster: &Cluster| {
        let addresses = Fixed::new(cluster.addresses.iter().copied());
        Channel::with(settings.clone(), Tcp, "service", addresses).unwrap().usable()
    };
    let channels = [("near", channel(&near).await.unwrap()), ("far", channel(&far).await.unwrap())];
    let config = ClustersConfig { period: Duration::from_millis(50), ..ClustersConfig::default() };
    let mut clusters = Clusters::new(config, channels).unwrap();
    near.fails.store(true, Ordering::Relaxed);
    until("nearly all go to the other", async || {
        fifty(&mut clusters).await;
        clusters.snapshot().await.unwrap()[0].1.in_force < 0.1
    })
    .await;

    near.got();
    let mut served = 0;
    for _ in 0..6 {
        served += fifty_that(&mut clusters, Repeat::Safe).await;
    }

    assert_eq!(served, 300);
    assert!(near.got() >= 1, "a trickle tells when it has healed");
}

#[tokio::test]
async fn a_cluster_without_anybody_is_passed_over_at_once_and_nothing_is_lost() {
    let (near, far) = (start().await, Cluster::start().await);
    let nearest = Channel::connect("service", [near.address.to_string()]).await.unwrap();
    // Whatever the shares are: also with nothing decided.
    let config = ClustersConfig { mode: Mode::Off, ..ClustersConfig::default() };
    let mut clusters = Clusters::new(config, [("near", nearest), ("far", far.channel().await)]).unwrap();
    assert_eq!(fifty(&mut clusters).await, 50);
    assert_eq!(far.got(), 0);

    near.handle.stop();
    assert_eq!(fifty(&mut clusters).await, 50, "a server that stops in good order costs nothing");
    assert!(far.got() > 0);

    let wrong = ClustersConfig { full: 2.0, ..ClustersConfig::default() };
    assert_eq!(clusters.set_config(wrong).await.unwrap_err().field, "clusters.full");
    clusters.set_config(ClustersConfig::default()).await.unwrap();
    until("it is decided upon", async || clusters.snapshot().await.unwrap()[0].1.why == "no usable backend").await;
    assert_eq!(fifty(&mut clusters).await, 50);
}

#[tokio::test]
async fn what_the_nearest_has_no_place_for_goes_to_one_with_room_and_is_addressed_to_it() {
    let (near, (far, at_far)) = (start().await, addressed(false).await);
    let mut settings = ChannelConfig::default();
    settings.client.flow.active_max = 1;
    let channel = |name, address| Channel::with(settings.clone(), Tcp, name, Fixed::new([address])).unwrap();
    let channels = [("near", channel("search.near", near.address)), ("far", channel("search.far", far.address))];
    let clusters = Clusters::new(ClustersConfig::default(), channels).unwrap().usable().await.unwrap();
    until("both are known", async || clusters.snapshot().await.unwrap().iter().all(|(_, one)| one.usable == 1)).await;
    let ask = |path: &str| clusters.clone().call(http::Request::get(path).body(empty()).unwrap());

    let held = tokio::spawn(ask("/60000"));
    let in_flight = async || clusters.channels().next().unwrap().1.snapshot().await.unwrap().client.backends[0].active;
    until("the nearest is at its limit", async || in_flight().await == 1).await;
    assert_eq!(ask("/0").await.unwrap().status(), 200);

    assert_eq!(*at_far.lock().unwrap(), [("search.far".to_owned(), false)], "sent for the first time, to its own name");
    clusters.set_config(ClustersConfig { mode: Mode::Observe, ..ClustersConfig::default() }).await.unwrap();
    let refused = ask("/0").await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::AllFull))), "observing moves nothing: {refused:?}");
    held.abort();
}

#[tokio::test]
async fn a_client_starts_while_the_nearest_cluster_is_gone() {
    let far = Cluster::start().await;
    let gone = listener().await.local_addr().unwrap();
    let channel = |addresses: Vec<SocketAddr>| {
        Channel::with(ChannelConfig::default(), Tcp, "service", Fixed::new(addresses)).unwrap()
    };
    let observing = ClustersConfig { mode: Mode::Observe, ..ClustersConfig::default() };
    let channels = [("near", channel(vec![gone])), ("far", channel(far.addresses.clone()))];

    let mut clusters = Clusters::new(observing, channels).unwrap().usable().await.unwrap();

    assert_eq!(
        (fifty(&mut clusters).await, far.got()),
        (50, 50),
        "the nearest that has somebody gets them, in any mode"
    );
    until("it is shown", async || {
        let shown = clusters.snapshot().await.unwrap();
        (shown[0].1.in_force, shown[1].1.in_force) == (0.0, 1.0)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn where_no_cluster_has_anybody_each_says_why() {
    let channel = || Channel::with(ChannelConfig::default(), Tcp, "service", Fixed::new(["nonsense"])).unwrap();
    let clusters = Clusters::new(ClustersConfig::default(), [("near", channel()), ("far", channel())]).unwrap();

    let error = clusters.usable().await.unwrap_err().to_string();

    assert!(error.starts_with("no backend could be used: near: nonsense: "), "{error}");
    assert!(error.contains("; far: nonsense: "), "{error}");
}

#[tokio::test]
async fn a_name_or_a_channel_that_is_there_twice_is_refused() {
    let cluster = Cluster::start().await;
    let (one, other) = (cluster.channel().await, cluster.channel().await);
    let named = Clusters::new(ClustersConfig::default(), [("near", one.clone()), ("near", other)]).unwrap_err();
    let shared = Clusters::new(ClustersConfig::default(), [("near", one.clone()), ("far", one)]).unwrap_err();

    let begins = |error: ConnectError, with: &str| assert!(error.to_string().starts_with(with), "{error}");
    begins(named, "two clusters are called \"near\"");
    begins(shared, "the cluster \"far\" has the channel of \"near\"");
}

#[tokio::test]
async fn shares_and_reasons_are_shown() {
    let (near, far) = (Cluster::start().await, Cluster::start().await);
    let channels = [("near", near.channel().await), ("far", far.channel().await)];
    let clusters = Clusters::new(ClustersConfig::default(), channels).unwrap();
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(Admin::new().with_clusters(clusters.clone()).serve(listener));
    until("it has decided", async || clusters.snapshot().await.unwrap()[0].1.usable == 2).await;

    let get = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };

    let state: serde_json::Value = serde_json::from_str(&get("/state").await).unwrap();
    assert_eq!(state["clusters"][0]["name"], "near");
    assert_eq!(state["clusters"][1]["share"], 0.0);
    assert!(state["clusters"][0]["why"].as_str().unwrap().starts_with("nearest"), "{}", state["clusters"]);
    assert_eq!(state["channels"].as_array().unwrap().len(), 2);
    let metrics = get("/metrics").await;
    assert!(metrics.contains("evenkeel_cluster_share{service=\"service\",cluster=\"near\"} 1\n"), "{metrics}");
}

/// A task that refuses everything, or nothing, and whom requests to it were addressed to, with their attempt.
async fn addressed(refuses: bool) -> (Task, Arc<Mutex<Vec<(String, bool)>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = Arc::clone(&seen);
    let task = Task::start(move |request| {
        let is_again = request.headers().contains_key("x-envoy-attempt-count");
        seeing.lock().unwrap().push((request.uri().authority().unwrap().to_string(), is_again));
        if refuses { Says::refusal() } else { Says::status(200) }
    });
    (task.await, seen)
}

#[tokio::test]
async fn a_retry_in_another_cluster_is_addressed_to_the_service_there() {
    let ((near, at_near), (far, at_far)) = (addressed(true).await, addressed(false).await);
    let mut settings = ChannelConfig::default();
    (settings.client.retry.share, settings.client.retry.refused_most) = (4.0, 1.0);
    (settings.client.throttle.local, settings.client.throttle.hints) = (Mode::Off, Mode::Off);
    let channel =
        |name, task: &Task| Channel::with(settings.clone(), Tcp, name, Fixed::new([task.address])).unwrap().usable();
    let channels =
        [("near", channel("search.near", &near).await.unwrap()), ("far", channel("search.far", &far).await.unwrap())];
    let config = ClustersConfig { period: Duration::from_millis(20), ..ClustersConfig::default() };
    let mut clusters = Clusters::new(config, channels).unwrap();
    let mut ask = async |uri: &str| {
        drop(clusters.call(http::Request::get(uri).body(empty()).unwrap()).await.unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    };

    until("one that was refused near is tried far", async || {
        ask("/").await;
        at_far.lock().unwrap().iter().any(|(_, is_again)| *is_again)
    })
    .await;
    assert!(at_near.lock().unwrap().iter().all(|(name, _)| name == "search.near"), "{at_near:?}");
    assert!(at_far.lock().unwrap().iter().all(|(name, _)| name == "search.far"), "{at_far:?}");

    // A name that the caller gave stays, wherever it goes.
    at_far.lock().unwrap().clear();
    until("another one is", async || {
        ask("http://somebody/").await;
        at_far.lock().unwrap().iter().any(|(_, is_again)| *is_again)
    })
    .await;
    assert!(at_far.lock().unwrap().iter().all(|(name, _)| name == "somebody"), "{at_far:?}");
}

#[tokio::test]
async fn observing_tells_shares_and_moves_nothing_until_it_is_switched_on() {
    let (near, far) = (Cluster::start().await, Cluster::start().await);
    let config = ClustersConfig { mode: Mode::Observe, period: Duration::from_millis(50), ..ClustersConfig::default() };
    let channels = [("near", near.channel().await), ("far", far.channel().await)];
    let mut clusters = Clusters::new(config.clone(), channels).unwrap();
    near.fails.store(true, Ordering::Relaxed);

    until("most would go to the other", async || {
        assert_eq!(fifty(&mut clusters).await, 0, "all fail at home");
        clusters.snapshot().await.unwrap()[1].1.share > 0.5
    })
    .await;

    let shown = clusters.snapshot().await.unwrap();
    assert_eq!((shown[0].1.in_force, shown[1].1.in_force, far.got()), (1.0, 0.0, 0), "{shown:?}");
    assert!(shown[0].1.share < 0.5 && !shown[0].1.why.is_empty(), "{shown:?}");
    clusters.set_config(ClustersConfig { mode: Mode::On, ..config.clone() }).await.unwrap();
    until("they do", async || fifty(&mut clusters).await >= 25 && far.got() >= 25).await;

    clusters.set_config(ClustersConfig { mode: Mode::Observe, ..config }).await.unwrap();
    far.got();
    assert_eq!((fifty(&mut clusters).await, far.got()), (0, 0), "and do not, at once");
}
