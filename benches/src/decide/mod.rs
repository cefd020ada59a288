//! What a client decides for each request, and when it deals its subset.
//!
//! `idle`: a request is finished before the next begins. `busy`: four requests in flight per backend; each step
//! finishes one of them at random and begins another, so that loads differ. Time is an argument of the core and moves
//! by a microsecond a request; reading a clock is the driver's cost and not in these figures.

mod begin_finish;
mod deal;
mod fleet;
#[cfg(feature = "pingora")]
mod pingora;
mod refuse;
mod together;
mod tower;

use evenkeel_core::PolicyName;

use crate::report::Aim;
use crate::rounds::{Measured, Subject};
use fleet::Fleet;

/// How much is done in a round.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Requests a subject makes.
    pub requests: u32,
    /// Subsets dealt.
    pub deals: u32,
}

/// Long enough that a timer interrupt is noise.
pub const FULL: Scale = Scale { requests: 200_000, deals: 20 };
/// Long enough to show that it runs.
pub const QUICK: Scale = Scale { requests: 20_000, deals: 2 };

/// Every subject whose question contains `only`, prepared.
pub fn subjects(scale: Scale, only: &str) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for backends in BACKENDS {
        let is_wanted = |question: &String| question.contains(only);
        if begin_finish::questions(backends).iter().chain(&together::questions(backends)).any(is_wanted) {
            let mut fleet = Fleet::new(backends, ACTIVE_MAX);
            subjects.extend(begin_finish::subjects(&mut fleet, scale));
            if backends == TOGETHER_BACKENDS {
                subjects.extend(together::subjects(&mut fleet, scale));
            }
        }
    }
    subjects.extend(refuse::subjects(scale));
    subjects.extend(deal::subjects(scale));
    subjects.extend(tower::subjects(scale));
    #[cfg(feature = "pingora")]
    subjects.extend(pingora::subjects(scale));
    subjects.retain(|subject| subject.question.contains(only));
    subjects
}

/// The aims whose questions were measured.
pub fn aims(measured: &[Measured]) -> Vec<Aim> {
    measured.iter().filter_map(|row| aim(row, measured)).collect()
}

fn aim(row: &Measured, all: &[Measured]) -> Option<Aim> {
    let parts: Vec<&str> = row.question.split('/').collect();
    let most_ns = match parts[..] {
        ["begin_finish", _, "100_backends", _] => BEGIN_FINISH_NS,
        ["begin_finish", _, "10000_backends", _] | ["begin_finish", _, "100_backends", _, "2_threads"] => {
            BEGIN_FINISH_NS * 1.5
        }
        ["refuse", ..] => REFUSE_NS,
        ["deal", ..] => DEAL_NS,
        _ => return None,
    };
    let alone = row.question.strip_suffix("/2_threads");
    let alone_ns = alone.and_then(|question| all.iter().find(|other| other.question == question)).map(|one| one.median);
    Some(Aim { question: row.question.clone(), most_ns, median_ns: row.median, alone_ns })
}

fn question(policy: PolicyName, backends: u32, situation: &str) -> String {
    format!("begin_finish/{policy}/{backends}_backends/{situation}")
}

const BACKENDS: [u32; 5] = [10, 20, 100, 1_000, 10_000];
const TOGETHER_BACKENDS: u32 = 100;
/// The default; with four in flight on average nobody reaches it.
const ACTIVE_MAX: u32 = 100;
const IN_FLIGHT_PER_BACKEND: u32 = 4;

const BEGIN_FINISH_NS: f64 = 120.0;
const REFUSE_NS: f64 = 50.0;
const DEAL_NS: f64 = 1e6;
