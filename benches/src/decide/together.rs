//! The same with a second thread on the same picker.
//!
//! Each thread is pinned to a core, and both begin each burst of requests together. A burst counts only if neither was
//! kept from its core, or it would be measured alone. The median over rounds counts: the least would select the
//! moments in which the threads did not meet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_core::{PolicyName, Rng};

use super::fleet::{Fleet, Manner, Requester};
use super::{IN_FLIGHT_PER_BACKEND, Scale, TOGETHER_BACKENDS, question};
use crate::clock::{cores, pin, thread_cpu};
use crate::rounds::Subject;

pub(super) fn questions(backends: u32) -> Vec<String> {
    if backends != TOGETHER_BACKENDS {
        return Vec::new();
    }
    let of_policies = PolicyName::ALL.into_iter().flat_map(|policy| SITUATIONS.map(|each| question_of(policy, each)));
    of_policies.chain([HARNESS_QUESTION.to_owned()]).collect()
}

pub(super) fn subjects(fleet: &mut Fleet, scale: Scale) -> Vec<Subject> {
    let cores = cores();
    let &[first, second, ..] = cores.as_slice() else {
        eprintln!("one core only: two threads cannot be measured");
        return Vec::new();
    };
    let mut subjects = Vec::new();
    for policy in PolicyName::ALL {
        let picker = fleet.picker(policy);
        for situation in SITUATIONS {
            let in_flight = if situation == "busy" { TOGETHER_BACKENDS * IN_FLIGHT_PER_BACKEND / 2 } else { 0 };
            let requesters = [(first, 5), (second, 6)]
                .map(|(core, seed)| Runner { core, state: Requester::new(picker.clone(), Manner::Served, seed) });
            subjects.push(subject(question_of(policy, situation), requesters, in_flight, scale));
        }
    }
    subjects.push(harness([first, second], scale));
    subjects
}

fn subject(question: String, mut requesters: [Runner<Requester>; 2], in_flight: u32, scale: Scale) -> Subject {
    Subject::sometimes(question, scale.requests, move |requests| {
        for Runner { state, .. } in &mut requesters {
            state.fill(in_flight as usize);
        }
        let figure = on_two_cores(requests, &mut requesters, |requester, requests| {
            if in_flight == 0 { requester.one_by_one(requests) } else { requester.replace(requests) }
        });
        for Runner { state, .. } in &mut requesters {
            state.drain();
        }
        figure
    })
}

/// The least that counting in flight on shared memory costs two threads: a count of a random backend up, that of
/// another down, and nothing else.
fn harness(cores: [usize; 2], scale: Scale) -> Subject {
    let counts: Arc<[Count]> = (0..TOGETHER_BACKENDS).map(|_| Count::default()).collect();
    let mut threads = cores.map(|core| Runner { core, state: (counts.clone(), Rng::from_seed(core as u64)) });
    let subject = Subject::sometimes(HARNESS_QUESTION.to_owned(), scale.requests, move |requests| {
        on_two_cores(requests, &mut threads, |(counts, rng), requests| {
            for _ in 0..requests {
                let mut draw = || &counts[rng.below(TOGETHER_BACKENDS) as usize].0;
                draw().fetch_add(1, Ordering::AcqRel);
                draw().fetch_sub(1, Ordering::AcqRel);
            }
        })
    });
    subject.noted("two random counts, one up, one down: what sharing costs on this machine")
}

/// What one thread works with, on cache lines of its own: the threads are to meet at the backends' counts only.
#[repr(align(128))]
struct Runner<T> {
    core: usize,
    state: T,
}

/// A count on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicUsize);

/// Runs `step` on both threads in short bursts that begin together; the mean of their ns of CPU per operation over
/// the bursts in which both had their core to themselves. None where there were too few of those.
fn on_two_cores<T: Send>(
    requests: u32,
    threads: &mut [Runner<T>; 2],
    step: impl Fn(&mut T, u32) + Sync,
) -> Option<f64> {
    let bursts = requests / BURST;
    let (arrived, step) = (AtomicUsize::new(0), &step);
    let [one, other] = thread::scope(|scope| {
        let arrived = &arrived;
        let running = threads.each_mut().map(|Runner { core, state }| {
            let core = *core;
            scope.spawn(move || {
                pin(core);
                (0..bursts)
                    .map(|burst| {
                        meet(arrived, 2 * (burst as usize + 1));
                        Burst::time(|| step(state, BURST))
                    })
                    .collect::<Vec<Burst>>()
            })
        });
        running.map(|thread| thread.join().expect("a thread that makes requests does not panic"))
    });
    let together = one.iter().zip(&other).filter(|(one, other)| one.had_its_core() && other.had_its_core());
    let spent: Vec<f64> = together.map(|(one, other)| (one.cpu + other.cpu).as_nanos() as f64).collect();
    let enough = spent.len() * ENOUGH >= bursts as usize;
    enough.then(|| spent.iter().sum::<f64>() / (2 * spent.len() * BURST as usize) as f64)
}

/// Waits until `all` arrivals were counted, awake, so that neither starts later than the other.
fn meet(arrived: &AtomicUsize, all: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    while arrived.load(Ordering::Acquire) < all {
        thread::yield_now();
    }
}

/// What one thread spent on a burst.
struct Burst {
    cpu: Duration,
    wall: Duration,
}

impl Burst {
    fn time(run: impl FnOnce()) -> Self {
        let (began, cpu) = (Instant::now(), thread_cpu());
        run();
        Burst { cpu: thread_cpu().saturating_sub(cpu), wall: began.elapsed() }
    }

    fn had_its_core(&self) -> bool {
        self.cpu.as_secs_f64() >= CORE_SHARE * self.wall.as_secs_f64()
    }
}

fn question_of(policy: PolicyName, situation: &str) -> String {
    format!("{}/2_threads", question(policy, TOGETHER_BACKENDS, situation))
}

const HARNESS_QUESTION: &str = "harness/100_backends/2_threads";
const SITUATIONS: [&str; 2] = ["idle", "busy"];
/// Some hundred microseconds: shorter than the time slice of whoever else wants the core.
const BURST: u32 = 2_000;
/// Of the wall time of a burst.
const CORE_SHARE: f64 = 0.95;
/// One burst in so many must count.
const ENOUGH: usize = 10;
