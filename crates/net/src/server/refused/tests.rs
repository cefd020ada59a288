//! Refusals as clients see them that know nothing of this crate: tonic's, and bytes of HTTP/1.1.

use std::convert::Infallible;
use std::time::Duration;

use evenkeel_core::{Cutoff, Hint, Outcome};
use http_body::Body;

use super::*;
use crate::wire::outcome::outcome_of;

fn of(reason: ServerRefusal, dont_retry: bool) -> Refused {
    Refused { reason, dont_retry, hint: None }
}

fn answer(said: &Refused, is_grpc: bool) -> Response<BoxBody> {
    refused(said, Criticality::Critical, is_grpc, &mut Rng::from_seed(1))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("-", |value| value.to_str().unwrap())
}

#[test]
fn every_refusal_of_grpc_is_a_head_that_everybody_understands() {
    let table = [
        (of(ServerRefusal::TooLate, false), ["4", "-", "-"], Outcome::Expired),
        (of(ServerRefusal::Closed, false), ["14", "1", "-"], Outcome::Overloaded),
        (of(ServerRefusal::Overloaded, false), ["14", "1", "-"], Outcome::Overloaded),
        (of(ServerRefusal::QueueFull, false), ["14", "1", "-"], Outcome::Overloaded),
        (of(ServerRefusal::Overloaded, true), ["8", "-1", "true"], Outcome::DontRetry),
        (of(ServerRefusal::WaitedTooLong, true), ["8", "-1", "true"], Outcome::DontRetry),
        (of(ServerRefusal::OutOfQuota, false), ["8", "-1", "-"], Outcome::OutOfQuota),
    ];
    for (said, expected, outcome) in table {
        let answer = answer(&said, true);
        let headers = answer.headers();
        let got = ["grpc-status", "grpc-retry-pushback-ms", "x-envoy-ratelimited"].map(|name| text(headers, name));
        assert_eq!((got, text(headers, "evenkeel-refused")), (expected, said.reason.as_str()));
        assert_eq!((answer.status(), text(headers, "content-type")), (StatusCode::OK, "application/grpc"));
        assert!(text(headers, "grpc-message").starts_with(&said.reason.to_string()));
        assert_eq!(headers.contains_key("grpc-status-details-bin"), expected[0] == "8");
        assert!(answer.body().is_end_stream(), "or its pushback would not be read");
        assert_eq!(outcome_of(answer.status(), headers), outcome, "{said:?}");
    }
}

#[test]
fn every_refusal_of_http_is_a_status_and_when_to_come_back() {
    let table = [
        (of(ServerRefusal::TooLate, false), 504, Outcome::Failed),
        (of(ServerRefusal::Closed, false), 503, Outcome::Overloaded),
        (of(ServerRefusal::LimitReached, false), 503, Outcome::Overloaded),
        (of(ServerRefusal::Overloaded, true), 503, Outcome::DontRetry),
        (of(ServerRefusal::OutOfQuota, false), 429, Outcome::OutOfQuota),
    ];
    for (said, status, outcome) in table {
        let answer = answer(&said, false);
        let headers = answer.headers();
        assert_eq!(answer.status().as_u16(), status);
        assert_eq!(text(headers, "evenkeel-refused"), said.reason.as_str());
        assert_eq!(headers.contains_key("x-envoy-ratelimited"), said.dont_retry);
        let after = text(headers, "retry-after");
        match outcome {
            Outcome::Failed => assert_eq!(after, "-"),
            Outcome::Overloaded => assert_eq!(after, "0"),
            _ => assert!(SOON_S.contains(&after.parse().unwrap()), "{after}"),
        }
        assert!(!headers.contains_key("grpc-status") && answer.body().is_end_stream());
        assert_eq!(outcome_of(answer.status(), headers), outcome, "{said:?}");
    }
}

#[test]
fn batch_work_comes_back_in_minutes_others_in_seconds_and_not_all_at_once() {
    let (mut rng, said) = (Rng::from_seed(7), of(ServerRefusal::Overloaded, true));
    for level in Criticality::ALL {
        let drawn: std::collections::BTreeSet<u32> = (0..500)
            .map(|_| text(refused(&said, level, false, &mut rng).headers(), "retry-after").parse().unwrap())
            .collect();
        let range = if level == Criticality::SheddablePlus { LATER_S } else { SOON_S };
        assert_eq!((drawn.first(), drawn.last()), (Some(range.start()), Some(range.end())), "{level}");
        assert!(drawn.len() >= 8);
    }
}

#[test]
fn a_hint_goes_with_it() {
    let hint = Hint { cutoff: Cutoff::new(1.5), ttl: Duration::from_millis(700) };
    let said = Refused { hint: Some(hint), ..of(ServerRefusal::Overloaded, false) };
    for is_grpc in [false, true] {
        assert_eq!(headers::read_admit(answer(&said, is_grpc).headers()), Some(hint));
    }
}

/// A server that refuses everything in this way.
async fn refusing(said: Refused) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let answer = answer(&said, headers::is_grpc(request.headers()));
                async move { Ok::<_, Infallible>(answer) }
            });
            let executor = hyper_util::rt::TokioExecutor::new();
            let serving = async move {
                let builder = hyper_util::server::conn::auto::Builder::new(executor);
                // Ends when the client goes away.
                drop(builder.serve_connection(hyper_util::rt::TokioIo::new(stream), service).await);
            };
            tokio::spawn(serving);
        }
    });
    address
}

#[tokio::test]
async fn tonics_client_reads_code_words_pushback_and_details() {
    let table = [
        (of(ServerRefusal::Overloaded, false), tonic::Code::Unavailable, "1", false),
        (of(ServerRefusal::Overloaded, true), tonic::Code::ResourceExhausted, "-1", true),
        (of(ServerRefusal::OutOfQuota, false), tonic::Code::ResourceExhausted, "-1", true),
    ];
    for (said, code, pushback, has_details) in table {
        let uri = format!("http://{}", refusing(said).await);
        let channel = tonic::transport::Endpoint::new(uri).unwrap().connect().await.unwrap();
        let mut client = tonic_health::pb::health_client::HealthClient::new(channel);

        let asked = tonic_health::pb::HealthCheckRequest { service: String::new() };
        let status = client.check(asked).await.unwrap_err();

        assert_eq!(status.code(), code);
        assert!(status.message().starts_with(&said.reason.to_string()), "{status}");
        assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), pushback);
        assert_eq!(!status.details().is_empty(), has_details);
    }
}

#[tokio::test]
async fn a_client_of_plain_http_reads_status_and_when_to_come_back() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let table = [
        (of(ServerRefusal::Overloaded, false), "HTTP/1.1 503 ", "retry-after: 0\r\n"),
        (of(ServerRefusal::Overloaded, true), "HTTP/1.1 503 ", "x-envoy-ratelimited: true\r\n"),
        (of(ServerRefusal::OutOfQuota, false), "HTTP/1.1 429 ", "evenkeel-refused: out_of_quota\r\n"),
    ];
    for (said, status, header) in table {
        let mut stream = tokio::net::TcpStream::connect(refusing(said).await).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: service\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();

        assert!(answer.starts_with(status) && answer.contains(header), "{answer}");
        assert!(answer.ends_with("\r\n\r\n"), "no body: {answer}");
    }
}
