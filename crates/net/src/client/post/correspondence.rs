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
    /// What was last pushed, and when it was last taken.
    pushed: Option<(Announcement, Instant)>,
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
        if let Some((last, at)) = self.pushed {
            let is_repeated = said.announcement == last && now.saturating_duration_since(at) < PUSH_AGAIN_LEAST;
            if said.announcement < last || is_repeated {
                return Err(Dropped::Replayed);
            }
        }
        self.pushed = Some((said.announcement, now));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::datagram::Secret;

    /// A backend, as far as its datagrams go.
    struct Backend {
        secret: Secret,
        number: u64,
    }

    impl Backend {
        fn introduced() -> (Backend, Correspondence) {
            let backend = Backend { secret: Secret::from_bytes([7; 32]), number: 5 };
            let correspondence = Correspondence::new(&backend.introduction());
            (backend, correspondence)
        }

        fn introduction(&self) -> Introduction {
            let address = SocketAddr::from(([10, 0, 0, 1], 8080));
            let (secret, key) = (self.secret.id(), self.secret.key(self.number));
            Introduction { address, process: 100, secret, key_number: self.number, key, time: 1000 }
        }

        fn read(&self, question: &[u8]) -> Datagram {
            Sealed::read(question).unwrap().open(&self.secret.key(self.number)).unwrap()
        }

        fn says(&self, kind: Kind, sequence: u64, number: u32) -> [u8; LENGTH] {
            let said = Datagram {
                kind,
                secret: self.secret.id(),
                key: self.number,
                sequence,
                announcement: Announcement { process: 100, number },
                time: 2000,
                readiness: Readiness::LameDuck,
                remembered: true,
                every: Duration::ZERO,
                report: LoadReport::default(),
            };
            said.seal(&self.secret.key(self.number))
        }
    }

    fn hear(correspondence: &mut Correspondence, now: Instant, bytes: &[u8]) -> Result<Heard, Dropped> {
        correspondence.hear(now, &Sealed::read(bytes).unwrap())
    }

    fn ask(correspondence: &mut Correspondence) -> [u8; LENGTH] {
        correspondence.ask(None, Duration::from_secs(10))
    }

    #[test]
    fn an_answer_is_believed_once_and_only_to_the_last_question() {
        let (backend, mut ours) = Backend::introduced();
        let now = Instant::now();

        assert_eq!(
            hear(&mut ours, now, &backend.says(Kind::Answer, 0, 1)),
            Err(Dropped::Replayed),
            "nothing was asked"
        );
        let (first, second) = (backend.read(&ask(&mut ours)), backend.read(&ask(&mut ours)));

        assert!(second.sequence > first.sequence);
        assert_eq!(hear(&mut ours, now, &backend.says(Kind::Answer, first.sequence, 1)), Err(Dropped::Replayed));
        let ahead = backend.says(Kind::Answer, second.sequence + 1, 1);
        assert_eq!(hear(&mut ours, now, &ahead), Err(Dropped::Unexpected));
        let answer = backend.says(Kind::Answer, second.sequence, 1);
        assert!(matches!(hear(&mut ours, now, &answer), Ok(Heard::Answer(Checked { remembered: true, .. }))));
        assert_eq!(hear(&mut ours, now, &answer), Err(Dropped::Replayed));
    }

    #[test]
    fn what_no_key_vouches_for_changes_nothing() {
        let (backend, mut ours) = Backend::introduced();
        let now = Instant::now();
        let asked = backend.read(&ask(&mut ours)).sequence;

        let mut bent = backend.says(Kind::Answer, asked, 1);
        bent[3] ^= 1;
        let thief = Backend { secret: Secret::from_bytes([8; 32]), ..backend };
        for forged in [bent, thief.says(Kind::Answer, asked, 1), thief.says(Kind::Push, 0, 9)] {
            assert_eq!(hear(&mut ours, now, &forged), Err(Dropped::Forged));
        }
        let backend = Backend::introduced().0;
        assert_eq!(hear(&mut ours, now, &backend.says(Kind::Question, asked, 1)), Err(Dropped::Unexpected));

        assert!(hear(&mut ours, now, &backend.says(Kind::Answer, asked, 1)).is_ok(), "the question is still open");
    }

    #[test]
    fn a_push_is_heard_if_it_is_news_and_repeated_at_most_every_ten_milliseconds() {
        let (backend, mut ours) = Backend::introduced();
        let now = Instant::now();
        let later = |millis| now + Duration::from_millis(millis);
        let push = |number| backend.says(Kind::Push, 0, number);

        assert!(matches!(hear(&mut ours, now, &push(3)), Ok(Heard::Push(_))));
        assert_eq!(hear(&mut ours, later(9), &push(3)), Err(Dropped::Replayed));
        assert!(hear(&mut ours, later(10), &push(3)).is_ok(), "the acknowledgement may be lost");
        assert_eq!(hear(&mut ours, later(19), &push(3)), Err(Dropped::Replayed));
        assert!(hear(&mut ours, later(19), &push(4)).is_ok(), "news do not wait");
        assert_eq!(hear(&mut ours, later(60_000), &push(3)), Err(Dropped::Replayed), "older is never news");
    }

    #[test]
    fn a_reset_needs_the_sequence_and_tag_of_the_open_question() {
        let (backend, mut ours) = Backend::introduced();
        let now = Instant::now();
        let first = ask(&mut ours);
        let second = ask(&mut ours);

        let reset = Sealed::read(&second).unwrap().reset();
        let mut guessed = reset;
        guessed[90] ^= 1;
        assert_eq!(hear(&mut ours, now, &guessed), Err(Dropped::Forged));
        assert_eq!(hear(&mut ours, now, &Sealed::read(&first).unwrap().reset()), Err(Dropped::Unexpected));
        assert_eq!(hear(&mut ours, now, &reset), Ok(Heard::Reset));
        assert_eq!(hear(&mut ours, now, &reset), Err(Dropped::Unexpected), "only once");
        let third = ask(&mut ours);
        let answer = backend.says(Kind::Answer, backend.read(&third).sequence, 1);
        assert!(hear(&mut ours, now, &answer).is_ok());
        let late = Sealed::read(&third).unwrap().reset();
        assert_eq!(hear(&mut ours, now, &late), Err(Dropped::Unexpected), "it is answered");
    }

    #[test]
    fn a_question_repeats_what_was_last_heard() {
        let (backend, mut ours) = Backend::introduced();
        let heard = |process, number| Some(Announcement { process, number });
        let every = Duration::from_secs(10);

        let first = backend.read(&ours.ask(heard(99, 7), every));
        assert_eq!((first.announcement, first.time), (Announcement { process: 100, number: 0 }, 1000));
        hear(&mut ours, Instant::now(), &backend.says(Kind::Answer, first.sequence, 1)).unwrap();
        let second = backend.read(&ours.ask(heard(100, 1), every));

        assert_eq!((second.announcement, second.time), (Announcement { process: 100, number: 1 }, 2000));
        assert_eq!(second.every, every);
    }

    #[test]
    fn a_key_is_kept_while_its_secret_is() {
        let (backend, mut ours) = Backend::introduced();
        let before = backend.read(&ask(&mut ours)).sequence;

        let restarted = Introduction { process: 200, time: 5, key_number: 6, ..backend.introduction() };
        ours.renew(&restarted);
        let same = backend.read(&ask(&mut ours));
        assert_eq!((same.key, same.sequence), (5, before + 1));
        assert_eq!((same.announcement.process, same.time), (200, 5));
        ours.renew(&backend.introduction());
        assert_eq!(backend.read(&ask(&mut ours)).announcement.process, 200, "an older process says nothing new");

        let other = Backend { secret: Secret::from_bytes([8; 32]), number: 9 };
        ours.renew(&other.introduction());
        assert_eq!(other.read(&ask(&mut ours)).sequence, 1);
    }

    #[test]
    fn a_handover_that_is_of_no_use_is_no_introduction() {
        let peer = SocketAddr::from(([10, 0, 0, 1], 8080));
        let good = Handover { version: 1, port: 9090, secret: 1, key: 2, key_bytes: vec![3; 32], time: 4 };
        let read = |handover: Handover| Introduction::read(peer, 1, &handover).map(|it| it.address.port());

        assert_eq!(read(good.clone()), Some(9090));
        assert_eq!(read(Handover { version: 2, ..good.clone() }), Some(9090), "it speaks ours too");
        assert_eq!(read(Handover { version: 0, ..good.clone() }), None);
        assert_eq!(read(Handover { port: 0, ..good.clone() }), None);
        assert_eq!(read(Handover { port: 1 << 16, ..good.clone() }), None);
        assert_eq!(read(Handover { key_bytes: vec![3; 31], ..good }), None);
    }
}
