//! Clients that know nothing of us, on connections of their own.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic, and uses some of it")]

use std::net::SocketAddr;

use evenkeel::body::{BoxBody, empty};
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

pub(crate) async fn http1(address: SocketAddr) -> http1::SendRequest<BoxBody> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) async fn http2(address: SocketAddr) -> http2::SendRequest<BoxBody> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) fn get(path: &str) -> http::Request<BoxBody> {
    http::Request::get(format!("http://service{path}")).header("host", "service").body(empty()).unwrap()
}

/// Head and text of the answer to a single request over HTTP/1.1.
pub(crate) async fn fetch(address: SocketAddr, path: &str) -> (http::response::Parts, String) {
    read(http1(address).await.send_request(get(path)).await.unwrap()).await
}

pub(crate) async fn read(response: http::Response<hyper::body::Incoming>) -> (http::response::Parts, String) {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8(body.to_vec()).unwrap())
}
