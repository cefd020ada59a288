//! The task that answers questions and pushes announcements, for as long as its server listens.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_core::server::{Gate, PeerAddress, Question, Verdict};
use evenkeel_core::{Announcement, LoadReport, Readiness, Time};

use super::super::hub::Hub;
use super::{Desk, address};
use crate::udp::{Batch, Datagrams, Pace, Received};
use crate::wire::datagram::{Datagram, Heard, Key, Kind, LENGTH};

pub(crate) struct Answering {
    socket: Arc<dyn Datagrams>,
    socket_is_v6: bool,
    desk: Arc<Desk>,
    hub: Arc<Hub>,
    gate: Arc<Gate>,
    reading: Pace,
    resetting: Pace,
    pushes: Vec<(u64, PeerAddress)>,
}

/// What every answer of a moment says.
#[derive(Clone, Copy)]
struct Said {
    announcement: Announcement,
    readiness: Readiness,
    report: LoadReport,
    time: u32,
}

impl Said {
    /// As a push says it.
    fn datagram(&self, kind: Kind, secret: u32, key: u64) -> Datagram {
        let Said { announcement, readiness, report, time } = *self;
        let (sequence, remembered, every) = (0, true, Duration::ZERO);
        Datagram { kind, secret, key, sequence, announcement, time, readiness, remembered, every, report }
    }
}

impl Answering {
    pub(crate) fn new(
        socket: Arc<dyn Datagrams>,
        socket_is_v6: bool,
        desk: Arc<Desk>,
        hub: Arc<Hub>,
        gate: Arc<Gate>,
    ) -> Self {
        Answering {
            socket,
            socket_is_v6,
            desk,
            hub,
            gate,
            reading: Pace::new(READ_A_SECOND, READ_AT_ONCE),
            resetting: Pace::new(RESETS_A_SECOND, RESETS_AT_ONCE),
            pushes: Vec::new(),
        }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(mut self) {
        let clock = self.desk.clock;
        let mut batch = Batch::default();
        loop {
            let due = self.desk.book().peers.poll_timeout();
            let next_push = async {
                match due {
                    Some(at) => tokio::time::sleep_until(clock.instant_of(at)).await,
                    None => std::future::pending().await,
                }
            };
            let opens = self.reading.opens_at(clock.now());
            tokio::select! {
                biased;
                () = self.desk.announced.notified() => {}
                () = receive(&*self.socket, &mut batch, opens.map(|at| clock.instant_of(at))) => {}
                () = next_push => {}
            }
            // Whatever woke it: a flood of questions must not hold up pushes.
            self.answer(&mut batch);
            self.push();
        }
    }

    fn answer(&mut self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let now = self.desk.clock.now();
        self.reading.take(now, batch.len() as u32);
        if self.reading.opens_at(now).is_some() {
            count(&self.desk.counts.pauses);
        }
        let said = self.said();
        for received in batch.iter() {
            self.on_datagram(now, &said, received);
        }
        batch.clear();
    }

    fn on_datagram(&mut self, now: Time, said: &Said, received: &Received) {
        let counts = &self.desk.counts;
        match self.desk.secret.hear(received.bytes()) {
            Heard::Question(question, key) => self.on_question(now, said, received, (&question, &key)),
            Heard::Foreign(sealed) if self.resetting.try_take(now) => {
                count(&counts.resets);
                self.send(&sealed.reset(), received.from, received.to);
            }
            Heard::Foreign(_) => count(&counts.resets_withheld),
            Heard::Forged => count(&counts.forged),
            Heard::Malformed => count(&counts.malformed),
        }
    }

    fn on_question(&self, now: Time, said: &Said, received: &Received, (asked, key): (&Datagram, &Key)) {
        let is_ours = asked.announcement.process == self.desk.process;
        let age = Duration::from_millis(said.time.wrapping_sub(asked.time).into());
        let question = Question {
            peer: asked.key,
            sequence: asked.sequence,
            address: address::written(received.from, received.to),
            heard: if is_ours { asked.announcement.number } else { 0 },
            age: Some(age).filter(|_| is_ours),
            every: asked.every,
        };
        let Verdict::Answer { remembered } = self.desk.book().peers.handle_question(now, &question) else {
            return;
        };
        count(&self.desk.counts.answered);
        let answer =
            Datagram { sequence: asked.sequence, remembered, ..said.datagram(Kind::Answer, asked.secret, asked.key) };
        let bytes = answer.seal(key);
        self.send(&bytes, received.from, received.to);
    }

    /// Sends what is due, and tells the driver if fewer or more are waited for.
    fn push(&mut self) {
        let mut book = self.desk.book();
        book.peers.handle_timeout(self.desk.clock.now());
        self.pushes.extend(std::iter::from_fn(|| book.peers.poll_push()));
        let unreached = book.peers.unreached();
        let before = std::mem::replace(&mut book.told, unreached);
        drop(book);
        if unreached != before {
            self.hub.tell_changed();
        }
        if self.pushes.is_empty() {
            return;
        }
        let said = self.said();
        for &(key, place) in &self.pushes {
            let (to, from) = address::read(&place, self.socket_is_v6);
            let push = said.datagram(Kind::Push, self.desk.secret.id(), key);
            self.send(&push.seal(&self.desk.secret.key(key)), to, from);
        }
        self.pushes.clear();
    }

    fn said(&self) -> Said {
        let (announcement, readiness) = self.hub.last_said();
        Said { announcement, readiness, report: self.gate.report(), time: self.desk.clock.millis() }
    }

    /// What the system does not take is lost, as it may be on the way: whoever needs it asks again.
    fn send(&self, bytes: &[u8; LENGTH], to: SocketAddr, from: Option<IpAddr>) {
        if self.socket.send(bytes, to, from).is_err() {
            count(&self.desk.counts.unsent);
        }
    }
}

/// Waits until reading is allowed, then for datagrams. Those that come too fast meet a full buffer of the system.
async fn receive(socket: &dyn Datagrams, batch: &mut Batch, allowed_at: Option<tokio::time::Instant>) {
    if let Some(at) = allowed_at {
        tokio::time::sleep_until(at).await;
    }
    if let Err(error) = socket.receive(batch).await {
        tracing::debug!(%error, "datagrams could not be read");
        tokio::time::sleep(AFTER_ERROR).await;
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// As many as 200 000 clients ask at the default of 10 s; a flood costs no more than they would.
const READ_A_SECOND: u32 = 20_000;
/// A tenth of a second of that, and as many as one system call gives.
const READ_AT_ONCE: u32 = 2_048;
/// After a restart with another secret every client needs one.
const RESETS_A_SECOND: u32 = 1_000;
const RESETS_AT_ONCE: u32 = 100;
const AFTER_ERROR: Duration = Duration::from_millis(10);
