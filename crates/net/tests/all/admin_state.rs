//! Every field of `/state` is on `docs/state.md`, and the page has none that does not exist.
//!
//! Asked of a process that has all there is to show: channels with backends that report, one of them asked by datagrams, a
//! policy that only watches, clusters, and a server with customers, quotas and signals.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use crate::plain::{get, http1, read};
use crate::support::{Running, call, listener, start, start_as, until};
use evenkeel::admin::Admin;
use evenkeel::body::empty;
use evenkeel::client::{Clusters, ClustersConfig, Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig, Server};
use evenkeel_core::PolicyName;
use evenkeel_core::server::Quota;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/state.md");

/// One cell of the page that names a field: wherever its section is about, and what is said of it.
struct Row {
    patterns: Vec<String>,
    meaning: &'static str,
}

/// What stands between backticks.
fn ticked(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split('`').skip(1).step_by(2)
}

fn rows() -> Vec<Row> {
    let (mut rows, mut sections) = (Vec::new(), Vec::new());
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            sections = ticked(heading).map(|section| format!("{section}.")).collect();
            if sections.is_empty() {
                sections.push(String::new());
            }
        }
        if !line.starts_with("| `") {
            continue;
        }
        let [fields, _unit, meaning] = line.trim_matches('|').split('|').collect::<Vec<_>>()[..] else {
            panic!("three cells: {line}");
        };
        for field in ticked(fields) {
            let patterns = sections.iter().map(|section| format!("{section}{field}")).collect();
            rows.push(Row { patterns, meaning });
        }
    }
    rows
}

/// Whether a path is one that the pattern is about, and the names where it has a star.
fn names_at_stars<'a>(pattern: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), path.split('.').collect());
    let fits = pattern.len() == path.len() && pattern.iter().zip(&path).all(|(one, name)| *one == "*" || one == name);
    fits.then(|| pattern.iter().zip(path).filter(|(one, _)| **one == "*").map(|(_, name)| name).collect())
}

/// Every path there is, and whether anything is below it.
fn paths(value: &Value, path: &str, found: &mut BTreeMap<String, bool>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                paths(value, &below, found);
            }
        }
        Value::Array(items) => {
            for item in items {
                let is_row = item.is_object();
                paths(item, &if is_row { format!("{path}[]") } else { path.to_owned() }, found);
            }
        }
        _ => {}
    }
    *found.entry(path.to_owned()).or_default() |= value.is_object() || value.is_array();
}

/// A server with all that admission has to show.
async fn start_full() -> Running {
    let server = Server::new().with_signal("cache", 100.0, || 50.0).with_signal("broken", 100.0, || f64::NAN);
    let running = start_as(server, listener().await);
    let mut config = running.handle.config().await.unwrap();
    let quota = Quota { by_criticality: [Some(0.1), None, None, None], ..Quota::of_cpu(0.5) };
    config.admission.quotas.customers.push(("mail".to_owned(), quota));
    running.handle.configure(config).unwrap();
    running
}

async fn channel(servers: &[&Running], set: impl FnOnce(&mut ChannelConfig)) -> Channel {
    let mut config = ChannelConfig::default();
    set(&mut config);
    let addresses = servers.iter().map(|server| server.address);
    Channel::with(config, Tcp, "search", Fixed::new(addresses)).unwrap().usable().await.unwrap()
}

async fn look(admin: SocketAddr) -> Value {
    let request = http::Request::get("/state").header("host", "localhost").body(empty()).unwrap();
    serde_json::from_str(&read(http1(admin).await.send_request(request).await.unwrap()).await.1).unwrap()
}

/// What a process shows once it has all there is.
async fn everything() -> BTreeMap<String, bool> {
    let (server, other) = (start_full().await, start().await);
    let mut watched = channel(&[&server], |config| config.client.observe_policy = Some(PolicyName::RoundRobin)).await;
    let idle = channel(&[&other], |config| config.client.idle.after = Some(Duration::from_millis(50))).await;
    let near = channel(&[&other], |_| {}).await;
    let clusters = Clusters::new(ClustersConfig::default(), [("near", near)]).unwrap();
    let admin = Admin::new().with_server(server.handle.clone()).with_clusters(clusters);
    let (admin, at) = (admin.with_channel(watched.clone()).with_channel(idle), listener().await);
    let address = at.local_addr().unwrap();
    tokio::spawn(admin.serve(at));
    let silent = silent_channel();
    let silent_at = listener().await;
    let silent_address = silent_at.local_addr().unwrap();
    tokio::spawn(Admin::new().with_channel(silent).serve(silent_at));

    let mut found = BTreeMap::new();
    until("it has all there is to show", async || {
        let mut billed = get("/empty");
        billed.headers_mut().insert("evenkeel-customer", http::HeaderValue::from_static("mail"));
        read(http1(server.address).await.send_request(billed).await.unwrap()).await;
        call(&mut watched).await.unwrap();
        paths(&look(address).await, "", &mut found);
        let wanted = ["spread.tasks", "sockets[].unsent", "backends[].report.qps", "observed_policy.picks"];
        let of_admission = ["left_out[].why", "customers[].quota_by_criticality_cpu.SHEDDABLE", "demand_cpu.CRITICAL"];
        wanted.iter().all(|path| found.contains_key(&format!("channels[].{path}")))
            && of_admission.iter().all(|path| found.contains_key(&format!("servers[].admission.{path}")))
    })
    .await;
    paths(&look(silent_address).await, "", &mut found);
    found
}

/// What drives it ends with its runtime.
fn silent_channel() -> Channel {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let entered = runtime.enter();
    let channel = Channel::with(ChannelConfig::default(), Tcp, "search", Fixed::new(["127.0.0.1:1"])).unwrap();
    drop(entered);
    runtime.shutdown_background();
    channel
}

#[tokio::test]
async fn every_field_of_the_state_is_on_its_page_and_the_page_has_no_other() {
    let found = everything().await;
    let rows = rows();
    let fits = |row: &Row, path: &str| row.patterns.iter().any(|pattern| names_at_stars(pattern, path).is_some());

    let leaves = found.iter().filter(|(_, has_more)| !**has_more).map(|(path, _)| path);
    let missing: Vec<_> = leaves.filter(|path| !rows.iter().any(|row| fits(row, path))).collect();
    let invented = rows.iter().filter(|row| !found.keys().any(|path| fits(row, path)));
    let invented: Vec<_> = invented.map(|row| &row.patterns[0]).collect();

    assert!(found.len() > 150, "{}", found.len());
    let is_same = missing.is_empty() && invented.is_empty();
    assert!(is_same, "docs/state.md lacks {missing:#?} and has what /state does not show: {invented:#?}");
}

#[tokio::test]
async fn names_behind_a_star_are_listed_and_no_others() {
    let found = everything().await;
    let listed: BTreeSet<&str> = ticked(PAGE).collect();

    for row in rows() {
        let names: BTreeSet<&str> = row
            .patterns
            .iter()
            .flat_map(|pattern| found.keys().filter_map(|path| names_at_stars(pattern, path)))
            .flatten()
            .collect();
        for name in &names {
            assert!(listed.contains(name), "docs/state.md does not list {name} of {}", row.patterns[0]);
        }
        if !names.is_empty() {
            let invented: Vec<_> = ticked(row.meaning).filter(|name| !names.contains(name)).collect();
            assert!(invented.is_empty(), "{} has no {invented:?}", row.patterns[0]);
        }
    }
}
