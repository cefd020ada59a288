//! A backend on the h2 crate itself, which lets a test do with each stream what no server would.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel::Channel;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};

use super::listener;

pub(crate) type Respond = SendResponse<Bytes>;

/// Plays the script for every request. Knows no watch, so it counts as ready.
pub(crate) async fn start<F, P>(streams_most: u32, script: F) -> SocketAddr
where
    F: Fn(http::Request<RecvStream>, Respond) -> P + Send + Sync + 'static,
    P: Future<Output = ()> + Send + 'static,
{
    let (listener, script) = (listener().await, Arc::new(script));
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let script = Arc::clone(&script);
            tokio::spawn(async move {
                let mut builder = Builder::new();
                builder.max_concurrent_streams(streams_most);
                let mut connection = builder.handshake(stream).await.unwrap();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.headers().get("content-type").is_some_and(|kind| kind == "application/grpc") {
                        respond.send_response(head(404), true).unwrap();
                    } else {
                        tokio::spawn(script(request, respond));
                    }
                }
            });
        }
    });
    address
}

pub(crate) fn head(status: u16) -> http::Response<()> {
    http::Response::builder().status(status).body(()).unwrap()
}

/// A channel to such a backend.
pub(crate) async fn channel<F, P>(script: F) -> Channel
where
    F: Fn(http::Request<RecvStream>, Respond) -> P + Send + Sync + 'static,
    P: Future<Output = ()> + Send + 'static,
{
    Channel::connect("service", [start(100, script).await]).await.unwrap()
}

/// Reads a stream to its end: the lengths of its frames, or why it broke off.
pub(crate) async fn read(stream: &mut RecvStream) -> Result<Vec<usize>, h2::Error> {
    let mut lengths = Vec::new();
    while let Some(data) = stream.data().await {
        let length = data?.len();
        lengths.push(length);
        stream.flow_control().release_capacity(length).unwrap();
    }
    Ok(lengths)
}
