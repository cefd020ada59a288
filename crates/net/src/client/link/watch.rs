//! Listening to what a backend says of itself on its connection: our own watch, else the standard health stream.
//!
//! On ours each notice is acknowledged, but only after the brain has handled it and the new picker is published, so
//! that a backend whose notice is acknowledged gets nothing new. It also carries pings of our own: a connection on
//! which nothing comes back, for whatever reason, is given up.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel_core::{Announcement, Notice, Readiness};
use http_body_util::BodyExt;
use prost::Message;
use tokio::time::Instant;

use super::{Connect, Link, Welcome, within};
use crate::body::{BoxBody, BoxError, boxed};
use crate::client::http2::{Http2, Received};
use crate::client::post::{Endpoint, Introduction};
use crate::client::sender::{Failure, Sender};
use crate::frames::{FrameSender, Frames};
use crate::wire::grpc::{self, HealthCheckRequest, HealthCheckResponse, ServingStatus, WatchAck, WatchEvent};
use crate::wire::{headers, names};

impl<C: Connect> Link<C> {
    /// Tells of the connection and then of every notice, until the stream or the connection ends.
    pub(super) async fn watch(&self, sender: Http2, peer: Option<SocketAddr>) -> Result<(), BoxError> {
        let (acks, ack_frames) = Frames::new(());
        if let Some(body) = self.open(&sender, grpc::WATCH_PATH, boxed(ack_frames)).await? {
            return self.watch_ours(sender, peer, body, acks).await;
        }
        let whole_server = grpc::frame(&HealthCheckRequest::default());
        let question = boxed(http_body_util::Full::new(whole_server));
        if let Some(body) = self.open(&sender, grpc::HEALTH_WATCH_PATH, question).await? {
            return self.watch_health(sender, body).await;
        }
        self.tell_connected(Sender::Http2(sender), Readiness::Ready).await;
        // Nothing more is to be heard but the end of the connection, which is waited for elsewhere.
        std::future::pending().await
    }

    /// A stream of answers; `None` where there is no such thing.
    async fn open(&self, sender: &Http2, path: &str, body: BoxBody) -> Result<Option<Received>, BoxError> {
        let request = http::Request::post(format!("http://{}{path}", self.name))
            .header(http::header::CONTENT_TYPE, "application/grpc")
            .header(http::header::TE, "trailers")
            .body(body)?;
        let sending = async { sender.clone().send(request).await.map_err(Failure::into_error) };
        let answer = within(self.settings.connect_timeout, "answer to a watch", sending).await?;
        let head = answer.headers();
        let opened =
            answer.status() == http::StatusCode::OK && headers::is_grpc(head) && !head.contains_key(names::GRPC_STATUS);
        Ok(opened.then(|| answer.into_body()))
    }

    async fn watch_ours(
        &self,
        sender: Http2,
        peer: Option<SocketAddr>,
        body: Received,
        acks: FrameSender,
    ) -> Result<(), BoxError> {
        let mut events = Events::<WatchEvent>::new(body);
        let Some(first) = within(self.settings.connect_timeout, "first word", events.next()).await? else {
            return Ok(());
        };
        let introduced = self.introduction(peer, &first).await;
        self.tell_connected(Sender::Http2(sender), Welcome { notice: notice(&first), introduced }).await;
        let mut heard = first.sequence;
        acknowledge(&acks, WatchAck { sequence: heard, ping: 0 });
        let mut pings = Pings::new(self.settings.ping_every, self.settings.ping_timeout);
        loop {
            let event = tokio::select! {
                biased; // chance is the seed's alone: see tests/network
                event = events.next() => event?,
                ping = pings.next() => {
                    acknowledge(&acks, WatchAck { sequence: heard, ping: ping? });
                    continue;
                }
            };
            let Some(event) = event else { return Ok(()) };
            pings.on_heard(event.pong);
            if event.sequence == heard {
                continue;
            }
            if acks.is_behind() {
                return Err("announces more than it lets be acknowledged".into());
            }
            // The driver drops its end when it is gone; then nobody needs the acknowledgement.
            if self.tell(notice(&event)).await {
                heard = event.sequence;
                acknowledge(&acks, WatchAck { sequence: heard, ping: 0 });
            }
        }
    }

