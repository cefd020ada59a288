//! `even/1`: a subset each client deals for itself, nested in everything that changes.
//!
//! Every client gets exactly `min(size, backends)` members, without duplicates, from its own ordinal, the number of
//! backends, the size and the seed alone: it need not know how many clients there are. The rest of its list are the
//! stand-ins, in order of preference. What holds for every input, by construction:
//!
//! - **Clients** come and go without moving anyone else.
//! - **Size**: a larger one only adds members; the list is the same.
//! - **Backends**: the list of n + 1 is the list of n with the newcomer put in somewhere. So a client loses one member
//!   for each newcomer it takes, and shrinking costs only the connections to those that left.
//!
//! Each pair of client and backend has a fixed position below one, and a client prefers low positions. Binary digit j
//! of the position is bit j of the client, plus bit j of the backend, plus the parity of the client's higher bits under
//! a mask hashed from the backend's higher bits. Hence two lemmas (the tests hold them):
//!
//! - **Row**: for one client, any aligned run of 2^m backends falls once into each interval of length 2^-m. So there
//!   are no ties, and members are spread over the ids.
//! - **Column**: for one backend, any aligned run of 2^m clients falls once into each interval of length 2^-m. So each
//!   backend is wanted about equally often by any number of clients.
//!
//! The masks make clients differ. A parity, instead of a bit hashed from both sides, keeps the rows of low ordinals
//! regular: there the newcomer comes after the older one it shares an interval with, so growth takes less rather than
//! more than its share while clients are few.
//!
//! How often it meets its goals is measured by `./bench subset` and told in `docs/benchmarks.md`.
//!
//! Limits. Between powers of two, the backends after the last power get less than their share, or a little more: on
//! average by -0.44 to +0.25 x clients / backends connections (measured), depending on both and the size. With more
//! than about four clients per backend and sizes below 25 that can exceed max(2, 2 %). Every cure tried cost more
//! triples in churn than it won in balance. The seed moves the first clients between 2^`SEEDED_DIGITS` places only:
//! many jobs of one client each need different ordinals, not only different seeds.

use crate::rng::hash2;

/// The first `max(members, min(count, backends))` backends in the client's order of preference, and how many of them
/// are members: `min(size, backends)`.
///
/// Backends are 0..`backends`; takes time and memory proportional to it, whatever `count` is.
pub(crate) fn deal(client: u32, backends: u32, size: u32, count: u32, seed: u64) -> (Vec<u32>, usize) {
    let members = size.min(backends) as usize;
    let listed = members.max(count.min(backends) as usize);
    if listed == 0 {
        return (Vec::new(), 0);
    }
    // By the row lemma no two backends share a position, so putting each in its place sorts them.
    let mut places = vec![VACANT; 1 << digits(backends)];
    for (backend, position) in (0..).zip(positions(client, backends, seed)) {
        places[position as usize] = backend;
    }
    let order = places.into_iter().filter(|&backend| backend != VACANT).take(listed).collect();
    (order, members)
}

/// The position of each backend for this client, in units of 2^-`digits(backends)`.
///
/// Further digits are the same for all these backends, so leaving them out changes no order.
fn positions(client: u32, backends: u32, seed: u64) -> Vec<u32> {
    let mut positions = vec![0; backends as usize];
    for digit in 0..digits(backends) {
        let salt = hash2(seed, u64::from(digit));
        let seeded = if digit < SEEDED_DIGITS { (salt >> 63) as u32 } else { 0 };
        let own = ((client >> digit) & 1) ^ seeded;
        let higher = u64::from(client) >> (digit + 1);
        let half = 1 << digit;
        for (run, siblings) in (0..).zip(positions.chunks_mut(2 * half)) {
            // Most clients have no higher bits at most digits, and a hash is what this costs.
            let mask = if higher == 0 { 0 } else { hash2(salt, run) };
            let first = own ^ ((higher & mask).count_ones() & 1);
            let (lower, upper) = siblings.split_at_mut(half.min(siblings.len()));
            for position in lower {
                *position = (*position << 1) | first;
            }
            for position in upper {
                *position = (*position << 1) | (first ^ 1);
            }
        }
    }
    positions
}

