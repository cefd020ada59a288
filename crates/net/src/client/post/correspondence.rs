//! What a channel and one backend have said to each other by datagrams, and what may follow.
//!
//! An answer is believed once, and only to the last question; a push only if it is news, or the same news some time
//! later, since its acknowledgement may be lost; a reset only with the tag of the open question. So whoever records,
//! repeats, reorders or invents datagrams changes nothing.

use std::net::SocketAddr;
use std::time::Duration;

use evenkeel_core::{Announcement, Checked, LoadReport, Notice, Readiness};
use tokio::time::Instant;

use super::endpoint::Dropped;
use crate::wire::datagram::{Datagram, Key, Kind, LENGTH, Sealed, VERSION};
use crate::wire::grpc::Handover;

/// What a backend handed over on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    /// Where it takes datagrams.
    pub(crate) address: SocketAddr,
    /// Which process of the backend said so; 0 where it does not count them.
    pub(crate) process: u64,
    pub(crate) secret: u32,
    pub(crate) key_number: u64,
    pub(crate) key: Key,
    pub(crate) time: u32,
}

impl Introduction {
    /// What is handed over on a connection to `peer`; `None` if it is of no use here.
    pub(crate) fn read(peer: SocketAddr, process: u64, handover: &Handover) -> Option<Introduction> {
        let port = u16::try_from(handover.port).ok().filter(|port| *port != 0)?;
        let key = Key::from_slice(&handover.key_bytes)?;
        let mut address = peer;
        address.set_ip(peer.ip().to_canonical());
        address.set_port(port);
        (handover.version >= u32::from(VERSION)).then_some(Introduction {
            address,
            process,
            secret: handover.secret,
            key_number: handover.key,
            key,
            time: handover.time,
        })
    }
}

/// What a datagram that is believed says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Heard {
    /// The answer to the last question.
    Answer(Checked),
    /// Unasked: this has changed.
    Push(Notice),
    /// The backend does not know the key any more.
    Reset,
}

/// The state of one correspondence.
#[derive(Debug)]
pub(super) struct Correspondence {
    secret: u32,
    key_number: u64,
    key: Key,
    /// Of the last question.
    sequence: u64,
    /// Of the last question, until it is answered.
    open_tag: Option<[u8; 16]>,
    /// Which process was last heard, and its clock then.
    process: u64,
    time: u32,
    pushed: Option<Pushed>,
}

/// What was last pushed, when it was last taken, and how often.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    announcement: Announcement,
    at: Instant,
    taken: u8,
}

impl Correspondence {
    pub(super) fn new(introduction: &Introduction) -> Self {
        Correspondence {
            secret: introduction.secret,
            key_number: introduction.key_number,
            key: introduction.key.clone(),
            sequence: 0,
            open_tag: None,
            process: introduction.process,
            time: introduction.time,
            pushed: None,
        }
    }

    /// Handed over once more: a key is used for as long as its secret is, so that the backend knows one for each of us.
    pub(super) fn renew(&mut self, introduction: &Introduction) {
        if introduction.secret == self.secret {
            self.on_time(introduction.process, introduction.time);
        } else {
            *self = Correspondence::new(introduction);
        }
    }

    /// The number of the key in use once [renewed](Self::renew).
    pub(super) fn key_after(&self, introduction: &Introduction) -> u64 {
        if introduction.secret == self.secret { self.key_number } else { introduction.key_number }
    }

    /// The next question. It acknowledges what the channel has `heard` and acted on.
    pub(super) fn ask(&mut self, heard: Option<Announcement>, every: Duration) -> [u8; LENGTH] {
        self.sequence += 1;
        // The time belongs to the process that said it; what was heard of another one is nothing to this one.
        let number = heard.filter(|heard| heard.process == self.process).map_or(0, |heard| heard.number);
        let question = Datagram {
            kind: Kind::Question,
            secret: self.secret,
            key: self.key_number,
            sequence: self.sequence,
            announcement: Announcement { process: self.process, number },
            time: self.time,
            readiness: Readiness::Ready,
            remembered: false,
            every,
            report: LoadReport::default(),
        };
        let bytes = question.seal(&self.key);
        self.open_tag = bytes.last_chunk().copied();
        bytes
    }

