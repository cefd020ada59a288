//! Clients without a connection: whom a server remembers, and how an announcement reaches them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use evenkeel_core::server::{PeerAddress, Peers, PeersConfig, PeersSnapshot, Question, Verdict};
use evenkeel_core::{ServerConfig, Time};
use proptest::prelude::*;

const NOW: Time = Time::from_secs(1_000);
const REMEMBERED: Verdict = Verdict::Answer { remembered: true };
const UNPROVEN: Verdict = Verdict::Answer { remembered: false };

fn after(millis: u64) -> Time {
    NOW + Duration::from_millis(millis)
}

fn address(number: u8) -> PeerAddress {
    PeerAddress([number; PeerAddress::LENGTH])
}

fn question(peer: u64, sequence: u64) -> Question {
    Question {
        peer,
        sequence,
        address: address(peer as u8),
        heard: 0,
        age: Some(Duration::from_secs(1)),
        every: Duration::from_secs(10),
    }
}

fn peers_of(count: u64) -> Peers {
    let mut peers = Peers::new(NOW, PeersConfig::default());
    for peer in 1..=count {
        assert_eq!(peers.handle_question(NOW, &question(peer, 1)), REMEMBERED);
    }
    peers
}

fn pushes(peers: &mut Peers, now: Time) -> Vec<u64> {
    peers.handle_timeout(now);
    std::iter::from_fn(|| peers.poll_push()).map(|(peer, _)| peer).collect()
}

/// As a driver does it: at every time-out until nothing is due before `until`. When, and to whom.
fn driven(peers: &mut Peers, until: Time) -> Vec<(Duration, u64)> {
    let mut sent = Vec::new();
    let mut now = NOW;
    loop {
        sent.extend(pushes(peers, now).into_iter().map(|peer| (now.since(NOW), peer)));
        match peers.poll_timeout() {
            Some(at) if at <= until => {
                assert!(at > now, "it waits for something to come");
                now = at;
            }
            _ => return sent,
        }
    }
}

#[test]
fn a_question_of_now_is_remembered_and_one_of_an_unknown_time_is_not() {
    let mut peers = Peers::new(NOW, PeersConfig::default());
    let old = PeersConfig::default().forget_after + Duration::from_millis(1);

    let other_process = Question { age: None, ..question(1, 1) };
    assert_eq!(peers.handle_question(NOW, &other_process), UNPROVEN);
    let recorded = Question { age: Some(old), ..question(1, 2) };
    assert_eq!(peers.handle_question(NOW, &recorded), UNPROVEN);
    assert_eq!(peers.snapshot(), PeersSnapshot { unproven: 2, ..PeersSnapshot::default() });
    assert_eq!(peers.poll_timeout(), None);

    assert_eq!(peers.handle_question(NOW, &question(1, 1)), REMEMBERED);
    assert_eq!(peers.snapshot().known, 1);
}

#[test]
fn what_was_asked_before_is_dropped_and_moves_no_address() {
    let mut peers = peers_of(1);
    assert_eq!(peers.handle_question(NOW, &Question { address: address(7), ..question(1, 5) }), REMEMBERED);

    for sequence in [0, 1, 4, 5] {
        let replayed = Question { address: address(66), heard: 9, ..question(1, sequence) };
        assert_eq!(peers.handle_question(NOW, &replayed), Verdict::Replayed);
    }

    assert_eq!(peers.snapshot().replayed, 4);
    peers.handle_announced(NOW, 1);
    assert_eq!(peers.poll_push(), Some((1, address(7))), "where its last question came from");
}

#[test]
fn an_old_question_that_was_withheld_moves_no_address_either() {
    let mut peers = peers_of(1);

    let withheld = Question { address: address(66), age: Some(Duration::from_secs(3_000)), ..question(1, 9) };
    assert_eq!(peers.handle_question(NOW, &withheld), UNPROVEN);

    peers.handle_announced(NOW, 1);
    assert_eq!(peers.poll_push(), Some((1, address(1))));
}

#[test]
fn the_longest_silent_makes_room() {
    let config = PeersConfig { most: 3, ..PeersConfig::default() };
    let mut peers = Peers::new(NOW, config);
    for (millis, peer, sequence) in [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 1, 2)] {
        peers.handle_question(after(millis), &question(peer, sequence));
    }

    for peer in 4..=1_000 {
        assert_eq!(peers.handle_question(after(peer), &question(peer, 1)), REMEMBERED);
        if peer == 4 {
            peers.handle_announced(after(4), 1);
            assert_eq!(pushes(&mut peers, after(4)), [1, 3, 4], "the second had been silent for longest");
        }
    }

    let snapshot = peers.snapshot();
    assert_eq!((snapshot.known, snapshot.evicted), (3, 997));
}

