use super::*;

const START: Time = Time::from_secs(1_000);

fn at(millis: u64) -> Time {
    START + Duration::from_millis(millis)
}

fn backend(number: usize) -> BackendId {
    BackendId(number as u64)
}

/// Backends that are used all the time, of which some fail.
struct Fleet {
    ejection: Ejection,
    config: EjectConfig,
    ended: Vec<Ended>,
    looks: u64,
}

impl Fleet {
    fn of(count: usize, config: EjectConfig) -> Self {
        let ended: Vec<Ended> = (0..count).map(|number| (backend(number), [0; Outcome::ALL.len()])).collect();
        let mut ejection = Ejection::default();
        ejection.on_change(START, &config);
        ejection.look(START, &config, &ended, count);
        Fleet { ejection, config, ended, looks: 0 }
    }

    /// Half a second in which each backend that is in has 20 attempts, of which `failing` says how many fail.
    fn run(&mut self, failing: impl Fn(usize) -> u64) -> Vec<usize> {
        self.looks += 1;
        let now = at(500 * self.looks);
        let out = self.out();
        for (number, (_, ended)) in self.ended.iter_mut().enumerate().filter(|(number, _)| !out.contains(number)) {
            ended[Outcome::Failed.index()] += failing(number);
            ended[Outcome::Served.index()] += 20 - failing(number);
        }
        self.ejection.look(now, &self.config, &self.ended, self.ended.len());
        self.out()
    }

    fn out(&self) -> Vec<usize> {
        (0..self.ended.len()).filter(|&number| self.ejection.out_until(backend(number)).is_some()).collect()
    }
}

#[test]
fn one_that_fails_is_left_out_for_longer_and_longer_and_is_back_soon_after_it_healed() {
    let mut fleet = Fleet::of(10, EjectConfig::default());
    fleet.run(|_| 0);
    let is_out: Vec<bool> = (0..40).map(|_| !fleet.run(|number| if number == 3 { 20 } else { 0 }).is_empty()).collect();

    // Out for 1, 2, 4, 4, … seconds, and in for half a second each time.
    let ends: Vec<usize> = (1..40).filter(|&look| is_out[look - 1] && !is_out[look]).collect();
    assert!(is_out[0]);
    assert_eq!(ends, [2, 7, 16, 25, 34], "{is_out:?}");

    let healed = (0..12).position(|_| fleet.run(|_| 0).is_empty()).unwrap();
    assert!(healed <= 8, "{healed} half seconds");
    assert!((0..20).all(|_| fleet.run(|_| 0).is_empty()));
    assert_eq!(fleet.ejection.counts().ejected, 6);
}

#[test]
fn those_that_fail_now_and_then_stay() {
    let mut fleet = Fleet::of(10, EjectConfig::default());
    assert!((0..40).all(|_| fleet.run(|number| if number < 5 { 6 } else { 0 }).is_empty()));
}

#[test]
fn where_most_fail_nobody_is_an_outlier() {
    let mut fleet = Fleet::of(10, EjectConfig::default());
    assert!((0..40).all(|_| fleet.run(|number| if number < 6 { 20 } else { 0 }).is_empty()));
    assert!((0..40).all(|_| fleet.run(|_| 20).is_empty()));
}

#[test]
fn no_more_than_the_share_is_out_and_never_the_only_one() {
    let mut fleet = Fleet::of(10, EjectConfig::default());
    let most = (0..40).map(|_| fleet.run(|number| if number < 4 { 20 } else { 0 }).len()).max();
    assert_eq!(most, Some(3));

    let mut pair = Fleet::of(2, EjectConfig::default());
    assert_eq!(pair.run(|number| if number == 0 { 20 } else { 0 }), [0]);
    let mut one = Fleet::of(1, EjectConfig::default());
    assert!((0..10).all(|_| one.run(|_| 20).is_empty()));
    let mut none = Fleet::of(10, EjectConfig { most: 0.0, ..EjectConfig::default() });
    assert!((0..10).all(|_| none.run(|number| if number == 3 { 20 } else { 0 }).is_empty()));
}

