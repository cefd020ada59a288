use super::*;

const PERIOD: Duration = Duration::from_millis(250);

fn reading(load: f64) -> Reading {
    Reading {
        usable: 20,
        wanted: 20,
        known: 30,
        load: Some(load),
        mean: Some(load),
        processors: Some(4.0),
        ..Reading::default()
    }
}

#[test]
fn an_error_counts_as_more_than_full_and_is_forgotten() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let mut last = reading(0.1);
    memory.observe(now, last, 1.0);
    for _ in 0..20 {
        now = now + PERIOD;
        (last.ended, last.failed) = (last.ended + 100, last.failed + 100);
        memory.observe(now, last, 1.0);
    }
    assert!(memory.load() > Some(1.2), "{:?}", memory.load());

    for _ in 0..40 {
        now = now + PERIOD;
        memory.observe(now, last, 0.0);
    }
    assert!(memory.load() < Some(0.2), "{:?}", memory.load());
}

#[test]
fn lost_tasks_are_seen_before_the_others_say_so() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    for _ in 0..40 {
        memory.observe(now, reading(0.6), 1.0);
        now = now + PERIOD;
    }

    memory.observe(now, Reading { usable: 10, ..reading(0.6) }, 1.0);

    let load = memory.load().unwrap_or(0.0);
    assert!((1.0..=1.2).contains(&load), "{load}");
}

#[test]
fn cores_that_became_slow_are_seen_before_the_mean_of_reports_says_so() {
    // Servers tell answers as a mean over 10 s.
    const ANSWERS: Duration = Duration::from_millis(6_931);
    // Half speed: all is in use, of which reports say 0.88 a second later. Or twice the cost and room for it: they say 0.57.
    for (before, after, least, most) in [(0.8, 1.0, 0.95, 1.1), (0.4, 0.8, 0.55, 0.6)] {
        let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
        let (mut mean, mut answers) = (DecayingMean::new(REPORTED), DecayingMean::new(ANSWERS));
        for step in 0..124 {
            let (utilization, cost) = if step < 120 { (before, 1.0) } else { (after, 2.0) };
            mean.sample(now, utilization);
            answers.sample(now, 4.0 * utilization / cost);
            let told = mean.mean().unwrap_or(0.0);
            memory.observe(now, Reading { work: Some(4.0 * told), answers: answers.mean(), ..reading(told) }, 1.0);
            now = now + PERIOD;
        }
        let load = memory.load().unwrap_or(0.0);
        assert!((least..=most).contains(&load), "a second after the step: {load}");
    }
}

#[test]
fn a_step_is_seen_before_the_mean_of_reports_says_so() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let mut mean = DecayingMean::new(REPORTED);
    for step in 0..44 {
        mean.sample(now, if step < 40 { 0.6 } else { 1.0 });
        memory.observe(now, reading(mean.mean().unwrap_or(0.0)), 1.0);
        now = now + PERIOD;
    }
    // A second after the step: what reports say is on its way to 0.76, and three half-lives have passed here.
    assert!(mean.mean() < Some(0.77));
    assert!(memory.offered_lately() > Some(0.93), "{:?}", memory.offered_lately());
}

#[test]
fn what_a_rare_caller_hears_of_after_seconds_did_not_come_about_in_an_instant() {
    for (age, most) in [(0.1, 1.0), (3.0, 0.51)] {
        let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
        for step in 0..41 {
            let mean = if step < 40 { 0.5 } else { 0.6 };
            // The very first is always believed.
            let age_s = Some(if step < 4 { 0.1 } else { age });
            memory.observe(now, Reading { age_s, ..reading(mean) }, 1.0);
            now = now + PERIOD;
        }
        let lately = memory.offered_lately().unwrap_or(0.0);
        assert!(lately <= most && (age > 1.0 || lately > 0.6), "{age}: {lately}");
    }
}