#[test]
fn one_that_is_silent_for_three_of_its_questions_is_forgotten() {
    let mut peers = peers_of(1);
    let rare = Question { every: Duration::from_secs(3_600), ..question(2, 1) };
    peers.handle_question(NOW, &rare);

    peers.handle_timeout(after(31_000));
    assert_eq!(peers.snapshot().known, 2);
    peers.handle_timeout(after(32_000));
    assert_eq!((peers.snapshot().known, peers.snapshot().forgotten), (1, 1));

    peers.handle_timeout(after(300_000));
    assert_eq!(peers.snapshot().known, 1, "nobody is remembered for longer than forget_after");
    peers.handle_timeout(after(301_001));
    assert_eq!((peers.snapshot().known, peers.snapshot().forgotten), (0, 2));
    assert_eq!(peers.poll_timeout(), None);
    assert_eq!(peers.handle_question(after(302_000), &question(1, 2)), REMEMBERED);
}

#[test]
fn a_push_is_repeated_until_it_is_given_up_within_a_second() {
    let mut peers = peers_of(1);
    peers.handle_announced(NOW, 1);
    assert_eq!(peers.unreached(), 1);

    let sent = driven(&mut peers, after(699));
    let times: Vec<u128> = sent.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(times, [0, 20, 60, 140, 300, 620]);
    assert_eq!(peers.unreached(), 1);

    peers.handle_timeout(after(700));
    assert_eq!(peers.unreached(), 0);
    let expected = PeersSnapshot { known: 1, pushes: 6, given_up: 1, ..PeersSnapshot::default() };
    assert_eq!(peers.snapshot(), expected);
}

#[test]
fn who_has_heard_is_left_alone() {
    let mut peers = peers_of(2);
    peers.handle_announced(NOW, 3);
    assert_eq!(pushes(&mut peers, NOW), [1, 2]);

    // Of an earlier announcement, and of one that has not been made.
    peers.handle_question(after(1), &Question { heard: 2, ..question(1, 2) });
    assert_eq!(peers.unreached(), 2);
    peers.handle_question(after(2), &Question { heard: 3, ..question(1, 3) });
    assert_eq!((peers.unreached(), peers.snapshot().acknowledged), (1, 1));

    assert_eq!(pushes(&mut peers, after(20)), [2]);
    peers.handle_question(after(21), &Question { heard: 100, ..question(2, 2) });
    assert_eq!(pushes(&mut peers, after(60)), []);
    assert_eq!((peers.unreached(), peers.snapshot().acknowledged), (0, 2));

    peers.handle_announced(after(70), 4);
    assert_eq!(pushes(&mut peers, after(70)), [1, 2], "100 was never announced, so 4 is news");
}

#[test]
fn who_comes_after_the_announcement_without_having_heard_it_is_pushed_to_as_well() {
    let mut peers = Peers::new(NOW, PeersConfig::default());
    peers.handle_announced(NOW, 2);

    peers.handle_question(after(5_000), &Question { heard: 1, ..question(1, 1) });
    peers.handle_question(after(5_000), &Question { heard: 2, ..question(2, 1) });

    assert_eq!(peers.unreached(), 1);
    assert_eq!(pushes(&mut peers, after(5_000)), [1]);
    peers.handle_question(after(5_001), &Question { heard: 2, ..question(1, 2) });
    assert_eq!(peers.unreached(), 0);
}

#[test]
fn a_new_announcement_begins_anew() {
    let mut peers = peers_of(1);
    peers.handle_announced(NOW, 1);
    assert_eq!(driven(&mut peers, after(400)).len(), 5);

    peers.handle_announced(after(400), 2);

    assert_eq!(pushes(&mut peers, after(400)), [1]);
    assert_eq!(pushes(&mut peers, after(420)), [1]);
    assert_eq!(peers.unreached(), 1);
    peers.handle_announced(after(421), 2);
    assert_eq!(pushes(&mut peers, after(421)), [], "the same one again is none");
}

#[test]
fn a_crowd_is_pushed_to_at_a_bounded_rate_and_everybody_is() {
    let mut peers = peers_of(5_000);
    peers.handle_announced(NOW, 1);

    let sent = driven(&mut peers, after(2_000));

    for millis in 0..2_000 {
        let within = sent.iter().filter(|(at, _)| at.as_millis() == millis).count();
        assert!(within <= 512, "{within} in one millisecond");
    }
    assert_eq!(sent.len(), 5_000 * 6);
    assert!(sent[..5_000].iter().all(|(at, _)| at.as_millis() < 20), "nobody waits for the repeats of others");
    let last = sent.last().unwrap().0;
    assert!(last < Duration::from_millis(700), "{last:?}");
    assert_eq!((peers.unreached(), peers.snapshot().given_up), (0, 5_000));
}

#[test]
fn one_that_is_forgotten_or_makes_room_is_not_waited_for() {
    let config = PeersConfig { most: 2, ..PeersConfig::default() };
    let mut peers = Peers::new(NOW, config);
    peers.handle_question(NOW, &question(1, 1));
    peers.handle_question(NOW, &question(2, 1));
    peers.handle_announced(NOW, 1);

    peers.handle_question(after(1), &Question { heard: 1, ..question(3, 1) });
    assert_eq!((peers.unreached(), peers.snapshot().given_up), (1, 1));
    assert_eq!(pushes(&mut peers, after(2)), [2]);

    // Nobody drove it meanwhile.
    peers.handle_timeout(after(100_000));
    assert_eq!((peers.unreached(), peers.snapshot().known), (0, 0));
    assert_eq!(peers.poll_push(), None);
}

