//! What it costs to refuse a request.

use std::hint::black_box;
use std::sync::Arc;

use evenkeel_core::{Client, ClientConfig, Local, Picker, PolicyName, Refusal, RequestMeta, Rng, Time};

use super::Scale;
use super::begin_finish::ns_per;
use super::fleet::{Fleet, Manner, Requester};
use crate::rounds::Subject;

pub(super) fn subjects(scale: Scale) -> Vec<Subject> {
    let in_time = RequestMeta { deadline: Time::NEVER, ..RequestMeta::default() };
    let too_late = RequestMeta { deadline: NOW, ..RequestMeta::default() };
    vec![
        subject(all_full(), in_time, Refusal::AllFull, scale).noted("100 backends; seen full once, refused again"),
        subject(no_backends(), in_time, Refusal::NoneUsable, scale),
        subject(no_backends(), too_late, Refusal::TooLate, scale),
    ]
}

fn subject(picker: Arc<Picker>, meta: RequestMeta, expected: Refusal, scale: Scale) -> Subject {
    let (mut local, mut rng) = (Local::default(), Rng::from_seed(7));
    Subject::new(format!("refuse/{}", expected.as_str()), scale.requests, move |requests| {
        let mut begin = || picker.begin(&mut local, NOW, black_box(&meta), &mut rng);
        assert_eq!(begin().err(), Some(expected));
        ns_per(requests, || {
            for _ in 0..requests {
                black_box(begin()).expect_err("nothing changed since the first refusal");
            }
        })
    })
}

/// Every backend at its limit for as long as the bench runs.
fn all_full() -> Arc<Picker> {
    let picker = Fleet::new(BACKENDS, 1).picker(PolicyName::default());
    let mut requester = Requester::new(picker.clone(), Manner::Served, 8);
    requester.fill(BACKENDS as usize);
    picker
}

fn no_backends() -> Arc<Picker> {
    let client = Client::new(NOW, ClientConfig::default(), &mut Rng::from_seed(9));
    client.expect("defaults are possible").poll_picker().expect("a new client has something to say")
}

const BACKENDS: u32 = 100;
const NOW: Time = Time::from_secs(1_000);
