//! Uploads that nobody reads yet: they hold up themselves, not the connection they are on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{listener, request};
use bytes::Bytes;
use evenkeel::body::{boxed, empty};
use evenkeel::client::{Fixed, Tcp};
use evenkeel::{Channel, ChannelConfig, Server};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::{Service, service_fn};

#[tokio::test]
async fn an_upload_that_is_not_read_does_not_cost_the_connection() {
    let listener = listener().await;
    let address = listener.local_addr().unwrap();
    let release = Arc::new(Notify::new());
    let waits = Arc::clone(&release);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let waits = Arc::clone(&waits);
        async move {
            if request.uri().path() == "/upload" {
                waits.notified().await;
            }
            let length = request.into_body().collect().await.unwrap().to_bytes().len();
            Ok::<_, Infallible>(http::Response::new(length.to_string()))
        }
    });
    tokio::spawn(Server::new().without_signals().serve(listener, service));
    let mut config = ChannelConfig::default();
    (config.ping_every, config.ping_timeout) = (Duration::from_millis(100), Duration::from_millis(1500));
    let channel = Channel::with(config, Tcp, "service", Fixed::new([address])).unwrap().usable().await.unwrap();

    let mut uploading = channel.clone();
    let upload = tokio::spawn(async move {
        let body = boxed(Full::new(Bytes::from(vec![0; UPLOAD])));
        let request = http::Request::post("http://service/upload").body(body).unwrap();
        uploading.call(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
    });
    // Longer than a connection without pongs would live.
    let (mut calling, end) = (channel.clone(), Instant::now() + Duration::from_secs(3));
    while Instant::now() < end {
        let answer = calling.call(request(empty())).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "0");
    }
    release.notify_one();

    assert_eq!(upload.await.unwrap(), UPLOAD.to_string());
    assert_eq!(channel.snapshot().await.unwrap().last_lost, [None]);
}

const UPLOAD: usize = 4 << 20;
