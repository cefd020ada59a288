//! Which backends a fault is about.

/// The backends named by `"3"`, `"0-9"`, `"50%"` (spread evenly, from the first on; at least one) or `"all"`, as
/// numbers below `count`. Nothing where it names none, or some that are not there.
///
/// ```
/// use evenkeel_sim::scenario::selection;
///
/// assert_eq!(selection("50%", 6), Some(vec![0, 2, 4]));
/// assert_eq!(selection("4-6", 6), None);
/// ```
pub fn selection(text: &str, count: u32) -> Option<Vec<u32>> {
    if text == "all" {
        return (count > 0).then(|| (0..count).collect());
    }
    if let Some(share) = text.strip_suffix('%') {
        let share = share.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 100.0)?;
        let chosen = ((f64::from(count) * share / 100.0).round() as u32).clamp(1, count.max(1));
        return (count > 0).then(|| (0..chosen).map(|place| spread_evenly(place, chosen, count)).collect());
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last < count).then(|| (first..=last).collect())
}

fn spread_evenly(place: u32, chosen: u32, count: u32) -> u32 {
    (u64::from(place) * u64::from(count) / u64::from(chosen)) as u32
}

/// Digits alone: what `parse` takes besides is a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranges_shares_and_all_are_understood() {
        assert_eq!(selection("3", 4), Some(vec![3]));
        assert_eq!(selection("1-3", 4), Some(vec![1, 2, 3]));
        assert_eq!(selection("all", 2), Some(vec![0, 1]));
        assert_eq!(selection("50%", 10), Some(vec![0, 2, 4, 6, 8]));
        assert_eq!(selection("1%", 10), Some(vec![0]), "a share of something is at least one");
        assert_eq!(selection("2.5%", 200).map(|chosen| chosen.len()), Some(5));
    }

    #[test]
    fn what_is_not_there_is_not_selected() {
        for text in ["4", "2-1", "0-4", "", "-", "+1", "0%", "101%", "NaN%", "one", "1,2"] {
            assert_eq!(selection(text, 4), None, "{text}");
        }
        assert_eq!(selection("all", 0), None);
        assert_eq!(selection("50%", 0), None);
    }
}