/// How many binary digits tell this many backends apart.
fn digits(backends: u32) -> u32 {
    u32::BITS - backends.saturating_sub(1).leading_zeros()
}

/// No backend has this position.
const VACANT: u32 = u32::MAX;

/// How many leading digits the seed flips for all clients alike. Flipping all of them loses the churn goal on 5 to 9 %
/// more of the log-uniform triples, since newcomers then come first as often as not.
const SEEDED_DIGITS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 14] = [0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 33, 100, 300, 1_000];

    fn members(client: u32, backends: u32, size: u32) -> Vec<u32> {
        let (mut order, members) = deal(client, backends, size, 0, 7);
        order.truncate(members);
        order
    }

    #[test]
    fn golden_vectors() {
        // Checked against a second implementation, digit by digit. A change is a new version with a new name.
        assert_eq!(deal(0, 7, 3, 5, 7), (vec![5, 1, 3, 4, 0], 3));
        assert_eq!(deal(1, 7, 3, 5, 7), (vec![4, 0, 6, 2, 5], 3));
        assert_eq!(deal(37, 20, 5, 8, 1), (vec![19, 4, 9, 1, 15, 16, 7, 11], 5));
        assert_eq!(deal(1_000, 300, 4, 6, 42), (vec![88, 276, 163, 47, 237, 119], 4));
        assert_eq!(deal(u32::MAX, 1_000, 6, 6, 0), (vec![872, 197, 652, 477, 924, 27], 6));
    }

    #[test]
    fn subset_is_full_and_without_duplicates() {
        for backends in SIZES {
            for size in SIZES {
                for client in [0, 1, 2, 37, 1_000, u32::MAX] {
                    let (order, members) = deal(client, backends, size, size + 2, 3);

                    assert_eq!(members as u32, size.min(backends));
                    assert_eq!(order.len() as u32, (size + 2).min(backends));
                    assert!(order.iter().all(|&backend| backend < backends));
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    assert_eq!(sorted.len(), order.len(), "{client} of {backends}, size {size}");
                }
            }
        }
    }

    #[test]
    fn most_backends_allowed_are_dealt() {
        let (order, members) = deal(123_456, 131_072, 20, 131_072, 1);

        assert_eq!((order.len(), members), (131_072, 20));
    }

    #[test]
    fn larger_size_only_adds() {
        for client in 0..50 {
            let all = members(client, 100, 100);
            for size in 0..=100 {
                assert_eq!(members(client, 100, size), all[..size as usize]);
            }
        }
    }

    #[test]
    fn newcomer_leaves_the_order_of_the_others() {
        for client in 0..20 {
            for backends in 1..140 {
                let mut grown = members(client, backends + 1, backends + 1);
                grown.retain(|&backend| backend != backends);

                assert_eq!(grown, members(client, backends, backends), "{client} of {backends}");
            }
        }
    }

    #[test]
    fn row_lemma_aligned_backends_fill_every_interval_once() {
        for client in [0, 1, 5, 300, 70_000] {
            let row = positions(client, 256, 11);
            for bits in 0..=8 {
                for run in row.chunks(1 << bits) {
                    assert!(fills_once(run.iter().map(|position| position >> (8 - bits))));
                }
            }
        }
    }

    #[test]
    fn column_lemma_aligned_clients_fill_every_interval_once() {
        let rows: Vec<_> = (0..512).map(|client| positions(client, 256, 11)).collect();
        for backend in [0, 1, 77, 255] {
            for bits in 0..=8 {
                for run in rows.chunks(1 << bits) {
                    assert!(fills_once(run.iter().map(|row| row[backend] >> (8 - bits))));
                }
            }
        }
    }

    fn fills_once(values: impl Iterator<Item = u32>) -> bool {
        let mut values: Vec<_> = values.collect();
        values.sort_unstable();
        (0..).zip(values).all(|(expected, value)| expected == value)
    }
}
