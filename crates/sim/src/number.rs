//! Numbers for people: few digits, thousands apart.

/// A value for people: three significant digits, thousands apart.
pub fn readable(value: f64) -> String {
    significant(value, 3)
}

/// A value that is measured against a goal: a digit more, so that a near miss does not read like the goal. What falls
/// short of 1 never reads as 1.
pub fn precise(value: f64) -> String {
    let text = significant(value, 4);
    if text == "1" && value < 1.0 { short_of(1.0, value, 4) } else { text }
}

/// A figure of a run for people, by its name, multiplied by `times`. What was served is never rounded up, so that 100 %
/// means all of it; a ratio to a task that was idle is no number.
///
/// ```
/// use evenkeel_sim::number::figure;
///
/// assert_eq!(figure("served_share", 0.99982, 100.0), "99.98");
/// assert_eq!(figure("spread_1s", 1000.0, 1.0), "idle");
/// assert_eq!(figure("p99_ms", 71.26, 1.0), "71.3");
/// ```
pub fn figure(name: &str, value: f64, times: f64) -> String {
    match name {
        "served_share" if value < 1.0 => short_of(times, value * times, 3),
        "spread" | "spread_1s" | "spread_60s" if value >= RATIO_MOST => IDLE.to_owned(),
        _ => readable(value * times),
    }
}

/// Rounded down, with so many digits at least, and as many as show how much is missing to the whole.
fn short_of(whole: f64, value: f64, digits: u32) -> String {
    if !value.is_finite() || value >= whole {
        return significant(value, digits);
    }
    let leading = |size: f64| if size > 0.0 { libm::floor(libm::log10(size) + ROUNDING) } else { 0.0 };
    let wanted = f64::from(digits) - 1.0 - leading(value.abs());
    let decimals = wanted.max(-leading(whole - value)).clamp(0.0, 9.0);
    let power = libm::pow(10.0, decimals);
    without_noughts(grouped((value * power + SLACK).floor() / power, decimals as usize))
}

/// With so many significant digits at most, and all digits before the point.
fn significant(value: f64, digits: u32) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let leading = if size > 0.0 { libm::floor(libm::log10(size) + ROUNDING) } else { 0.0 };
    let decimals = (f64::from(digits) - 1.0 - leading).clamp(0.0, 9.0) as usize;
    without_noughts(grouped(value, decimals))
}

fn without_noughts(text: String) -> String {
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
/// Of a last digit: 99.3 has no binary form, and must not read as 99.2.
const SLACK: f64 = 1e-4;
/// Where a task was idle, max/min has no end; a run writes it as this.
pub(crate) const RATIO_MOST: f64 = 1_000.0;
/// What is written for it.
pub(crate) const IDLE: &str = "idle";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_enough_to_read() {
        let written: Vec<String> = [0.0, 0.012_34, 1.05, 12.0, 99.96, 1234.6, -2.5, f64::NAN].map(readable).into();

        assert_eq!(written, ["0", "0.0123", "1.05", "12", "100", "1,235", "-2.5", "–"]);
        assert_eq!((precise(1.0512), precise(71.256)), ("1.051".to_owned(), "71.26".to_owned()));
    }

    #[test]
    fn only_all_of_it_reads_as_all() {
        let served = |share: f64| figure("served_share", share, 100.0);
        let shares = [1.0, 0.999_82, 0.999_999_6, 1.0 - 1e-12, 0.999, 0.993, 0.9896, 0.5, 0.069_96, 0.0, f64::NAN];

        let written: Vec<String> = shares.map(served).into();

        let wanted = ["100", "99.98", "99.99996", "99.999999999", "99.9", "99.3", "98.9", "50", "6.99", "0", "–"];
        assert_eq!(written, wanted);
        assert_eq!((precise(0.999_96), precise(1.0), precise(1.000_01)), ("0.99996".into(), "1".into(), "1".into()));
    }

    #[test]
    fn a_ratio_to_an_idle_task_is_no_number() {
        assert_eq!(["spread_1s", "spread_60s", "spread"].map(|name| figure(name, 1000.0, 1.0)), [IDLE; 3]);
        assert_eq!((figure("spread", 999.0, 1.0), figure("p99_ms", 1000.0, 1.0)), ("999".into(), "1,000".into()));
    }
}
