//! The admin address of a process with a real channel and real servers: state, metrics, readiness, and who is answered.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::support::{Running, call, channel_to, in_state, listener, start, until};
use evenkeel::admin::Admin;
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig, Server};
use evenkeel_core::BackendState;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// Sends a head as it is and reads until the connection closes.
async fn send(to: SocketAddr, head: &str) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn ask(to: SocketAddr, method: &str, path: &str) -> Answer {
    send(to, &format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")).await
}

async fn get(to: SocketAddr, path: &str) -> Answer {
    ask(to, "GET", path).await
}

async fn state(to: SocketAddr) -> Value {
    serde_json::from_str(&get(to, "/state").await.body).unwrap()
}

async fn serve(admin: Admin) -> SocketAddr {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(admin.serve(listener));
    address
}

/// Two servers that answer, one of them in lame duck, and a closed port; and the admin of all.
async fn all_kinds() -> (Channel, [Running; 2], SocketAddr, SocketAddr) {
    let servers = [start().await, start().await];
    let closed = listener().await.local_addr().unwrap();
    let names = [servers[0].address, servers[1].address, closed];
    let mut channel = Channel::connect("search", names).await.unwrap();
    until("two are used", async || in_state(&channel, BackendState::Healthy).await == 2).await;
    for _ in 0..20 {
        call(&mut channel).await.unwrap();
    }
    servers[1].handle.lame_duck();
    until("one is lame", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    let admin = servers.iter().fold(Admin::new(), |admin, server| admin.with_server(server.handle.clone()));
    let address = serve(admin.with_channel(channel.clone())).await;
    (channel, servers, closed, address)
}

fn backend(state: &Value, name: SocketAddr) -> &Value {
    let backends = state["channels"][0]["backends"].as_array().unwrap();
    backends.iter().find(|backend| backend["name"] == name.to_string()).unwrap()
}

#[tokio::test]
async fn the_state_names_every_backend_and_why() {
    let (_channel, servers, closed, admin) = all_kinds().await;

    let state = state(admin).await;

    let channel = &state["channels"][0];
    assert_eq!((&channel["service"], &channel["policy"]), (&"search".into(), &"level".into()));
    assert_eq!((&channel["subset"]["known"], &channel["ended"]["served"]), (&3.into(), &20.into()));
    assert_eq!(channel["refused"]["none_usable"], 0);
    let [healthy, lame, down] = [servers[0].address, servers[1].address, closed].map(|name| backend(&state, name));
    assert_eq!([&healthy["state"], &lame["state"], &down["state"]], ["healthy", "lame_duck", "refusing"]);
    assert!(healthy["weight"].as_f64().unwrap() > 0.0 && lame["weight"].is_null());
    // Whether it has reported its CPU by now is a matter of how busy the machine is.
    let why = healthy["why"].as_str().unwrap();
    assert!(why.contains("CPU") || why.starts_with("fewest runnable"), "{healthy}");
    assert!(healthy["report"]["age_s"].as_f64().unwrap() < 20.0);
    assert!(down["last_lost"].as_str().unwrap().contains("refused"), "{down}");
    assert!(down["report"].is_null() && healthy["last_lost"].is_null());
    assert_eq!([&state["servers"][0]["phase"], &state["servers"][1]["phase"]], ["serving", "lame_duck"]);
    assert!(state["servers"][0]["admitted"].as_u64().unwrap() > 0);
    let datagrams = &state["servers"][0]["datagrams"];
    assert_eq!((&datagrams["port"], &datagrams["unreached"]), (&servers[0].address.port().into(), &0.into()));
    assert_eq!((&datagrams["received"]["forged"], &datagrams["pushed"]["given_up"]), (&0.into(), &0.into()));
}

#[tokio::test]
async fn reports_reach_the_state() {
    let servers = [start().await];
    let mut channel = channel_to(&servers).await;
    let admin = serve(Admin::new().with_channel(channel.clone())).await;

    until("a rate and a latency are known", async || {
        call(&mut channel).await.unwrap();
        let report = &state(admin).await["channels"][0]["backends"][0]["report"];
        report["qps"].as_f64().is_some_and(|qps| qps > 0.0) && report["latency_ms"].as_f64().is_some_and(|ms| ms > 0.0)
    })
    .await;
}

#[tokio::test]
async fn the_metrics_say_the_same() {
    let (_channel, servers, closed, admin) = all_kinds().await;

    let answer = get(admin, "/metrics").await;

    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let value = |series: &str| {
        let line = answer.body.lines().find(|line| line.starts_with(&format!("{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{}", answer.body)).rsplit_once(' ').unwrap().1.parse::<f64>()
    };
    let [up, lame] = [servers[0].address, servers[1].address];
    let mut served = 0.0;
    for name in [up, lame] {
        let series =
            format!("evenkeel_client_requests_total{{service=\"search\",backend=\"{name}\",outcome=\"served\"}}");
        served += value(&series).unwrap();
    }
    assert!((served - 20.0).abs() < 0.5, "{served}");
    for (name, state) in [(up, "healthy"), (lame, "lame_duck"), (closed, "refusing")] {
        let series =
            format!("evenkeel_client_backend_state{{service=\"search\",backend=\"{name}\",state=\"{state}\"}}");
        assert_eq!(value(&series), Ok(1.0));
    }
    assert_eq!(value("evenkeel_server_phase{phase=\"serving\"}"), Ok(1.0));
    assert_eq!(value("evenkeel_server_phase{server=\"2\",phase=\"lame_duck\"}"), Ok(1.0));
    let became = "evenkeel_client_state_changes_total{service=\"search\",from=\"refusing\",to=\"healthy\"}";
    assert!(value(became).unwrap() >= 2.0);
    let series: Vec<&str> =
        answer.body.lines().filter_map(|line| line.rsplit_once(' ')).map(|(name, _)| name).collect();
    let different: BTreeSet<&str> = series.iter().copied().collect();
    assert_eq!(series.len(), different.len(), "no series twice");
}

#[tokio::test]
async fn an_inactive_backend_is_shown_as_such() {
    let server = start().await;
    let mut config = ChannelConfig::default();
    config.client.idle.after = Some(Duration::from_millis(50));
    let channel = Channel::with(config, Tcp, "search", Fixed::new([server.address])).unwrap();
    let admin = serve(Admin::new().with_channel(channel)).await;

    until("it is inactive", async || state(admin).await["channels"][0]["inactive"] == 1).await;

    let state = state(admin).await;
    let shown = backend(&state, server.address);
    assert_eq!([&shown["state"], &shown["link"], &shown["checked_by"]], ["healthy", "inactive", "datagrams"]);
    assert_eq!((&shown["silences"], &state["channels"][0]["woken"]), (&0.into(), &0.into()));
    assert!(state["channels"][0]["checks"]["answered"].as_u64().unwrap() > 0);
    assert_eq!(state["channels"][0]["sockets"][0]["dropped"]["forged"], 0);
    let metrics = get(admin, "/metrics").await.body;
    let address = server.address;
    assert!(metrics.contains(&format!(
        "\nevenkeel_client_backend_link{{service=\"search\",backend=\"{address}\",link=\"inactive\"}} 1\n"
    )));
    assert!(metrics.contains("\nevenkeel_client_inactive_backends{service=\"search\"} 1\n"));
    assert!(metrics.lines().any(|line| line.starts_with("evenkeel_client_datagrams_dropped_total{socket=")));
    assert_eq!(get(admin, "/readyz").await.status, 200, "it can be used");
}

#[tokio::test]
async fn every_metric_is_documented_and_what_is_documented_exists() {
    let admin = serve(Admin::new()).await;
    let exported = get(admin, "/metrics").await.body;

    let exported: BTreeSet<&str> =
        exported.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let documented: BTreeSet<&str> = include_str!("../../../../docs/metrics.md")
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("evenkeel_"))
        .filter_map(|word| word.split(['{', ' ']).next())
        .collect();

    assert!(exported.len() > 20);
    assert_eq!(exported, documented);
}

#[tokio::test]
async fn a_second_channel_to_a_service_has_its_own_series() {
    let servers = [start().await];
    let admin = Admin::new().with_channel(channel_to(&servers).await).with_channel(channel_to(&servers).await);
    let admin = serve(admin).await;

    let text = get(admin, "/metrics").await.body;

    let known: Vec<&str> = text.lines().filter(|line| line.starts_with("evenkeel_client_known_backends{")).collect();
    assert_eq!(known.len(), 2);
    assert!(!known[0].contains("channel=") && known[1].contains("channel=\"2\""), "{known:?}");
}

#[tokio::test]
async fn ready_is_a_serving_server_and_a_usable_backend() {
    let servers = [start().await];
    let channel = channel_to(&servers).await;
    let admin = serve(Admin::new().with_channel(channel.clone()).with_server(servers[0].handle.clone())).await;
    assert_eq!(get(admin, "/readyz").await.status, 200);

    servers[0].handle.lame_duck();
    until("it is lame", async || in_state(&channel, BackendState::LameDuck).await == 1).await;
    let answer = get(admin, "/readyz").await;
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("server 1: lame_duck"), "{}", answer.body);
    assert!(answer.body.contains("no usable backend"), "{}", answer.body);
    assert_eq!(get(admin, "/healthz").await.status, 200);

    servers[0].handle.ready();
    until("it is back", async || get(admin, "/readyz").await.status == 200).await;

    servers[0].serving.abort();
    until("it has stopped", async || get(admin, "/readyz").await.body.contains("server 1: stopped")).await;
    assert!(state(admin).await["servers"][0]["admitted"].is_null());
}

#[tokio::test]
async fn a_backend_that_cannot_be_reached_says_why_it_is_not_ready() {
    let closed = listener().await.local_addr().unwrap();
    let channel = Channel::with(ChannelConfig::default(), Tcp, "search", Fixed::new([closed])).unwrap();
    let admin = serve(Admin::new().with_channel(channel)).await;

    until("it has been tried", async || {
        let answer = get(admin, "/readyz").await;
        answer.status == 503 && answer.body.contains(&closed.to_string()) && answer.body.contains("refused")
    })
    .await;
}

#[tokio::test]
async fn a_channel_that_does_not_answer_is_shown_as_silent() {
    // What drives it ends with its runtime.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fixed = Fixed::new(["127.0.0.1:1"]);
    let entered = runtime.enter();
    let channel = Channel::with(ChannelConfig::default(), Tcp, "search", fixed).unwrap();
    drop(entered);
    runtime.shutdown_background();

    let admin = serve(Admin::new().with_channel(channel)).await;

    assert_eq!(state(admin).await["silent_channels"], serde_json::json!(["search"]));
}

#[tokio::test]
async fn one_that_listens_everywhere_is_protected_on_loopback() {
    let everywhere = tokio::net::TcpListener::bind("[::]:0").await.unwrap();
    let port = everywhere.local_addr().unwrap().port();
    tokio::spawn(Admin::new().serve(everywhere));

    for to in [format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        let to: SocketAddr = to.parse().unwrap();
        assert_eq!(get(to, "/healthz").await.status, 200);
        let evil = "GET /state HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        assert_eq!(send(to, evil).await.status, 403);
    }
}

#[tokio::test]
async fn a_server_that_was_never_started_is_silent_and_holds_nobody_up_for_long() {
    let server = Server::new().without_signals();
    let admin = serve(Admin::new().with_server(server.handle())).await;

    assert_eq!(state(admin).await["servers"][0]["phase"], "silent");
}

#[tokio::test]
async fn only_reading_is_allowed_and_what_there_is_is_listed() {
    let admin = serve(Admin::new()).await;

    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let answer = ask(admin, method, "/state").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
    }
    let answer = get(admin, "/nothing").await;
    assert_eq!(answer.status, 404);
    for path in ["/state", "/metrics", "/healthz", "/readyz"] {
        assert!(answer.body.contains(path), "{path}");
        assert_eq!(get(admin, path).await.header("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let admin = serve(Admin::new()).await;

    let (head, full) = (ask(admin, "HEAD", "/").await, get(admin, "/").await);

    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), full.header("content-length"));
    assert_eq!(full.header("content-length").unwrap(), full.body.len().to_string());
}

#[tokio::test]
async fn the_page_is_sent_again_only_when_it_is_another() {
    let admin = serve(Admin::new()).await;
    let first = get(admin, "/page.js").await;
    let etag = first.header("etag").unwrap();
    assert!(first.header("content-type").unwrap().starts_with("text/javascript"));
    assert!(first.header("content-security-policy").unwrap().starts_with("default-src 'self'"));

    let again = format!("GET /page.js HTTP/1.1\r\nHost: {admin}\r\nIf-None-Match: {etag}\r\nConnection: close\r\n\r\n");

    let again = send(admin, &again).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

/// A browser that lacks one of them shows nothing at all.
#[tokio::test]
async fn every_script_that_a_script_of_the_page_imports_is_served() {
    let admin = serve(Admin::new()).await;
    let (mut wanted, mut seen) = (vec!["page.js".to_owned()], BTreeSet::new());

    while let Some(name) = wanted.pop() {
        let script = get(admin, &format!("/{name}")).await;
        assert_eq!(script.status, 200, "{name}");
        assert!(script.header("content-type").unwrap().starts_with("text/javascript"), "{name}");
        let imports = script.body.lines().filter(|line| line.starts_with("import "));
        let imports = imports.map(|line| line.split_once("\"./").unwrap().1.trim_end_matches("\";").to_owned());
        seen.insert(name);
        wanted.extend(imports.filter(|import| !seen.contains(import)));
    }

    assert!(seen.contains("backend.js") && seen.len() > 4, "{seen:?}");
}

#[tokio::test]
async fn a_name_that_was_rebound_to_loopback_is_not_answered() {
    let admin = serve(Admin::new()).await;
    let with_host = |host: &str| format!("GET /state HTTP/1.1\r\n{host}Connection: close\r\n\r\n");

    for host in ["Host: evil.example\r\n", "Host: localhost.evil.example:80\r\n", ""] {
        let answer = send(admin, &with_host(host)).await;
        assert_eq!(answer.status, 403, "{host}");
        assert!(!answer.body.contains("version"), "{}", answer.body);
    }
    for host in ["Host: localhost\r\n", "Host: [::1]:80\r\n", &format!("Host: {admin}\r\n")] {
        assert_eq!(send(admin, &with_host(host)).await.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let admin = serve(Admin::new()).await;
    let head = format!("GET / HTTP/1.1\r\nHost: {admin}\r\nX-Filler: {}\r\n\r\n", "x".repeat(64 * 1024));

    let mut stream = TcpStream::connect(admin).await.unwrap();
    // It may have been answered and closed before all is written.
    drop(stream.write_all(head.as_bytes()).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);

    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

/// Paused time stands for the ten seconds after which an idle connection is closed.
#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_do_not_keep_others_out_for_ever() {
    let admin = serve(Admin::new()).await;
    let mut holding = Vec::new();
    for _ in 0..40 {
        holding.push(TcpStream::connect(admin).await.unwrap());
    }

    assert_eq!(get(admin, "/healthz").await.status, 200);

    let mut closed = 0;
    for mut idle in holding {
        closed += usize::from(matches!(tokio::time::timeout(Duration::ZERO, idle.read(&mut [0; 64])).await, Ok(Ok(_))));
    }
    assert!(closed >= 8, "{closed} of those who came first made room");
}