    /// Says that nothing more will be asked; `None` where nothing ever was.
    pub(super) fn farewell(&mut self) -> Option<[u8; LENGTH]> {
        (self.sequence > 0).then(|| self.ask(None, Duration::ZERO))
    }

    /// What the datagram says, if it is to be believed.
    pub(super) fn hear(&mut self, now: Instant, sealed: &Sealed<'_>) -> Result<Heard, Dropped> {
        match sealed.kind() {
            Kind::Answer => self.on_answer(&self.open(sealed)?),
            Kind::Push => self.on_push(now, &self.open(sealed)?),
            Kind::Reset => self.on_reset(sealed),
            // Clients are not asked.
            Kind::Question => Err(Dropped::Unexpected),
        }
    }

    fn open(&self, sealed: &Sealed<'_>) -> Result<Datagram, Dropped> {
        sealed.open(&self.key).ok_or(Dropped::Forged)
    }

    fn on_answer(&mut self, said: &Datagram) -> Result<Heard, Dropped> {
        if said.sequence > self.sequence {
            return Err(Dropped::Unexpected);
        }
        // One that is only late cannot be told from one that is repeated.
        if said.sequence < self.sequence || self.open_tag.is_none() {
            return Err(Dropped::Replayed);
        }
        self.open_tag = None;
        // Nobody can have said this before it was asked, so this is now, whatever the clock said before.
        (self.process, self.time) = (said.announcement.process, said.time);
        Ok(Heard::Answer(Checked { notice: notice(said), remembered: said.remembered, report: said.report }))
    }

    fn on_push(&mut self, now: Instant, said: &Datagram) -> Result<Heard, Dropped> {
        let taken = match self.pushed {
            Some(last) if said.announcement < last.announcement => return Err(Dropped::Replayed),
            Some(last) => {
                let is_same = said.announcement == last.announcement;
                let apart = if is_same { PUSH_AGAIN_LEAST } else { PUSH_NEWS_LEAST };
                let is_early = now.saturating_duration_since(last.at) < apart;
                if is_early || is_same && last.taken >= PUSH_AGAIN_MOST {
                    return Err(Dropped::Replayed);
                }
                if is_same { last.taken } else { 0 }
            }
            None => 0,
        };
        self.pushed = Some(Pushed { announcement: said.announcement, at: now, taken: taken + 1 });
        self.on_time(said.announcement.process, said.time);
        Ok(Heard::Push(notice(said)))
    }

    fn on_reset(&mut self, sealed: &Sealed<'_>) -> Result<Heard, Dropped> {
        let open_tag = self.open_tag.filter(|_| sealed.sequence() == self.sequence).ok_or(Dropped::Unexpected)?;
        // No secret: whoever guesses at it has one guess in 2^128 for each datagram.
        if sealed.tag() != open_tag || sealed.secret() != self.secret {
            return Err(Dropped::Forged);
        }
        self.open_tag = None;
        Ok(Heard::Reset)
    }

    /// Takes the later of two times; clocks of a process wrap around.
    fn on_time(&mut self, process: u64, time: u32) {
        let is_later = time.wrapping_sub(self.time) <= u32::MAX / 2;
        if process > self.process || process == self.process && is_later {
            (self.process, self.time) = (process, time);
        }
    }
}

fn notice(said: &Datagram) -> Notice {
    Notice { readiness: said.readiness, announcement: Some(said.announcement) }
}

/// Below the 20 ms after which a backend repeats what was not acknowledged.
const PUSH_AGAIN_LEAST: Duration = Duration::from_millis(10);
/// A backend pushes the same thing six times at most; what comes more often was recorded.
const PUSH_AGAIN_MOST: u8 = 8;
/// No backend changes its mind so often: bounds what one that has lost its mind can have a client do.
const PUSH_NEWS_LEAST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