#[test]
fn a_cluster_that_was_full_when_last_heard_of_is_not_full_for_ever() {
    for (age, is_full) in [(0.1, true), (3.0, false)] {
        let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
        for _ in 0..40 {
            memory.observe(now, Reading { age_s: Some(0.1), backlog: Some(0.0), ..reading(1.0) }, 1.0);
            now = now + PERIOD;
        }

        // A second later: still full as young reports say, or half full as old ones do.
        for _ in 0..4 {
            let mean = if is_full { 1.0 } else { 0.5 };
            memory.observe(now, Reading { age_s: Some(age), backlog: Some(0.0), ..reading(mean) }, 1.0);
            now = now + PERIOD;
        }

        let all = memory.asked_for_all().unwrap_or(0.0);
        assert_eq!(memory.waits() > 0.9, is_full, "{age}: {}", memory.waits());
        assert_eq!(memory.offered_lately().is_some(), is_full, "{age}: {:?}", memory.offered_lately());
        assert!((all > 0.9) == is_full && all > 0.49, "{age}: {all}");
    }
}

#[test]
fn what_is_begun_and_not_completed_says_how_far_it_is_beyond_its_capacity() {
    // 14 are begun for each 10 that are completed: where work waits it is for want of processors, else for something else.
    // A server with a line has nobody without a processor among those who may run: then processors that never rest tell.
    for (utilization, backlog, least, most) in [(1.0, 5.0, 1.37, 1.43), (1.0, 0.0, 1.37, 1.43), (0.95, 0.2, 0.94, 0.96)]
    {
        let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
        let mut last = Reading { backlog: Some(backlog), ..reading(utilization) };
        for _ in 0..40 {
            (last.begun, last.in_flight) = (last.begun + 140, last.in_flight + 40);
            memory.observe(now, last, 1.0);
            now = now + PERIOD;
        }
        let offered = memory.offered_lately().unwrap_or(0.0);
        assert!((least..=most).contains(&offered), "{utilization} {backlog}: {offered}");
    }
}

#[test]
fn work_that_waits_and_becomes_less_is_no_reason_to_leave() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let mut last = Reading { backlog: Some(9.0), in_flight: 5_000, begun: 5_000, ..reading(1.0) };
    for _ in 0..40 {
        (last.begun, last.in_flight) = (last.begun + 90, last.in_flight - 10);
        memory.observe(now, last, 0.6);
        now = now + PERIOD;
    }
    let all = memory.asked_for_all().unwrap_or(0.0);
    assert!((1.5..1.6).contains(&all), "0.9 of its capacity with a share of 0.6: {all}");
}

#[test]
fn a_utilization_that_ends_at_1_does_not_hide_what_was_refused() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let (mut mean, mut last) = (DecayingMean::new(REPORTED), reading(0.8));
    // At 1.6 of its capacity it works at 1 and refuses the rest, for 5 s; then it gets 0.6 of that, which is 0.96.
    for step in 0..64 {
        let (utilization, refused, share) = match step {
            0..40 => (0.8, 0, 1.0),
            40..60 => (1.0, 38, 1.0),
            _ => (0.96, 0, 0.6),
        };
        mean.sample(now, utilization);
        (last.ended, last.refused) = (last.ended + 100, last.refused + refused);
        (last.mean, last.load) = (mean.mean(), mean.mean());
        memory.observe(now, last, share);
        now = now + PERIOD;
    }
    // A second later nothing of what was refused is left; of the mean over the share of its time 1.15 would be.
    let all = memory.last.mean.unwrap_or(0.0) / memory.share_taken.mean().unwrap_or(1.0);
    assert!((1.4..1.7).contains(&all), "{all}");
    let all = memory.asked_for_all().unwrap_or(0.0);
    assert!((1.4..1.7).contains(&all), "{all}");
}

#[test]
fn what_others_fail_counts_elsewhere_and_not_at_home() {
    let failing = Reading { failing: Some(0.5), ..reading(0.3) };
    for (is_home, least, most) in [(true, 0.3, 0.3), (false, 0.89, 0.91)] {
        let mut memory = Memory::new(is_home);
        memory.observe(Time::ZERO, failing, 0.0);
        let load = memory.load().unwrap_or(0.0);
        assert!((least..=most).contains(&load), "{is_home}: {load}");
    }
}

#[test]
fn nothing_known_is_not_idle() {
    let mut memory = Memory::new(true);
    memory.observe(Time::ZERO, Reading { usable: 3, wanted: 3, known: 3, ..Reading::default() }, 1.0);
    assert_eq!((memory.load(), memory.used()), (None, None));
}

