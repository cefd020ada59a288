//! Chance, seeded and pinned for ever.
//!
//! Subsets are dealt by each client for itself, on different machines and in different versions of this crate, and
//! must agree. So the generator, the way a number below a bound is drawn, the shuffle and the hashes are written here,
//! and golden vectors hold them: a change here is a new algorithm with a new name, never an improvement of this one.

/// xoshiro256++ seeded through `SplitMix64`: the same numbers on every platform and in every version.
///
/// ```
/// use evenkeel_core::Rng;
///
/// let mut rng = Rng::from_seed(7);
/// assert_eq!(rng.next_u64(), Rng::from_seed(7).next_u64());
/// assert!(rng.below(10) < 10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Any seed is a good one, also 0.
    pub fn from_seed(seed: u64) -> Self {
        let mut counter = seed;
        let state = [(); 4].map(|()| {
            counter = counter.wrapping_add(GOLDEN_GAMMA);
            mix(counter)
        });
        Rng { state }
    }

    /// A generator of its own for part `stream` of what `seed` governs, so that parts can be added without
    /// disturbing the numbers of the others.
    pub fn for_stream(seed: u64, stream: u64) -> Self {
        Rng::from_seed(hash2(seed, stream))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, every one equally likely. `bound` 0 gives 0.
    ///
    /// Lemire's multiplication with rejection, so that no bound is favoured.
    pub fn below(&mut self, bound: u32) -> u32 {
        loop {
            let product = (self.next_u64() >> 32) * u64::from(bound);
            let low = product as u32;
            if low >= bound || low >= bound.wrapping_neg().checked_rem(bound).unwrap_or(0) {
                return (product >> 32) as u32;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Every order equally likely (Fisher–Yates from the top).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// A number spread over all 64 bits from one that is not (the finaliser of `SplitMix64`).
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A hash of two numbers whose order matters.
pub const fn hash2(a: u64, b: u64) -> u64 {
    mix(mix(a.wrapping_add(GOLDEN_GAMMA)).wrapping_add(b).wrapping_add(GOLDEN_GAMMA))
}

/// A hash of three numbers whose order matters.
pub const fn hash3(a: u64, b: u64, c: u64) -> u64 {
    hash2(hash2(a, b), c)
}

/// A hash of a name, for ids that must agree everywhere.
pub fn hash_name(name: &str) -> u64 {
    let folded = name.bytes().fold(0, |hash, byte| hash2(hash, u64::from(byte)));
    hash2(folded, name.len() as u64)
}

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors_of_the_generator() {
        // Reference: SplitMix64 of 0 as published, which seeds xoshiro256++.
        let seeded = Rng::from_seed(0);
        assert_eq!(seeded.state[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(seeded.state[1], 0x6e78_9e6a_a1b9_65f4);
        // Reference: the published vector of xoshiro256++ for the state 1, 2, 3, 4.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(
            [(); 4].map(|()| rng.next_u64()),
            [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]
        );
    }

    #[test]
    fn golden_vectors_of_all_that_is_drawn_and_hashed() {
        let mut rng = Rng::from_seed(7);
        assert_eq!([(); 6].map(|()| rng.below(1_000)), [55, 172, 717, 427, 963, 465]);
        let mut items: Vec<u32> = (0..10).collect();
        Rng::from_seed(7).shuffle(&mut items);
        assert_eq!(items, [3, 8, 9, 4, 6, 7, 2, 5, 1, 0]);
        assert_eq!(Rng::for_stream(1, 2).next_u64(), 0xbb61_66f9_f678_e6f5);
        assert_eq!((hash2(1, 2), hash3(1, 2, 3)), (0xbcd9_dbb4_9673_066b, 0x9708_64d0_14d5_e8ef));
        assert_eq!((hash_name("10.0.0.1:80"), hash_name("")), (0xe057_6a2e_d6c7_34ac, 0xa706_dd2f_4d19_7e6f));
    }

    #[test]
    fn below_is_fair_and_never_reaches_its_bound() {
        let mut rng = Rng::from_seed(1);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.below(7) as usize] += 1;
        }
        // Six standard deviations of a binomial(70,000, 1/7).
        assert!(counts.iter().all(|&n| n.abs_diff(10_000) < 556), "{counts:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }

    #[test]
    fn unit_stays_below_one() {
        let mut rng = Rng::from_seed(2);
        assert!((0..10_000).map(|_| rng.unit()).all(|x| (0.0..1.0).contains(&x)));
    }
}
