//! Overload control as people and machines see it: on the admin address, after requests that were served and refused.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::plain::{get, http1, read};
use crate::support::{listener, until};
use evenkeel::Server;
use evenkeel::admin::Admin;
use evenkeel::body::{BoxBody, empty};
use evenkeel::meter::thread_time;
use evenkeel::server::{Handle, Identify, Identity, PeerInfo, Trusted};
use evenkeel_core::server::Quota;
use evenkeel_core::{Criticality, Mode, ServerConfig};
use serde_json::Value;
use tower::service_fn;

/// A server with a cache that is as full as it is told, in hundredths, and its admin address.
struct Watched {
    full: Arc<AtomicU32>,
    server: SocketAddr,
    admin: SocketAddr,
    handle: Handle,
}

/// Uses as many microseconds of a processor as the last segment of its path says.
async fn work(request: http::Request<hyper::body::Incoming>) -> Result<http::Response<String>, Infallible> {
    let micros = request.uri().path().rsplit('/').next().unwrap().parse().unwrap_or(0);
    let begin = thread_time();
    while thread_time().saturating_sub(begin) < Duration::from_micros(micros) {
        std::hint::black_box((0..500_u64).fold(7, |sum: u64, next| sum.rotate_left(3) ^ next));
    }
    Ok(http::Response::new(String::new()))
}

async fn watched() -> Watched {
    watched_with(None).await
}

/// With a quota for all but `mail`.
async fn watched_with(default: Option<Quota>) -> Watched {
    watched_as(default, Server::new()).await
}

async fn watched_as(default: Option<Quota>, server: Server) -> Watched {
    let full = Arc::new(AtomicU32::new(10));
    let cache = Arc::clone(&full);
    let mut config = ServerConfig::default();
    let quota = Quota { by_criticality: [Some(0.001), None, None, None], ..Quota::of_cpu(0.5) };
    config.admission.quotas.customers.push(("mail".to_owned(), quota));
    config.admission.quotas.default = default;
    let server = server.without_signals().with_config(config);
    let server = server.with_signal("cache", 100.0, move || f64::from(cache.load(Ordering::Relaxed)));
    let server = server.with_signal("broken", 100.0, || f64::NAN);
    let (at, admin_at) = (listener().await, listener().await);
    let (address, admin, handle) = (at.local_addr().unwrap(), admin_at.local_addr().unwrap(), server.handle());
    tokio::spawn(async move { server.serve(at, service_fn(work)).await.unwrap() });
    tokio::spawn(Admin::new().with_server(handle.clone()).serve(admin_at));
    Watched { full, server: address, admin, handle }
}

fn request(path: &str, headers: &[(&'static str, &'static str)]) -> http::Request<BoxBody> {
    let mut request = get(path);
    for (name, value) in headers {
        request.headers_mut().insert(*name, http::HeaderValue::from_static(value));
    }
    request
}

impl Watched {
    async fn ask(&self, request: http::Request<BoxBody>) -> http::response::Parts {
        read(http1(self.server).await.send_request(request).await.unwrap()).await.0
    }

    async fn look(&self, path: &str) -> String {
        let request = http::Request::get(path).header("host", "localhost").body(empty()).unwrap();
        read(http1(self.admin).await.send_request(request).await.unwrap()).await.1
    }

    async fn admission(&self) -> Value {
        let state: Value = serde_json::from_str(&self.look("/state").await).unwrap();
        state["servers"][0]["admission"].clone()
    }
}

const SHEDDABLE: (&str, &str) = ("evenkeel-criticality", "SHEDDABLE");

