//! Who talks to whom: balance, fullness, agreement for ever, churn.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::support::backends;
use evenkeel_core::client::subset::{Algorithm, ClientIdentity, Deal, Dealer};
use evenkeel_core::plan::{Change, Churn, Dealt, Shape, expected_extremes};
use evenkeel_core::{BackendId, BackendList, BackendSpec};
use proptest::prelude::*;

fn deal(algorithm: Algorithm, client: u32, count: u32, size: u32, spares: u32) -> Deal {
    let dealer = Dealer { algorithm, identity: ClientIdentity::Ordinal(client), seed: 0 };
    dealer.deal(&backends(count), size, spares).unwrap()
}

fn deal_all(algorithm: Algorithm, clients: u32, backends: u32, size: u32, seed: u64) -> Dealt {
    Dealt::new(Shape { clients, backends, size }, algorithm, seed).unwrap()
}

#[test]
fn rounds_gives_300_clients_of_10_of_300_exactly_10_each() {
    for seed in 0..5 {
        assert!(deal_all(Algorithm::Rounds, 300, 300, 10, seed).connections().iter().all(|&count| count == 10));
    }
}

#[test]
fn rounds_hands_out_leftovers_or_rotates_them() {
    // 11 backends, subsets of 5: one leftover for two subsets, sizes 6 and 5.
    assert_eq!(deal_all(Algorithm::Rounds, 2, 11, 5, 0).sizes(), (5, 6));
    // 9 backends, subsets of 5: all nine would be far above the wish, so five are dealt and four sit out in turn.
    let rotated = deal_all(Algorithm::Rounds, 9, 9, 5, 0);
    assert_eq!(rotated.sizes(), (5, 5));
    assert!(rotated.connections().iter().all(|&count| count == 5), "{:?}", rotated.connections());
}

#[test]
fn rounds_with_one_more_backend_loses_the_least_until_the_number_of_subsets_changes() {
    for backends in 300..319 {
        let before = deal_all(Algorithm::Rounds, 300, backends, 20, 1);
        let after = deal_all(Algorithm::Rounds, 300, backends + 1, 20, 1);
        let churn = Churn::between(&before, &after);
        let rounds = 300.0 / f64::from(backends / 20);
        assert!(churn.lost as f64 <= rounds, "{backends}: one for each round: {churn:?}");
        assert!(churn.worst_client <= 1);
    }
}

#[test]
fn random_matches_the_binomial_order_statistics() {
    for size in [90, 30] {
        let seeds = 40;
        let mean = |pick: fn(&Dealt) -> f64| -> f64 {
            (0..seeds).map(|seed| pick(&deal_all(Algorithm::Random, 300, 300, size, seed))).sum::<f64>() / seeds as f64
        };
        let (least, most) = (mean(|dealt| dealt.spread().least), mean(|dealt| dealt.spread().most));
        let (expected_least, expected_most) = expected_extremes(300, 300, size);
        // One point of the mean; an extreme of 300 has a deviation of about 2, so the mean of 40 has about 0.3.
        let point = f64::from(size) / 100.0;
        let bound = point.max(1.0);
        assert!((least - expected_least).abs() < bound, "{size}: {least} {expected_least}");
        assert!((most - expected_most).abs() < bound, "{size}: {most} {expected_most}");
    }
}

#[test]
fn growth_of_the_clients_moves_nobody() {
    for algorithm in Algorithm::ALL {
        let before = deal_all(algorithm, 50, 37, 7, 3);
        let after = deal_all(algorithm, 80, 37, 7, 3);
        assert_eq!(before.rows[..], after.rows[..50], "{algorithm}");
    }
}

#[test]
fn even_is_nearly_even_and_moves_little_on_the_everyday_shapes() {
    for (clients, backends, size) in [(300, 300, 20), (1_000, 300, 20), (300, 100, 20), (1_000, 37, 20)] {
        let shape = Shape { clients, backends, size };
        let before = Dealt::new(shape, Algorithm::Even, 0).unwrap();
        let spread = before.spread();
        let bound = f64::max(4.0, 0.02 * spread.mean);
        assert!(spread.most - spread.mean < bound && spread.mean - spread.least < bound, "{shape:?}: {spread:?}");
        for change in ["+10%b", "-10%b"] {
            let after = change.parse::<Change>().unwrap().applied_to(shape).unwrap();
            let churn = Churn::between(&before, &Dealt::new(after, Algorithm::Even, 0).unwrap());
            assert!(churn.to_least() <= 1.3, "{shape:?} {change}: {churn:?}");
        }
    }
}

