//! `evenkeel backend`, as a process: gRPC, HTTP, reflection, virtual processors, its ends.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::generated::WorkRequest;
use crate::support::generated::demo_client::DemoClient;
use crate::support::{Backend, Process, answer, ask, channel_to, free_address, http, run, seen, until};
use evenkeel::clock::Clock;
use evenkeel::{Channel, Context};
use evenkeel_core::{BackendState, Criticality};
use rustix::process::Signal;
use serde_json::Value;
use tonic::Code;

#[tokio::test]
async fn grpc_is_answered_with_who_what_and_how_much() {
    let backends = [Backend::start("")];
    let mut client = DemoClient::new(channel_to(&backends).await);

    let mut request = tonic::Request::new(WorkRequest { cpu_us: 500, bytes: 5, ..WorkRequest::default() });
    request.extensions_mut().insert(Context::default().with_criticality(Criticality::SheddablePlus));
    let answer = client.work(request).await.unwrap();

    let answer = answer.into_inner();
    assert_eq!(
        (answer.criticality.as_str(), answer.attempt, &answer.payload[..]),
        ("SHEDDABLE_PLUS", 0, &b"....."[..])
    );
    assert!(answer.backend.starts_with("127.0.0.1:"), "{answer:?}");
}

#[tokio::test]
async fn grpc_names_the_field_that_cannot_be_and_fails_when_asked_to() {
    let backends = [Backend::start("")];
    let mut client = DemoClient::new(channel_to(&backends).await);

    let bad = client.work(WorkRequest { sleep_us: 3_600_000_001, ..WorkRequest::default() }).await.unwrap_err();
    assert_eq!(bad.code(), Code::InvalidArgument);
    let range = "sleep_us = 3600000001 is not possible: must be a whole number from 0 to 3600000000";
    assert_eq!(bad.message(), range);
    let bad = client.work(WorkRequest { fail_ratio: f64::NAN, ..WorkRequest::default() }).await.unwrap_err();
    assert!(bad.message().starts_with("fail_ratio = NaN is not possible"), "{bad}");

    let failed = client.work(WorkRequest { fail_ratio: 1.0, ..WorkRequest::default() }).await.unwrap_err();
    assert_eq!(failed.code(), Code::Internal);
}

#[tokio::test]
async fn http_is_answered_in_json_on_the_same_port() {
    let backend = Backend::start("--error-rate 0");

    let (head, body) = http(backend.address, "GET", "/work?cpu_us=100&bytes=3");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!((&body["backend"], &body["payload"]), (&backend.address.to_string().into(), &"...".into()));
    assert_eq!((&body["attempt"], &body["criticality"]), (&0.into(), &"CRITICAL".into()));
    assert!(http(backend.address, "POST", "/work").0.starts_with("HTTP/1.1 200"));

    let (head, body) = http(backend.address, "GET", "/work?bytes=16777217");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert_eq!(body["error"], "bytes = 16777217 is not possible: must be a whole number from 0 to 16777216");
    assert!(http(backend.address, "GET", "/work?cpu=1").0.starts_with("HTTP/1.1 400"));
    assert!(http(backend.address, "GET", "/").0.starts_with("HTTP/1.1 404"));
    assert!(http(backend.address, "GET", "/work?fail_ratio=1").0.starts_with("HTTP/1.1 500"));
}

#[tokio::test]
async fn an_error_rate_of_one_fails_everything() {
    let backend = Backend::start("--error-rate 1");

    assert!(http(backend.address, "GET", "/work").0.starts_with("HTTP/1.1 500"));
}

#[tokio::test]
async fn reflection_lists_the_service_in_both_versions() {
    let backends = [Backend::start("")];
    let channel = channel_to(&backends).await;

    for services in [services_v1(channel.clone()).await, services_v1alpha(channel).await] {
        assert!(services.iter().any(|name| name == "evenkeel.demo.v1.Demo"), "{services:?}");
    }
}

#[tokio::test]
async fn two_requests_at_once_take_twice_as_long_on_one_virtual_processor() {
    let backends = [Backend::start("--virtual-cores 1 --speed 0.5")];
    let channel = channel_to(&backends).await;
    let clock = Clock::new();
    let began = clock.now();

    let work = || {
        let mut client = DemoClient::new(channel.clone());
        async move { client.work(WorkRequest { cpu_us: 50_000, ..WorkRequest::default() }).await.unwrap() }
    };
    let (_, _) = tokio::join!(work(), work());

    // Twice 50 ms at half the speed; noise can only make it longer.
    let took = clock.now().since(began);
    assert!(took >= Duration::from_millis(200), "{took:?}");
}

