//! `admit_finish`: all that a server decides about a request it serves. `refuse`: about one that it does not.
//!
//! Nothing else runs meanwhile but the tick that learns, every 10.5 ms of a clock that moves 20 µs a request.

use std::hint::black_box;
use std::time::Duration;

use evenkeel_core::server::{AdmissionConfig, Entry, GateLocal, Modes, Quota, Usage};
use evenkeel_core::{CustomerId, Lot, Mode, Outcome, RequestMeta, Rng, Server, ServerConfig, Time};

use crate::clock::thread_cpu;
use crate::report::Aim;
use crate::rounds::{Measured, Subject};

/// Requests a round: long enough that a timer interrupt is noise.
pub const FULL: u32 = 400_000;
/// Enough to show that it runs.
pub const QUICK: u32 = 40_000;

/// Every subject, prepared.
pub fn subjects(requests: u32) -> Vec<Subject> {
    let off = AdmissionConfig { modes: Modes { all: Mode::Off, ..Modes::default() }, ..AdmissionConfig::default() };
    let mut quotas = AdmissionConfig::default();
    quotas.quotas.default = Some(Quota::of_cpu(1e6));
    let usual = Usage { processors: Some(8.0), ..Usage::default() };
    let full = Usage { plugged: Some(2.0), ..usual };
    vec![
        subject("admit_finish/off", requests, off, usual).noted("counted, never refused"),
        subject(SERVED, requests, AdmissionConfig::default(), usual).noted("as a server is by default"),
        subject("admit_finish/quota", requests, quotas, usual).noted("of a customer with one"),
        subject("refuse/signal", requests, AdmissionConfig::default(), full).noted("nobody is let in"),
    ]
}

/// What was aimed at.
pub fn aims(measured: &[Measured]) -> Vec<Aim> {
    let served = measured.iter().find(|row| row.question == SERVED);
    let aim = |row: &Measured| Aim {
        question: "admit and finish".into(),
        most_ns: MOST_NS,
        median_ns: row.median,
        alone_ns: None,
    };
    served.map(aim).into_iter().collect()
}

fn subject(question: &str, requests: u32, admission: AdmissionConfig, usage: Usage) -> Subject {
    let config = ServerConfig { admission, ..ServerConfig::default() };
    let mut server = Server::new(Time::ZERO, config).expect("the settings are possible");
    server.handle_ready(Time::ZERO);
    let customer = server.handle_customer("mail");
    let (mut rng, mut local, mut now) = (Rng::from_seed(1), GateLocal::default(), Time::ZERO);
    Subject::new(question.to_owned(), requests, move |requests| {
        server.handle_usage(now, usage);
        let began = thread_cpu();
        for _ in 0..requests {
            now = now + BETWEEN;
            if server.poll_timeout().is_some_and(|at| at <= now) {
                server.handle_timeout(now);
            }
            decide(&server, &mut local, now, customer, &mut rng);
        }
        thread_cpu().saturating_sub(began).as_nanos() as f64 / f64::from(requests)
    })
}

fn decide(server: &Server, local: &mut GateLocal, now: Time, customer: CustomerId, rng: &mut Rng) {
    let meta = RequestMeta { customer, lot: Lot::draw(rng), ..RequestMeta::default() };
    match black_box(server.gate().admit(local, now, &meta, rng)) {
        Ok(Entry::Start(admission)) => {
            server.gate().finish(now, admission, Outcome::Served, Some(COST));
            black_box(server.gate().running().rests(local.thread()));
        }
        Ok(Entry::Wait(_)) => unreachable!("one request at a time finds a free processor"),
        Err(refused) => drop(black_box(refused)),
    }
}

const SERVED: &str = "admit_finish/on";
const MOST_NS: f64 = 150.0;
const BETWEEN: Duration = Duration::from_micros(20);
const COST: Duration = Duration::from_micros(10);