#[tokio::test]
async fn the_state_says_who_is_let_in_what_it_costs_and_who_is_refused() {
    let watched = watched().await;
    for _ in 0..5 {
        watched.ask(request("/dear/3000", &[("evenkeel-customer", "mail")])).await;
        watched.ask(request("/cheap/0", &[("evenkeel-held", "3,0,0,0")])).await;
    }
    watched.ask(request("/cheap/0", &[("evenkeel-criticality", "URGENT")])).await;
    watched.full.store(92, Ordering::Relaxed);
    until("some are refused", async || watched.ask(request("/cheap/0", &[SHEDDABLE])).await.status != 200).await;

    let now = watched.admission().await;

    assert_eq!((&now["modes"]["all"], &now["modes"]["limit"]), (&"on".into(), &"observe".into()));
    let cutoff = now["cutoff"].as_f64().unwrap();
    assert!(cutoff > 0.0 && cutoff < 3.0, "{now}");
    assert_eq!(now["cutoff_signal"], "cache");
    let signal = |name| now["signals"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    assert!(signal("cache")["value"].as_f64().unwrap() > 0.8, "{now}");
    assert_eq!(now["plugged"][0], serde_json::json!({"name": "cache", "value": 0.92}));
    assert!(now["left_out"].as_array().unwrap().iter().any(|one| one["name"] == "broken"), "{now}");
    assert!(now["refused"]["overloaded"]["SHEDDABLE"].as_u64().unwrap() >= 1, "{now}");
    assert_eq!(now["refused"]["overloaded"]["CRITICAL"], 0);
    assert_eq!((&now["served"]["CRITICAL"], &now["held"]["SHEDDABLE"]), (&11.into(), &15.into()));
    assert_eq!(now["disbelieved"]["criticalities_unknown"], 1);
    assert!(now["capacity_cpu"].as_f64().unwrap() > 0.0 && now["slots"].as_u64().unwrap() > 0);
    assert!(now["demand_cpu"]["CRITICAL"].is_f64() && now["critical_demand"].is_f64());
    let cost = &now["cost"];
    assert!(cost["mean_s"].as_f64().unwrap() > 0.0 && cost["cpu_s"].as_f64().unwrap() > 0.005, "{cost}");
    assert_eq!((&cost["source"], &cost["cpu_factor"]), (&evenkeel::meter::source().into(), &1.0.into()));
}

/// Whoever is not trusted could send that many as well.
#[tokio::test]
async fn of_what_strangers_say_they_held_back_a_few_count_and_nothing_that_matters_more_than_they_may() {
    let stranger = || Server::new().trust_customers_of(Trusted::Nobody);
    let lowly = stranger().with_criticality_ceiling(Criticality::SheddablePlus);
    for (server, said, expected) in [
        (stranger(), "3,900,0,900", [3, 1, 0, 0]),
        (stranger(), "0,1,0,9", [0, 1, 0, 3]),
        (lowly, "0,1,0,9", [0, 1, 0, 0]),
    ] {
        let watched = watched_as(None, server).await;
        watched.ask(request("/cheap/0", &[])).await;

        watched.ask(request("/cheap/0", &[("evenkeel-held", said)])).await;

        let held = watched.admission().await["held"].clone();
        assert_eq!(Criticality::ALL.map(|level| held[level.as_str()].as_u64().unwrap()), expected, "{said}");
    }
}

/// Whoever connects is this customer, and cannot speak for another.
struct Maps;

impl Identify for Maps {
    fn identify(&self, _: &PeerInfo) -> Option<Identity> {
        Some(Identity::of_customer("maps"))
    }
}

/// What is beyond its quota is no demand: so it matters whose it is, and whom that is believed of.
#[tokio::test]
async fn what_was_held_back_counts_as_of_the_customer_that_a_trusted_peer_names() {
    let (mail, maps) = (("evenkeel-customer", "mail"), ("evenkeel-customer", "maps"));
    let (for_mail, for_maps) = (("evenkeel-held-for", "mail"), ("evenkeel-held-for", "maps"));
    let held = ("evenkeel-held", "900,0,0,0");
    let trusting = || Server::new().trust_customers_of(Trusted::Everyone);
    let stranger = || Server::new().trust_customers_of(Trusted::Nobody);
    for (server, said, is_mails) in [
        (trusting(), vec![maps, held, for_mail], true),
        (trusting(), vec![mail, held, for_maps], false),
        (trusting(), vec![mail, held], true),
        (trusting().with_identity(Maps), vec![mail, held, for_mail], false),
        (stranger(), vec![held, for_mail], false),
    ] {
        let watched = watched_as(None, server).await;
        // What a request costs is known then.
        watched.ask(request("/dear/2000", &[])).await;

        watched.ask(request("/cheap/0", &said)).await;

        let beyond = watched.admission().await["beyond_quota_cpu_s"]["SHEDDABLE"].as_f64().unwrap();
        assert_eq!(beyond > 0.0, is_mails, "{said:?}: {beyond}");
    }
}

#[tokio::test]
async fn the_dearest_methods_and_customers_are_known_by_name() {
    let watched = watched().await;
    for _ in 0..4 {
        watched.ask(request("/dear/5000", &[("evenkeel-customer", "mail")])).await;
        watched.ask(request("/cheap/0", &[])).await;
        watched.ask(request("/cheap/1", &[])).await;
    }

    until("all have ended", async || watched.admission().await["methods"][1]["requests"] == 8).await;
    let now = watched.admission().await;

    let [dear, cheap] = [&now["methods"][0], &now["methods"][1]];
    assert_eq!([&dear["name"], &cheap["name"]], ["dear", "cheap"]);
    assert_eq!((&dear["requests"], &cheap["requests"]), (&4.into(), &8.into()));
    assert!(dear["share"].as_f64().unwrap() > 0.5 && dear["mean_s"].as_f64().unwrap() > 0.001, "{dear}");
    let mail = &now["customers"][0];
    assert_eq!((&mail["name"], &mail["requests"], &mail["quota_cpu"]), (&"mail".into(), &4.into(), &0.5.into()));
    assert_eq!((&mail["cpu_s"], &mail["refused_for_quota"]), (&dear["cpu_s"], &0.into()));
    let nobody = &now["customers"][1];
    assert_eq!((&nobody["name"], &nobody["requests"]), (&"(no customer)".into(), &8.into()));
    assert_eq!(mail["quota_by_criticality_cpu"], serde_json::json!({"SHEDDABLE": 0.001}));
    assert_eq!(dear.get("quota_by_criticality_cpu"), None);
    let metrics = watched.look("/metrics").await;
    assert!(metrics.contains("\nevenkeel_server_method_requests_total{method=\"dear\"} 4\n"), "{metrics}");
    assert!(metrics.contains("\nevenkeel_server_customer_requests_total{customer=\"mail\"} 4\n"));
}

#[tokio::test]
async fn whoever_is_refused_for_its_quota_is_named_and_so_is_nobody() {
    let quota = Quota { hard: true, ..Quota::of_cpu(0.001) };
    let watched = watched_with(Some(quota)).await;
    let is_refused =
        async |who: &[(&'static str, &'static str)]| watched.ask(request("/dear/3000", who)).await.status == 429;
    until("nobody is refused", async || is_refused(&[]).await).await;
    assert!(!is_refused(&[("evenkeel-customer", "mail")]).await);
    let refused = |now: &Value, name| {
        let one = now["customers"].as_array().unwrap().iter().find(|one| one["name"] == name)?;
        one["refused_for_quota"].as_u64()
    };
    // The first ones come before it has a number, and it has a quota of its own then.
    until("news is refused by name", async || {
        is_refused(&[("evenkeel-customer", "news")]).await;
        refused(&watched.admission().await, "news") >= Some(1)
    })
    .await;

    let now = watched.admission().await;

    let [nobody, news] = ["(no customer)", "news"].map(|name| refused(&now, name).unwrap());
    assert!(nobody >= 1, "{now}");
    assert_eq!(refused(&now, "mail"), Some(0));
    let all = now["refused"]["out_of_quota"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
    assert!(all.sum::<u64>() >= nobody + news, "{now}");
    let metrics = watched.look("/metrics").await;
    let told = format!("\nevenkeel_server_customer_quota_refusals_total{{customer=\"news\"}} {news}\n");
    assert!(metrics.contains(&told), "{metrics}");
    let told = format!("\nevenkeel_server_customer_quota_refusals_total{{customer=\"(no customer)\"}} {nobody}\n");
    assert!(metrics.contains(&told), "{metrics}");
}

/// Three milliseconds for a whole answer, and one for one that is cheaper.
async fn work_less(request: http::Request<hyper::body::Incoming>) -> Result<http::Response<String>, Infallible> {
    let context = evenkeel::Context::current().unwrap();
    let is_less = context.degrade() > 0;
    if is_less {
        context.mark_degraded(context.degrade());
    }
    let path = if is_less { "/less/1000" } else { "/whole/3000" };
    let (mut head, body) = request.into_parts();
    head.uri = http::Uri::from_static(path);
    work(http::Request::from_parts(head, body)).await
}

#[tokio::test]
async fn what_cheaper_answers_cost_is_shown_beside_what_whole_ones_do() {
    let mut config = ServerConfig::default();
    // A load of a hundredth is enough for the cheapest answers.
    config.admission.degrade = [0.01; 3];
    let server = Server::new().without_signals().with_config(config);
    let (at, admin_at) = (listener().await, listener().await);
    let (address, admin, handle) = (at.local_addr().unwrap(), admin_at.local_addr().unwrap(), server.handle());
    tokio::spawn(async move { server.serve(at, service_fn(work_less)).await.unwrap() });
    tokio::spawn(Admin::new().with_server(handle.clone()).serve(admin_at));
    let watched = Watched { full: Arc::default(), server: address, admin, handle };
    watched.ask(request("/export", &[])).await;
    let before = watched.admission().await;
    assert!(before["cost"]["mean_s"].is_f64() && before["cost"]["degraded_mean_s"].is_null(), "{before}");

    until("answers are cheaper", async || {
        watched.ask(request("/export", &[])).await;
        watched.admission().await["methods"][0]["degraded_mean_s"].is_f64()
    })
    .await;

    let now = watched.admission().await;
    for of in [&now["methods"][0], &now["cost"]] {
        let [whole, cheaper] = ["mean_s", "degraded_mean_s"].map(|field| of[field].as_f64().unwrap());
        assert!(whole > 0.002 && cheaper > 0.0 && cheaper < whole, "{of}");
    }
    assert!(now["customers"][0]["degraded_mean_s"].is_null(), "{now}");
    let metrics = watched.look("/metrics").await;
    let told = "\nevenkeel_server_request_cost_seconds{statistic=\"degraded_mean\"} 0.00";
    assert!(metrics.contains(told), "{metrics}");
}

/// The CPU of this process: of those who connect, too, which is as much again.
#[tokio::test]
async fn a_storm_of_connections_and_checks_is_load_and_neither_harms_requests_nor_is_charged_to_them() {
    let watched = watched().await;
    let (address, connected) = (watched.server, Arc::new(AtomicU32::new(0)));
    let counting = Arc::clone(&connected);
    let storm = tokio::spawn(async move {
        loop {
            let mut connections = tokio::task::JoinSet::new();
            for number in 0..100 {
                // Some ask how the server is, and some only connect.
                connections.spawn(async move {
                    let mut sender = http1(address).await;
                    if number % 2 == 0 {
                        drop(sender.send_request(get("/grpc.health.v1.Health/Check")).await);
                    }
                });
            }
            connections.join_all().await;
            counting.fetch_add(100, Ordering::Relaxed);
        }
    });

    let mut sender = http1(watched.server).await;
    let mut answered = 0;
    until("it was priced a few times", async || {
        sender.ready().await.unwrap();
        let answer = sender.send_request(request("/cheap/0", &[])).await.unwrap();
        assert_eq!(answer.status(), 200);
        answered += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
        answered >= 40 && connected.load(Ordering::Relaxed) >= 2_000
    })
    .await;

    let now = watched.admission().await;
    storm.abort();
    let per_second = |name: &str| now[name].as_f64().unwrap();
    assert!(per_second("connections_per_second") > 20.0 && per_second("checks_per_second") > 10.0, "{now}");
    // A hundred connections for each request: charged to those, they would cost ten milliseconds each.
    let overhead = now["cost"]["overhead_per_request_s"].as_f64().unwrap();
    assert!(overhead < 0.002, "{overhead}: {now}");
    until("all are gone", async || watched.handle.snapshot().await.unwrap().in_flight == 0).await;
}

#[tokio::test]
async fn what_customers_ask_for_beyond_their_quotas_is_told() {
    let watched = watched().await;
    // What one costs must be known before it can be beyond anything.
    for _ in 0..20 {
        watched.ask(request("/dear/3000", &[("evenkeel-customer", "mail"), SHEDDABLE])).await;
    }

    let now = watched.admission().await;

    // A thousandth of a processor, and a quarter of a millisecond at once: nearly all of 60 ms.
    let beyond = now["beyond_quota_cpu_s"]["SHEDDABLE"].as_f64().unwrap();
    assert!(beyond > 0.03, "{now}");
    assert_eq!(now["beyond_quota_cpu_s"]["CRITICAL"], 0.0);
    let metrics = watched.look("/metrics").await;
    let told = "\nevenkeel_server_beyond_quota_cpu_seconds_total{criticality=\"SHEDDABLE\"} 0.";
    assert!(metrics.contains(told), "{metrics}");
}

#[tokio::test]
async fn the_metrics_say_what_is_refused_and_what_would_be() {
    let watched = watched().await;
    watched.full.store(100, Ordering::Relaxed);
    until("all are refused", async || watched.ask(request("/x/0", &[SHEDDABLE])).await.status != 200).await;

    watched.handle.set_admission(Mode::Observe);
    until("none is", async || watched.ask(request("/x/0", &[SHEDDABLE])).await.status == 200).await;
    let metrics = watched.look("/metrics").await;

    let value = |series: &str| {
        let line = metrics.lines().find(|line| line.starts_with(&format!("{series} ")));
        line.unwrap_or_else(|| panic!("no {series} in\n{metrics}")).rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let of = |family: &str| value(&format!("{family}{{reason=\"overloaded\",criticality=\"SHEDDABLE\"}}"));
    assert!(of("evenkeel_server_refused_total") >= 1.0);
    assert!(of("evenkeel_server_observed_refusals_total") >= 1.0);
    assert!(value("evenkeel_server_cutoff") < 0.001 && value("evenkeel_server_cutoff_observed") > 1.0);
    assert!(value("evenkeel_server_admission_mode{mechanism=\"cutoff\",mode=\"observe\"}") > 0.5);
    assert!(value("evenkeel_server_signal{signal=\"cache\"}") > 0.9);
    assert!(value("evenkeel_server_signal_left_out{signal=\"broken\"}") > 0.5);
    assert!(value("evenkeel_server_left_out_signals") >= 1.0);
}

#[tokio::test]
async fn while_all_is_off_demand_is_not_said_to_be_nothing() {
    let watched = watched().await;
    assert!(watched.admission().await["demand_cpu"].is_object());

    watched.handle.set_admission(Mode::Off);
    until("it is off", async || watched.admission().await["modes"]["all"] == "off").await;

    let now = watched.admission().await;
    assert!(now["demand_cpu"].is_null() && now["critical_demand"].is_null(), "{now}");
    assert!(!watched.look("/metrics").await.contains("evenkeel_server_demand_cpu{"));
}