#[tokio::test]
async fn virtual_processors_are_what_it_reports() {
    let backends = [Backend::start("--virtual-cores 3")];
    let channel = channel_to(&backends).await;
    let mut client = DemoClient::new(channel.clone());

    until("its report has come", async || {
        client.work(WorkRequest { cpu_us: 10_000, ..WorkRequest::default() }).await.unwrap();
        let report = seen(&channel, backends[0].address).await.report;
        report.is_some_and(|(_, report)| report.utilization > Some(0.0) && report.processors == Some(3.0))
    })
    .await;
}

#[tokio::test]
async fn the_admin_address_shows_it() {
    let address = free_address();
    let mut process = Process::start(&format!("backend --listen 127.0.0.1:0 --admin {address}"));
    assert!(process.line().starts_with("listening on"));
    assert_eq!(process.line(), format!("metrics, state and page on http://{address}/"));

    let (head, state) = http(address, "GET", "/state");

    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(state["servers"][0]["phase"].is_string(), "{state}");
}

/// What its signals read now, by name.
fn signal(admin: SocketAddr, name: &str) -> Option<f64> {
    let state = http(admin, "GET", "/state").1;
    let signals = state["servers"][0]["admission"]["signals"].as_array().unwrap().clone();
    signals.iter().find(|one| one["name"] == name).unwrap()["value"].as_f64()
}

#[tokio::test]
async fn signals_of_the_machine_can_be_read_also_with_virtual_processors() {
    for options in ["", "--virtual-cores 3"] {
        let admin = free_address();
        let _backend = Backend::start(&format!("--admin {admin} {options}"));

        until("all are read", async || {
            ["cpu", "memory", "load", "delay"].iter().all(|name| signal(admin, name).is_some())
        })
        .await;

        let state = http(admin, "GET", "/state").1;
        let admission = &state["servers"][0]["admission"];
        let is_said = admission["left_out"].as_array().unwrap().iter().any(|one| one["name"] == "throttled");
        assert!(is_said || signal(admin, "throttled").is_some(), "{admission:#}");
        if !options.is_empty() {
            assert_eq!(state["servers"][0]["report"]["processors"], 3.0);
        }
    }
}

#[tokio::test]
async fn a_signal_that_is_given_thresholds_refuses_by_them() {
    let admin = free_address();
    // A process has more than half of that, and less than a hundred times as much.
    let backend = Backend::start(&format!("--admin {admin} --memory-limit 2MiB --signal memory=0.5,0.6,10000,10000"));

    until("it refuses", async || {
        let mut stream = TcpStream::connect(backend.address).unwrap();
        let head = "GET /work HTTP/1.1\r\nhost: a\r\nevenkeel-criticality: SHEDDABLE\r\nconnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 503")
    })
    .await;

    assert_eq!(http(admin, "GET", "/state").1["servers"][0]["admission"]["cutoff_signal"], "memory");
    assert!(http(backend.address, "GET", "/work").0.starts_with("HTTP/1.1 200"), "what is critical");
}

#[tokio::test]
async fn far_too_little_reserved_cpu_is_said() {
    let admin = free_address();
    let backend = Backend::start(&format!("--admin {admin} --reserved-cpu 0.001 --admission off"));

    until("it is said", async || {
        http(backend.address, "GET", "/work?cpu_us=200000");
        let left_out = http(admin, "GET", "/state").1["servers"][0]["admission"]["left_out"].clone();
        let said = left_out.as_array().unwrap().iter().find(|one| one["name"] == "cpu").cloned();
        said.is_some_and(|one| one["why"].as_str().unwrap().ends_with("reserve more"))
    })
    .await;
}

#[test]
fn thresholds_that_cannot_be_are_refused_at_start() {
    for (options, says) in [
        ("--signal memory=0.9,0.8,0.7,0.6", "--signal: admission.signals.memory"),
        ("--signal memory=NaN,1,1,1", "admission.signals.memory"),
        ("--signal delay=off --signal delay=1,2,3,4", "--signal delay is given twice"),
    ] {
        let output = run(&format!("backend --listen 127.0.0.1:0 {options}"));

        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

#[tokio::test]
async fn real_processor_time_is_used_and_told_at_the_end() {
    let mut backend = Backend::start("--speed 0.5");
    assert!(http(backend.address, "GET", "/work?cpu_us=50000").0.starts_with("HTTP/1.1 200"));

    backend.process.signal(Signal::TERM);

    let (code, said) = backend.process.end().await;
    let stopped: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &stopped["event"], &stopped["requests"]), (Some(0), &"stopped".into(), &1.into()));
    assert!(stopped["busy_core_s"].as_f64() >= Some(0.1), "{stopped}");
}

