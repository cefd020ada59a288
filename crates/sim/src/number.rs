//! Numbers for people: few digits, thousands apart.

/// A value for people: three significant digits, thousands apart.
pub fn readable(value: f64) -> String {
    significant(value, 3)
}

/// A value that is measured against a goal: a digit more, so that a near miss does not read like the goal.
pub fn precise(value: f64) -> String {
    significant(value, 4)
}

/// With so many significant digits at most, and all digits before the point.
fn significant(value: f64, digits: u32) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let leading = if size > 0.0 { libm::floor(libm::log10(size) + ROUNDING) } else { 0.0 };
    let decimals = (f64::from(digits) - 1.0 - leading).clamp(0.0, 9.0) as usize;
    let text = grouped(value, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// With so many decimals, and commas between thousands.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let is_nought = text.chars().all(|digit| matches!(digit, '0' | '.'));
    let mut out = String::from(if value < 0.0 && !is_nought { "-" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_enough_to_read() {
        let written: Vec<String> = [0.0, 0.012_34, 1.05, 12.0, 99.96, 1234.6, -2.5, f64::NAN].map(readable).into();

        assert_eq!(written, ["0", "0.0123", "1.05", "12", "100", "1,235", "-2.5", "–"]);
        assert_eq!((precise(1.0512), precise(71.256)), ("1.051".to_owned(), "71.26".to_owned()));
    }
}
