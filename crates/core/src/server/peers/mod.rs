//! Clients without a connection (A5, A6): who asked lately, and whom a change must still be pushed to.
//!
//! Only questions that somebody vouches for come here, and only those that repeat a recent time of this process are
//! remembered: what was recorded earlier and is sent again changes nothing. The table is bounded, and so is all
//! that is sent: an announcement goes to everybody remembered, no more than 512 a millisecond, and again to those who do
//! not say that they heard it, a few times. Then a client is given up, which is counted: a stopping server is never held
//! up by one that has gone.

mod config;
mod pushing;

use std::collections::BTreeMap;
use std::time::Duration;

pub use config::PeersConfig;
use pushing::{GIVEN_UP, Pushing};

use crate::Time;
use crate::time::CLOCK_JUMP;

/// Where a client is, in the driver's own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerAddress(pub [u8; PeerAddress::LENGTH]);

impl PeerAddress {
    /// Two addresses of IPv6, a scope and a port fit.
    pub const LENGTH: usize = 38;
}

/// A client asks how the server is; somebody vouches for every word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who: the number of its key.
    pub peer: u64,
    /// Counts its questions.
    pub sequence: u64,
    /// Where it asks from.
    pub address: PeerAddress,
    /// The last announcement of this process that it has acted on; 0 where there is none.
    pub heard: u32,
    /// How long ago the time was that it repeats; `None` where that is of another process.
    pub age: Option<Duration>,
    /// How often it asks; zero says that it will not ask again, and wants no pushes.
    pub every: Duration,
}

/// What to do with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer it.
    Answer {
        /// Whether changes are pushed to it from now on. If not it is to ask again, with the time of the answer.
        remembered: bool,
    },
    /// Drop it: this question, or a later one, has been here before.
    Replayed,
    /// Drop it: that was a farewell.
    Left,
}

/// How many clients are known, and what became of pushes to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeersSnapshot {
    /// Remembered now.
    pub known: u32,
    /// Being pushed to now.
    pub unreached: u32,
    /// Pushes handed out, repeats among them.
    pub pushes: u64,
    /// Clients that said they heard what was pushed.
    pub acknowledged: u64,
    /// Clients that never did.
    pub given_up: u64,
    /// Clients that had been silent for too long.
    pub forgotten: u64,
    /// Clients that made room for others.
    pub evicted: u64,
    /// Questions that had been here before.
    pub replayed: u64,
    /// Questions that did not repeat a recent time of this process.
    pub unproven: u64,
}

/// The clients of one server that ask without a connection.
///
/// A driver tells it of questions and announcements (`handle_*`), then sends what [`Peers::poll_push`] gives and calls
/// [`Peers::handle_timeout`] at [`Peers::poll_timeout`].
///
/// ```
/// use evenkeel_core::Time;
/// use evenkeel_core::server::{PeerAddress, Peers, PeersConfig, Question, Verdict};
/// use std::time::Duration;
///
/// let now = Time::from_secs(1);
/// let mut peers = Peers::new(now, PeersConfig::default());
/// let (address, age, every) = (PeerAddress([0; PeerAddress::LENGTH]), Some(Duration::from_secs(9)), Duration::from_secs(10));
/// let question = Question { peer: 7, sequence: 1, address, heard: 0, age, every };
/// assert_eq!(peers.handle_question(now, &question), Verdict::Answer { remembered: true });
///
/// peers.handle_announced(now, 1);
/// assert_eq!(peers.poll_push(), Some((7, address)));
/// assert_eq!(peers.unreached(), 1);
/// ```
#[derive(Debug)]
pub struct Peers {
    config: PeersConfig,
    known: BTreeMap<u64, Peer>,
    /// How many of them said farewell.
    gone: u32,
    /// Where room was last made.
    hand: u64,
    pushing: Pushing,
    announced: u32,
    sweep_at: Time,
    now: Time,
    counts: PeersSnapshot,
}

#[derive(Debug)]
struct Peer {
    sequence: u64,
    asked_at: Time,
    /// When it is pushed to next, while it is.
    push_at: Time,
    heard: u32,
    every_ms: u32,
    address: PeerAddress,
    /// How often the last announcement has been pushed to it; `None` where it need not be any more.
    pushed: Option<u8>,
    /// It said farewell. Its last sequence is kept for as long as what was recorded of it would be believed.
    is_gone: bool,
}

/// With its key, its place in a queue of twice its size, and the third of a tree that is free.
const _: () = assert!((size_of::<Peer>() + 8) * 3 / 2 + 16 <= 160, "a peer fits into 160 bytes");

