//! Switches of overload control at the admin address, on real sockets: what they change, and whom they refuse.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use crate::support::{Running, listener, start};
use evenkeel::Server;
use evenkeel::admin::Admin;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn allows(&self) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix("allow: "))
    }
}

/// Sends a request as it is and reads until the connection closes.
async fn send(to: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(to).await.unwrap();
    // One that is refused by its head may be answered and closed before all of it is written.
    drop(stream.write_all(text.as_bytes()).await);
    let mut answer = String::new();
    drop(stream.read_to_string(&mut answer).await);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

async fn get(to: SocketAddr) -> Answer {
    send(to, &format!("GET /admission HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\r\n")).await
}

/// With further lines of the head, each with its end.
async fn post_with(to: SocketAddr, lines: &str, body: &str) -> Answer {
    let length = body.len();
    let head = format!("POST /admission HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-length: {length}\r\n");
    send(to, &format!("{head}{lines}\r\n{body}")).await
}

async fn post(to: SocketAddr, body: &str) -> Answer {
    post_with(to, JSON, body).await
}

async fn serve(admin: Admin) -> SocketAddr {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    tokio::spawn(admin.serve(listener));
    address
}

/// Two servers, and an address that may switch them.
async fn switchable() -> ([Running; 2], SocketAddr) {
    let servers = [start().await, start().await];
    let admin = servers.iter().fold(Admin::new(), |admin, server| admin.with_server(server.handle.clone()));
    (servers, serve(admin.with_switches()).await)
}

async fn modes(server: &Running) -> Value {
    let modes = server.handle.config().await.unwrap().admission.modes;
    modes.each().into_iter().map(|(name, mode)| (name.to_owned(), Value::from(mode.as_str()))).collect()
}

const JSON: &str = "content-type: application/json\r\n";
const DEFAULTS: [(&str, &str); 9] = [
    ("all", "on"),
    ("deadline", "on"),
    ("quota", "on"),
    ("cutoff", "on"),
    ("limit", "observe"),
    ("queue", "on"),
    ("attempts", "on"),
    ("degrade", "on"),
    ("hints", "on"),
];

fn defaults() -> Value {
    DEFAULTS.into_iter().map(|(name, mode)| (name.to_owned(), Value::from(mode))).collect()
}

#[tokio::test]
async fn how_every_switch_stands_is_shown_also_where_none_can_be_set() {
    let server = start().await;
    let admin = serve(Admin::new().with_server(server.handle.clone())).await;

    let answer = get(admin).await;

    let expected = json!({"server": 1, "phase": "serving", "set": defaults(), "in_force": defaults()});
    assert_eq!((answer.status, answer.json()), (200, json!({"switches": false, "servers": [expected]})));
}

#[tokio::test]
async fn the_kill_switch_is_for_every_server_and_gives_back_what_was_set() {
    let (servers, admin) = switchable().await;

    let off = post(admin, r#"{"all": "off"}"#).await;

    assert_eq!(off.status, 200, "{}", off.body);
    for shown in off.json()["servers"].as_array().unwrap() {
        assert!(shown["in_force"].as_object().unwrap().values().all(|mode| mode == "off"), "{shown}");
        assert_eq!((&shown["set"]["all"], &shown["set"]["cutoff"]), (&"off".into(), &"on".into()));
    }
    for server in &servers {
        assert_eq!(modes(server).await["all"], "off");
    }
    let on = post(admin, r#"{"all": "on"}"#).await.json();
    assert_eq!((&on["servers"][0]["in_force"], &on["servers"][1]["set"]), (&defaults(), &defaults()));
}

#[tokio::test]
async fn single_mechanisms_of_one_server_are_switched_together() {
    let (servers, admin) = switchable().await;

    let answer = post(admin, r#"{"server": 2, "limit": "on", "quota": "observe"}"#).await;

    assert_eq!(answer.status, 200, "{}", answer.body);
    let mut expected = defaults();
    (expected["limit"], expected["quota"]) = ("on".into(), "observe".into());
    assert_eq!(answer.json()["servers"][1]["set"], expected);
    assert_eq!((modes(&servers[0]).await, modes(&servers[1]).await), (defaults(), expected));
    assert_eq!(answer.json(), get(admin).await.json());
}

#[tokio::test]
async fn what_cannot_be_changes_nothing() {
    let (servers, admin) = switchable().await;
    let long = format!(r#"{{"all": "off", "note": "{}"}}"#, "x".repeat(5000));

    for (body, status, fault) in [
        (r#"{"all": "off", "limit": "maybe"}"#, 400, "limit = \"maybe\" is not possible: must be \"off\", "),
        (
            r#"{"all": "off", "speed": "on"}"#,
            400,
            "speed = \"on\" is not possible: there is no such field; use server, ",
        ),
        (r#"{"all": "off", "all": "on"}"#, 400, "all is given twice"),
        (r#"{"all": "off"#, 400, "EOF while parsing"),
        ("all=off", 400, "expected value at line 1 column 1; send an object as in {\"all\": \"off\"}"),
        (r#"{"server": 3, "all": "off"}"#, 404, "server = 3 is not possible: there are 2, counted from 1"),
        (&long, 413, "at most 4096 bytes"),
    ] {
        let answer = post(admin, body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.body);
        assert!(answer.body.starts_with(fault), "{body}: {}", answer.body);
    }

    for server in &servers {
        assert_eq!(modes(server).await, defaults());
    }
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing() {
    let (servers, admin) = switchable().await;
    let off = r#"{"all": "off"}"#;

    // What a form can send, and a script without asking first.
    for kind in ["", "content-type: text/plain\r\n", "content-type: application/x-www-form-urlencoded\r\n"] {
        let answer = post_with(admin, kind, off).await;
        assert_eq!(answer.status, 415, "{kind}");
        assert!(answer.body.contains("content-type: application/json"), "{}", answer.body);
    }
    for from in ["origin: http://evil.example\r\n", "origin: null\r\n", "sec-fetch-site: cross-site\r\n"] {
        assert_eq!(post_with(admin, &format!("{JSON}{from}"), off).await.status, 403, "{from}");
    }
    let asks_first = format!("OPTIONS /admission HTTP/1.1\r\nhost: {admin}\r\norigin: http://evil.example\r\n");
    let answer = send(admin, &format!("{asks_first}connection: close\r\n\r\n")).await;
    assert_eq!(answer.status, 405);
    assert!(!answer.head.contains("access-control-allow"), "{}", answer.head);
    let rebound = format!("POST /admission HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n{JSON}");
    assert_eq!(send(admin, &format!("{rebound}content-length: {}\r\n\r\n{off}", off.len())).await.status, 403);
    assert_eq!((modes(&servers[0]).await, modes(&servers[1]).await), (defaults(), defaults()));

    let own_page = format!("{JSON}origin: http://{admin}\r\nsec-fetch-site: same-origin\r\n");
    assert_eq!(post_with(admin, &own_page, off).await.status, 200);
    assert_eq!(modes(&servers[0]).await["all"], "off");
}

#[tokio::test]
async fn an_address_without_switches_changes_nothing() {
    let server = start().await;
    let admin = serve(Admin::new().with_server(server.handle.clone())).await;

    let answer = post(admin, r#"{"all": "off"}"#).await;

    assert_eq!((answer.status, answer.allows()), (405, Some("GET, HEAD")));
    assert!(answer.body.contains("with_switches"), "{}", answer.body);
    assert_eq!(modes(&server).await, defaults());
}

#[tokio::test]
async fn other_methods_are_told_what_is_allowed() {
    let (_servers, admin) = switchable().await;

    for method in ["PUT", "DELETE", "PATCH"] {
        let answer =
            send(admin, &format!("{method} /admission HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")).await;
        assert_eq!((answer.status, answer.allows()), (405, Some("GET, HEAD, POST")));
    }
    let elsewhere = send(admin, &format!("POST /state HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")).await;
    assert_eq!((elsewhere.status, elsewhere.allows()), (405, Some("GET, HEAD")));
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_shown_as_such_and_is_switched_once_it_runs() {
    let waiting = Server::new().without_signals();
    let (handle, running) = (waiting.handle(), start().await);
    let admin = Admin::new().with_server(running.handle.clone()).with_server(handle.clone()).with_switches();
    let admin = serve(admin).await;

    let answer = post(admin, r#"{"all": "observe"}"#).await;

    assert_eq!(answer.status, 503);
    let shown = answer.json();
    assert_eq!(shown["servers"][0]["in_force"]["cutoff"], "observe");
    assert_eq!(shown["servers"][1], json!({"server": 2, "phase": "silent", "set": null, "in_force": null}));
    let begun = crate::support::start_as(waiting, listener().await);
    assert_eq!(modes(&begun).await["all"], "observe");
}

#[tokio::test]
async fn servers_that_have_stopped_hold_no_switch_up() {
    let (servers, admin) = switchable().await;
    servers[0].serving.abort();
    crate::support::until("it has stopped", async || get(admin).await.json()["servers"][0]["phase"] == "stopped").await;

    let all = post(admin, r#"{"all": "off"}"#).await;
    let gone = post(admin, r#"{"server": 1, "all": "off"}"#).await;

    assert_eq!((all.status, gone.status), (200, 503));
    assert_eq!(modes(&servers[1]).await["all"], "off");
}

#[tokio::test]
async fn a_process_without_a_server_has_nothing_to_switch() {
    let admin = serve(Admin::new().with_switches()).await;

    let answer = post(admin, r#"{"all": "off"}"#).await;

    assert_eq!((answer.status, answer.body.as_str()), (404, "no server is shown here: there is nothing to switch\n"));
}

/// Paused time stands for the five seconds after which a body that does not come is given up.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_given_up() {
    let admin = serve(Admin::new().with_switches()).await;
    let head =
        format!("POST /admission HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\ncontent-length: 15\r\n{JSON}");

    let answer = send(admin, &format!("{head}\r\n{{")).await;

    assert_eq!(answer.status, 408);
}
