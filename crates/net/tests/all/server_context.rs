//! What a request carries, through a real server and on to the next: whichever way its handler makes the call.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use crate::plain;
use crate::plain::get;
use crate::support::listener;
use bytes::Bytes;
use evenkeel::body::{BoxBody, boxed, empty};
use evenkeel::{Channel, Context, Server};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tonic::codegen::tokio_stream::{StreamExt, once};
use tower::buffer::Buffer;
use tower::{Service, ServiceExt, service_fn};

/// Says what it was told of the request it got.
async fn told(request: http::Request<Incoming>) -> Result<http::Response<String>, Infallible> {
    let header = |name: &str| request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
    let millis: Option<u64> = header("x-envoy-expected-rq-timeout-ms").parse().ok();
    let in_time = millis.is_some_and(|millis| (5_000..=9_000).contains(&millis));
    let text = format!("{} {} {in_time}", header("evenkeel-criticality"), header("evenkeel-customer"));
    Ok(http::Response::new(text))
}

async fn ask(mut channel: Channel) -> String {
    let answer = channel.call(get("/")).await.unwrap();
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Makes the call in the way the path names.
async fn passed_on(request: http::Request<Incoming>, channel: Channel) -> Result<http::Response<BoxBody>, Infallible> {
    let text = match request.uri().path() {
        "/join" => {
            let (one, two) = tokio::join!(ask(channel.clone()), ask(channel));
            assert_eq!(one, two);
            one
        }
        "/select" => tokio::select! {
            text = ask(channel) => text,
            () = tokio::time::sleep(Duration::from_secs(20)) => "slow".to_owned(),
        },
        "/spawn" => evenkeel::spawn(ask(channel)).await.unwrap(),
        "/blocking" => {
            let runtime = tokio::runtime::Handle::current();
            evenkeel::spawn_blocking(move || runtime.block_on(ask(channel))).await.unwrap()
        }
        "/foreign" => tokio::spawn(ask(channel)).await.unwrap(),
        "/buffer" => {
            let mut request = get("/");
            Context::carry(&mut request);
            // Its worker is a task that knows nothing of this request.
            let mut buffer = Buffer::new(channel, 1);
            let answer = buffer.ready().await.unwrap().call(request).await.unwrap();
            String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
        }
        "/body" => {
            let frames = once(()).then(move |()| ask(channel.clone()));
            let frames = frames.map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
            return Ok(http::Response::new(boxed(StreamBody::new(frames))));
        }
        other => other.to_owned(),
    };
    Ok(http::Response::new(boxed(text)))
}

async fn through(path: &str, address: SocketAddr) -> String {
    let mut request = http::Request::get(path).header("host", "service").body(empty()).unwrap();
    let headers = [
        ("evenkeel-criticality", "SHEDDABLE"),
        ("evenkeel-customer", "mail"),
        ("x-envoy-expected-rq-timeout-ms", "9000"),
    ];
    for (name, value) in headers {
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    plain::read(plain::http1(address).await.send_request(request).await.unwrap()).await.1
}

#[tokio::test]
async fn calls_inherit_it_whichever_way_the_handler_makes_them() {
    let (last, first) = (listener().await, listener().await);
    let (behind, address) = (last.local_addr().unwrap(), first.local_addr().unwrap());
    tokio::spawn(Server::new().without_signals().serve(last, service_fn(told)));
    let channel = Channel::connect("last", [behind]).await.unwrap();
    let service = service_fn(move |request| passed_on(request, channel.clone()));
    tokio::spawn(Server::new().without_signals().serve(first, service));

    for path in ["/join", "/select", "/spawn", "/blocking", "/buffer", "/body"] {
        assert_eq!(through(path, address).await, "SHEDDABLE mail true", "{path}");
    }
    assert_eq!(through("/foreign", address).await, "CRITICAL - false", "tokio's own spawn loses it");
}