impl Peers {
    /// Nobody has asked yet. The settings are those of a [`ServerConfig`](super::ServerConfig) that was checked.
    pub fn new(now: Time, config: PeersConfig) -> Self {
        Peers {
            config,
            known: BTreeMap::new(),
            gone: 0,
            hand: 0,
            pushing: Pushing::new(now),
            announced: 0,
            sweep_at: now + SWEEP_EVERY,
            now,
            counts: PeersSnapshot::default(),
        }
    }

    /// Somebody asks: remembers him if the question is of now, and hears what he has heard.
    pub fn handle_question(&mut self, now: Time, question: &Question) -> Verdict {
        self.on_clock(now);
        let known = self.known.get(&question.peer);
        if known.is_some_and(|peer| question.sequence <= peer.sequence) {
            self.counts.replayed += 1;
            return Verdict::Replayed;
        }
        if question.every.is_zero() {
            self.on_farewell(question);
            return Verdict::Left;
        }
        // No older than those who are forgotten: whoever records a question of one that is not remembered any more, and
        // sends it from elsewhere, is not believed.
        if question.age.is_none_or(|age| age > patience(question.every).min(self.config.forget_after)) {
            self.counts.unproven += 1;
            return Verdict::Answer { remembered: false };
        }
        if known.is_none() {
            self.remember(question);
        }
        self.on_asked(question);
        Verdict::Answer { remembered: true }
    }

    /// Announcement `number` has been made: everybody remembered who has not heard it is to be pushed to. Without
    /// effect for a number that is not higher than the last one.
    pub fn handle_announced(&mut self, now: Time, number: u32) {
        self.on_clock(now);
        if number <= self.announced {
            return;
        }
        self.announced = number;
        self.counts.unreached = 0;
        self.pushing.clear();
        for (&key, peer) in self.known.iter_mut().filter(|(_, peer)| !peer.is_gone) {
            peer.pushed = Some(0);
            peer.push_at = self.now;
            self.pushing.add(0, key);
            self.counts.unreached += 1;
        }
    }

    /// Time has passed; to be called at [`Peers::poll_timeout`], and harmless at any other time.
    pub fn handle_timeout(&mut self, now: Time) {
        self.on_clock(now);
        while let Some((GIVEN_UP, key)) = self.next_due() {
            self.pushing.take(GIVEN_UP);
            self.give_up(key);
        }
        if self.sweep_at <= self.now {
            self.sweep();
            self.sweep_at = self.now + SWEEP_EVERY;
        }
    }

    /// Whom to push the last announcement to now, by key number and address, until `None`.
    pub fn poll_push(&mut self) -> Option<(u64, PeerAddress)> {
        loop {
            if !self.pushing.may_push() {
                return None;
            }
            let (pushed, key) = self.next_due()?;
            self.pushing.take(pushed);
            if pushed == GIVEN_UP {
                self.give_up(key);
                continue;
            }
            let peer = self.known.get_mut(&key)?;
            peer.pushed = Some(pushed + 1);
            peer.push_at = self.now + Pushing::wait_after(pushed);
            self.pushing.add(pushed + 1, key);
            self.pushing.on_push();
            self.counts.pushes += 1;
            return Some((key, peer.address));
        }
    }