    /// What the backend handed over for a time without a connection, and what to use it with.
    async fn introduction(
        &self,
        peer: Option<SocketAddr>,
        first: &WatchEvent,
    ) -> Option<(Introduction, Arc<Endpoint>)> {
        let handover = first.datagrams.as_ref().filter(|_| self.settings.datagrams)?;
        let introduction = Introduction::read(peer?, first.process, handover)?;
        match self.connector.endpoint(introduction.address).await {
            Ok(endpoint) => Some((introduction, endpoint?)),
            Err(error) => {
                tracing::warn!(backend = self.name, %error, "no socket for datagrams, checks will be connections");
                None
            }
        }
    }

    async fn watch_health(&self, sender: Http2, body: Received) -> Result<(), BoxError> {
        let mut events = Events::<HealthCheckResponse>::new(body);
        // A server without the service may say so only in trailers: then there is nothing to hear.
        let first = within(self.settings.connect_timeout, "first word", events.next()).await?;
        let is_there = first.is_some();
        self.tell_connected(Sender::Http2(sender), first.map_or(Readiness::Ready, |said| health(said.status))).await;
        while let Some(said) = events.next().await? {
            self.tell(health(said.status)).await;
        }
        if is_there { Ok(()) } else { std::future::pending().await }
    }
}

/// Messages as they arrive.
struct Events<M> {
    body: Received,
    buffer: BytesMut,
    message: std::marker::PhantomData<M>,
}

impl<M: Message + Default> Events<M> {
    fn new(body: Received) -> Self {
        Events { body, buffer: BytesMut::new(), message: std::marker::PhantomData }
    }

    /// The next message. Nothing is lost if this is dropped and called again.
    async fn next(&mut self) -> Result<Option<M>, BoxError> {
        loop {
            if let Some(event) = grpc::unframe(&mut self.buffer, EVENT_MOST)? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Some(data) = frame?.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

/// When to ask whether the connection still works, and until when the answer must be there.
struct Pings {
    every: Duration,
    timeout: Duration,
    sent: u64,
    answered: u64,
    wake_at: Instant,
}

impl Pings {
    fn new(every: Duration, timeout: Duration) -> Self {
        Pings { every, timeout, sent: 0, answered: 0, wake_at: Instant::now() + every }
    }

    fn on_heard(&mut self, pong: u64) {
        if pong > self.answered {
            self.answered = pong;
            self.wake_at = Instant::now() + self.every;
        }
    }

    /// The number of the next ping, when it is due; an error if the last was not answered in time.
    async fn next(&mut self) -> Result<u64, Stalled> {
        tokio::time::sleep_until(self.wake_at).await;
        if self.answered < self.sent {
            return Err(Stalled(self.timeout));
        }
        self.sent += 1;
        self.wake_at = Instant::now() + self.timeout;
        Ok(self.sent)
    }
}

/// A ping was not answered in this time.
#[derive(Debug)]
pub(super) struct Stalled(Duration);

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stalled: no answer to a ping in {:?}", self.0)
    }
}

impl std::error::Error for Stalled {}

fn acknowledge(acks: &FrameSender, ack: WatchAck) {
    acks.send(grpc::frame(&ack));
}

fn notice(event: &WatchEvent) -> Notice {
    let announcement = Announcement { process: event.process, number: event.sequence as u32 };
    Notice {
        readiness: if event.serving { Readiness::Ready } else { Readiness::LameDuck },
        announcement: (event.process != 0).then_some(announcement),
    }
}

/// Only who says that it does not serve is believed to be leaving: a server that does not know itself may well serve.
fn health(status: i32) -> Readiness {
    if status == ServingStatus::NotServing as i32 { Readiness::LameDuck } else { Readiness::Ready }
}

/// A notice is a few bytes; a backend that sends more is not speaking our protocol.
const EVENT_MOST: usize = 4096;