#[test]
fn a_load_is_compared_with_the_share_of_the_time_it_tells_of() {
    // Half a second old, as reports are. The cluster would be at 1.6 with everything, and gets more from moment to moment.
    const STEPS_LATE: usize = 2;
    let (mut memory, mut now, mut mean) = (Memory::new(true), Time::from_secs(1), DecayingMean::new(REPORTED));
    let mut told = Vec::new();
    for step in 0..24_u32 {
        let share = 0.3 + 0.01 * f64::from(step);
        mean.sample(now, 1.6 * share);
        told.push(mean.mean());
        let late = told[told.len().saturating_sub(1 + STEPS_LATE)];
        memory.observe(now, Reading { mean: late, load: late, age_s: Some(0.5), ..reading(0.0) }, share);
        now = now + PERIOD;
    }

    let all = memory.asked_for_all().unwrap_or(0.0);

    assert!((all / 1.6 - 1.0).abs() < 0.01, "{all}");
    // The shares are those of half a second ago.
    let then = told[told.len() - 1 - STEPS_LATE].unwrap_or(0.0) / 1.6;
    assert!((memory.share_reported() - then).abs() < 1e-3, "{} {then}", memory.share_reported());
    let risen = memory.share_lately() - memory.share_pressed();
    assert!((risen - 0.02).abs() < 2e-3, "{risen}");
}

#[test]
fn where_work_waits_a_share_that_was_just_cut_does_not_make_less_of_what_is_asked_for() {
    for cut in [0.8, 0.7] {
        let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
        // Asked for 1.6, told half a second late: saturated for some seconds, and a quarter of a second after the cut still.
        let mut last = Reading { backlog: Some(9.0), age_s: Some(0.5), ..reading(1.0) };
        for step in 0..17 {
            let share = if step < 16 { 1.0 } else { cut };
            let begun = (1_600.0 * share) as u64;
            (last.begun, last.in_flight) = (last.begun + begun, last.in_flight + begun - 1_000);
            memory.observe(now, last, share);
            now = now + PERIOD;
        }
        let all = memory.asked_for_all().unwrap_or(0.0);
        assert!((1.5..1.65).contains(&all), "{cut}: {all}");
    }
}

#[test]
fn a_capacity_that_was_just_lost_is_not_taken_for_what_a_late_load_tells_of() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let late = Reading { age_s: Some(0.5), ..reading(0.8) };
    for step in 0..18_u32 {
        // Half of the tasks are gone, and for half a second nothing else is told of it.
        let usable = if step < 16 { 20 } else { 10 };
        memory.observe(now, Reading { usable, ..late }, 1.0);
        now = now + PERIOD;
    }
    assert!((memory.load().unwrap_or(0.0) - 1.6).abs() < 0.01, "{:?}", memory.load());
}

#[test]
fn who_refuses_is_beyond_his_capacity_by_what_he_refuses_for_each_that_he_takes() {
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let mut last = reading(1.0);
    for _ in 0..32 {
        (last.begun, last.ended, last.refused) = (last.begun + 1_000, last.ended + 1_000, last.refused + 375);
        memory.observe(now, last, 1.0);
        now = now + PERIOD;
    }
    let all = memory.asked_for_all().unwrap_or(0.0);
    assert!((all - 1.6).abs() < 0.01, "five of eight are taken: {all}");
}

#[test]
fn where_much_was_refused_a_share_that_was_just_cut_does_not_make_less_of_what_is_asked_for() {
    // Told half a second late, by servers with a line: nobody is seen to wait. Two of five is what it asks for too much.
    let (mut memory, mut now) = (Memory::new(true), Time::from_secs(1));
    let mut last = Reading { age_s: Some(0.5), ..reading(1.0) };
    for step in 0..22 {
        let (begun, refused, share) = if step < 16 { (1_600, 600, 1.0) } else { (1_040, 40, 0.65) };
        (last.begun, last.ended, last.refused) = (last.begun + begun, last.ended + begun, last.refused + refused);
        memory.observe(now, last, share);
        if step >= 16 {
            let all = memory.asked_for_all().unwrap_or(0.0);
            assert!((1.5..1.7).contains(&all), "{step}: {all}");
        }
        now = now + PERIOD;
    }
}
