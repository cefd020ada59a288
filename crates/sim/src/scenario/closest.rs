//! What was probably meant: the known name nearest to a misspelt one.

/// The name that `text` is at most a third of its letters away from; nothing where none is that near.
pub(crate) fn closest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (text.chars().count() / 3).max(1);
    let near = names.into_iter().map(|name| (edits(text, name), name)).filter(|&(edits, _)| edits <= most);
    near.min_by_key(|&(edits, _)| edits).map(|(_, name)| name)
}

/// What is wrong with an unknown name: which there are, and which was probably meant.
pub(crate) fn one_of(subject: &str, name: &str, known: &[&str]) -> String {
    let near = closest(name, known.iter().copied()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    let subject = if subject.is_empty() { String::new() } else { format!("{subject}: ") };
    format!("{subject}use one of {}{near}", known.join(", "))
}

/// Letters to add, drop, change or swap with the next one.
fn edits(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<usize>>()];
    for i in 1..=from.len() {
        let mut row = vec![i];
        for j in 1..=to.len() {
            let changed = usize::from(from[i - 1] != to[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        let names = ["load", "rate", "least_loaded", "round_robin"];
        assert_eq!(closest("laod", names), Some("load"));
        assert_eq!(closest("leastloaded", names), Some("least_loaded"));
        assert_eq!(closest("prequal", names), None);
        assert!(one_of("unknown", "rat", &names).starts_with("unknown: use one of load, rate,"));
        assert!(one_of("", "rat", &names).ends_with("; did you mean \"rate\"?"));
    }
}
