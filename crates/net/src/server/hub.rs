//! Everybody who watches this task: told of every change at once, and who has not yet acknowledged it (A4).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use evenkeel_core::Readiness;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;

use super::driver::Event;
use crate::body::{BoxBody, boxed};
use crate::frames::Frames;
use crate::wire::grpc::{self, HealthCheckResponse, ServingStatus, WatchAck, WatchEvent};
use crate::wire::names;

/// All watchers of one server. Off the request path, so a lock is fine.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    events: mpsc::UnboundedSender<Event>,
}

#[derive(Debug, Default)]
struct State {
    sequence: u64,
    serving: bool,
    joined: u64,
    /// Streams that join from now on end at once, or the connections they are on would not close.
    ended: bool,
    watchers: BTreeMap<u64, Watcher>,
}

#[derive(Debug)]
struct Watcher {
    form: Form,
    /// The last event it has acted on; those who watch the standard way cannot say.
    acknowledged: u64,
    events: mpsc::UnboundedSender<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ours,
    Health,
}

impl Hub {
    /// `events` hears whenever a watcher acknowledges or leaves.
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>) -> Self {
        Hub { state: Mutex::default(), events }
    }

    /// Tells every watcher.
    pub(crate) fn announce(&self, readiness: Readiness) {
        let mut state = self.state();
        state.sequence += 1;
        state.serving = readiness == Readiness::Ready;
        for watcher in state.watchers.values() {
            // One whose stream has ended is about to leave the list.
            drop(watcher.events.send(watcher.form.frame(state.sequence, state.serving)));
        }
    }

    /// Ends every stream: connections cannot close before.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.watchers.clear();
    }

    /// Our own watchers that have not acknowledged the last announcement.
    pub(crate) fn unacknowledged(&self) -> u32 {
        let state = self.state();
        let behind = |watcher: &&Watcher| watcher.form == Form::Ours && watcher.acknowledged < state.sequence;
        u32::try_from(state.watchers.values().filter(behind).count()).unwrap_or(u32::MAX)
    }

    /// Answers a request for our watch stream.
    pub(crate) fn watch(self: &Arc<Self>, request: http::Request<Incoming>) -> http::Response<BoxBody> {
        let (id, body) = self.join(Form::Ours);
        tokio::spawn(read_acks(request.into_body(), Arc::clone(self), id));
        grpc_answer(body)
    }

    /// Answers a request for the standard health stream.
    pub(crate) fn watch_health(self: &Arc<Self>) -> http::Response<BoxBody> {
        grpc_answer(self.join(Form::Health).1)
    }

    /// Answers a single health check.
    pub(crate) fn check_health(&self) -> http::Response<BoxBody> {
        let frame = Form::Health.frame(0, self.state().serving);
        let trailers = http::HeaderMap::from_iter([(names::GRPC_STATUS, http::HeaderValue::from_static("0"))]);
        let body = http_body_util::Full::new(frame).with_trailers(std::future::ready(Some(Ok(trailers))));
        grpc_answer(boxed(body))
    }

    /// A stream that says the state now and every change of it.
    fn join(self: &Arc<Self>, form: Form) -> (u64, BoxBody) {
        let mut state = self.state();
        let id = state.joined;
        state.joined += 1;
        let (events, body) = Frames::new(Leaving { hub: Arc::clone(self), id });
        // The stream has just been made: somebody reads it.
        drop(events.send(form.frame(state.sequence, state.serving)));
        if !state.ended {
            state.watchers.insert(id, Watcher { form, acknowledged: 0, events });
        }
        (id, boxed(body))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_ack(&self, id: u64, ack: WatchAck) {
        if let Some(watcher) = self.state().watchers.get_mut(&id) {
            watcher.acknowledged = watcher.acknowledged.max(ack.sequence);
        }
        self.tell_changed();
    }

    fn tell_changed(&self) {
        // A driver that is gone has no use for it.
        drop(self.events.send(Event::WatchersChanged));
    }
}

/// Takes a watcher off the list when nobody reads its stream any more.
struct Leaving {
    hub: Arc<Hub>,
    id: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.hub.state().watchers.remove(&self.id);
        self.hub.tell_changed();
    }
}

async fn read_acks(mut body: Incoming, hub: Arc<Hub>, id: u64) {
    let mut buffer = BytesMut::new();
    // What cannot be read ends the acknowledgements of this client: it is waited for until the drain's most.
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        buffer.extend_from_slice(data);
        loop {
            match grpc::unframe::<WatchAck>(&mut buffer, ACK_MOST) {
                Ok(Some(ack)) => hub.on_ack(id, ack),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

impl Form {
    fn frame(self, sequence: u64, serving: bool) -> Bytes {
        match self {
            Form::Ours => {
                let reason = if serving { "ready" } else { "lame duck" }.to_owned();
                grpc::frame(&WatchEvent { sequence, version: 1, serving, reason, pong: 0 })
            }
            Form::Health => {
                let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
                grpc::frame(&HealthCheckResponse { status: status.into() })
            }
        }
    }
}

fn grpc_answer(body: BoxBody) -> http::Response<BoxBody> {
    let mut response = http::Response::new(body);
    let grpc = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    response
}

/// An acknowledgement is a few bytes; more is not our protocol.
const ACK_MOST: usize = 1024;