#[test]
fn a_few_attempts_tell_nothing() {
    let mut fleet = Fleet::of(10, EjectConfig { least: 50, ..EjectConfig::default() });
    let looks = (0..10).position(|_| !fleet.run(|number| if number == 3 { 20 } else { 0 }).is_empty());
    // 20 a look that halve in four looks: 20, 37, 51.
    assert_eq!(looks, Some(2));
}

#[test]
fn refusals_for_overload_are_no_failures() {
    let mut fleet = Fleet::of(3, EjectConfig::default());
    for look in 1..10 {
        fleet.ended[0].1[Outcome::Overloaded.index()] += 100;
        fleet.ended[0].1[Outcome::DontRetry.index()] += 100;
        assert!(!fleet.ejection.look(at(500 * look), &fleet.config, &fleet.ended, 3));
    }
}

#[test]
fn too_few_left_is_panic_and_observing_changes_nothing() {
    let (mut ejection, config) = (Ejection::default(), EjectConfig::default());
    assert!(ejection.applies(&config, 10, 0, 20) && ejection.applies(&config, 10, 3, 20));
    assert!(!ejection.applies(&config, 5, 6, 20), "5 of 11 usable ones are less than half");
    assert!(!ejection.applies(&config, 0, 1, 20));
    assert_eq!(ejection.counts(), EjectCounts { panics: 1, panics_now: true, ..EjectCounts::default() });
    assert!(ejection.applies(&config, 10, 6, 20));
    assert_eq!((ejection.counts().panics, ejection.counts().panics_now), (1, false));

    let mut watched = Fleet::of(10, EjectConfig { mode: Mode::Observe, ..EjectConfig::default() });
    assert_eq!(watched.run(|number| if number == 3 { 20 } else { 0 }), [3]);
    assert!(!watched.ejection.applies(&watched.config, 9, 1, 10));
    assert_eq!((watched.ejection.counts().ejected, watched.ejection.counts().observed), (0, 1));
}

#[test]
fn a_backend_that_is_not_used_is_looked_at_ever_more_rarely() {
    let (mut ejection, config) = (Ejection::default(), EjectConfig::default());
    ejection.on_change(START, &config);
    let (mut now, mut looks) = (START, 0);
    while now < START + Duration::from_secs(3_600) {
        now = ejection.next_timeout().unwrap();
        ejection.look(now, &config, &[(backend(0), [7; Outcome::ALL.len()])], 1);
        looks += 1;
    }
    assert!((1_800..1_810).contains(&looks), "{looks}: every 2 s");
    ejection.on_change(now, &EjectConfig { mode: Mode::Off, ..config });
    assert_eq!(ejection.next_timeout(), None);
}

#[test]
fn a_clock_that_is_set_back_keeps_nobody_out() {
    let mut fleet = Fleet::of(10, EjectConfig::default());
    assert_eq!(fleet.run(|number| if number == 3 { 20 } else { 0 }), [3]);
    let now = at(500);
    fleet.ejection.on_clock_jump(now, Time::from_secs(5));
    assert_eq!(fleet.ejection.out_until(backend(3)), Some(Time::from_secs(6)));
    assert!(fleet.ejection.next_timeout() <= Some(Time::from_secs(6)));
    fleet.ejection.look(Time::from_secs(6), &fleet.config, &fleet.ended, 10);
    assert_eq!(fleet.out(), [0; 0]);
}

#[test]
fn what_was_before_it_looked_or_while_one_was_away_is_not_held_against_it() {
    let config = EjectConfig::default();
    let mut lives: Vec<Ended> = (0..5).map(|number| (backend(number), [1_000; Outcome::ALL.len()])).collect();
    lives[0].1[Outcome::Failed.index()] = 1_000_000;
    let mut ejection = Ejection::default();
    assert!(!ejection.look(START, &config, &lives, 5) && !ejection.look(at(500), &config, &lives, 5));

    // Away for a while, and nothing has ended since: what it failed at then fades.
    lives[0].1[Outcome::Failed.index()] += 100;
    lives[0].1[Outcome::Served.index()] += 101;
    assert!(!ejection.look(at(1_000), &config, &lives, 4), "as many succeeded");
    lives[0].1[Outcome::Served.index()] += 10;
    assert!((3..20).all(|look| !ejection.look(at(500 * look), &config, &lives, 5)));
}
