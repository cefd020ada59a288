//! Everybody who watches this task: told of every change at once, and who has not yet acknowledged it (A4).
//!
//! Connections on which nobody watches our way are counted too: whoever is at their other end cannot acknowledge, so a
//! leaving task gives them more time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use evenkeel_core::server::Clients;
use evenkeel_core::{Announcement, LastHint, Readiness};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};

use super::datagrams::Desk;
use super::driver::Event;
use super::identity::Standing;
use super::signals::Counts;
use crate::body::{BoxBody, boxed};
use crate::frames::{FrameSender, Frames};
use crate::wire::grpc::{self, HealthCheckResponse, ServingStatus, WatchAck, WatchEvent};

/// All watchers of one server. Off the request path, so a lock is fine.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    /// The same as the last announcement said, for the request path.
    serving: AtomicBool,
    events: mpsc::UnboundedSender<Event>,
    /// Which process this is to clients.
    process: u64,
    /// Where clients without a connection are kept, if there are datagrams.
    desk: OnceLock<Arc<Desk>>,
    connections: Connections,
    /// Connections and checks so far: they are load too.
    met: AtomicU64,
    checks: AtomicU64,
}

#[derive(Debug)]
struct State {
    sequence: u64,
    serving: bool,
    joined: u64,
    /// Streams that join from now on end at once, or the connections they are on would not close.
    ended: bool,
    watchers: BTreeMap<u64, Watcher>,
    /// Connections on which nobody watches our way.
    strangers: u32,
    /// Whether somebody who never watched has asked something and gone: he may come back with a new connection.
    strangers_gone: bool,
}

#[derive(Debug)]
struct Watcher {
    form: Form,
    /// The last event it has acted on; those who watch the standard way cannot say.
    acknowledged: u64,
    /// Whether its acknowledgements have ended, so that none can be waited for.
    is_mute: bool,
    events: FrameSender,
    /// Whoever reads its acknowledgements lets go of them when this is gone, or the stream would stay open.
    _listening: oneshot::Sender<Infallible>,
}

/// What a stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Our watch.
    Ours,
    /// The standard health stream.
    Health,
    /// The same, about a service that is not here.
    HealthUnknown,
}

/// Whether a hub is told of every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connections {
    Told,
    /// They belong to somebody else: as if strangers were among them.
    Hidden,
}

impl Hub {
    /// `events` hears whenever a watcher acknowledges or leaves.
    pub(crate) fn new(events: mpsc::UnboundedSender<Event>, connections: Connections, process: u64) -> Self {
        let state = State {
            sequence: 0,
            serving: false,
            joined: 0,
            ended: false,
            watchers: BTreeMap::new(),
            strangers: 0,
            strangers_gone: connections == Connections::Hidden,
        };
        Hub {
            state: Mutex::new(state),
            serving: AtomicBool::new(false),
            events,
            process,
            desk: OnceLock::new(),
            connections,
            met: AtomicU64::new(0),
            checks: AtomicU64::new(0),
        }
    }

    /// From now on clients are told how to go on by datagrams, and those who do are part of it.
    pub(crate) fn open_desk(&self, desk: Arc<Desk>) {
        let state = self.state();
        desk.on_announced(state.sequence as u32);
        // Opened once, by whoever made the hub.
        drop(self.desk.set(desk));
    }

    /// Nobody answers datagrams any more: nobody is waited for who would be pushed to.
    pub(crate) fn close_desk(&self) {
        if let Some(desk) = self.desk() {
            desk.close();
            self.tell_changed();
        }
    }

    /// Where clients without a connection are kept.
    pub(crate) fn desk(&self) -> Option<&Arc<Desk>> {
        self.desk.get()
    }

    /// Which process this is to clients.
    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// The last announcement and what it said.
    pub(crate) fn last_said(&self) -> (Announcement, Readiness) {
        let state = self.state();
        let readiness = if state.serving { Readiness::Ready } else { Readiness::LameDuck };
        (Announcement { process: self.process, number: state.sequence as u32 }, readiness)
    }

    /// Whether requests are wanted, as last announced.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Tells every watcher.
    pub(crate) fn announce(&self, readiness: Readiness) {
        let mut state = self.state();
        state.sequence += 1;
        state.serving = readiness == Readiness::Ready;
        self.serving.store(state.serving, Ordering::Relaxed);
        for watcher in state.watchers.values().filter(|watcher| watcher.form != Form::HealthUnknown) {
            // One whose stream has ended is about to leave the list.
            watcher.events.send(watcher.form.frame(&self.event(&state)));
        }
        if let Some(desk) = self.desk() {
            desk.on_announced(state.sequence as u32);
        }
    }

    /// What there is to say now.
    fn event(&self, state: &State) -> WatchEvent {
        let (sequence, serving) = (state.sequence, state.serving);
        let reason = if serving { "ready" } else { "lame duck" }.to_owned();
        WatchEvent { sequence, version: 1, serving, reason, pong: 0, process: self.process, datagrams: None }
    }