    /// When to call [`Peers::handle_timeout`], then [`Peers::poll_push`]; `None` while nobody is remembered.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.known.is_empty() {
            return None;
        }
        let next = self.pushing.heads().filter_map(|(_, key)| Some(self.known.get(&key)?.push_at)).min();
        let next = next.map_or(self.sweep_at, |at| self.pushing.not_before(at).min(self.sweep_at));
        Some(next)
    }

    /// Those remembered who are still being pushed to.
    pub fn unreached(&self) -> u32 {
        self.counts.unreached
    }

    /// Everything people and metrics may want to know, as plain data.
    pub fn snapshot(&self) -> PeersSnapshot {
        PeersSnapshot { known: self.known.len() as u32 - self.gone, ..self.counts }
    }

    /// Keeps the latest time; after a jump back, counts on from there.
    fn on_clock(&mut self, now: Time) {
        if self.now.since(now) > CLOCK_JUMP {
            let before = self.now;
            for peer in self.known.values_mut() {
                peer.asked_at = peer.asked_at.moved(before, now);
                peer.push_at = peer.push_at.moved(before, now);
            }
            self.sweep_at = self.sweep_at.moved(before, now);
            self.pushing.on_clock_jump(now);
            self.now = now;
        }
        self.now = self.now.max(now);
        self.pushing.on_time(self.now);
    }

    /// Makes room if there is none.
    fn remember(&mut self, question: &Question) {
        while self.known.len() >= self.config.most as usize {
            let Some(silent) = self.long_silent() else { break };
            self.remove(silent);
            self.counts.evicted += 1;
        }
        let behind = question.heard < self.announced;
        let peer = Peer {
            sequence: 0,
            asked_at: self.now,
            push_at: self.now,
            heard: 0,
            every_ms: 0,
            address: question.address,
            pushed: behind.then_some(0),
            is_gone: false,
        };
        self.known.insert(question.peer, peer);
        if behind {
            self.pushing.add(0, question.peer);
            self.counts.unreached += 1;
        }
    }

    /// Of a stranger it says nothing.
    fn on_farewell(&mut self, question: &Question) {
        let was_pushed_to = self.stop_pushing(question.peer);
        self.counts.unreached -= u32::from(was_pushed_to);
        if let Some(peer) = self.known.get_mut(&question.peer) {
            peer.sequence = question.sequence;
            self.gone += u32::from(!std::mem::replace(&mut peer.is_gone, true));
        }
    }

    /// The longest silent of a few: a list in order of silence would cost every question, and a search everybody.
    fn long_silent(&mut self) -> Option<u64> {
        let after = self.known.range(self.hand.wrapping_add(1)..);
        let few = after.chain(&self.known).take(LOOKED_AT);
        let (_, key) = few.map(|(&key, peer)| (peer.asked_at, key)).min()?;
        self.hand = key;
        Some(key)
    }

    fn on_asked(&mut self, question: &Question) {
        let Some(peer) = self.known.get_mut(&question.peer) else { return };
        self.gone -= u32::from(std::mem::take(&mut peer.is_gone));
        peer.asked_at = self.now;
        peer.sequence = question.sequence;
        peer.address = question.address;
        peer.every_ms = u32::try_from(question.every.as_millis()).unwrap_or(u32::MAX);
        // What has not been announced cannot have been heard.
        peer.heard = peer.heard.max(question.heard.min(self.announced));
        if peer.heard >= self.announced && peer.pushed.take().is_some() {
            self.counts.unreached -= 1;
            self.counts.acknowledged += 1;
        }
    }

    /// The one whose turn it is, and how often it has been pushed to; lets go of those who need it no more.
    fn next_due(&mut self) -> Option<(u8, u64)> {
        let known = &self.known;
        self.pushing.drop_stale(|pushed, key| known.get(&key).is_some_and(|peer| peer.pushed == Some(pushed)));
        let heads = self.pushing.heads().filter_map(|(pushed, key)| Some((known.get(&key)?.push_at, pushed, key)));
        let (_, pushed, key) = heads.min().filter(|(at, ..)| *at <= self.now)?;
        Some((pushed, key))
    }

    fn give_up(&mut self, key: u64) {
        if self.stop_pushing(key) {
            self.counts.unreached -= 1;
            self.counts.given_up += 1;
        }
    }

    /// Whether it was being pushed to.
    fn stop_pushing(&mut self, key: u64) -> bool {
        self.known.get_mut(&key).is_some_and(|peer| peer.pushed.take().is_some())
    }

    fn remove(&mut self, key: u64) {
        self.give_up(key);
        if let Some(peer) = self.known.remove(&key) {
            self.gone -= u32::from(peer.is_gone);
        }
    }

    /// Forgets those who have been silent for too long.
    fn sweep(&mut self) {
        let (now, most) = (self.now, self.config.forget_after);
        let is_silent = |peer: &Peer| {
            let every = Duration::from_millis(peer.every_ms.into());
            now.since(peer.asked_at) > patience(every).min(most)
        };
        let silent: Vec<u64> = self.known.iter().filter(|(_, peer)| is_silent(peer)).map(|(&key, _)| key).collect();
        self.counts.forgotten += silent.len() as u64;
        for key in silent {
            self.remove(key);
        }
    }
}

/// How long one that asks so often may be silent: two of its questions may be lost.
fn patience(every: Duration) -> Duration {
    every.saturating_mul(3).saturating_add(PATIENCE_LEAST)
}

/// Looks at everybody, some nanoseconds each.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const PATIENCE_LEAST: Duration = Duration::from_secs(1);
/// As good as the longest silent of all where most are alike.
const LOOKED_AT: usize = 16;
