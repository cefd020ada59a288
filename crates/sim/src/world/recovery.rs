//! When an overload is over for those who ask.
//!
//! Not the first good window: after a bad half second comes a good one by chance, and clients that hold back let go in waves. And not the
//! last bad one of all: at four fifths of the load one window in a hundred is bad by chance, long after.

/// How many were asked for, and how many of those were served.
type Counts = (u32, u32);

/// The first bin with which two seconds begin in which every window is good; none where there are not as many, or none is.
pub(super) fn recovered(bins: &[Counts]) -> Option<usize> {
    let good: Vec<bool> = bins.windows(WINDOW).map(is_good).collect();
    good.windows(STAYS - WINDOW + 1).position(|windows| windows.iter().all(|good| *good))
}

fn is_good(window: &[Counts]) -> bool {
    let (asked, served) = window.iter().fold((0, 0), |(asked, served), bin| (asked + bin.0, served + bin.1));
    asked > 0 && f64::from(served) >= NEARLY_ALL * f64::from(asked)
}

/// In bins of 50 ms: half a second, and two seconds.
const WINDOW: usize = 10;
const STAYS: usize = 40;
const NEARLY_ALL: f64 = 0.97;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Counts = (100, 100);
    const BAD: Counts = (100, 60);

    #[test]
    fn a_good_half_second_between_bad_ones_is_no_recovery() {
        let mut bins = vec![BAD; 20];
        bins.extend([GOOD; 15]);
        bins.push(BAD);
        bins.extend([GOOD; 40]);
        assert_eq!(recovered(&bins), Some(36));
    }

    #[test]
    fn what_comes_later_than_two_seconds_does_not_count() {
        let mut bins = vec![GOOD; 40];
        bins.extend([BAD; 40]);
        assert_eq!(recovered(&bins), Some(0));
    }

    #[test]
    fn a_run_that_ends_too_soon_or_in_which_nobody_asks_tells_nothing() {
        assert_eq!(recovered(&[GOOD; 39]), None);
        assert_eq!(recovered(&[(0, 0); 60]), None);
        assert_eq!(recovered(&[]), None);
    }
}
