//! How long one client takes to deal itself a subset of a large service.

use std::hint::black_box;

use evenkeel_core::client::subset::{Algorithm, ClientIdentity, Dealer};
use evenkeel_core::{BackendList, BackendSpec};

use super::Scale;
use super::begin_finish::ns_per;
use super::fleet::list;
use crate::rounds::Subject;

pub(super) fn subjects(scale: Scale) -> Vec<Subject> {
    let whole = list(BACKENDS);
    let mut subjects: Vec<Subject> =
        Algorithm::ALL.map(|algorithm| subject(algorithm, whole.clone(), "", scale)).into();
    subjects.push(subject(Algorithm::Even, with_holes(&whole), "/with_holes", scale).noted("1 ordinal in 100 missing"));
    subjects
}

fn subject(algorithm: Algorithm, backends: BackendList, suffix: &str, scale: Scale) -> Subject {
    let question = format!("deal/{algorithm}/{BACKENDS}_backends{suffix}");
    let mut client = 0;
    Subject::new(question, scale.deals, move |deals| {
        ns_per(deals, || {
            for _ in 0..deals {
                // Each time another client's: none finds in the caches what the one before left there.
                client = (client + CLIENT_STEP) % CLIENTS;
                let dealer = Dealer { algorithm, identity: ClientIdentity::Ordinal(client), seed: 1 };
                black_box(dealer.deal(&backends, SIZE, SIZE)).expect("every algorithm deals a list with ordinals");
            }
        })
    })
}

fn with_holes(whole: &BackendList) -> BackendList {
    let kept =
        whole.specs().iter().copied().filter(|BackendSpec { ordinal, .. }| ordinal.is_some_and(|n| n % 100 != 1));
    BackendList::new(kept).expect("fewer backends are still distinct")
}

const BACKENDS: u32 = 10_000;
/// The default size; as many spares, as a client asks for.
const SIZE: u32 = 20;
const CLIENTS: u32 = 3_000;
const CLIENT_STEP: u32 = 37;
