//! One connection to one backend: made, watched, and reported when it ends.
//!
//! A fresh connection asks for the backend's watch stream first. What it says first is the backend's readiness; what
//! it says later is a notice, acknowledged only after the brain has handled it and the new picker is published, so
//! that a backend whose notice is acknowledged gets nothing new. A backend without our watch counts as ready.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel_core::{BackendId, Readiness};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::rt::{Read, Write};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{mpsc, oneshot};

use super::config::ChannelConfig;
use super::driver::Event;
use crate::body::{BoxBody, BoxError, boxed};
use crate::frames::Frames;
use crate::wire::grpc::{self, WatchAck, WatchEvent};
use crate::wire::{headers, names};

/// Sends requests to one backend.
pub(crate) type Sender = http2::SendRequest<BoxBody>;

/// Opens byte streams to backends: TCP, or what a test puts in its place.
pub trait Connect: Clone + Send + Sync + 'static {
    /// A byte stream.
    type Stream: Read + Write + Send + Unpin + 'static;

    /// Connects to the backend with this name.
    fn connect(&self, backend: &str) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// Which connection of which backend: late news of an old one must not be taken for news of the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    pub(crate) backend: BackendId,
    pub(crate) attempt: u64,
}

/// Connects, then watches until the connection ends. The last event is always `Lost`.
pub(crate) async fn run<C: Connect>(
    connector: C,
    name: String,
    id: LinkId,
    settings: LinkSettings,
    events: mpsc::UnboundedSender<Event>,
) {
    let outcome = hold(&connector, &name, id, settings, &events).await;
    let reason = outcome.err().map_or_else(|| "closed".to_owned(), |error| error.to_string());
    // A driver that is gone has no use for news.
    drop(events.send(Event::Lost(id, reason)));
}

/// How connections are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) ping_every: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) streams_at_first: usize,
}

impl From<&ChannelConfig> for LinkSettings {
    fn from(config: &ChannelConfig) -> Self {
        LinkSettings {
            connect_timeout: config.connect_timeout,
            ping_every: config.ping_every,
            ping_timeout: config.ping_timeout,
            streams_at_first: config.streams_at_first,
        }
    }
}

async fn hold<C: Connect>(
    connector: &C,
    name: &str,
    id: LinkId,
    settings: LinkSettings,
    events: &mpsc::UnboundedSender<Event>,
) -> Result<(), BoxError> {
    let connecting = async {
        let stream = connector.connect(name).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_max_send_streams(settings.streams_at_first)
            .keep_alive_interval(settings.ping_every)
            .keep_alive_timeout(settings.ping_timeout);
        Ok::<_, BoxError>(builder.handshake::<_, BoxBody>(stream).await?)
    };
    let (sender, connection) = tokio::time::timeout(settings.connect_timeout, connecting).await??;
    let mut connection = tokio::spawn(connection);
    let watching = watch(sender.clone(), name, id, settings.connect_timeout, events);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // The watch ends before its connection when the backend closes gracefully, or something between cuts it: an
        // unwatched backend is not used. What is in flight goes on, since the connection is a task of its own.
        watched = watching => return watched,
    };
    Ok(ended??)
}

/// Reads the backend's watch stream to its end; tells of each notice and acknowledges it once it is handled.
async fn watch(
    mut sender: Sender,
    name: &str,
    id: LinkId,
    patience: Duration,
    events: &mpsc::UnboundedSender<Event>,
) -> Result<(), BoxError> {
    let (acks, ack_frames) = Frames::new(());
    let request = http::Request::post(format!("http://{name}{}", grpc::WATCH_PATH))
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(boxed(ack_frames))?;
    sender.ready().await?;
    let response = tokio::time::timeout(patience, sender.send_request(request)).await??;
    let head = response.headers();
    let is_watch = response.status() == http::StatusCode::OK && headers::is_grpc(head);
    if !is_watch || head.contains_key(names::GRPC_STATUS) {
        // Its stream is let go, or it would stay open as long as the connection.
        drop((response, acks));
        connected(id, sender, Readiness::Ready, events).await;
        return std::future::pending().await;
    }
    let mut body = response.into_body();
    let mut buffer = BytesMut::new();
    let first = tokio::time::timeout(patience, next_event(&mut body, &mut buffer)).await??;
    let Some(first) = first else { return Ok(()) };
    connected(id, sender, readiness(&first), events).await;
    acknowledge(&acks, &first);
    while let Some(event) = next_event(&mut body, &mut buffer).await? {
        let (handled, wait) = oneshot::channel();
        if events.send(Event::Told(id, readiness(&event), handled)).is_err() {
            return Ok(());
        }
        // The driver drops its end when it is gone; then nobody needs the acknowledgement.
        if wait.await.is_ok() {
            acknowledge(&acks, &event);
        }
    }
    Ok(())
}

async fn connected(id: LinkId, sender: Sender, said: Readiness, events: &mpsc::UnboundedSender<Event>) {
    let (handled, wait) = oneshot::channel();
    if events.send(Event::Connected(id, sender, said, handled)).is_ok() {
        drop(wait.await);
    }
}

fn acknowledge(acks: &mpsc::UnboundedSender<Bytes>, event: &WatchEvent) {
    // Fails only if the stream is gone, which the reading side notices.
    drop(acks.send(grpc::frame(&WatchAck { sequence: event.sequence })));
}

fn readiness(event: &WatchEvent) -> Readiness {
    if event.serving { Readiness::Ready } else { Readiness::LameDuck }
}

async fn next_event(body: &mut Incoming, buffer: &mut BytesMut) -> Result<Option<WatchEvent>, BoxError> {
    loop {
        if let Some(event) = grpc::unframe(buffer, WATCH_EVENT_MOST)? {
            return Ok(Some(event));
        }
        match body.frame().await {
            None => return Ok(None),
            Some(frame) => {
                if let Some(data) = frame?.data_ref() {
                    buffer.extend_from_slice(data);
                }
            }
        }
    }
}

/// A notice is a few bytes; a backend that sends more is not speaking our protocol.
const WATCH_EVENT_MOST: usize = 4096;
