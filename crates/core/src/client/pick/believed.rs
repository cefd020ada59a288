//! What is believed of a report beside those of the others: a minority that says what cannot be moves no mean far.
//!
//! A report of a million requests in flight is possible, and wrong. Whoever says far more than the middle one of all is
//! left out of means, or counts as much as may be true; what it says is still held against itself. Half of the reports
//! must be right for that.

/// The middle value, the lower of two; `None` of nothing.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The most that is believed where all say these; of what may be 0 for most, `slack` more.
pub(crate) fn most_believed(values: impl Iterator<Item = f64>, slack: f64) -> f64 {
    median(values).map_or(f64::INFINITY, |middle| FAR * middle.max(0.0) + slack)
}

/// A mean in which nobody counts as farther than `reach` from the middle one; `reach` is told which that is.
pub(crate) fn mean_within(values: impl Iterator<Item = f64> + Clone, reach: impl Fn(f64) -> f64) -> Option<f64> {
    let middle = median(values.clone())?;
    let reach = reach(middle);
    mean(values.map(|value| value.clamp(middle - reach, middle + reach)))
}

pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Processors, where most have `usual`: so has one that says nothing, or far more.
pub(crate) fn cores(said: Option<f64>, usual: Option<f64>) -> f64 {
    let usual = usual.unwrap_or(1.0);
    said.filter(|said| *said <= FAR * usual).unwrap_or(usual)
}

/// Tasks of one service differ by less, in processors as in what each processor does.
pub(crate) const FAR: f64 = 16.0;
/// What is believed for each processor where most say 0: so many requests, in flight or in a second.
pub(crate) const SLACK: f64 = 16.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::float_cmp, reason = "small whole numbers are exact")]

    use super::*;

    #[test]
    fn a_minority_moves_nothing_far() {
        let values = [1.0, 2.0, 3.0, 1e9, 1e9];
        let of = || values.iter().copied();
        assert_eq!((median(of()), median([].into_iter())), (Some(3.0), None));
        assert_eq!((most_believed(of(), 1.0), most_believed([].into_iter(), 1.0)), (49.0, f64::INFINITY));
        assert_eq!(mean_within(of(), |middle| middle), Some(18.0 / 5.0));
        assert_eq!([cores(Some(1e5), Some(2.0)), cores(None, Some(2.0)), cores(None, None)], [2.0, 2.0, 1.0]);
        assert_eq!([cores(Some(0.5), Some(2.0)), cores(Some(32.0), Some(2.0))], [0.5, 32.0]);
    }
}