#[tokio::test]
async fn it_is_a_lame_duck_while_it_starts_up() {
    let backend = Backend::start("--start-up 3600");
    let address = backend.address;
    let channel = Channel::with(
        evenkeel::ChannelConfig::default(),
        evenkeel::client::Tcp,
        "demo",
        evenkeel::client::Fixed::new([address]),
    );
    let channel = channel.unwrap();

    until("it is seen", async || seen(&channel, address).await.state == BackendState::LameDuck).await;

    assert!(http(address, "GET", "/work").0.starts_with("HTTP/1.1 200"), "what arrives is served");
}

#[tokio::test]
async fn ctrl_c_drains_as_sigterm_does() {
    let mut backend = Backend::start("");
    let slow = ask(backend.address, "GET", "/work?sleep_us=300000");

    backend.process.signal(Signal::INT);

    assert!(answer(slow).0.starts_with("HTTP/1.1 200"));
    assert_eq!(backend.process.end().await.0, Some(0));
}

#[tokio::test]
async fn it_ends_when_whoever_started_it_is_gone() {
    let mut backend = Backend::start("--exit-with-stdin");

    backend.process.close_stdin();

    backend.process.end().await;
}

#[test]
fn the_first_line_says_where_it_listens() {
    let mut process = Process::start("backend --listen 127.0.0.1:0");

    let line = process.line();

    let address: SocketAddr = line.strip_prefix("listening on ").unwrap().parse().unwrap();
    assert!(TcpStream::connect(address).is_ok());
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let backend = Backend::start("");

    let output = run(&format!("backend --listen {}", backend.address));

    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with(&format!("error: cannot listen on --listen {}", backend.address)), "{said}");
    assert!(said.contains("choose another port"), "{said}");
}

async fn services_v1(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let message_request = Some(MessageRequest::ListServices(String::new()));
    let ask = tokio_stream::once(ServerReflectionRequest { message_request, ..Default::default() });
    let mut answers = ServerReflectionClient::new(channel).server_reflection_info(ask).await.unwrap().into_inner();
    match answers.message().await.unwrap().unwrap().message_response.unwrap() {
        MessageResponse::ListServicesResponse(list) => list.service.into_iter().map(|service| service.name).collect(),
        other => panic!("{other:?}"),
    }
}

async fn services_v1alpha(channel: Channel) -> Vec<String> {
    use tonic_reflection::pb::v1alpha::ServerReflectionRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;

    let message_request = Some(MessageRequest::ListServices(String::new()));
    let ask = tokio_stream::once(ServerReflectionRequest { message_request, ..Default::default() });
    let mut answers = ServerReflectionClient::new(channel).server_reflection_info(ask).await.unwrap().into_inner();
    match answers.message().await.unwrap().unwrap().message_response.unwrap() {
        MessageResponse::ListServicesResponse(list) => list.service.into_iter().map(|service| service.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_may_be_told_to_stop_as_soon_as_it_listens() {
    for _ in 0..10 {
        let mut backend = Backend::start("");

        backend.process.signal(Signal::TERM);

        let (code, said) = backend.process.end().await;
        assert!(code == Some(0) && said.contains("stopped"), "{code:?} {said}");
    }
}

#[test]
fn a_secret_that_cannot_be_used_is_refused_with_what_would_do() {
    let folder = std::env::temp_dir().join(format!("evenkeel-secret-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("secret");
    for (text, says) in [(None, "No such file"), (Some("c0ffee"), "64 or more"), (Some("zz"), "no hexadecimal digit")] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let output = run(&format!("backend --listen 127.0.0.1:0 --datagram-secret-file {}", file.display()));

        let said = String::from_utf8(output.stderr).unwrap();
        // Where lines end depends on the length of the folder's name.
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--datagram-secret-file") && said.contains(says), "{said}");
    }
    let both = run("backend --no-datagrams --datagram-secret-file anywhere");
    assert_eq!(both.status.code(), Some(2));
    std::fs::remove_dir_all(&folder).unwrap();
}