    /// Ends every stream: connections cannot close before.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.watchers.clear();
    }

    /// How far the last announcement has been heard.
    pub(crate) fn clients(&self) -> Clients {
        let state = self.state();
        let (mut unacknowledged, mut mute) = (0, 0);
        for watcher in state.watchers.values().filter(|watcher| watcher.form == Form::Ours) {
            mute += u32::from(watcher.is_mute);
            unacknowledged += u32::from(!watcher.is_mute && watcher.acknowledged < state.sequence);
        }
        let silent = state.strangers + u32::from(state.strangers_gone) + mute;
        Clients { unacknowledged, silent, unreached: self.desk().map_or(0, |desk| desk.unreached_told()) }
    }

    /// How much there was to do beside requests.
    pub(crate) fn counts(&self) -> Counts {
        let met = self.met.load(Ordering::Relaxed);
        let datagrams = self.desk().map_or(0, |desk| desk.received());
        Counts {
            connections: Some(met).filter(|_| self.connections == Connections::Told),
            checks: self.checks.load(Ordering::Relaxed).wrapping_add(datagrams),
        }
    }

    /// Somebody wants to know how this task is.
    pub(crate) fn on_check(&self) {
        self.checks.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody has connected, of whom so much is believed.
    pub(crate) fn meet(self: &Arc<Self>, standing: Standing) -> Arc<Peer> {
        self.met.fetch_add(1, Ordering::Relaxed);
        self.state().strangers += 1;
        self.tell_if_leaving();
        Arc::new(Peer {
            hub: Arc::clone(self),
            standing,
            told: LastHint::default(),
            spoke: AtomicBool::new(false),
            watching: AtomicU32::new(0),
        })
    }

    /// Answers a request for our watch stream.
    pub(crate) fn watch<B>(self: &Arc<Self>, peer: Option<&Arc<Peer>>, acks: B) -> BoxBody
    where
        B: Body + Send + 'static,
        B::Data: Send,
    {
        let (id, listening, body) = self.join(Form::Ours, peer);
        tokio::spawn(listen(acks, Arc::clone(self), id, listening));
        body
    }

    /// A standard health stream.
    pub(crate) fn watch_health(self: &Arc<Self>, form: Form) -> BoxBody {
        self.join(form, None).2
    }

    /// A stream that says the state now and every change of it, and why it ended.
    fn join(self: &Arc<Self>, form: Form, peer: Option<&Arc<Peer>>) -> (u64, oneshot::Receiver<Infallible>, BoxBody) {
        self.on_check();
        let mut state = self.state();
        let id = state.joined;
        state.joined += 1;
        if let Some(peer) = peer {
            peer.joins(&mut state);
        }
        let (events, body) = Frames::new(Leaving { hub: Arc::clone(self), id, peer: peer.cloned() });
        let datagrams = self.desk().filter(|_| form == Form::Ours).map(|desk| desk.hand_over());
        events.send(form.frame(&WatchEvent { datagrams, ..self.event(&state) }));
        let (listening, heard) = oneshot::channel();
        if !state.ended {
            let watcher = Watcher { form, acknowledged: 0, is_mute: false, events, _listening: listening };
            state.watchers.insert(id, watcher);
        }
        let end = async { Some(Ok(grpc::trailers_of(grpc::UNAVAILABLE, "this task is leaving; another one serves"))) };
        (id, heard, boxed(body.with_trailers(end)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_ack(&self, id: u64, ack: WatchAck) {
        let mut state = self.state();
        let event = self.event(&state);
        let Some(watcher) = state.watchers.get_mut(&id) else { return };
        // What has not been announced cannot have been heard.
        let heard = ack.sequence.min(event.sequence);
        let news = heard > watcher.acknowledged;
        watcher.acknowledged = watcher.acknowledged.max(heard);
        if ack.ping != 0 {
            self.on_check();
        }
        if ack.ping != 0 && !watcher.events.is_behind() {
            watcher.events.send(watcher.form.frame(&WatchEvent { pong: ack.ping, ..event }));
        }
        drop(state);
        if news {
            self.tell_changed();
        }
    }

    /// This watcher will acknowledge nothing any more.
    fn on_mute(&self, id: u64) {
        let mut state = self.state();
        let Some(watcher) = state.watchers.get_mut(&id) else { return };
        watcher.is_mute = true;
        drop(state);
        self.tell_changed();
    }

    pub(crate) fn tell_changed(&self) {
        // A driver that is gone has no use for it.
        drop(self.events.send(Event::ClientsChanged));
    }

    /// While it serves, nobody waits for anybody.
    fn tell_if_leaving(&self) {
        if !self.is_serving() {
            self.tell_changed();
        }
    }
}

/// Who is at the other end of a connection: somebody who watches our way, or a stranger.
#[derive(Debug)]
pub(crate) struct Peer {
    hub: Arc<Hub>,
    /// What is believed of it.
    pub(crate) standing: Standing,
    /// What it was told of admission last.
    pub(crate) told: LastHint,
    spoke: AtomicBool,
    /// Its streams of ours, plus [`ONCE`] if there ever was one; changed under the hub's lock.
    watching: AtomicU32,
}

impl Peer {
    /// It asks something of the service.
    pub(crate) fn on_request(&self) {
        // Read first: all requests of the connection share it.
        if !self.spoke.load(Ordering::Relaxed) {
            self.spoke.store(true, Ordering::Relaxed);
        }
    }

    fn joins(&self, state: &mut State) {
        let before = self.watching.load(Ordering::Relaxed);
        self.watching.store((before | ONCE) + 1, Ordering::Relaxed);
        if before & !ONCE == 0 {
            state.strangers -= 1;
        }
    }

    fn leaves(&self, state: &mut State) {
        let before = self.watching.load(Ordering::Relaxed);
        self.watching.store(before - 1, Ordering::Relaxed);
        if before & !ONCE == 1 {
            state.strangers += 1;
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        // A stream of its own holds the peer, so none is left.
        state.strangers -= 1;
        state.strangers_gone |= *self.spoke.get_mut() && *self.watching.get_mut() == 0;
        drop(state);
        self.hub.tell_if_leaving();
    }
}

/// Takes a watcher off the list when nobody reads its stream any more.
struct Leaving {
    hub: Arc<Hub>,
    id: u64,
    peer: Option<Arc<Peer>>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut state = self.hub.state();
        state.watchers.remove(&self.id);
        if let Some(peer) = &self.peer {
            peer.leaves(&mut state);
        }
        drop(state);
        self.hub.tell_changed();
    }
}

/// Hears a watcher for as long as it is on the list and has something to say.
async fn listen<B: Body>(acks: B, hub: Arc<Hub>, id: u64, listening: oneshot::Receiver<Infallible>) {
    tokio::select! {
        biased;
        _ = listening => {}
        () = read_acks(acks, &hub, id) => hub.on_mute(id),
    }
}

async fn read_acks<B: Body>(body: B, hub: &Hub, id: u64) {
    let mut body = pin!(body);
    let mut buffer = BytesMut::new();
    // What cannot be read ends the acknowledgements of this client.
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        buffer.put(data);
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
    fn frame(self, event: &WatchEvent) -> Bytes {
        let status = match self {
            Form::Ours => return grpc::frame(event),
            Form::Health if event.serving => ServingStatus::Serving,
            Form::Health => ServingStatus::NotServing,
            Form::HealthUnknown => ServingStatus::ServiceUnknown,
        };
        grpc::frame(&HealthCheckResponse { status: status.into() })
    }
}

/// An acknowledgement is a few bytes; more is not our protocol.
const ACK_MOST: usize = 1024;
/// Above any count of streams.
const ONCE: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    fn serving() -> (Arc<Hub>, mpsc::UnboundedReceiver<Event>) {
        let (events, told) = mpsc::unbounded_channel();
        let hub = Arc::new(Hub::new(events, Connections::Told, 1));
        hub.announce(Readiness::Ready);
        (hub, told)
    }

    fn ack(sequence: u64, ping: u64) -> Bytes {
        grpc::frame(&WatchAck { sequence, ping })
    }

    #[tokio::test]
    async fn nobody_acknowledges_what_was_not_announced() {
        let (hub, mut told) = serving();
        let (acks, body) = Frames::new(());
        let mut events = hub.watch(None, body);
        for sequence in 1..=1000 {
            acks.send(ack(sequence, 0));
        }

        acks.send(ack(0, 1));
        for what in ["the state", "the pong, so all was read"] {
            assert!(events.frame().await.unwrap().is_ok(), "{what}");
        }

        assert!(matches!(told.try_recv(), Ok(Event::ClientsChanged)));
        assert!(told.try_recv().is_err(), "only one of them was news");
        assert_eq!(hub.clients(), Clients { unacknowledged: 0, silent: 0, unreached: 0 });
        hub.announce(Readiness::LameDuck);
        assert_eq!(hub.clients(), Clients { unacknowledged: 1, silent: 0, unreached: 0 });
    }

    #[tokio::test]
    async fn one_that_can_acknowledge_no_more_is_silent_and_not_waited_for() {
        let (hub, mut told) = serving();
        let (acks, body) = Frames::new(());
        let events = hub.watch(None, body);
        assert_eq!(hub.clients(), Clients { unacknowledged: 1, silent: 0, unreached: 0 });

        drop(acks);

        assert!(matches!(told.recv().await, Some(Event::ClientsChanged)));
        assert_eq!(hub.clients(), Clients { unacknowledged: 0, silent: 1, unreached: 0 });
        drop(events);
        assert_eq!(hub.clients(), Clients { unacknowledged: 0, silent: 0, unreached: 0 });
    }

    #[tokio::test]
    async fn the_request_of_a_stream_that_ended_is_let_go_of() {
        for ends_before in [false, true] {
            let (hub, _told) = serving();
            let (held, let_go) = oneshot::channel::<Infallible>();
            let (_acks, body) = Frames::new(held);
            if ends_before {
                hub.end();
            }
            let _events = hub.watch(None, body);

            hub.end();

            assert!(let_go.await.is_err(), "it is gone");
        }
    }
}
