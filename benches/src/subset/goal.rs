//! The four goals of subsetting, and whether one shape meets each.

use evenkeel_core::rng::hash2;

use super::scheme::{Scheme, Subset};

/// What is judged, in the order of [`Score`]. `churn` is all changes at once, `all four` everything.
pub const GOALS: [&str; 11] =
    ["balance", "+1b", "-1b", "+10%b", "-10%b", "x2b", "k+5", "churn", "restart", "overlap", "all four"];
const BALANCE: usize = 0;
const SIZE_GROWN: usize = 6;
const CHURN: usize = 7;
const RESTART: usize = 8;
const OVERLAP: usize = 9;
const ALL_FOUR: usize = 10;

/// How many shapes were judged by each goal, and how many met it.
#[derive(Clone, Debug, Default)]
pub struct Score {
    pub met: [u32; GOALS.len()],
    pub judged: [u32; GOALS.len()],
}

impl Score {
    fn note(&mut self, goal: usize, met: bool) -> bool {
        self.judged[goal] += 1;
        self.met[goal] += u32::from(met);
        met
    }

    /// Percent of the judged shapes that met each goal.
    pub fn percent(&self) -> [f64; GOALS.len()] {
        std::array::from_fn(|goal| 100.0 * f64::from(self.met[goal]) / f64::from(self.judged[goal].max(1)))
    }
}

/// A size with the numbers of clients to judge it for.
pub type Case = (u32, Vec<u32>);

/// Judges one number of backends; `pairs` is how many pairs of clients are compared at most.
pub fn judge(scheme: Scheme, backends: u32, cases: &[Case], pairs: u64, seed: u64, score: &mut Score) {
    let clients = cases.iter().flat_map(|case| case.1.iter().copied()).max().unwrap_or(0);
    let sizes: Vec<u32> = cases.iter().map(|case| case.0).collect();
    let grown: Vec<u32> = sizes.iter().map(|size| size + 5).collect();
    let tenth = (backends / 10).max(1);
    let now = scheme.deal_all(backends, &sizes, clients, seed);
    let larger = scheme.deal_all(backends, &grown, clients, seed);
    let random = Scheme::Random.deal_all(backends, &sizes, clients, seed);
    let changed: Vec<_> = [backends + 1, backends - 1, backends + tenth, backends - tenth, 2 * backends]
        .into_iter()
        .map(|then| (then, scheme.deal_all(then, &sizes, clients, seed)))
        .collect();
    for (place, (size, numbers)) in cases.iter().enumerate() {
        for &clients in numbers {
            let subsets = &now[place][..clients as usize];
            let connections: Vec<u64> =
                (0..backends as usize).map(|b| subsets.iter().map(|subset| u64::from(has(subset, b))).sum()).collect();
            let mut all = score.note(BALANCE, is_balanced(&connections));
            let mut churn = true;
            for (goal, (then, after)) in (1..).zip(&changed).filter(|(_, change)| change.0 > 0) {
                let lost: u64 = subsets.iter().zip(&after[place]).map(|(a, b)| lost(a, b)).sum();
                churn &= score.note(goal, lost <= allowed(&connections, clients, *size, *then));
            }
            churn &= score.note(SIZE_GROWN, subsets.iter().zip(&larger[place]).all(|(a, b)| lost(a, b) == 0));
            all &= score.note(CHURN, churn);
            if *size >= 10 && backends >= 20 {
                all &= score.note(RESTART, subsets.iter().all(|subset| survives_restart(subset, backends as usize)));
            }
            let chance = p99_overlap(&random[place][..clients as usize], pairs);
            all &= score.note(OVERLAP, p99_overlap(subsets, pairs) <= chance);
            score.note(ALL_FOUR, all);
        }
    }
}

/// Every backend within max(2, 2 %) of the mean.
fn is_balanced(connections: &[u64]) -> bool {
    // |x − total / n| < max(2, total / n / 50), times 50 n.
    let (n, total) = (connections.len() as u64, connections.iter().sum::<u64>());
    connections.iter().all(|&x| 50 * (x * n).abs_diff(total) < (100 * n).max(total))
}

/// 1.1 times the least possible loss, rounded up.
fn allowed(connections: &[u64], clients: u32, size: u32, then: u32) -> u64 {
    let now = connections.len() as u32;
    if then > now {
        (11 * u64::from(clients) * u64::from(size) * u64::from(then - now)).div_ceil(10 * u64::from(then))
    } else {
        (11 * connections[then as usize..].iter().sum::<u64>()).div_ceil(10)
    }
}

/// No window of a tenth of the ids holds more than a fifth of the subset.
fn survives_restart(subset: &Subset, backends: usize) -> bool {
    let window = (backends / 10).max(1);
    let total: u32 = subset.iter().map(|word| word.count_ones()).sum();
    let mut inside: u32 = (0..window).map(|b| has(subset, b)).sum();
    let mut worst = inside;
    for end in window..backends {
        inside = inside + has(subset, end) - has(subset, end - window);
        worst = worst.max(inside);
    }
    5 * worst <= total
}

/// The 99th percentile of what two clients share: all pairs if they are few, else the same sample for every scheme.
fn p99_overlap(subsets: &[Subset], pairs: u64) -> u32 {
    let clients = subsets.len() as u64;
    let mut overlaps: Vec<u32> = Vec::new();
    if clients * clients.saturating_sub(1) / 2 <= pairs {
        for (place, one) in subsets.iter().enumerate() {
            overlaps.extend(subsets[..place].iter().map(|other| common(one, other)));
        }
    } else {
        overlaps.extend((0..pairs).map(|pair| {
            let draw = hash2(99, pair);
            let one = (draw >> 32) % clients;
            let other = (one + 1 + (draw & 0xffff_ffff) % (clients - 1)) % clients;
            common(&subsets[one as usize], &subsets[other as usize])
        }));
    }
    overlaps.sort_unstable();
    overlaps.get((overlaps.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
}

fn lost(before: &Subset, after: &Subset) -> u64 {
    before.iter().zip(after).map(|(x, y)| u64::from((x & !y).count_ones())).sum()
}

fn common(one: &Subset, other: &Subset) -> u32 {
    one.iter().zip(other).map(|(x, y)| (x & y).count_ones()).sum()
}

fn has(subset: &Subset, backend: usize) -> u32 {
    (subset[backend / 64] >> (backend % 64)) as u32 & 1
}
