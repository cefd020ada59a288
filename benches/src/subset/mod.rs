//! How often subsetting meets each of its goals, over many shapes of service.

mod goal;
mod scheme;

use std::collections::BTreeMap;

use evenkeel_core::Rng;
use evenkeel_core::rng::hash2;
pub use goal::{GOALS, Score};
pub use scheme::Scheme;

use goal::Case;

/// Sizes with the numbers of clients to judge them for, by number of backends.
pub type Cases = BTreeMap<u32, Vec<Case>>;

/// Every combination of these for clients, backends and sizes.
const GRID: [u32; 10] = [1, 2, 3, 7, 20, 37, 56, 100, 300, 1000];

/// All shapes of the grid whose size is no larger than the service.
pub fn grid() -> Cases {
    let sizes = |n| GRID.iter().filter(move |&&size| size <= n).map(|&size| (size, GRID.to_vec())).collect();
    GRID.iter().map(|&backends| (backends, sizes(backends))).collect()
}

/// So many shapes drawn with each number log-uniform from 1 to 1,000.
pub fn triples(wanted: u32, seed: u64) -> Cases {
    let (mut cases, mut rng) = (Cases::new(), Rng::from_seed(hash2(seed, 1)));
    let mut drawn = 0;
    while drawn < wanted {
        let [clients, backends, size] = [(); 3].map(|()| (1001f64.powf(rng.unit()) as u32).clamp(1, 1000));
        if size <= backends {
            cases.entry(backends).or_default().push((size, vec![clients]));
            drawn += 1;
        }
    }
    cases
}

/// Judges every case; tells after each number of backends how many are done.
pub fn judge(scheme: Scheme, cases: &Cases, pairs: u64, seed: u64, mut done: impl FnMut(usize)) -> Score {
    let mut score = Score::default();
    for (place, (&backends, cases)) in cases.iter().enumerate() {
        goal::judge(scheme, backends, cases, pairs, hash2(seed, 2), &mut score);
        done(place + 1);
    }
    score
}
