//! Overload control of `evenkeel backend`, as it was typed and as it is switched while the process runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use crate::support::{Backend, command, free_address, http, until};
use serde_json::{Value, json};

/// The status of the answer, and its body.
fn send(to: SocketAddr, text: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Work of 5 ms for a customer.
fn work(backend: &Backend, customer: &str) -> u16 {
    let head = format!("GET /work?cpu_us=5000 HTTP/1.1\r\nhost: a\r\nevenkeel-customer: {customer}\r\n");
    send(backend.address, &format!("{head}connection: close\r\n\r\n")).0
}

fn switch(admin: SocketAddr, body: &str) -> Value {
    let head =
        format!("POST /admission HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\ncontent-type: application/json\r\n");
    let (status, said) = send(admin, &format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    assert_eq!(status, 200, "{said}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn modes_and_the_factor_are_as_typed() {
    let admin = free_address();
    let _backend = Backend::start(&format!(
        "--admin {admin} --admission observe --mode limit=on --mode quota=off --cpu-factor 2.5"
    ));

    let shown = http(admin, "GET", "/admission").1;

    assert_eq!(shown["switches"], true);
    let (set, in_force) = (&shown["servers"][0]["set"], &shown["servers"][0]["in_force"]);
    assert_eq!([&set["all"], &set["limit"], &set["quota"], &set["cutoff"]], ["observe", "on", "off", "on"]);
    assert_eq!([&in_force["limit"], &in_force["quota"], &in_force["cutoff"]], ["observe", "off", "observe"]);
    let state = http(admin, "GET", "/state").1;
    assert_eq!(state["servers"][0]["admission"]["cost"]["cpu_factor"], 2.5);
}

#[tokio::test]
async fn a_hard_quota_refuses_while_there_is_room_until_it_is_switched_off() {
    let admin = free_address();
    let backend = Backend::start(&format!("--admin {admin} --quota mail=0.001,hard"));

    until("mail is out of quota", async || work(&backend, "mail") == 429).await;
    assert_eq!(work(&backend, "maps"), 200, "others are not");

    let off = switch(admin, r#"{"all": "off"}"#);
    assert_eq!(off["servers"][0]["in_force"]["quota"], "off");
    // Ten times 5 ms are fifty seconds of its quota.
    assert!((0..10).all(|_| work(&backend, "mail") == 200), "nobody is refused");

    let observe = switch(admin, r#"{"all": "on", "quota": "observe"}"#);
    let expected = json!("observe");
    assert_eq!(
        (&observe["servers"][0]["set"]["quota"], &observe["servers"][0]["in_force"]["quota"]),
        (&expected, &expected)
    );
    assert_eq!(work(&backend, "mail"), 200, "it is only counted");

    switch(admin, r#"{"quota": "on"}"#);
    until("mail is out of quota again", async || work(&backend, "mail") == 429).await;
}

#[test]
fn a_quota_that_is_off_is_taken_with_a_note_where_it_can_be_switched_on() {
    let admin = free_address();
    let line = format!("backend --listen 127.0.0.1:0 --admin {admin} --admission off --default-quota 0.5,hard");
    let mut child = command(&line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();

    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    child.kill().unwrap();
    let told = child.wait_with_output().unwrap().stderr;

    assert!(said.starts_with("listening on "), "{said}");
    let told = String::from_utf8(told).unwrap().replace("\n  ", " ");
    let expected = "note: --default-quota has no effect with --admission off until that is switched on at --admin: ";
    assert!(told.starts_with(expected), "{told}");
}

/// A thousandth of a processor is reserved and a whole one is used: the signal is wrong, is left out, and whoever runs the process
/// is told.
#[test]
fn a_signal_that_is_left_out_is_said_on_stderr_unless_nothing_is_to_be_logged() {
    for (log, is_said) in [("warn", true), ("off", false)] {
        let line = format!("backend --listen 127.0.0.1:0 --reserved-cpu 0.001 --log {log}");
        let mut child =
            command(&line).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim_end().strip_prefix("listening on ").unwrap().parse().unwrap();

        for _ in 0..4 {
            send(address, "GET /work?cpu_us=300000 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        }
        child.kill().unwrap();
        let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();

        assert_eq!(told.contains("WARN a signal is left out signal=\"cpu\""), is_said, "{log}: {told}");
    }
}