#[test]
fn a_clock_that_is_set_back_changes_no_distance() {
    let mut peers = peers_of(1);
    peers.handle_announced(NOW, 1);
    assert_eq!(pushes(&mut peers, NOW), [1]);
    let set_back = Time::from_secs(10);

    peers.handle_timeout(set_back);
    assert_eq!(peers.poll_push(), None);
    assert_eq!(pushes(&mut peers, set_back + Duration::from_millis(20)), [1]);
    assert_eq!(peers.poll_timeout(), Some(set_back + Duration::from_millis(60)));

    assert_eq!(peers.handle_question(set_back, &Question { heard: 1, ..question(1, 2) }), REMEMBERED);
    assert_eq!(peers.unreached(), 0);
    peers.handle_timeout(set_back + Duration::from_secs(33));
    assert_eq!(peers.snapshot().known, 0, "and is forgotten as late as ever");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let with = |most, forget_after| ServerConfig { peers: PeersConfig { most, forget_after }, ..Default::default() };

    assert_eq!(with(0, Duration::from_secs(9)).check().unwrap_err().field, "peers.most");
    assert_eq!(with(9, Duration::from_millis(9)).check().unwrap_err().field, "peers.forget_after");
    assert!(with(1, Duration::from_secs(1)).check().is_ok());
}

#[derive(Clone, Debug)]
enum Step {
    Ask(Question),
    Announce,
    Pass(u64),
    Jump(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let asked = (0..12_u64, 0..40_u64, 0..6_u32, proptest::option::of(0..400_u64), 0..20_000_u64);
    prop_oneof![
        8 => asked.prop_map(|(peer, sequence, heard, age, every)| Step::Ask(Question {
            heard,
            age: age.map(Duration::from_secs),
            every: Duration::from_millis(every),
            ..question(peer, sequence)
        })),
        1 => Just(Step::Announce),
        4 => (0..2_000_u64).prop_map(Step::Pass),
        1 => (0..2_000_u64).prop_map(Step::Jump),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn whatever_happens_the_table_is_bounded_and_nobody_is_waited_for_long(steps in prop::collection::vec(step(), 1..80)) {
        let config = PeersConfig { most: 5, ..PeersConfig::default() };
        let (mut peers, mut now, mut number) = (Peers::new(NOW, config), NOW, 0);
        for step in steps {
            match step {
                Step::Ask(question) => drop(peers.handle_question(now, &question)),
                Step::Announce => {
                    number += 1;
                    peers.handle_announced(now, number);
                }
                Step::Pass(millis) => now = now + Duration::from_millis(millis),
                Step::Jump(secs) => now = Time::from_secs(secs),
            }
            pushes(&mut peers, now);
            let snapshot = peers.snapshot();
            prop_assert!(snapshot.known <= 5 && snapshot.unreached <= snapshot.known);
            prop_assert!(peers.poll_timeout().is_none_or(|at| at > now || snapshot.known == 0));
        }

        // A small step back is no jump: the brain goes on from the latest time it was told.
        let end = now + Duration::from_millis(1_800);
        while let Some(at) = peers.poll_timeout().filter(|at| *at <= end) {
            pushes(&mut peers, at);
        }
        prop_assert_eq!(peers.unreached(), 0);
    }
}

#[test]
fn a_recorded_question_of_one_that_was_forgotten_registers_nobody() {
    let mut peers = peers_of(1);
    // Three periods and a second later, and the sweep after that.
    peers.handle_timeout(after(33_000));
    assert_eq!(peers.snapshot().known, 0);

    let recorded = Question { address: address(99), age: Some(Duration::from_secs(34)), ..question(1, 1) };
    assert_eq!(peers.handle_question(after(33_000), &recorded), UNPROVEN);
    assert_eq!(peers.snapshot().known, 0);
}

#[test]
fn one_that_says_farewell_is_forgotten_and_no_longer_waited_for() {
    let mut peers = peers_of(2);
    peers.handle_announced(NOW, 1);
    assert_eq!(peers.unreached(), 2);

    let farewell = Question { every: Duration::ZERO, ..question(1, 2) };
    assert_eq!(peers.handle_question(NOW, &Question { sequence: 1, ..farewell }), Verdict::Replayed);
    assert_eq!(peers.handle_question(NOW, &farewell), Verdict::Left);
    assert_eq!(peers.handle_question(NOW, &Question { peer: 9, ..farewell }), Verdict::Left, "a stranger's is nothing");

    let snapshot = peers.snapshot();
    assert_eq!((snapshot.known, snapshot.unreached, snapshot.given_up), (1, 1, 0));
    assert_eq!(pushes(&mut peers, after(1)), [2]);

    // Whoever recorded its question cannot bring it back, from wherever.
    let recorded = Question { address: address(99), ..question(1, 1) };
    assert_eq!(peers.handle_question(after(1_000), &recorded), Verdict::Replayed);
    assert_eq!(peers.snapshot().known, 1);
}