#[test]
fn golden_vectors_hold_every_version_for_ever() {
    // Computed by a second implementation in another language. A value here never changes: an improvement is a new
    // version with vectors of its own.
    let golden = [
        (Algorithm::Random, 0, [26, 18, 15, 30, 0, 11]),
        (Algorithm::Random, 7, [11, 6, 13, 5, 3, 26]),
        (Algorithm::Rounds, 0, [37, 13, 11, 17, 5, 32]),
        (Algorithm::Rounds, 7, [38, 18, 23, 9, 34, 37]),
        (Algorithm::Rounds, 31, [31, 3, 16, 38, 8, 15]),
        (Algorithm::Even, 0, [5, 37, 21, 13, 29, 1]),
        (Algorithm::Even, 7, [0, 34, 17, 11, 25, 7]),
        (Algorithm::Even, 31, [31, 10, 38, 20, 2, 25]),
    ];
    for (algorithm, client, order) in golden {
        let dealt = deal(algorithm, client, 40, 5, 20);
        assert_eq!(dealt.order[..6], order, "{} of client {client}", algorithm.versioned());
    }
}

#[test]
fn holes_in_the_ordinals_are_filled_by_who_comes_next() {
    let full = deal(Algorithm::Even, 3, 40, 10, 30);
    let lost = full.order[4];
    let others = backends(40).specs().iter().copied().filter(|spec| spec.ordinal != Some(lost)).collect::<Vec<_>>();
    let remaining = BackendList::new(others).unwrap();
    let dealer = Dealer { algorithm: Algorithm::Even, identity: ClientIdentity::Ordinal(3), seed: 0 };
    let with_hole = dealer.deal(&remaining, 10, 30).unwrap();

    let ids = |deal: &Deal, list: &BackendList| -> Vec<u64> {
        deal.order[..deal.members].iter().map(|&place| list.specs()[place as usize].id.0).collect()
    };
    let (before, after) = (ids(&full, &backends(40)), ids(&with_hole, &remaining));
    assert_eq!(after.len(), before.len());
    let moved = after.iter().filter(|id| !before.contains(id)).count();
    assert_eq!(moved, 1, "one stands in: {before:?} {after:?}");
}

#[test]
fn what_is_missing_is_named_with_its_fix() {
    let unnumbered = BackendList::new((0..30).map(|n| BackendSpec { id: BackendId(n), ordinal: None })).unwrap();
    let refuse =
        |algorithm, identity| Dealer { algorithm, identity, seed: 0 }.deal(&unnumbered, 5, 5).unwrap_err().to_string();
    let no_client = refuse(Algorithm::Rounds, ClientIdentity::Drawn(7));
    assert!(no_client.starts_with("subset.client = None") && no_client.contains("choose algorithm random"));
    let no_backends = refuse(Algorithm::Even, ClientIdentity::Ordinal(7));
    assert!(no_backends.starts_with("subset.algorithm = \"even\"") && no_backends.contains("no ordinals"));
}

#[test]
fn a_hundred_thousand_backends_are_dealt() {
    for algorithm in Algorithm::ALL {
        let dealt = deal(algorithm, 1_000_000, 100_000, 20, 20);
        assert!((20..=22).contains(&dealt.members) && dealt.order.len() >= 40, "{algorithm}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_subset_is_full_and_free_of_duplicates(
        client in 0u32..5_000, backends in 0u32..400, size in 0u32..120, spares in 0u32..50, algorithm in 0usize..3,
    ) {
        let dealt = deal(Algorithm::ALL[algorithm], client, backends, size, spares);
        prop_assert!(dealt.members >= size.min(backends) as usize, "full: {} of {size}", dealt.members);
        prop_assert!(dealt.order.len() >= dealt.members);
        prop_assert!(dealt.order.len() >= backends.min(size + spares) as usize, "with its spares");
        prop_assert!(dealt.order.iter().all(|&backend| backend < backends));
        let mut seen = dealt.order.clone();
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), dealt.order.len());
    }

    #[test]
    fn within_full_rounds_clients_per_backend_differ_by_at_most_one(
        backends in 1u32..300, size in 1u32..60, rounds in 1u32..6, seed in 0u64..100,
    ) {
        let clients = (backends / size).max(1) * rounds;
        let counts = deal_all(Algorithm::Rounds, clients, backends, size, seed).connections();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{counts:?}");
    }

    #[test]
    fn a_larger_subset_of_even_or_random_only_adds(
        client in 0u32..2_000, backends in 1u32..300, size in 1u32..60, more in 1u32..20, even in 0usize..2,
    ) {
        let algorithm = [Algorithm::Random, Algorithm::Even][even];
        let (small, large) = (deal(algorithm, client, backends, size, 0), deal(algorithm, client, backends, size + more, 0));
        for member in &small.order[..small.members] {
            prop_assert!(large.order[..large.members].contains(member));
        }
    }
}
