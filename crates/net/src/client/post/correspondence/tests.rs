//! What is believed, and what is not, whoever sends it.

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

    assert_eq!(hear(&mut ours, now, &backend.says(Kind::Answer, 0, 1)), Err(Dropped::Replayed), "nothing was asked");
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
    let again = (1..100).filter(|step| hear(&mut ours, later(100 * step), &push(4)).is_ok()).count();
    assert_eq!(again, 7, "what comes for ever was recorded");
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
