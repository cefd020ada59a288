//! What clients say that they held back (B7): demand all the same, as far as their word counts.
//!
//! Of a client that is trusted everything counts. Whoever else says so could make a server look as if everybody asked for too
//! much; but it could also send that much. So a few for each request that comes are believed of anybody: a lie then is
//! worth no more than as many requests would be.

/// What is believed of one that is not trusted, with one request: the least critical first, which are held back first.
///
/// ```
/// use evenkeel_core::server::held_by_anybody;
///
/// assert_eq!(held_by_anybody([1, 0, 1, 0]), [1, 0, 1, 0]);
/// assert_eq!(held_by_anybody([3, 900, 0, 900])[1..], [1, 0, 0]);
/// ```
pub fn held_by_anybody(held: [u16; 4]) -> [u16; 4] {
    let mut left = ANYBODY_MOST;
    held.map(|said| {
        let believed = said.min(left);
        left -= believed;
        believed
    })
}

/// With this, and not with one, a step to ten times the capacity settles within a second, and overload on two processors is as with
/// clients that are trusted (scenarios throttle-recovery and overload-2).
const ANYBODY_MOST: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_anybody_a_few_are_believed_the_least_critical_first() {
        assert_eq!(held_by_anybody([0, 2, 1, 0]), [0, 2, 1, 0]);
        assert_eq!(held_by_anybody([3, 900, 0, 900]), [3, 1, 0, 0]);
        assert_eq!(held_by_anybody([0, 0, 0, u16::MAX]), [0, 0, 0, 4]);
    }
}
